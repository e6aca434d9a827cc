#include "net/udp_linux.h"

#include <linux/filter.h>
#include <linux/in6.h>
#include <linux/sock_diag.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#ifndef IPV6_AUTOFLOWLABEL
#define IPV6_AUTOFLOWLABEL 70
#endif
#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

namespace mrc::net {

namespace {

constexpr size_t kControl = 256;

int set(int fd, int level, int name, int value) { return setsockopt(fd, level, name, &value, sizeof value); }
int get(int fd, int level, int name) {
  int v = 0;
  socklen_t n = sizeof v;
  getsockopt(fd, level, name, &v, &n);
  return v;
}

// Options of every sending socket. Fragments are never sent: too large a packet fails instead (reference 2.15).
void prepare_sender(int fd, bool v4, uint8_t hop_limit, int sndbuf) {
  set(fd, SOL_SOCKET, SO_SNDBUF, sndbuf);
  if (v4) {
    set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    set(fd, IPPROTO_IP, IP_TTL, hop_limit);
  } else {
    set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, hop_limit);
    set(fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);   // the label is part of the EV: the kernel may not invent one
  }
}

void put_cmsg(msghdr& m, cmsghdr*& at, int level, int type, const void* data, size_t size) {
  at->cmsg_level = level;
  at->cmsg_type = type;
  at->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(at), data, size);
  m.msg_controllen += CMSG_SPACE(size);
}

SendOutcome outcome_of(int error) {
  switch (error) {
    case EAGAIN:
    case ENOBUFS:
    case EINTR: return SendOutcome::would_block;
    // An ICMP error of some peer, reported on this shared socket: nobody else's packet is to blame (B12).
    case ECONNREFUSED: return SendOutcome::ignored;
    default: return SendOutcome::path_error;
  }
}

}  // namespace

struct UdpPlane::Batch {
  std::array<mmsghdr, kBatch> messages{};
  std::array<iovec, kBatch> iov{};
  std::array<sockaddr_storage, kBatch> from{};
  std::array<std::array<uint8_t, kSlot>, kBatch> bytes{};
  alignas(cmsghdr) std::array<std::array<char, kControl>, kBatch> control{};
};
void UdpPlane::BatchDelete::operator()(Batch* b) const { delete b; }

int UdpPlane::open(const PlaneOptions& options, base::Rng& rng, std::set<uint32_t>& taken, std::string& why) {
  options_ = options;
  if (const int e = open_main(why); e != 0) return e;
  batch_.reset(new Batch);
  const bool v4 = options_.address.v4();
  if (!v4 && !options_.force_source_ports && labels_work()) {
    flow_labels_ = true;
    pick_labels(rng, taken);
    return 0;
  }
  return open_pool(rng, taken, why);
}

int UdpPlane::open_main(std::string& why) {
  const bool v4 = options_.address.v4();
  main_ = Fd(socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!main_) {
    const int e = errno;
    why = std::string("no ") + (v4 ? "IPv4" : "IPv6") + " socket: " + std::strerror(e) +
          (v4 ? "" : "; IPv6 may be disabled (sysctl net.ipv6.conf.all.disable_ipv6): use IPv4 planes, without flow labels and SRv6");
    return e;
  }
  const int fd = main_.get();
  set(fd, SOL_SOCKET, SO_RCVBUF, options_.rcvbuf);
  set(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
  prepare_sender(fd, v4, options_.hop_limit, options_.sndbuf);
  if (v4) {
    set(fd, IPPROTO_IP, IP_RECVTOS, 1);
    set(fd, IPPROTO_IP, IP_PKTINFO, 1);
  } else {
    set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);   // one family a socket: the class bits live in other places (B30)
    set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
    set(fd, IPPROTO_IPV6, IPV6_FLOWINFO, 1);
    set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
    set(fd, IPPROTO_IPV6, IPV6_FLOWINFO_SEND, 1);
  }
  const SockAddr local = to_sockaddr(options_.address.ip, options_.udp_port, options_.address.scope);
  if (bind(fd, local.get(), local.length) != 0) {
    const int e = errno;
    why = "cannot bind " + to_text(options_.address) + " port " + std::to_string(options_.udp_port) + ": " + std::strerror(e);
    if (e == EADDRINUSE) why += "; another process owns it: choose another UDP port or stop that process (`ss -ulpn`)";
    if (e == EADDRNOTAVAIL) why += "; the address is not on this host: see `ip addr`";
    return e;
  }
  sockaddr_storage bound{};
  socklen_t n = sizeof bound;
  getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &n);
  udp_port_ = port_of(bound);
  // The kernel doubles what was asked for (bookkeeping); what counts for payload is half of what it says.
  rcvbuf_ = get(fd, SOL_SOCKET, SO_RCVBUF) / 2;
  sndbuf_ = get(fd, SOL_SOCKET, SO_SNDBUF) / 2;
  return 0;
}

bool UdpPlane::labels_work() const {
  // An exclusive label lease held by anybody in this namespace makes labelled sends fail (B31): ask the kernel once,
  // with an empty datagram to ourselves.
  const SockAddr self = to_sockaddr(options_.address.ip, udp_port_, options_.address.scope, 0x5A5A5);
  const ssize_t sent = sendto(main_.get(), nullptr, 0, MSG_DONTWAIT, self.get(), self.length);
  char sink[1];
  recv(main_.get(), sink, sizeof sink, MSG_DONTWAIT);
  return sent == 0;
}

void UdpPlane::pick_labels(base::Rng& rng, std::set<uint32_t>& taken) {
  while (tags_.size() < options_.evs) {
    // D-20: 16 bits of the label; 0 means "no label" and is not used.
    const uint32_t tag = ((1 + rng.below(0xFFFF)) << 16) | udp_port_;
    if (taken.insert(tag).second) tags_.push_back(tag);
  }
}

int UdpPlane::open_pool(base::Rng& rng, std::set<uint32_t>& taken, std::string& why) {
  (void)rng;   // the kernel's choice of ephemeral ports is random already
  const bool v4 = options_.address.v4();
  // These sockets only lend their port: whatever arrives is thrown away before it costs memory.
  sock_filter drop_all[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
  const sock_fprog filter{1, drop_all};
  std::vector<Fd> rejected;   // ports another plane has; held open so that the kernel does not offer them again
  while (pool_.size() < options_.evs) {
    Fd s(socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const SockAddr local = to_sockaddr(options_.address.ip, 0, options_.address.scope);
    if (!s || bind(s.get(), local.get(), local.length) != 0) {
      const int e = errno;
      why = "cannot open source port " + std::to_string(pool_.size() + 1) + " of " + std::to_string(options_.evs) + " on " +
            to_text(options_.address) + ": " + std::strerror(e);
      if (e == EMFILE) why += "; raise the limit of open files (ulimit -n) or ask for fewer EVs a plane";
      return e;
    }
    sockaddr_storage bound{};
    socklen_t n = sizeof bound;
    getsockname(s.get(), reinterpret_cast<sockaddr*>(&bound), &n);
    const uint16_t port = port_of(bound);
    // Unique over all planes, so that a reflected EV names one of them.
    if (!taken.insert(port).second) {
      rejected.push_back(std::move(s));
      continue;
    }
    if (!v4) set(s.get(), IPPROTO_IPV6, IPV6_V6ONLY, 1);
    set(s.get(), SOL_SOCKET, SO_RCVBUF, 1);
    setsockopt(s.get(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
    prepare_sender(s.get(), v4, options_.hop_limit, options_.sndbuf);
    by_port_.emplace_back(port, s.get());
    tags_.push_back(port);
    pool_.push_back(std::move(s));
  }
  std::sort(by_port_.begin(), by_port_.end());
  return 0;
}

int UdpPlane::socket_for(uint16_t src_port) const {
  const auto it = std::lower_bound(by_port_.begin(), by_port_.end(), std::pair<uint16_t, int>{src_port, 0});
  return it != by_port_.end() && it->first == src_port ? it->second : main_.get();
}

SendOutcome UdpPlane::send_message(const wire::DatagramMeta& meta, iovec* iov, size_t count) {
  const bool v4 = meta.dst.is_v4();
  SockAddr to = to_sockaddr(meta.dst, meta.dst_port, v4 ? 0 : options_.address.scope, flow_labels_ ? meta.flow_label : 0);
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr m{};
  m.msg_name = to.get();
  m.msg_namelen = to.length;
  m.msg_iov = iov;
  m.msg_iovlen = count;
  m.msg_control = control.data();
  m.msg_controllen = control.size();
  cmsghdr* c = CMSG_FIRSTHDR(&m);
  m.msg_controllen = 0;
  const int traffic_class = (meta.dscp << 2) | meta.ecn;
  put_cmsg(m, c, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS, &traffic_class, sizeof traffic_class);
  const int fd = flow_labels_ ? main_.get() : socket_for(meta.src_port);
  if (sendmsg(fd, &m, MSG_NOSIGNAL) >= 0) return SendOutcome::sent;
  if (errno == ECONNREFUSED) {
    // The pending error is gone now; this packet still wants to go.
    if (sendmsg(fd, &m, MSG_NOSIGNAL) >= 0) return SendOutcome::sent;
  }
  return outcome_of(errno);
}

SendOutcome UdpPlane::send(const engine::Transmit& t, const uint8_t* head, const engine::Trailer& end) {
  std::array<iovec, 3> iov{};
  size_t n = 0;
  iov[n++] = {const_cast<uint8_t*>(head), t.head_len};                        // NOLINT: iovec is not const-correct
  if (t.payload_len > 0) iov[n++] = {const_cast<uint8_t*>(t.payload), t.payload_len};   // NOLINT
  iov[n++] = {const_cast<uint8_t*>(end.bytes), end.length};                   // NOLINT
  return send_message(t.meta, iov.data(), n);
}

SendOutcome UdpPlane::send(const wire::DatagramMeta& meta, base::ByteView bytes) {
  iovec iov{const_cast<uint8_t*>(bytes.data()), bytes.size()};   // NOLINT
  return send_message(meta, &iov, 1);
}

void UdpPlane::read_control(msghdr& m, wire::DatagramMeta& meta, uint64_t& dropped) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    const unsigned char* data = CMSG_DATA(c);
    int traffic_class = -1;
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
      uint32_t total = 0;
      std::memcpy(&total, data, sizeof total);
      dropped += total - last_overflow_;
      last_overflow_ = total;
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
      traffic_class = data[0];
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
      in_pktinfo info{};
      std::memcpy(&info, data, sizeof info);
      const auto* b = reinterpret_cast<const uint8_t*>(&info.ipi_addr);
      meta.dst = base::IpAddr::v4(b[0], b[1], b[2], b[3]);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS) {
      std::memcpy(&traffic_class, data, sizeof traffic_class);
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_FLOWINFO) {
      uint32_t info = 0;
      std::memcpy(&info, data, sizeof info);
      meta.flow_label = ntohl(info) & 0xFFFFF;
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
      in6_pktinfo info{};
      std::memcpy(&info, data, sizeof info);
      std::memcpy(meta.dst.bytes.data(), &info.ipi6_addr, 16);
    }
    if (traffic_class >= 0) {
      meta.dscp = static_cast<uint8_t>((traffic_class >> 2) & 0x3F);
      meta.ecn = static_cast<uint8_t>(traffic_class & 3);
    }
  }
}

size_t UdpPlane::receive(std::vector<Received>& out, uint64_t& dropped) {
  Batch& b = *batch_;
  for (size_t i = 0; i < kBatch; ++i) {
    b.iov[i] = {b.bytes[i].data(), kSlot};
    msghdr& m = b.messages[i].msg_hdr;
    m = {};
    m.msg_name = &b.from[i];
    m.msg_namelen = sizeof b.from[i];
    m.msg_iov = &b.iov[i];
    m.msg_iovlen = 1;
    m.msg_control = b.control[i].data();
    m.msg_controllen = kControl;
  }
  const int n = recvmmsg(main_.get(), b.messages.data(), kBatch, MSG_DONTWAIT, nullptr);
  // EAGAIN is the usual end; an ICMP error of one peer is cleared by having been read.
  for (int i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    Received r;
    r.meta.src = ip_of(b.from[k]);
    r.meta.src_port = port_of(b.from[k]);
    r.meta.dst = options_.address.ip;
    r.meta.dst_port = udp_port_;
    read_control(b.messages[k].msg_hdr, r.meta, dropped);
    // A datagram that did not fit cannot be one of ours; the engine drops what is left of it by its iCRC.
    r.bytes = base::ByteView(b.bytes[k].data(), b.messages[k].msg_len);
    out.push_back(r);
  }
  return n > 0 ? static_cast<size_t>(n) : 0;
}

uint8_t UdpPlane::occupancy() const {
  std::array<uint32_t, SK_MEMINFO_VARS> info{};
  socklen_t n = sizeof info;
  if (getsockopt(main_.get(), SOL_SOCKET, SO_MEMINFO, info.data(), &n) != 0 || info[SK_MEMINFO_RCVBUF] == 0) return 0;
  return static_cast<uint8_t>(std::min<uint64_t>(100, uint64_t{info[SK_MEMINFO_RMEM_ALLOC]} * 100 / info[SK_MEMINFO_RCVBUF]));
}

}  // namespace mrc::net
