// What the network layer knows of a datagram: addresses, ports, class. Filled by a socket, a frame parser or a simulator.
#pragma once

#include <cstdint>

#include "base/ip_addr.h"

namespace mrc::wire {

inline constexpr uint16_t kMrcUdpPort = 4791;      // D-01
inline constexpr uint16_t kMrcUdpPortAlias = 4971; // D-01: accepted too

struct DatagramMeta {
  base::IpAddr src, dst;
  uint16_t src_port = 0, dst_port = 0;
  uint32_t flow_label = 0;         // 20 bits, 0 over IPv4
  uint8_t dscp = 0, ecn = 0;       // after the merge of outer and inner header (reference 3.2)
  uint8_t port = 0;                // local 1-based port (plane)
  bool icrc_verified = false;      // checked already (or the payload is elided)
  uint32_t elided_payload = 0;     // simulator: this many payload bytes are not in the datagram's bytes
};

// Reference 4.2: low 16 bits of the flow label above the UDP source port; over IPv4 the upper half is 0 (D-04, D-20).
constexpr uint32_t reflected_entropy(const DatagramMeta& m) {
  return (m.src.is_v4() ? 0 : (m.flow_label & 0xFFFF) << 16) | m.src_port;
}

// DSCP numbers of one fabric (reference 3.1, D-17).
struct Dscps {
  uint8_t no_trim = 0, trimmable = 4, trimmable_retx = 8, trimmed = 12, trimmed_lasthop = 16, control = 46;
};

enum class TrimClass : uint8_t { none, trimmed, trimmed_lasthop };
constexpr TrimClass trim_class(uint8_t dscp, const Dscps& d) {
  return dscp == d.trimmed ? TrimClass::trimmed : dscp == d.trimmed_lasthop ? TrimClass::trimmed_lasthop : TrimClass::none;
}

}  // namespace mrc::wire
