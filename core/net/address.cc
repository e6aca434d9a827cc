#include "net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "net/fd.h"

namespace mrc::net {

std::optional<HostAddress> parse_address(const std::string& text, std::string& why) {
  HostAddress a;
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    const auto* b = reinterpret_cast<const uint8_t*>(&v4);
    a.ip = base::IpAddr::v4(b[0], b[1], b[2], b[3]);
    return a;
  }
  std::string host = text;
  const size_t percent = text.find('%');
  if (percent != std::string::npos) {
    host = text.substr(0, percent);
    const std::string scope = text.substr(percent + 1);
    a.scope = if_nametoindex(scope.c_str());
    if (a.scope == 0 && !scope.empty() && scope.find_first_not_of("0123456789") == std::string::npos) {
      a.scope = static_cast<uint32_t>(std::strtoul(scope.c_str(), nullptr, 10));
    }
    if (a.scope == 0) {
      why = "'" + text + "': no interface is called '" + scope + "'; see `ip link`";
      return std::nullopt;
    }
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) != 1) {
    why = "'" + text + "' is not an IPv4 or IPv6 address; a plane needs an address of this host, not a name";
    return std::nullopt;
  }
  std::memcpy(a.ip.bytes.data(), &v6, 16);
  if (IN6_IS_ADDR_LINKLOCAL(&v6) && a.scope == 0) {
    why = "'" + text + "' is link-local: name its interface, as in " + text + "%eth0";
    return std::nullopt;
  }
  return a;
}

std::string to_text(const HostAddress& a) {
  char b[INET6_ADDRSTRLEN] = {};
  if (a.v4()) {
    inet_ntop(AF_INET, a.ip.bytes.data() + 12, b, sizeof b);
    return b;
  }
  inet_ntop(AF_INET6, a.ip.bytes.data(), b, sizeof b);
  std::string out = b;
  char name[IF_NAMESIZE] = {};
  if (a.scope != 0)
    out += std::string("%") +
           (if_indextoname(a.scope, name) != nullptr ? name : std::to_string(a.scope).c_str());
  return out;
}

SockAddr to_sockaddr(const base::IpAddr& ip, uint16_t port, uint32_t scope, uint32_t flow_label) {
  SockAddr out;
  if (ip.is_v4()) {
    auto* s = reinterpret_cast<sockaddr_in*>(&out.storage);
    s->sin_family = AF_INET;
    s->sin_port = htons(port);
    std::memcpy(&s->sin_addr, ip.bytes.data() + 12, 4);
    out.length = sizeof *s;
  } else {
    auto* s = reinterpret_cast<sockaddr_in6*>(&out.storage);
    s->sin6_family = AF_INET6;
    s->sin6_port = htons(port);
    s->sin6_flowinfo = htonl(flow_label & 0xFFFFF);
    s->sin6_scope_id = scope;
    std::memcpy(&s->sin6_addr, ip.bytes.data(), 16);
    out.length = sizeof *s;
  }
  return out;
}

base::IpAddr ip_of(const sockaddr_storage& s) {
  if (s.ss_family == AF_INET) {
    const auto* b = reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in*>(&s)->sin_addr);
    return base::IpAddr::v4(b[0], b[1], b[2], b[3]);
  }
  base::IpAddr ip;
  std::memcpy(ip.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(&s)->sin6_addr, 16);
  return ip;
}

uint16_t port_of(const sockaddr_storage& s) {
  return ntohs(s.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in*>(&s)->sin_port
                                      : reinterpret_cast<const sockaddr_in6*>(&s)->sin6_port);
}

namespace {

uint32_t mtu_of(const char* name) {
  const Fd s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq r{};
  std::strncpy(r.ifr_name, name, IFNAMSIZ - 1);
  return s && ioctl(s.get(), SIOCGIFMTU, &r) == 0 ? static_cast<uint32_t>(r.ifr_mtu) : 0;
}

bool holds(const ifaddrs& i, const HostAddress& a) {
  if (i.ifa_addr == nullptr) return false;
  if (i.ifa_addr->sa_family == AF_INET) {
    if (!a.v4()) return false;
    if (a.ip.bytes[12] == 127) return (i.ifa_flags & IFF_LOOPBACK) != 0;
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(i.ifa_addr)->sin_addr, a.ip.bytes.data() + 12,
                       4) == 0;
  }
  if (i.ifa_addr->sa_family != AF_INET6 || a.v4()) return false;
  const auto* s = reinterpret_cast<const sockaddr_in6*>(i.ifa_addr);
  return std::memcmp(&s->sin6_addr, a.ip.bytes.data(), 16) == 0 &&
         (a.scope == 0 || s->sin6_scope_id == a.scope);
}

// <linux/if.h> names these flags and cannot be included beside <net/if.h>.
constexpr unsigned kLowerUp = 1u << 16, kDormant = 1u << 17;

// The link takes packets. Not IFF_RUNNING: that follows the carrier up to a second later, since the kernel
// works off such changes at most once a second.
bool carries(const ifaddrs& i) {
  return (i.ifa_flags & IFF_UP) != 0 && (i.ifa_flags & kLowerUp) != 0 && (i.ifa_flags & kDormant) == 0;
}

}  // namespace

std::optional<InterfaceInfo> interface_of(const HostAddress& a) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return std::nullopt;
  std::optional<InterfaceInfo> out;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (!holds(*i, a)) continue;
    out = InterfaceInfo{i->ifa_name, mtu_of(i->ifa_name), carries(*i)};
    break;
  }
  freeifaddrs(list);
  return out;
}

namespace {
bool is_link_local(const base::IpAddr& ip) { return ip.bytes[0] == 0xfe && (ip.bytes[1] & 0xc0) == 0x80; }
}  // namespace

std::optional<HostAddress> another_address(const std::string& interface, const HostAddress& like,
                                           std::span<const HostAddress> taken) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return std::nullopt;
  std::optional<HostAddress> out;
  const auto is_taken = [&](const HostAddress& a) {
    return std::any_of(taken.begin(), taken.end(),
                       [&](const HostAddress& t) { return t.ip == a.ip && t.scope == a.scope; });
  };
  for (const ifaddrs* i = list; i != nullptr && !out; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || interface != i->ifa_name) continue;
    if (!carries(*i)) continue;
    if (i->ifa_addr->sa_family != (like.v4() ? AF_INET : AF_INET6)) continue;
    HostAddress found;
    const bool v4 = like.v4();
    sockaddr_storage s{};
    std::memcpy(&s, i->ifa_addr, v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    found.ip = ip_of(s);
    const bool local = !v4 && is_link_local(found.ip);
    if (local) found.scope = if_nametoindex(i->ifa_name);
    if (local == (!v4 && is_link_local(like.ip)) && !is_taken(found)) out = found;
  }
  freeifaddrs(list);
  return out;
}

bool bindable(const HostAddress& a) {
  const Fd s(socket(a.v4() ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SockAddr local = to_sockaddr(a.ip, 0, a.scope);
  return s && bind(s.get(), local.get(), local.length) == 0;
}

}  // namespace mrc::net
