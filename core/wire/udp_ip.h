// IPv4, IPv6 and UDP headers as MRC datagrams carry them (reference 2.15).
// Decides layout and checksums; leaves which values are acceptable to frame.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ip_addr.h"

namespace mrc::wire {

inline constexpr size_t kIpv4Bytes = 20, kMaxIpv4Bytes = 60, kIpv6Bytes = 40, kUdpBytes = 8;
inline constexpr uint8_t kProtoUdp = 17, kProtoIpv6 = 41, kProtoRouting = 43, kProtoFragment = 44;
inline constexpr uint8_t kDefaultHopLimit = 64;

struct Ipv4 {
  base::IpAddr src, dst;  // v4-mapped
  uint8_t dscp = 0, ecn = 0, ttl = kDefaultHopLimit, protocol = kProtoUdp;
  uint16_t id = 0, total_length = 0, checksum = 0;
  bool df = true, mf = false;
  uint16_t fragment_offset = 0;       // unit 8 bytes
  uint8_t header_bytes = kIpv4Bytes;  // options are skipped, never emitted
  [[nodiscard]] constexpr bool is_fragment() const { return mf || fragment_offset != 0; }
};
// False: shorter than the header says, or a header length below 20.
bool parse_ipv4(base::ByteView b, Ipv4& out);
// Writes 20 bytes with a right checksum (h.checksum is not read).
size_t emit_ipv4(const Ipv4& h, uint8_t* p);

struct Ipv6 {
  base::IpAddr src, dst;
  uint8_t dscp = 0, ecn = 0, next_header = kProtoUdp, hop_limit = kDefaultHopLimit;
  uint32_t flow_label = 0;  // 20 bits
  uint16_t payload_length = 0;
};
bool parse_ipv6(base::ByteView b, Ipv6& out);
size_t emit_ipv6(const Ipv6& h, uint8_t* p);

struct Udp {
  uint16_t src_port = 0, dst_port = 0, length = 0, checksum = 0;
};
bool parse_udp(base::ByteView b, Udp& out);
size_t emit_udp(const Udp& h, uint8_t* p);

// Folded one's complement sum of big-endian words, not complemented; an odd last byte is padded with zero.
// `sum` carries over from earlier pieces, all of which must have even length.
uint32_t ones_sum(base::ByteView b, uint32_t sum = 0);
// UDP checksum over the pseudo header of src/dst, the header (its checksum field taken as 0) and the payload.
// Never 0: a computed 0 is sent as 0xFFFF, because 0 means "none" and IPv6 peers would drop it (RFC
// 8200 8.1).
uint16_t udp_checksum(const base::IpAddr& src, const base::IpAddr& dst, base::ByteView udp_datagram);

}  // namespace mrc::wire
