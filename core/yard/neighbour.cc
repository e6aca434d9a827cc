#include "yard/neighbour.h"

#include <ifaddrs.h>
#include <linux/if.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

namespace mrc::yard {
namespace {

constexpr int kTries = 50, kPauseMs = 20;

[[noreturn]] void fail(int error, const char* what) {
  throw std::system_error(error, std::generic_category(), what);
}

struct Closed {
  int fd;
  explicit Closed(int f) : fd(f) {
    if (fd < 0) fail(errno, "socket");
  }
  ~Closed() { ::close(fd); }
  Closed(const Closed&) = delete;
  Closed& operator=(const Closed&) = delete;
};

bool same(const in6_addr& a, const in6_addr& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

std::string interface_with(const in6_addr& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) fail(errno, "getifaddrs");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(all, &freeifaddrs);
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET6) continue;
    sockaddr_in6 here{};
    std::memcpy(&here, i->ifa_addr, sizeof here);
    if (same(here.sin6_addr, address)) return i->ifa_name;
  }
  fail(EADDRNOTAVAIL, "no interface has the source address");
}

void describe(const std::string& name, NextHop& hop) {
  const Closed s(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq r{};
  name.copy(r.ifr_name, sizeof r.ifr_name - 1);
  if (ioctl(s.fd, SIOCGIFINDEX, &r) != 0) fail(errno, "SIOCGIFINDEX");
  hop.interface = r.ifr_ifindex;
  if (ioctl(s.fd, SIOCGIFHWADDR, &r) != 0) fail(errno, "SIOCGIFHWADDR");
  std::memcpy(hop.own.data(), r.ifr_hwaddr.sa_data, hop.own.size());
}

// The link address an entry of the neighbour table gives for `peer`.
std::optional<LinkAddress> address_in(const nlmsghdr& h, int interface, const in6_addr& peer) {
  const auto* n = static_cast<const ndmsg*>(NLMSG_DATA(&h));
  if (h.nlmsg_type != RTM_NEWNEIGH || n->ndm_ifindex != interface) return std::nullopt;
  bool found = false;
  std::optional<LinkAddress> a;
  auto left = static_cast<unsigned>(h.nlmsg_len - NLMSG_LENGTH(sizeof *n));
  const auto* first = reinterpret_cast<const char*>(n) + NLMSG_ALIGN(sizeof *n);
  for (auto* r = reinterpret_cast<const rtattr*>(first); RTA_OK(r, left); r = RTA_NEXT(r, left)) {
    if (r->rta_type == NDA_DST && RTA_PAYLOAD(r) == sizeof peer)
      found = std::memcmp(RTA_DATA(r), &peer, sizeof peer) == 0;
    if (r->rta_type == NDA_LLADDR && RTA_PAYLOAD(r) == sizeof(LinkAddress))
      std::memcpy(a.emplace().data(), RTA_DATA(r), sizeof(LinkAddress));
  }
  return found ? a : std::nullopt;
}

std::optional<LinkAddress> neighbour(int interface, const in6_addr& peer) {
  const Closed s(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  struct {
    nlmsghdr h;
    ndmsg n;
  } ask{};
  ask.h.nlmsg_len = NLMSG_LENGTH(sizeof ask.n);
  ask.h.nlmsg_type = RTM_GETNEIGH;
  ask.h.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  ask.n.ndm_family = AF_INET6;
  if (send(s.fd, &ask, ask.h.nlmsg_len, 0) < 0) fail(errno, "RTM_GETNEIGH");
  alignas(nlmsghdr) std::array<char, 32768> answer{};
  std::optional<LinkAddress> a;
  while (true) {
    const ssize_t n = recv(s.fd, answer.data(), answer.size(), 0);
    if (n <= 0) fail(n == 0 ? EPROTO : errno, "RTM_GETNEIGH");
    auto left = static_cast<unsigned>(n);
    for (auto* h = reinterpret_cast<const nlmsghdr*>(answer.data()); NLMSG_OK(h, left);
         h = NLMSG_NEXT(h, left)) {
      if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR) return a;
      if (const auto one = address_in(*h, interface, peer)) a = one;
    }
  }
}

}  // namespace

NextHop next_hop(const in6_addr& source, const in6_addr& peer) {
  NextHop hop;
  describe(interface_with(source), hop);
  if (hop.own == LinkAddress{}) return hop;  // loopback has none, and asks nobody
  for (int i = 0; i < kTries; ++i) {
    if (const auto a = neighbour(hop.interface, peer)) {
      hop.peer = *a;
      return hop;
    }
    poll(nullptr, 0, kPauseMs);
  }
  fail(EHOSTUNREACH, "the destination is not on the link");
}

}  // namespace mrc::yard
