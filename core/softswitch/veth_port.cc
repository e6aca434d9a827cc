#include "softswitch/veth_port.h"

#include <linux/if.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

namespace mrc::softswitch {

namespace {

constexpr uint16_t kIpv6Type = 0x86DD;

// What precedes a packet with PACKET_VNET_HDR, in host order (the kernel's header for it is not C++).
struct VnetHeader {
  uint8_t flags = 0, gso_type = 0;
  uint16_t header_bytes = 0, gso_bytes = 0, sum_start = 0, sum_offset = 0;
};
constexpr uint8_t kNeedsSum = 1;

ifreq request_for(const std::string& device) {
  ifreq r{};
  std::strncpy(r.ifr_name, device.c_str(), IFNAMSIZ - 1);
  return r;
}

int set(int fd, int level, int name, int value) { return setsockopt(fd, level, name, &value, sizeof value); }

}  // namespace

VethPort::VethPort(Fabric& fabric, const DeviceSpec& spec) : fabric_(&fabric), spec_(spec) {}

int VethPort::open(int rcvbuf) {
  socket_ = Socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd() < 0) return errno;
  ifreq device = request_for(spec_.device);
  if (ioctl(fd(), SIOCGIFINDEX, &device) != 0) return errno;
  if (set(fd(), SOL_PACKET, PACKET_VNET_HDR, 1) != 0) return errno;
  set(fd(), SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
  set(fd(), SOL_SOCKET, SO_TIMESTAMPNS, 1);
  // Beyond the limits where the namespace's owner may, up to them where not.
  if (set(fd(), SOL_SOCKET, SO_RCVBUFFORCE, rcvbuf) != 0) set(fd(), SOL_SOCKET, SO_RCVBUF, rcvbuf);
  if (set(fd(), SOL_SOCKET, SO_SNDBUFFORCE, rcvbuf) != 0) set(fd(), SOL_SOCKET, SO_SNDBUF, rcvbuf);
  sockaddr_ll at{};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(kIpv6Type);
  at.sll_ifindex = device.ifr_ifindex;
  return bind(fd(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ? errno : 0;
}

bool VethPort::receive(Inbox& inbox, base::Instant now, int64_t clock_offset_ns) {
  const int n = inbox.receive(fd());
  for (int i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    if (reinterpret_cast<const sockaddr_ll&>(inbox.from(k)).sll_pkttype == PACKET_OUTGOING) continue;
    packet(inbox.bytes(k), inbox.arrival(k, now, clock_offset_ns).at);
  }
  return n == static_cast<int>(Inbox::kMessages);
}

void VethPort::packet(base::ByteView bytes, base::Instant at) {
  if (bytes.size() < kHeadBytes) return fabric_->count_drop(spec_.node, Drop::truncated);
  VnetHeader h;
  std::memcpy(&h, bytes.data(), sizeof h);
  const base::ByteView packet = bytes.subspan(kHeadBytes);
  // A burst that nobody split is longer than the MTU, whatever it is made of.
  if (h.gso_type != 0) return fabric_->count_drop(spec_.node, Drop::too_big);
  PartialSum sum;
  if ((h.flags & kNeedsSum) != 0 && h.sum_start >= kEthernetBytes &&
      size_t{h.sum_start} - kEthernetBytes + h.sum_offset + 2 <= packet.size())
    sum = {static_cast<uint16_t>(h.sum_start - kEthernetBytes), h.sum_offset};
  fabric_->ingest(at, spec_.node, packet, sum);
}

VethPort::Head VethPort::head_of(const Frame& f) const {
  Head head{};
  VnetHeader h;
  if (f.sum.start != 0) {
    h.flags = kNeedsSum;
    h.sum_start = static_cast<uint16_t>(f.sum.start + kEthernetBytes);
    h.sum_offset = f.sum.offset;
  }
  static_assert(sizeof h == kVnetBytes);
  std::memcpy(head.data(), &h, sizeof h);
  std::copy(spec_.host_mac.begin(), spec_.host_mac.end(), head.begin() + kVnetBytes);
  std::copy(spec_.own_mac.begin(), spec_.own_mac.end(), head.begin() + kVnetBytes + 6);
  base::store_be16(head.data() + kVnetBytes + 12, kIpv6Type);
  return head;
}

void VethPort::flush() {
  constexpr size_t kBatch = 32;
  std::array<mmsghdr, kBatch> messages{};
  std::array<Head, kBatch> heads;
  std::array<std::array<iovec, 2>, kBatch> parts{};
  FramePool& frames = fabric_->frames();
  for (size_t first = 0; first < out_.size(); first += kBatch) {
    const size_t n = std::min(kBatch, out_.size() - first);
    for (size_t i = 0; i < n; ++i) {
      const Frame& f = frames[out_[first + i]];
      heads[i] = head_of(f);
      parts[i] = {iovec{heads[i].data(), heads[i].size()}, iovec{f.bytes, f.size}};
      messages[i].msg_hdr = {};
      messages[i].msg_hdr.msg_iov = parts[i].data();
      messages[i].msg_hdr.msg_iovlen = parts[i].size();
    }
    for (size_t done = 0; done < n;) {
      const int sent =
          sendmmsg(fd(), &messages[done], static_cast<unsigned>(n - done), MSG_NOSIGNAL | MSG_DONTWAIT);
      done += sent > 0 ? static_cast<size_t>(sent) : 1;
      if (sent <= 0) fabric_->count_drop(spec_.node, Drop::refused);
    }
  }
  for (const FrameId id : out_) frames.give_back(id);
  out_.clear();
}

void VethPort::read_errors() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size);  // the device went down: known already
}

void VethPort::tell_link() {
  const bool up = fabric_->linked(spec_.node);
  if (up == up_) return;
  const Socket s(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq r = request_for(spec_.device);
  if (ioctl(s.get(), SIOCGIFFLAGS, &r) != 0) return;
  r.ifr_flags = static_cast<short>(up ? r.ifr_flags | IFF_UP : r.ifr_flags & ~IFF_UP);
  if (ioctl(s.get(), SIOCSIFFLAGS, &r) == 0) up_ = up;
}

}  // namespace mrc::softswitch
