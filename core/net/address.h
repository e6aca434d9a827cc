// Text, sockaddr and IpAddr of an address; keeps the scope of link-local ones (B28).
#pragma once

#include <netinet/in.h>

#include <optional>
#include <span>
#include <string>

#include "base/ip_addr.h"

namespace mrc::net {

struct HostAddress {
  base::IpAddr ip;
  uint32_t scope = 0;  // interface index of a link-local address
  [[nodiscard]] bool v4() const { return ip.is_v4(); }
};

// "10.0.0.1", "fd00::1", "fe80::1%eth1". `why` names the fault.
std::optional<HostAddress> parse_address(const std::string& text, std::string& why);
std::string to_text(const HostAddress& a);

struct SockAddr {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};
SockAddr to_sockaddr(const base::IpAddr& ip, uint16_t port, uint32_t scope, uint32_t flow_label = 0);
base::IpAddr ip_of(const sockaddr_storage& s);
uint16_t port_of(const sockaddr_storage& s);

// The interface that holds an address, and what it can carry. 127.0.0.0/8 belongs to the loopback interface
// whole.
struct InterfaceInfo {
  std::string name;
  uint32_t mtu = 0;
  bool up = false;
};
std::optional<InterfaceInfo> interface_of(const HostAddress& a);
// An address of that interface, which is up, like `like`: of its family, link-local if that one is. Not one
// of `taken`.
std::optional<HostAddress> another_address(const std::string& interface, const HostAddress& like,
                                           std::span<const HostAddress> taken);
// A socket can be bound to it now: false while an IPv6 address is tentative (duplicate detection).
bool bindable(const HostAddress& a);

}  // namespace mrc::net
