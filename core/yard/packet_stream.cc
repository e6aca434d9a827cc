#include "yard/packet_stream.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "yard/counting.h"
#include "yard/neighbour.h"

namespace mrc::yard {
namespace {

// What precedes a frame that the kernel is to cut up (virtio's layout; its header is not C++).
struct Cutting {
  uint8_t flags = 1;  // the checksum is left to whoever needs it
  uint8_t kind = 5;   // UDP, one header for all
  uint16_t header_bytes = 0;
  uint16_t segment = 0;
  uint16_t sum_from = 0, sum_at = 0;
};
static_assert(sizeof(Cutting) == 10);

constexpr size_t kEthernet = 14, kIpv6 = 40, kUdp = 8, kHeaders = kEthernet + kIpv6 + kUdp;

void put16(uint8_t* p, size_t v) {
  p[0] = static_cast<uint8_t>(v >> 8);
  p[1] = static_cast<uint8_t>(v);
}

// Of the pseudo header, which the hardware's part of the sum begins with.
uint16_t pseudo_sum(const uint8_t* addresses, size_t udp_bytes) {
  uint32_t sum = static_cast<uint32_t>(udp_bytes) + IPPROTO_UDP;
  for (size_t i = 0; i < 32; i += 2) sum += static_cast<uint32_t>(addresses[i] << 8 | addresses[i + 1]);
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<uint16_t>(sum);
}

class PacketSender {
 public:
  explicit PacketSender(const SendConfig& c)
      : c_(c),
        to_(destination(c)),
        udp_(parse({c.to.at(0).address, 0}), false, {}),
        fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)),
        arena_(size_t{c.payload} * c.segments, c.cold_bytes) {
    if (fd_ < 0)
      throw std::system_error(errno, std::generic_category(), "AF_PACKET, which takes CAP_NET_RAW");
    try {
      prepare();
    } catch (...) {
      ::close(fd_);
      throw;
    }
  }
  ~PacketSender() { ::close(fd_); }
  PacketSender(const PacketSender&) = delete;
  PacketSender& operator=(const PacketSender&) = delete;

  Figures run() {
    window_ = Window(c_.window, seconds_now());
    send_for(c_.seconds, f_, [this] {
      if (c_.window == 0 || room()) send_once();
    });
    return f_;
  }

 private:
  static sockaddr_in6 destination(const SendConfig& c) {
    const Address a = parse(c.to.at(0));
    if (a.storage.ss_family != AF_INET6) throw std::invalid_argument("frames are made for IPv6 only");
    sockaddr_in6 to{};
    std::memcpy(&to, &a.storage, sizeof to);
    return to;
  }

  void prepare() {
    udp_.connect_to(parse(c_.to.at(0)));
    // Nobody counts it; the kernel finds the neighbour for it.
    (void)send(udp_.fd(), nullptr, 0, 0);
    sockaddr_in6 from{};
    socklen_t n = sizeof from;
    if (getsockname(udp_.fd(), reinterpret_cast<sockaddr*>(&from), &n) != 0)
      throw std::system_error(errno, std::generic_category(), "getsockname");
    const NextHop hop = next_hop(from.sin6_addr, to_.sin6_addr);
    const int one = 1, bytes = 16 << 20;
    if (setsockopt(fd_, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof one) != 0)
      throw std::system_error(errno, std::generic_category(), "PACKET_VNET_HDR");
    if (setsockopt(fd_, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof bytes) != 0)
      (void)setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    link_.sll_family = AF_PACKET;
    link_.sll_protocol = htons(ETH_P_IPV6);
    link_.sll_ifindex = hop.interface;
    write_headers(hop, from);
  }

  void write_headers(const NextHop& hop, const sockaddr_in6& from) {
    const size_t udp_bytes = kUdp + size_t{c_.payload} * c_.segments;
    Cutting cut;
    cut.header_bytes = kHeaders;
    cut.segment = static_cast<uint16_t>(c_.payload);
    cut.sum_from = kEthernet + kIpv6;
    cut.sum_at = 6;
    if (c_.segments == 1) cut.kind = 0, cut.segment = 0;
    std::memcpy(head_.data(), &cut, sizeof cut);
    uint8_t* const frame = head_.data() + sizeof cut;
    std::memcpy(frame, hop.peer.data(), hop.peer.size());
    std::memcpy(frame + 6, hop.own.data(), hop.own.size());
    put16(frame + 12, ETH_P_IPV6);
    uint8_t* const ip = frame + kEthernet;
    ip[0] = 0x60;
    put16(ip + 4, udp_bytes);
    ip[6] = IPPROTO_UDP;
    ip[7] = 64;
    std::memcpy(ip + 8, &from.sin6_addr, 16);
    std::memcpy(ip + 24, &to_.sin6_addr, 16);
    uint8_t* const udp = ip + kIpv6;
    std::memcpy(udp, &from.sin6_port, 2);
    std::memcpy(udp + 2, &to_.sin6_port, 2);
    put16(udp + 4, udp_bytes);
    put16(udp + 6, pseudo_sum(ip + 8, udp_bytes));
  }

  bool room() {
    std::array<uint64_t, 2> ack{};
    while (recv(udp_.fd(), ack.data(), sizeof ack, MSG_DONTWAIT) == sizeof ack)
      window_.on_ack(ack[0], f_.datagrams, seconds_now());
    if (window_.has_room(f_.datagrams, c_.segments)) return true;
    if (!c_.spin) udp_.wait_readable(2);
    f_.refused += window_.reopen(f_.datagrams, seconds_now());
    return false;
  }

  void send_once() {
    const size_t bytes = size_t{c_.payload} * c_.segments;
    std::array<iovec, 2> parts{{{head_.data(), head_.size()}, {arena_.at(), bytes}}};
    msghdr h{};
    h.msg_name = &link_;
    h.msg_namelen = sizeof link_;
    h.msg_iov = parts.data();
    h.msg_iovlen = parts.size();
    ++f_.calls;
    if (sendmsg(fd_, &h, 0) < 0) {
      if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
        throw std::system_error(errno, std::generic_category(), "send");
      ++f_.refused;
      return;
    }
    arena_.advance(bytes);
    f_.datagrams += c_.segments;
    f_.bytes += bytes;
  }

  const SendConfig& c_;
  sockaddr_in6 to_;
  Socket udp_;  // its port, and what is acknowledged to it
  int fd_;
  Arena arena_;
  sockaddr_ll link_{};
  std::array<uint8_t, sizeof(Cutting) + kHeaders> head_{};
  Window window_{0, 0};
  Figures f_;
};

}  // namespace

std::string packet_missing() {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::string("AF_PACKET: ") + std::strerror(errno) + " (takes CAP_NET_RAW)";
  ::close(fd);
  return {};
}

Figures send_stream_packet(const SendConfig& config) {
  check_run(config.payload, config.segments);
  check_seconds(config.seconds);
  if (config.to.size() != 1) throw std::invalid_argument("frames go to one destination");
  return PacketSender(config).run();
}

}  // namespace mrc::yard
