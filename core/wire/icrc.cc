#include "wire/icrc.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "wire/udp_ip.h"

namespace mrc::wire {

namespace {

constexpr size_t kMaskedDwords = 8, kIcrcBytes = 4, kBthFixed = 12, kVarRes = 4;

// Masks the variant fields of an IP header (IPv4 with options, or IPv6) in place.
void mask_ip(uint8_t* ip) {
  if (ip[0] >> 4 == 4) {
    ip[1] = 0xFF;            // TOS
    ip[8] = 0xFF;            // TTL
    ip[10] = ip[11] = 0xFF;  // header checksum
  } else {
    ip[0] |= 0x0F;  // traffic class and flow label
    ip[1] = ip[2] = ip[3] = 0xFF;
    ip[7] = 0xFF;  // hop limit
  }
}

// eight 0xFF | masked IP | UDP with its checksum masked.
uint32_t prefix_state(base::ByteView ip, base::ByteView udp) {
  std::array<uint8_t, kMaskedDwords + kMaxIpv4Bytes + kUdpBytes> b;
  std::fill_n(b.begin(), kMaskedDwords, uint8_t{0xFF});
  uint8_t* at = std::copy(ip.begin(), ip.end(), b.data() + kMaskedDwords);
  mask_ip(b.data() + kMaskedDwords);
  at = std::copy(udp.begin(), udp.end(), at);
  at[-1] = at[-2] = 0xFF;
  return crc32_update(kCrc32Init, {b.data(), at});
}

}  // namespace

uint32_t icrc_prefix(const DatagramMeta& meta, size_t udp_payload) {
  const auto udp_length = static_cast<uint16_t>(kUdpBytes + udp_payload);
  std::array<uint8_t, kIpv6Bytes> ip;
  size_t n = 0;
  if (meta.src.is_v4()) {
    Ipv4 h;
    h.src = meta.src;
    h.dst = meta.dst;
    h.total_length = static_cast<uint16_t>(kIpv4Bytes + udp_length);
    n = emit_ipv4(h, ip.data());
  } else {
    Ipv6 h;
    h.src = meta.src;
    h.dst = meta.dst;
    h.payload_length = udp_length;
    n = emit_ipv6(h, ip.data());
  }
  std::array<uint8_t, kUdpBytes> udp;
  emit_udp({meta.src_port, meta.dst_port, udp_length, 0}, udp.data());
  return prefix_state({ip.data(), n}, udp);
}

uint32_t icrc_head(uint32_t state, base::ByteView head) {
  std::array<uint8_t, 16> start;  // one step of the fast methods
  const size_t n = std::min(start.size(), head.size());
  std::copy_n(head.begin(), n, start.begin());
  start[kVarRes] = 0xFF;
  return crc32_update(crc32_update(state, {start.data(), n}), head.subspan(n));
}

uint32_t PrefixCache::prefix(const DatagramMeta& meta, size_t udp_payload) {
  const bool same = udp_payload == udp_payload_ && meta.src_port == src_port_ && meta.dst_port == dst_port_ &&
                    meta.dst == dst_ && meta.src == src_;
  if (same) return state_;
  src_ = meta.src;
  dst_ = meta.dst;
  src_port_ = meta.src_port;
  dst_port_ = meta.dst_port;
  udp_payload_ = udp_payload;
  return state_ = icrc_prefix(meta, udp_payload);
}

uint32_t icrc(const DatagramMeta& meta, base::ByteView head, base::ByteView payload, uint8_t pad,
              PrefixCache* cache) {
  constexpr uint8_t kZeros[4] = {};
  if (head.size() < kBthFixed || pad > 3) return 0;  // misuse; no such packet exists
  const size_t udp_payload = head.size() + payload.size() + pad + kIcrcBytes;
  uint32_t state = cache != nullptr ? cache->prefix(meta, udp_payload) : icrc_prefix(meta, udp_payload);
  state = icrc_head(state, head);
  state = crc32_update(state, payload);
  return ~crc32_update(state, base::ByteView(kZeros, pad));
}

uint32_t icrc_of_frame(base::ByteView ip, base::ByteView udp, base::ByteView ib) {
  return ~icrc_head(prefix_state(ip, udp), ib);
}

void store_icrc(uint8_t* p, uint32_t value) {
  for (unsigned i = 0; i < 4; ++i) p[i] = static_cast<uint8_t>(value >> (8 * i));
}

uint32_t load_icrc(const uint8_t* p) {
  return p[0] | (uint32_t{p[1]} << 8) | (uint32_t{p[2]} << 16) | (uint32_t{p[3]} << 24);
}

}  // namespace mrc::wire
