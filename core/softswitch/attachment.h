// Where a host's port meets the world: a loopback socket (host_port.h) or a device (veth_port.h). Decides
// what the runner may ask of either.
#pragma once

#include <cstdint>
#include <utility>

#include "base/time.h"
#include "softswitch/frame.h"
#include "softswitch/inbox.h"

namespace mrc::softswitch {

// Closes on destruction.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Socket& operator=(Socket&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_ = -1;
};

class Attachment {
 public:
  virtual ~Attachment() = default;
  [[nodiscard]] virtual int fd() const = 0;
  // Reads once; packets go into the fabric at the time they arrived here. True when there may be more.
  virtual bool receive(Inbox& inbox, base::Instant now, int64_t clock_offset_ns) = 0;
  // For the host. Goes out with flush(), after which the frame is given back.
  virtual void deliver(FrameId frame) = 0;
  virtual void flush() = 0;
  // The descriptor has an error to tell.
  virtual void read_errors() {}
  // Once a turn, after everything else.
  virtual void end_turn(base::Instant) {}
  // The host is to know whether its link has a carrier.
  virtual void tell_link() = 0;
  [[nodiscard]] virtual size_t clients() const { return 0; }
  [[nodiscard]] virtual uint16_t socket_port() const { return 0; }  // of a loopback socket
};

}  // namespace mrc::softswitch
