#include "wire/gateway.h"

#include <algorithm>

namespace mrc::wire {

namespace {

constexpr std::array<uint8_t, 4> kMagic{'M', 'R', 'C', 'G'};
constexpr uint8_t kVersion = 1;

}  // namespace

size_t emit_outer(const DatagramMeta& meta, const base::IpAddr& via, uint8_t hop_limit, size_t udp_payload,
                  uint8_t* p) {
  const auto length = static_cast<uint16_t>(kUdpBytes + udp_payload);
  Ipv6 ip;
  ip.src = meta.src;
  ip.dst = via;
  ip.dscp = meta.dscp;
  ip.ecn = meta.ecn;
  ip.flow_label = meta.flow_label;
  ip.hop_limit = hop_limit;
  ip.payload_length = length;
  emit_ipv6(ip, p);
  emit_udp({meta.src_port, meta.dst_port, length, 0}, p + kIpv6Bytes);
  return kOuterBytes;
}

OuterFault parse_outer(base::ByteView b, DatagramMeta& meta, base::ByteView& payload) {
  if (b.size() < kOuterBytes) return OuterFault::truncated;
  if (b[0] >> 4 != 6) return OuterFault::not_ipv6;
  Ipv6 ip;
  Udp udp;
  if (!parse_ipv6(b, ip) || !parse_udp(b.subspan(kIpv6Bytes), udp)) return OuterFault::truncated;
  if (ip.next_header != kProtoUdp) return OuterFault::not_udp;
  if (ip.payload_length != b.size() - kIpv6Bytes || udp.length != ip.payload_length)
    return OuterFault::bad_length;
  meta.src = ip.src;
  meta.dst = ip.dst;
  meta.src_port = udp.src_port;
  meta.dst_port = udp.dst_port;
  meta.flow_label = ip.flow_label;
  meta.dscp = ip.dscp;
  meta.ecn = ip.ecn;
  payload = b.subspan(kOuterBytes);
  return OuterFault::none;
}

void emit_gateway_message(const GatewayMessage& m, uint8_t* p) {
  std::copy(kMagic.begin(), kMagic.end(), p);
  p[4] = kVersion;
  p[5] = static_cast<uint8_t>(m.verb);
  base::store_be16(p + 6, m.udp_port);
  base::store_be64(p + 8, m.cookie);
  std::copy(m.address.bytes.begin(), m.address.bytes.end(), p + 16);
  base::store_be32(p + 32, m.value);
  // An MTU has 24 bits at most; the byte above it holds the state of the link.
  base::store_be32(p + 36, (m.mtu & 0xFFFFFF) | (m.up ? 1u << 24 : 0));
  base::store_be64(p + 40, m.rate_bps);
}

bool parse_gateway_message(base::ByteView b, GatewayMessage& out) {
  if (b.size() != kGatewayMessageBytes || !std::equal(kMagic.begin(), kMagic.end(), b.begin())) return false;
  const uint8_t* p = b.data();
  if (p[4] != kVersion || p[5] < static_cast<uint8_t>(GatewayVerb::bind) ||
      p[5] > static_cast<uint8_t>(GatewayVerb::pause))
    return false;
  out.verb = static_cast<GatewayVerb>(p[5]);
  out.udp_port = base::load_be16(p + 6);
  out.cookie = base::load_be64(p + 8);
  std::copy_n(p + 16, 16, out.address.bytes.begin());
  out.value = base::load_be32(p + 32);
  const uint32_t link = base::load_be32(p + 36);
  out.mtu = link & 0xFFFFFF;
  out.up = (link >> 24 & 1) != 0;
  out.rate_bps = base::load_be64(p + 40);
  return true;
}

}  // namespace mrc::wire
