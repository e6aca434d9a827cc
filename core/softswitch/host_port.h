// The port of one host as a loopback socket: processes bind UDP ports of the host's address over it, send
// packets into it and get theirs from it (wire/gateway.h). Decides who may send and who receives; leaves what
// the network does to the fabric. What arrives comes from any process of this machine: it is checked, counted
// and dropped.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "softswitch/fabric.h"
#include "wire/gateway.h"

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

// Room for what one recvmmsg brings, shared by the ports of a thread.
class Inbox {
 public:
  static constexpr size_t kMessages = 16, kSlot = 65'536, kControl = 128;
  Inbox();
  mmsghdr* rewind();
  [[nodiscard]] mmsghdr& message(size_t i) { return messages_[i]; }
  [[nodiscard]] const sockaddr_in& from(size_t i) const { return from_[i]; }
  [[nodiscard]] base::ByteView bytes(size_t i) const {
    return {bytes_.get() + i * kSlot, messages_[i].msg_len};
  }
  struct alignas(cmsghdr) Control {
    std::array<char, kControl> bytes;
  };

 private:
  std::array<mmsghdr, kMessages> messages_{};
  std::array<iovec, kMessages> iov_{};
  std::array<sockaddr_in, kMessages> from_{};
  std::array<Control, kMessages> control_{};
  std::unique_ptr<uint8_t[]> bytes_;
};

class HostPort {
 public:
  static constexpr size_t kMaxClients = 1024;

  HostPort(Fabric& fabric, uint32_t host) : fabric_(&fabric), host_(host) {}
  // On `address` (host order, 127.0.0.0/8), at a port the kernel picks. 0 or errno.
  int open(uint32_t address, int rcvbuf);
  [[nodiscard]] int fd() const { return socket_.get(); }
  [[nodiscard]] uint16_t socket_port() const { return port_; }
  [[nodiscard]] uint32_t host() const { return host_; }
  [[nodiscard]] size_t clients() const { return by_udp_.size(); }

  // Reads once; packets go into the fabric at the time they arrived here. True when there may be more.
  bool receive(Inbox& inbox, base::Instant now, int64_t clock_offset_ns);
  // For a process of this host. Goes out with flush(), after which the frame is given back.
  void deliver(FrameId frame);
  void flush();
  // Forgets the processes of which the kernel says that they are gone.
  void read_errors();
  // Asks the processes for patience when what they have sent keeps the uplink busy for long.
  void slow_down(base::Instant now);
  // Tells all processes whether the link has a carrier.
  void tell_link();

 private:
  static constexpr size_t kMaxRun = 64, kMaxRunBytes = 65'000;
  // An uplink busy for longer makes its senders wait.
  static constexpr base::Duration kBusy = base::Duration::millis(8),
                                  kLongestPause = base::Duration::millis(50);
  static uint64_t key(const sockaddr_in& a) {
    return uint64_t{ntohl(a.sin_addr.s_addr)} << 16 | ntohs(a.sin_port);
  }

  void packet(const sockaddr_in& from, base::ByteView bytes, base::Instant at);
  void message(const sockaddr_in& from, base::ByteView bytes);
  void bind(const sockaddr_in& from, const wire::GatewayMessage& m);
  void release(const sockaddr_in& from, uint16_t udp_port);
  uint16_t free_port();
  [[nodiscard]] bool alive(const sockaddr_in& at);
  void forget(const sockaddr_in& at);
  void answer(const sockaddr_in& to, const wire::GatewayMessage& m) const;
  struct alignas(cmsghdr) RunControl {
    std::array<char, CMSG_SPACE(sizeof(uint16_t))> bytes;
  };
  size_t run_from(size_t first, mmsghdr& header, RunControl& control);

  Fabric* fabric_;
  uint32_t host_;
  Socket socket_;
  uint16_t port_ = 0, next_free_ = 49'152;
  bool sent_ = false;  // something arrived since slow_down() looked
  base::Instant paused_until_{};
  std::map<uint16_t, sockaddr_in> by_udp_;          // UDP port -> socket of its process
  std::unordered_map<uint64_t, uint32_t> senders_;  // socket -> how many UDP ports it has
  struct Outgoing {
    sockaddr_in to;
    FrameId frame;
  };
  std::vector<Outgoing> out_;
  std::vector<iovec> parts_;
};

}  // namespace mrc::softswitch
