#include "wire/udp_ip.h"

#include <algorithm>

namespace mrc::wire {

namespace {

base::IpAddr load_v4(const uint8_t* p) { return base::IpAddr::v4(p[0], p[1], p[2], p[3]); }
base::IpAddr load_v6(const uint8_t* p) {
  base::IpAddr a;
  std::copy_n(p, a.bytes.size(), a.bytes.begin());
  return a;
}
constexpr uint8_t traffic_class(uint8_t dscp, uint8_t ecn) {
  return static_cast<uint8_t>((dscp << 2) | (ecn & 3));
}

}  // namespace

bool parse_ipv4(base::ByteView b, Ipv4& out) {
  if (b.size() < kIpv4Bytes) return false;
  const uint8_t* p = b.data();
  out.header_bytes = static_cast<uint8_t>((p[0] & 0x0F) * 4);
  if (out.header_bytes < kIpv4Bytes || b.size() < out.header_bytes) return false;
  out.dscp = p[1] >> 2;
  out.ecn = p[1] & 3;
  out.total_length = base::load_be16(p + 2);
  out.id = base::load_be16(p + 4);
  const uint16_t flags = base::load_be16(p + 6);
  out.df = (flags & 0x4000) != 0;
  out.mf = (flags & 0x2000) != 0;
  out.fragment_offset = flags & 0x1FFF;
  out.ttl = p[8];
  out.protocol = p[9];
  out.checksum = base::load_be16(p + 10);
  out.src = load_v4(p + 12);
  out.dst = load_v4(p + 16);
  return true;
}

size_t emit_ipv4(const Ipv4& h, uint8_t* p) {
  p[0] = 0x45;
  p[1] = traffic_class(h.dscp, h.ecn);
  base::store_be16(p + 2, h.total_length);
  base::store_be16(p + 4, h.id);
  base::store_be16(
      p + 6, static_cast<uint16_t>((h.df ? 0x4000 : 0) | (h.mf ? 0x2000 : 0) | (h.fragment_offset & 0x1FFF)));
  p[8] = h.ttl;
  p[9] = h.protocol;
  base::store_be16(p + 10, 0);
  std::copy_n(h.src.bytes.begin() + 12, 4, p + 12);
  std::copy_n(h.dst.bytes.begin() + 12, 4, p + 16);
  base::store_be16(p + 10, static_cast<uint16_t>(~ones_sum({p, kIpv4Bytes})));
  return kIpv4Bytes;
}

bool parse_ipv6(base::ByteView b, Ipv6& out) {
  if (b.size() < kIpv6Bytes) return false;
  const uint8_t* p = b.data();
  const uint32_t first = base::load_be32(p);
  out.dscp = static_cast<uint8_t>((first >> 22) & 0x3F);
  out.ecn = static_cast<uint8_t>((first >> 20) & 3);
  out.flow_label = first & 0xFFFFF;
  out.payload_length = base::load_be16(p + 4);
  out.next_header = p[6];
  out.hop_limit = p[7];
  out.src = load_v6(p + 8);
  out.dst = load_v6(p + 24);
  return true;
}

size_t emit_ipv6(const Ipv6& h, uint8_t* p) {
  base::store_be32(p, (6u << 28) | (uint32_t{traffic_class(h.dscp, h.ecn)} << 20) | (h.flow_label & 0xFFFFF));
  base::store_be16(p + 4, h.payload_length);
  p[6] = h.next_header;
  p[7] = h.hop_limit;
  std::copy(h.src.bytes.begin(), h.src.bytes.end(), p + 8);
  std::copy(h.dst.bytes.begin(), h.dst.bytes.end(), p + 24);
  return kIpv6Bytes;
}

bool parse_udp(base::ByteView b, Udp& out) {
  if (b.size() < kUdpBytes) return false;
  const uint8_t* p = b.data();
  out = {base::load_be16(p), base::load_be16(p + 2), base::load_be16(p + 4), base::load_be16(p + 6)};
  return true;
}

size_t emit_udp(const Udp& h, uint8_t* p) {
  base::store_be16(p, h.src_port);
  base::store_be16(p + 2, h.dst_port);
  base::store_be16(p + 4, h.length);
  base::store_be16(p + 6, h.checksum);
  return kUdpBytes;
}

uint32_t ones_sum(base::ByteView b, uint32_t sum) {
  uint64_t s = sum;
  size_t i = 0;
  for (; i + 1 < b.size(); i += 2) s += base::load_be16(b.data() + i);
  if (i < b.size()) s += uint32_t{b[i]} << 8;
  while (s > 0xFFFF) s = (s & 0xFFFF) + (s >> 16);
  return static_cast<uint32_t>(s);
}

uint16_t udp_checksum(const base::IpAddr& src, const base::IpAddr& dst, base::ByteView udp_datagram) {
  if (udp_datagram.size() < kUdpBytes) return 0xFFFF;
  // The v4-mapped prefix (zeros and 0xFFFF) must not be summed over IPv4.
  const size_t skip = src.is_v4() ? 12 : 0;
  uint32_t sum = ones_sum(base::ByteView(src.bytes).subspan(skip));
  sum = ones_sum(base::ByteView(dst.bytes).subspan(skip), sum);
  const auto length = static_cast<uint32_t>(udp_datagram.size());
  sum += kProtoUdp + (length >> 16) + (length & 0xFFFF);
  sum = ones_sum(udp_datagram.first(6), sum);
  sum = ones_sum(udp_datagram.subspan(kUdpBytes), sum);
  const auto checksum = static_cast<uint16_t>(~sum);
  return checksum == 0 ? uint16_t{0xFFFF} : checksum;
}

}  // namespace mrc::wire
