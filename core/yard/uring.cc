#include "yard/uring.h"

#ifdef MRC_YARD_URING
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#endif

namespace mrc::yard {

#ifndef MRC_YARD_URING

std::string uring_missing() { return "built without io_uring: the kernel headers are older than 6.0"; }

#else

namespace {

[[noreturn]] void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

int setup(unsigned entries, io_uring_params& p) {
  return static_cast<int>(syscall(SYS_io_uring_setup, entries, &p));
}

// One thread and completions only when it asks for them is the fastest way; older kernels do without.
int setup_best(unsigned entries, io_uring_params& p) {
  for (const unsigned flags :
       {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, unsigned{IORING_SETUP_COOP_TASKRUN}, 0u}) {
    p = {};
    p.flags = flags | IORING_SETUP_CQSIZE;
    p.cq_entries = entries * 8;
    const int fd = setup(entries, p);
    if (fd >= 0 || errno != EINVAL) return fd;
  }
  return -1;
}

}  // namespace

std::string uring_missing() {
  io_uring_params p{};
  const int fd = setup(4, p);
  if (fd >= 0) {
    ::close(fd);
    return {};
  }
  const int e = errno;
  std::string why = std::string("io_uring: ") + std::strerror(e);
  if (e == EPERM) why += "; sysctl kernel.io_uring_disabled forbids it";
  if (e == ENOSYS) why += "; this kernel has none";
  return why;
}

Mapping::Mapping(int fd, uint64_t offset, size_t bytes) : bytes_(bytes) {
  const int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE : MAP_SHARED | MAP_POPULATE;
  data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, static_cast<off_t>(offset));
  if (data_ == MAP_FAILED) {
    data_ = nullptr;
    fail("mmap");
  }
}

Mapping::~Mapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Uring::Uring(unsigned entries) {
  io_uring_params p{};
  fd_ = setup_best(entries, p);
  if (fd_ < 0) fail("io_uring_setup");
  try {
    if ((p.features & IORING_FEAT_SINGLE_MMAP) == 0 || (p.features & IORING_FEAT_EXT_ARG) == 0) {
      errno = ENOSYS;
      fail("io_uring before Linux 5.11");
    }
    map(p);
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

Uring::~Uring() { ::close(fd_); }

void Uring::map(const io_uring_params& p) {
  const size_t bytes = std::max(p.sq_off.array + p.sq_entries * sizeof(unsigned),
                                p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe));
  rings_ = Mapping(fd_, IORING_OFF_SQ_RING, bytes);
  entries_map_ = Mapping(fd_, IORING_OFF_SQES, p.sq_entries * sizeof(io_uring_sqe));
  entries_ = p.sq_entries;
  sq_head_ = rings_.at<unsigned>(p.sq_off.head);
  sq_tail_ = rings_.at<unsigned>(p.sq_off.tail);
  sq_mask_ = *rings_.at<unsigned>(p.sq_off.ring_mask);
  cq_head_ = rings_.at<unsigned>(p.cq_off.head);
  cq_tail_ = rings_.at<unsigned>(p.cq_off.tail);
  cq_mask_ = *rings_.at<unsigned>(p.cq_off.ring_mask);
  sqes_ = entries_map_.at<io_uring_sqe>(0);
  cqes_ = rings_.at<io_uring_cqe>(p.cq_off.cqes);
  // Entry n of the ring is always entry n of the array.
  for (unsigned i = 0; i < p.sq_entries; ++i) rings_.at<unsigned>(p.sq_off.array)[i] = i;
}

void Uring::use_socket(int fd) {
  if (syscall(SYS_io_uring_register, fd_, IORING_REGISTER_FILES, &fd, 1) != 0) fail("io_uring_register");
}

io_uring_sqe* Uring::next() {
  const unsigned tail = *sq_tail_ + prepared_;
  if (tail - __atomic_load_n(sq_head_, __ATOMIC_ACQUIRE) >= entries_) return nullptr;
  ++prepared_;
  io_uring_sqe* e = &sqes_[tail & sq_mask_];
  std::memset(e, 0, sizeof *e);
  return e;
}

void Uring::submit(unsigned wait, double seconds) {
  __atomic_store_n(sq_tail_, *sq_tail_ + prepared_, __ATOMIC_RELEASE);
  const auto ns = static_cast<int64_t>(seconds * 1e9);
  __kernel_timespec limit{ns / 1'000'000'000, ns % 1'000'000'000};
  io_uring_getevents_arg arg{};
  arg.ts = reinterpret_cast<uint64_t>(&limit);
  const long n = syscall(SYS_io_uring_enter, fd_, prepared_, wait,
                         IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg);
  if (n < 0 && errno != ETIME && errno != EINTR && errno != EBUSY) fail("io_uring_enter");
  // What the kernel did not take this time stays in the ring and is offered again.
  prepared_ = *sq_tail_ - __atomic_load_n(sq_head_, __ATOMIC_ACQUIRE);
  __atomic_store_n(sq_tail_, *sq_tail_ - prepared_, __ATOMIC_RELEASE);
}

ProvidedBuffers::ProvidedBuffers(const Uring& ring, uint16_t group, uint32_t count, size_t bytes)
    : mask_(count - 1),
      bytes_(bytes),
      ring_(-1, 0, count * sizeof(io_uring_buf)),
      memory_(-1, 0, size_t{count} * bytes) {
  io_uring_buf_reg reg{};
  reg.ring_addr = reinterpret_cast<uint64_t>(ring_.at<void>(0));
  reg.ring_entries = count;
  reg.bgid = group;
  if (syscall(SYS_io_uring_register, ring.fd(), IORING_REGISTER_PBUF_RING, &reg, 1) != 0)
    fail("io_uring_register of buffers");
  for (uint32_t i = 0; i < count; ++i) give_back(i);
}

void ProvidedBuffers::give_back(uint32_t id) {
  io_uring_buf* const entries = ring_.at<io_uring_buf>(0);
  io_uring_buf& e = entries[tail_ & mask_];
  e.addr = reinterpret_cast<uint64_t>(at(id));
  e.len = static_cast<uint32_t>(bytes_);
  e.bid = static_cast<uint16_t>(id);
  // The tail lies in a spare member of the first entry.
  __atomic_store_n(&entries[0].resv, ++tail_, __ATOMIC_RELEASE);
}

#endif

}  // namespace mrc::yard
