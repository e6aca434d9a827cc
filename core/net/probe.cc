#include "net/probe.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <set>

#include "net/rx_batch.h"
#include "net/udp_linux.h"
#include "net/udp_options.h"

namespace mrc::net {

namespace {

constexpr int kWantedRcvbuf = 4 << 20;
constexpr int kWantedSndbuf = 1 << 20;
constexpr rlim_t kWantedFiles = 1024;

std::string sysctl(const std::string& path) {
  std::ifstream in("/proc/sys/" + path);
  std::string value;
  std::getline(in, value);
  return value;
}

ProbeItem udp_option(const char* item, int option, int value, const char* hint) {
  const Fd s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (s && setsockopt(s.get(), IPPROTO_UDP, option, &value, sizeof value) == 0)
    return {item, ProbeStatus::ok, "available", ""};
  return {item, ProbeStatus::missing, std::strerror(errno), hint};
}

ProbeItem buffer(const char* item, int option, int wanted, const char* limit, const char* effect) {
  const Fd s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  int granted = 0;
  socklen_t n = sizeof granted;
  if (!s || setsockopt(s.get(), SOL_SOCKET, option, &wanted, sizeof wanted) != 0 ||
      getsockopt(s.get(), SOL_SOCKET, option, &granted, &n) != 0) {
    return {item, ProbeStatus::unknown, std::strerror(errno), ""};
  }
  granted /= 2;  // the kernel reports twice what it grants
  const std::string value = std::to_string(granted) + " of " + std::to_string(wanted) + " bytes";
  if (granted >= wanted) return {item, ProbeStatus::ok, value, ""};
  return {item, ProbeStatus::warn, value,
          std::string("sysctl -w net.core.") + limit + "=" + std::to_string(wanted) + "; " + effect};
}

ProbeItem ipv6() {
  const Fd s(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SockAddr local = to_sockaddr(base::IpAddr{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}, 0, 0);
  if (s && bind(s.get(), local.get(), local.length) == 0) return {"ipv6", ProbeStatus::ok, "available", ""};
  return {"ipv6", ProbeStatus::warn, std::strerror(errno),
          "planes work over IPv4 with source ports; flow labels and SRv6 need sysctl "
          "net.ipv6.conf.all.disable_ipv6=0"};
}

// Sends a labelled datagram from a plane to itself and looks at what arrives.
ProbeItem flow_label() {
  PlaneOptions o;
  o.address.ip.bytes[15] = 1;
  o.evs = 1;
  o.rcvbuf = o.sndbuf = 4096;
  base::Rng rng(1);
  std::set<uint32_t> taken;
  std::string why;
  UdpPlane p;
  if (p.open(o, rng, taken, why) != 0)
    return {"flow_label", ProbeStatus::missing, why, "needs IPv6; EVs are source ports over IPv4"};
  if (!p.flow_labels()) return {"flow_label", ProbeStatus::warn, "refused", p.note()};
  wire::DatagramMeta m;
  m.src = m.dst = o.address.ip;
  m.src_port = m.dst_port = p.udp_port();
  m.flow_label = 0xBEEF;
  m.ecn = wire::kEcnEct0;
  const std::array<uint8_t, 1> byte{};
  int error = 0;
  pollfd ready{p.fd(), POLLIN, 0};
  RxBatch room;
  std::vector<engine::Datagram> got;
  uint64_t dropped = 0;
  if (p.send(m, m.dst, byte, error) != SendOutcome::sent)
    return {"flow_label", ProbeStatus::missing, std::strerror(error), ""};
  if (poll(&ready, 1, 1000) != 1 || (p.receive(room, got, dropped), got.empty()))
    return {"flow_label", ProbeStatus::unknown, "nothing arrived on ::1", ""};
  if (got[0].meta.flow_label != m.flow_label)
    return {"flow_label", ProbeStatus::missing, "not delivered", "EVs are source ports"};
  if (got[0].meta.ecn != m.ecn)
    return {"flow_label", ProbeStatus::warn, "ECN was lost on ::1",
            "a firewall rule rewrites the traffic class"};
  return {"flow_label", ProbeStatus::ok, "set and read per packet", ""};
}

// Sends a datagram to ::1 whose class and hop limit are set for it alone, and looks at what arrives.
ProbeItem packet_options() {
  const char* item = "packet_options";
  const Fd s(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  SockAddr to = to_sockaddr(base::IpAddr{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}, 0, 0);
  const int on = 1;
  if (!s || bind(s.get(), to.get(), to.length) != 0 || getsockname(s.get(), to.get(), &to.length) != 0 ||
      setsockopt(s.get(), IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof on) != 0 ||
      setsockopt(s.get(), IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &on, sizeof on) != 0) {
    return {item, ProbeStatus::missing, std::strerror(errno), "class and hop limit cannot differ by packet"};
  }
  constexpr int kClass = 0xB8 | wire::kEcnEct0, kHops = 17;
  uint8_t byte = 0;
  iovec part{&byte, sizeof byte};
  alignas(cmsghdr) std::array<char, 2 * CMSG_SPACE(sizeof(int))> room{};
  msghdr out{};
  out.msg_name = to.get();
  out.msg_namelen = to.length;
  out.msg_iov = &part;
  out.msg_iovlen = 1;
  out.msg_control = room.data();
  out.msg_controllen = room.size();
  cmsghdr* c = CMSG_FIRSTHDR(&out);
  for (const auto& [type, value] : {std::pair{IPV6_TCLASS, kClass}, std::pair{IPV6_HOPLIMIT, kHops}}) {
    c->cmsg_level = IPPROTO_IPV6;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(sizeof value);
    std::memcpy(CMSG_DATA(c), &value, sizeof value);
    c = CMSG_NXTHDR(&out, c);
  }
  pollfd ready{s.get(), POLLIN, 0};
  if (sendmsg(s.get(), &out, 0) != 1) return {item, ProbeStatus::missing, std::strerror(errno), ""};
  if (poll(&ready, 1, 1000) != 1) return {item, ProbeStatus::unknown, "nothing arrived on ::1", ""};
  out.msg_controllen = room.size();
  if (recvmsg(s.get(), &out, 0) != 1) return {item, ProbeStatus::unknown, std::strerror(errno), ""};
  int found = 0;
  for (c = CMSG_FIRSTHDR(&out); c != nullptr; c = CMSG_NXTHDR(&out, c)) {
    int value = 0;
    std::memcpy(&value, CMSG_DATA(c), sizeof value);
    found += c->cmsg_type == IPV6_TCLASS && value == kClass;
    found += c->cmsg_type == IPV6_HOPLIMIT && value == kHops;
  }
  if (found == 2) return {item, ProbeStatus::ok, "class and hop limit set and read per packet", ""};
  return {item, ProbeStatus::warn, "rewritten on ::1", "a firewall rule changes the class or the hop limit"};
}

ProbeItem privileges() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    if (word != "CapEff:") continue;
    uint64_t bits = 0;
    in >> std::hex >> bits;
    const auto has = [bits](unsigned bit) { return (bits >> bit & 1) != 0 ? "yes" : "no"; };
    const std::string value = std::string("net_admin ") + has(12) + ", net_raw " + has(13);
    return {"privileges", ProbeStatus::ok, value, ""};  // neither is needed
  }
  return {"privileges", ProbeStatus::unknown, "not readable", ""};
}

ProbeItem auto_flow_labels() {
  const std::string v = sysctl("net/ipv6/auto_flowlabels");
  if (v.empty()) return {"auto_flowlabels", ProbeStatus::unknown, "not readable", ""};
  if (v != "3") return {"auto_flowlabels", ProbeStatus::ok, v, ""};
  return {"auto_flowlabels", ProbeStatus::warn, v,
          "the kernel labels every packet: EVs that are source ports are not recognised; sysctl -w "
          "net.ipv6.auto_flowlabels=1"};
}

ProbeItem seg6() {
  const std::string all = sysctl("net/ipv6/conf/all/seg6_enabled");
  if (all.empty())
    return {"seg6", ProbeStatus::missing, "not in this kernel",
            "SRv6 in this host's kernel is not possible (CONFIG_IPV6_SEG6_LWTUNNEL)"};
  return {"seg6", ProbeStatus::ok, "seg6_enabled=" + all, ""};
}

ProbeItem open_files() {
  rlimit r{};
  if (getrlimit(RLIMIT_NOFILE, &r) != 0)
    return {"open_files", ProbeStatus::unknown, std::strerror(errno), ""};
  const std::string value = r.rlim_cur == RLIM_INFINITY ? "unlimited" : std::to_string(r.rlim_cur);
  if (r.rlim_cur >= kWantedFiles) return {"open_files", ProbeStatus::ok, value, ""};
  return {"open_files", ProbeStatus::warn, value, "an IPv4 plane takes one socket an EV: ulimit -n 1024"};
}

uint32_t interface_mtu(const char* name) {
  const Fd s(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq r{};
  std::strncpy(r.ifr_name, name, IFNAMSIZ - 1);
  return s && ioctl(s.get(), SIOCGIFMTU, &r) == 0 ? static_cast<uint32_t>(r.ifr_mtu) : 0;
}

ProbeItem interface_item(const ProbeInterface& i) {
  ProbeItem out{"interface " + i.name, ProbeStatus::ok, "", ""};
  const uint32_t v6 = path_mtu_for_link(i.mtu, false);
  out.value = std::string(i.running ? "up"
                          : i.up    ? "no carrier"
                                    : "down") +
              ", MTU " + std::to_string(i.mtu) + ", path MTU " + std::to_string(v6);
  for (const std::string& a : i.addresses) out.value += ", " + a;
  if (!i.running) {
    out.status = ProbeStatus::warn;
    out.hint = "ip link set " + i.name + " up";
  } else if (i.addresses.empty()) {
    out.status = ProbeStatus::warn;
    out.hint = "has no address: a plane needs one";
  } else if (v6 == 0) {
    out.status = ProbeStatus::warn;
    out.hint = "MTU too small for the smallest packet";
  } else if (v6 < 4096 && !i.loopback) {
    out.hint = "MTU 4200 or more allows 4096-byte packets, which cost a third of the CPU time";
  }
  return out;
}

}  // namespace

std::string_view to_string(ProbeStatus s) {
  constexpr std::array<std::string_view, 4> kNames{"ok", "warn", "missing", "unknown"};
  return kNames[static_cast<size_t>(s)];
}

uint32_t path_mtu_for_link(uint32_t link_mtu, bool v4) {
  // IP, UDP, then BTH, METH, TSETH, RETH, ImmDt and the iCRC of a data packet (reference 2.15).
  const uint32_t overhead = (v4 ? 20u : 40u) + 8u + 12u + 4u + 4u + 16u + 4u + 4u;
  for (uint32_t mtu = 4096; mtu >= 256; mtu /= 2) {
    if (mtu + overhead <= link_mtu) return mtu;
  }
  return 0;
}

std::vector<ProbeInterface> probe_interfaces() {
  std::vector<ProbeInterface> out;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return out;
  std::vector<std::vector<std::pair<int, std::string>>> ranked;  // by interface: (rank, text)
  for (const ifaddrs* a = list; a != nullptr; a = a->ifa_next) {
    auto at =
        std::find_if(out.begin(), out.end(), [a](const ProbeInterface& i) { return i.name == a->ifa_name; });
    if (at == out.end()) {
      ProbeInterface i;
      i.name = a->ifa_name;
      i.index = if_nametoindex(a->ifa_name);
      i.mtu = interface_mtu(a->ifa_name);
      i.up = (a->ifa_flags & IFF_UP) != 0;
      i.running = i.up && (a->ifa_flags & IFF_RUNNING) != 0;
      i.loopback = (a->ifa_flags & IFF_LOOPBACK) != 0;
      at = out.insert(out.end(), i);
      ranked.emplace_back();
    }
    if (a->ifa_addr == nullptr) continue;
    const bool v6 = a->ifa_addr->sa_family == AF_INET6;
    if (!v6 && a->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_storage s{};
    std::memcpy(&s, a->ifa_addr, v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    HostAddress host;
    host.ip = ip_of(s);
    const bool link_local = v6 && host.ip.bytes[0] == 0xfe && (host.ip.bytes[1] & 0xc0) == 0x80;
    if (link_local) host.scope = at->index;
    ranked[static_cast<size_t>(at - out.begin())].emplace_back(link_local ? 2 : v6 ? 1 : 0, to_text(host));
  }
  freeifaddrs(list);
  for (size_t i = 0; i < out.size(); ++i) {
    std::stable_sort(ranked[i].begin(), ranked[i].end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (auto& [rank, text] : ranked[i]) out[i].addresses.push_back(std::move(text));
  }
  return out;
}

std::vector<ProbeItem> probe_host() {
  std::vector<ProbeItem> out;
  out.push_back(udp_option("udp_segment", UDP_SEGMENT, 1408,
                           "kernel 4.18 or later sends bursts for a fifth of the CPU time"));
  out.push_back(
      udp_option("udp_gro", UDP_GRO, 1, "kernel 5.0 or later receives bursts for a third of the CPU time"));
  out.push_back(buffer("rcvbuf", SO_RCVBUF, kWantedRcvbuf, "rmem_max",
                       "a small buffer overflows under bursts (RcvbufErrors in /proc/net/snmp)"));
  out.push_back(
      buffer("sndbuf", SO_SNDBUF, kWantedSndbuf, "wmem_max", "a small buffer makes the sender wait"));
  out.push_back(ipv6());
  out.push_back(flow_label());
  out.push_back(auto_flow_labels());
  out.push_back(packet_options());
  out.push_back(privileges());
  out.push_back(seg6());
  out.push_back({"seg6_next_csid", ProbeStatus::unknown, "unknown without root",
                 "as root: ip -6 route add <sid>/48 encap seg6local action End flavors next-csid dev <dev>"});
  out.push_back(open_files());
  for (const ProbeInterface& i : probe_interfaces()) out.push_back(interface_item(i));
  return out;
}

}  // namespace mrc::net
