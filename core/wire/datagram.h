// What the network layer says about a datagram, and the classes it may travel in (reference 3.1, 3.3, 4.2).
#pragma once

#include <cstdint>

#include "base/ip_addr.h"

namespace mrc::wire {

// The driver fills it from the socket, a simulator from its frame.
struct DatagramMeta {
  base::IpAddr src, dst;
  uint16_t src_port = 0, dst_port = 0;
  uint32_t flow_label = 0;      // 20 bits, 0 over IPv4
  uint8_t dscp = 0, ecn = 0;    // after the merge of outer and inner header (3.2)
  uint8_t port = 0;             // local 1-based port (plane) it arrived on
  bool icrc_verified = false;   // the driver already checked it (or the payload is elided)
  uint32_t elided_payload = 0;  // simulator: this many payload bytes are not in the datagram's bytes
};

// D-01: the registered RoCEv2 port is what we send to; the digit-swapped one is accepted as well.
inline constexpr uint16_t kUdpPort = 4791, kUdpPortAlternative = 4971;

inline constexpr uint8_t kEcnNotEct = 0, kEcnEct1 = 1, kEcnEct0 = 2, kEcnCe = 3;

// EV of a received packet (4.2, D-04): low 16 bits of the flow label above the source port; IPv4: upper half
// 0.
uint32_t reflected_entropy(const DatagramMeta& meta);

struct FlowParts {
  uint32_t flow_label = 0;
  uint16_t src_port = 0;
};
// The inverse on the sending side (4.1). `v4`: only the low half travels.
constexpr FlowParts split_entropy(uint32_t ev, bool v4) {
  return {v4 ? 0 : ev >> 16, static_cast<uint16_t>(ev)};
}

struct Dscps {
  uint8_t no_trim = 0, trimmable = 4, trimmable_retx = 8, trimmed = 12, trimmed_lasthop = 16, control = 46;
};
enum class TrimClass : uint8_t { none, trimmed, trimmed_lasthop };
TrimClass trim_class(uint8_t dscp, const Dscps& d);

}  // namespace mrc::wire
