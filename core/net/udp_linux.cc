// Opening the sockets of a plane. What goes through them afterwards: udp_io.cc.
#include "net/udp_linux.h"

#include <linux/filter.h>
#include <linux/in6.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/udp_options.h"

#ifndef IPV6_AUTOFLOWLABEL
#define IPV6_AUTOFLOWLABEL 70
#endif

namespace mrc::net {

namespace {

int set(int fd, int level, int name, int value) { return setsockopt(fd, level, name, &value, sizeof value); }
int get(int fd, int level, int name) {
  int v = 0;
  socklen_t n = sizeof v;
  getsockopt(fd, level, name, &v, &n);
  return v;
}

// Beyond rmem_max and wmem_max with CAP_NET_ADMIN, up to them without.
void set_buffer(int fd, int force, int plain, int bytes) {
  if (set(fd, SOL_SOCKET, force, bytes) != 0) set(fd, SOL_SOCKET, plain, bytes);
}

Fd new_socket(bool v4) {
  return Fd(socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Options of every sending socket. Fragments are never sent (reference 2.15), and an unfragmentable IPv4
// packet has identification 0, which the iCRC takes for granted. PROBE rather than DO: packets have the size
// that was agreed when the path was proven; what a router, or a forger, says later must not stop them (B26).
void prepare_sender(int fd, bool v4, const PlaneOptions& o) {
  set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, o.sndbuf);
  if (v4) {
    set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
    set(fd, IPPROTO_IP, IP_TTL, o.hop_limit);
    return;
  }
  set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);  // one family a socket: the class bits live in other places (B30)
  set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
  set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, o.hop_limit);
  set(fd, IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1);
  // The label is half of the EV: a packet without one must not get one from the kernel.
  set(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);
  if (!o.udp_checksum) set(fd, SOL_UDP, UDP_NO_CHECK6_TX, 1);
}

int bind_to(int fd, const HostAddress& a, uint16_t port) {
  const SockAddr local = to_sockaddr(a.ip, port, a.scope);
  return bind(fd, local.get(), local.length) == 0 ? 0 : errno;
}

uint16_t bound_port(int fd) {
  sockaddr_storage bound{};
  socklen_t n = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &n);
  return port_of(bound);
}

}  // namespace

int UdpPlane::open(const PlaneOptions& options, base::Rng& rng, std::set<uint32_t>& taken, std::string& why) {
  options_ = options;
  if (options.evs == 0 || options.evs > kMaxSockets) {
    why = "a plane has 1 to " + std::to_string(kMaxSockets) + " EVs, not " + std::to_string(options.evs);
    return EINVAL;
  }
  if (!options_.gateway.empty()) {
    if (const int e = open_behind_gateway(why); e != 0) return e;
    flow_labels_ = true;  // every header is our own
    pick_labels(rng, taken);
    return 0;
  }
  if (const int e = open_main(why); e != 0) return e;
  flow_labels_ = !options_.address.v4() && !options_.force_source_ports;
  if (flow_labels_ && labels_refused()) {
    flow_labels_ = false;
    labels_refused_ = true;
  }
  if (flow_labels_) {
    pick_labels(rng, taken);
    return 0;
  }
  return open_pool(taken, why);
}

int UdpPlane::reopen(const UdpPlane& was, const HostAddress& at) {
  options_ = was.options_;
  options_.address = at;
  options_.udp_port = was.udp_port_;
  std::string why;  // of interest to nobody: it is tried again when something changes
  int e = open_main(why);
  if (e == EADDRINUSE) {
    options_.udp_port = 0;
    e = open_main(why);
  }
  tags_ = was.tags_;
  flow_labels_ = was.flow_labels_;
  labels_refused_ = was.labels_refused_;
  segments_ = segments_ && was.segments_;
  return e;
}

int UdpPlane::open_main(std::string& why) {
  const bool v4 = options_.address.v4();
  main_ = new_socket(v4);
  if (!main_) {
    const int e = errno;
    why = std::string("no ") + (v4 ? "IPv4" : "IPv6") + " socket: " + std::strerror(e);
    if (e == EMFILE || e == ENFILE) {
      why += "; raise the limit of open files (ulimit -n)";
    } else if (!v4) {
      why +=
          "; IPv6 may be disabled (sysctl net.ipv6.conf.all.disable_ipv6): use IPv4 planes, without flow "
          "labels and SRv6";
    }
    return e;
  }
  const int fd = main_.get();
  set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, options_.rcvbuf);
  set(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
  prepare_sender(fd, v4, options_);
  if (options_.batching == Batching::runs) {
    set(fd, SOL_UDP, UDP_GRO, 1);
    // Zero is the default; a kernel that takes it knows the option.
    // It refuses runs without a UDP checksum.
    segments_ = options_.udp_checksum && set(fd, SOL_UDP, UDP_SEGMENT, 0) == 0;
  }
  if (v4) {
    set(fd, IPPROTO_IP, IP_RECVTOS, 1);
  } else {
    set(fd, IPPROTO_IPV6, IPV6_FLOWINFO, 1);
    set(fd, SOL_UDP, UDP_NO_CHECK6_RX, 1);  // what the iCRC covers needs no other sum
  }
  // No SO_REUSEADDR, no SO_REUSEPORT: two owners of one port would get half of the packets each (B34). UDP
  // has no waiting time, so a restart finds the port free (B37).
  if (const int e = bind_to(fd, options_.address, options_.udp_port); e != 0) {
    why = "cannot bind " + to_text(options_.address) + " port " + std::to_string(options_.udp_port) + ": " +
          std::strerror(e);
    if (e == EADDRINUSE)
      why += "; another process owns it: choose another UDP port or stop that process (`ss -ulpn`)";
    if (e == EADDRNOTAVAIL)
      why += "; the address is not (or not yet: IPv6 duplicate detection) on this host, see `ip addr`";
    if (e == EADDRNOTAVAIL && !v4)
      why += "; sysctl net.ipv6.conf.all.disable_ipv6=1 takes them all away (IPv4 planes work without)";
    if (e == EACCES) why += "; ports below 1024 need privileges: choose a higher one";
    return e;
  }
  udp_port_ = bound_port(fd);
  // The kernel doubles what was asked for (bookkeeping); what counts for payload is half of what it says.
  rcvbuf_ = get(fd, SOL_SOCKET, SO_RCVBUF) / 2;
  sndbuf_ = get(fd, SOL_SOCKET, SO_SNDBUF) / 2;
  return 0;
}

int UdpPlane::open_behind_gateway(std::string& why) {
  main_ = new_socket(true);
  const int fd = main_.get();
  if (!main_) {
    const int e = errno;
    why = std::string("no IPv4 socket: ") + std::strerror(e);
    return e;
  }
  set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, options_.rcvbuf);
  set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, options_.sndbuf);
  set(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
  GatewayLink link;
  if (const int e = link.open(fd, options_.gateway, options_.address, options_.udp_port, why); e != 0)
    return e;
  if (options_.batching == Batching::runs) {
    set(fd, SOL_UDP, UDP_GRO, 1);
    segments_ = set(fd, SOL_UDP, UDP_SEGMENT, 0) == 0;
  }
  udp_port_ = link.udp_port();
  rcvbuf_ = get(fd, SOL_SOCKET, SO_RCVBUF) / 2;
  sndbuf_ = get(fd, SOL_SOCKET, SO_SNDBUF) / 2;
  gateway_ = link;
  return 0;
}

bool UdpPlane::labels_refused() const {
  // An exclusive label lease held by anybody in this namespace makes labelled sends fail with EINVAL (B31):
  // ask the kernel, with a datagram from a socket to itself.
  const Fd s = new_socket(false);
  if (!s) return false;
  prepare_sender(s.get(), false, options_);
  if (bind_to(s.get(), options_.address, 0) != 0) return false;
  const SockAddr self =
      to_sockaddr(options_.address.ip, bound_port(s.get()), options_.address.scope, 0x5A5A5);
  return sendto(s.get(), nullptr, 0, MSG_DONTWAIT, self.get(), self.length) < 0 && errno == EINVAL;
}

void UdpPlane::pick_labels(base::Rng& rng, std::set<uint32_t>& taken) {
  while (tags_.size() < options_.evs) {
    // D-20: 16 bits of the label; 0 means "no label" and is not used.
    const uint32_t tag = ((1 + rng.below(0xFFFF)) << 16) | udp_port_;
    if (taken.insert(tag).second) tags_.push_back(tag);
  }
}

int UdpPlane::open_sender(uint16_t port, Fd& out) const {
  const bool v4 = options_.address.v4();
  // These sockets only lend their port: whatever arrives is thrown away before it costs memory.
  sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog filter{1, drop_all};
  Fd s = new_socket(v4);
  if (!s) return errno;
  set(s.get(), SOL_SOCKET, SO_RCVBUF, 1);
  if (setsockopt(s.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0) return errno;
  prepare_sender(s.get(), v4, options_);
  if (const int e = bind_to(s.get(), options_.address, port); e != 0) return e;
  out = std::move(s);
  return 0;
}

void UdpPlane::adopt(Fd s, uint16_t port) {
  const std::pair<uint16_t, int> entry{port, s.get()};
  by_port_.insert(std::lower_bound(by_port_.begin(), by_port_.end(), entry), entry);
  pool_.push_back(std::move(s));
}

int UdpPlane::open_pool(std::set<uint32_t>& taken, std::string& why) {
  std::vector<Fd>
      rejected;  // ports another plane has; held open so that the kernel does not offer them again
  while (pool_.size() < options_.evs) {
    Fd s;
    // The kernel's choice of ephemeral ports is random already.
    if (const int e = open_sender(0, s); e != 0) {
      why = "cannot open source port " + std::to_string(pool_.size() + 1) + " of " +
            std::to_string(options_.evs) + " on " + to_text(options_.address) + ": " + std::strerror(e);
      if (e == EMFILE || e == ENFILE)
        why += "; raise the limit of open files (ulimit -n) or ask for fewer EVs a plane";
      if (e == EADDRINUSE)
        why += "; no free ephemeral port (sysctl net.ipv4.ip_local_port_range): ask for fewer EVs a plane";
      return e;
    }
    // Unique over all planes, so that a reflected EV names one of them.
    const uint16_t port = bound_port(s.get());
    if (!taken.insert(port).second) {
      rejected.push_back(std::move(s));
      continue;
    }
    tags_.push_back(port);
    adopt(std::move(s), port);
  }
  return 0;
}

int UdpPlane::socket_for(uint16_t src_port, int& fd) {
  fd = main_.get();
  if (src_port == udp_port_) return 0;
  const auto it = std::lower_bound(by_port_.begin(), by_port_.end(), std::pair<uint16_t, int>{src_port, 0});
  if (it != by_port_.end() && it->first == src_port) {
    fd = it->second;
    return 0;
  }
  // An EV given by the user (EXPLICIT, GENERATED): its port is opened when first used. Another source port
  // would not do, the iCRC covers it.
  if (pool_.size() >= kMaxSockets) return EMFILE;
  Fd s;
  if (const int e = open_sender(src_port, s); e != 0) return e;
  fd = s.get();
  adopt(std::move(s), src_port);
  return 0;
}

std::string UdpPlane::note() const {
  if (labels_refused_) {
    return "somebody in this network namespace holds an exclusive flow label, so labelled packets are "
           "refused: " +
           std::string(flow_labels_ ? "sending without labels, on one path" : "using source ports");
  }
  if (rcvbuf_ < options_.rcvbuf) {
    return "receive buffer " + std::to_string(rcvbuf_) + " of " + std::to_string(options_.rcvbuf) +
           " bytes: raise sysctl net.core.rmem_max";
  }
  return {};
}

}  // namespace mrc::net
