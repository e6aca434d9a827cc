// A small io_uring by raw system calls. Decides how the rings are set up and walked; leaves what is put into
// them to its users. Where kernel or headers lack it, making one throws, and uring_missing() says why.
#pragma once

#include <cstdint>
#include <string>

#if __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#endif
// Known since the headers of Linux 6.0, as multishot receives are.
#ifdef IORING_RECV_MULTISHOT
#define MRC_YARD_URING 1
#endif

namespace mrc::yard {

// "" when rings can be made here; else why not.
std::string uring_missing();

#ifdef MRC_YARD_URING

class Mapping {
 public:
  Mapping() = default;
  Mapping(int fd, uint64_t offset, size_t bytes);  // of a descriptor; -1: memory of its own
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  template <typename T>
  [[nodiscard]] T* at(size_t offset) const {
    return reinterpret_cast<T*>(static_cast<char*>(data_) + offset);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class Uring {
 public:
  // Throws std::system_error that names the call.
  explicit Uring(unsigned entries);
  ~Uring();
  Uring(const Uring&) = delete;
  Uring& operator=(const Uring&) = delete;

  // The socket that entries with IOSQE_FIXED_FILE and fd 0 mean.
  void use_socket(int fd);
  // A cleared entry; it goes out with the next submit(). Null: submit() first.
  io_uring_sqe* next();
  // Hands over what next() gave, and waits for `wait` completions, for `seconds` at most.
  void submit(unsigned wait, double seconds);
  template <typename F>
  unsigned reap(F f) {
    unsigned head = *cq_head_, seen = 0;
    const unsigned tail = __atomic_load_n(cq_tail_, __ATOMIC_ACQUIRE);
    for (; head != tail; ++head, ++seen) f(cqes_[head & cq_mask_]);
    __atomic_store_n(cq_head_, head, __ATOMIC_RELEASE);
    return seen;
  }
  [[nodiscard]] int fd() const { return fd_; }

 private:
  void map(const io_uring_params& p);

  int fd_ = -1;
  unsigned prepared_ = 0, entries_ = 0;
  unsigned *sq_head_ = nullptr, *sq_tail_ = nullptr, *cq_head_ = nullptr, *cq_tail_ = nullptr;
  unsigned sq_mask_ = 0, cq_mask_ = 0;
  io_uring_sqe* sqes_ = nullptr;
  io_uring_cqe* cqes_ = nullptr;
  Mapping rings_, entries_map_;
};

// Buffers of one size that receives take from, in order.
class ProvidedBuffers {
 public:
  // `count`: a power of two, 32,768 at most.
  ProvidedBuffers(const Uring& ring, uint16_t group, uint32_t count, size_t bytes);
  [[nodiscard]] char* at(uint32_t id) const { return memory_.at<char>(size_t{id} * bytes_); }
  void give_back(uint32_t id);

 private:
  uint32_t mask_;
  size_t bytes_;
  uint16_t tail_ = 0;
  Mapping ring_, memory_;
};

#endif

}  // namespace mrc::yard
