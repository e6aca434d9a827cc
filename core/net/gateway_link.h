// A plane that has no address of the kernel's: its packets travel, with their own IPv6 and UDP headers,
// inside loopback datagrams to a switch in user space (wire/gateway.h). Decides how a port is bound there and
// what the switch's messages mean; leaves sockets and packets to the plane.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/time.h"
#include "net/address.h"

namespace mrc::net {

class GatewayLink {
 public:
  // Connects `fd` (IPv4, UDP) to `where` ("127.0.0.1:4000") and binds the plane's port there. Errno with
  // `why`, or 0. Waits for a second at most.
  int open(int fd, const std::string& where, const HostAddress& plane, uint16_t udp_port, std::string& why);
  [[nodiscard]] uint16_t udp_port() const { return udp_port_; }
  [[nodiscard]] uint32_t mtu() const { return mtu_; }  // bytes of IPv6 packet
  [[nodiscard]] bool up() const { return up_; }

  // What arrived and is no packet. Messages that make no sense are ignored.
  void message(base::ByteView bytes, base::Instant now);
  // The switch asked for patience: a link that is busy takes no more for now.
  [[nodiscard]] bool paused(base::Instant now) const { return now < paused_until_; }

 private:
  uint16_t udp_port_ = 0;
  uint32_t mtu_ = 0;
  bool up_ = true;
  base::Instant paused_until_{};
};

}  // namespace mrc::net
