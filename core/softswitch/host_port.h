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
#include <unordered_map>
#include <vector>

#include "softswitch/attachment.h"
#include "softswitch/fabric.h"
#include "wire/gateway.h"

namespace mrc::softswitch {

class HostPort : public Attachment {
 public:
  static constexpr size_t kMaxClients = 1024;

  HostPort(Fabric& fabric, uint32_t host) : fabric_(&fabric), host_(host) {}
  // On `address` (host order, 127.0.0.0/8), at a port the kernel picks. 0 or errno.
  int open(uint32_t address, int rcvbuf);
  [[nodiscard]] int fd() const override { return socket_.get(); }
  [[nodiscard]] uint16_t socket_port() const override { return port_; }
  [[nodiscard]] size_t clients() const override { return by_udp_.size(); }
  bool receive(Inbox& inbox, base::Instant now, int64_t clock_offset_ns) override;
  void deliver(FrameId frame) override;
  void flush() override;
  // Forgets the processes of which the kernel says that they are gone.
  void read_errors() override;
  // Asks the processes for patience when what they have sent keeps the uplink busy for long.
  void end_turn(base::Instant now) override;
  // Tells all processes.
  void tell_link() override;

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
  bool sent_ = false;  // something arrived since end_turn() looked
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
