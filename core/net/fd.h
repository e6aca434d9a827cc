// A file descriptor with one owner, closed in forked children as well.
#pragma once

#include <unistd.h>

#include <utility>

#include "net/fork_guard.h"

namespace mrc::net {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd), generation_(fork_generation()) {
    if (fd_ >= 0) guard_fd(fd_);
  }
  Fd(Fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)), generation_(o.generation_) {}
  Fd& operator=(Fd&& o) noexcept {
    if (this == &o) return *this;
    reset();
    fd_ = std::exchange(o.fd_, -1);
    generation_ = o.generation_;
    return *this;
  }
  ~Fd() { reset(); }
  void reset() {
    // In a child the number is closed already and may be somebody else's by now.
    if (fd_ >= 0 && generation_ == fork_generation()) {
      unguard_fd(fd_);
      ::close(fd_);
    }
    fd_ = -1;
  }
  [[nodiscard]] int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
  uint32_t generation_ = 0;
};

}  // namespace mrc::net
