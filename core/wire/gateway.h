// How packets travel between a process without privileges and a switch in user space: each is the payload of
// one loopback datagram, with the IPv6 and UDP headers it has on the fabric. Beside them go short messages by
// which a process says which port it listens on. Decides layout and checks; leaves sockets to net and
// softswitch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "wire/datagram.h"
#include "wire/udp_ip.h"

namespace mrc::wire {

// --- packets ---
inline constexpr size_t kOuterBytes = kIpv6Bytes + kUdpBytes;

// IPv6 and UDP headers of a packet with `udp_payload` bytes that is sent towards `via`. No UDP checksum: the
// iCRC covers more. Writes kOuterBytes.
size_t emit_outer(const DatagramMeta& meta, const base::IpAddr& via, uint8_t hop_limit, size_t udp_payload,
                  uint8_t* p);

enum class OuterFault : uint8_t { none, truncated, not_ipv6, bad_length, not_udp };
// Fills addresses, ports, label and class of `meta`, and `payload`, which lies in `b`. The lengths of both
// headers must be those of `b`.
OuterFault parse_outer(base::ByteView b, DatagramMeta& meta, base::ByteView& payload);

// --- messages ---
enum class GatewayVerb : uint8_t {
  bind = 1,     // process: packets to this UDP port are mine; 0: choose one
  bound = 2,    // switch: they are; what the link is like
  refused = 3,  // switch: they are not, errno says why
  release = 4,  // process: no longer mine
  link = 5,     // switch: the link went down or came up
  pause = 6,    // switch: the link is busy for that long
};

inline constexpr size_t kGatewayMessageBytes = 48;
struct GatewayMessage {
  GatewayVerb verb = GatewayVerb::bind;
  bool up = true;         // bound, link
  uint16_t udp_port = 0;  // bind, bound, release
  uint64_t cookie = 0;    // of the bind that is answered
  base::IpAddr address;   // bind, bound: of the plane
  uint32_t value = 0;     // refused: errno; pause: nanoseconds
  uint32_t mtu = 0;       // bound: bytes of IPv6 packet
  uint64_t rate_bps = 0;  // bound
  bool operator==(const GatewayMessage&) const = default;
};
void emit_gateway_message(const GatewayMessage& m, uint8_t* p);
// False: not exactly one message of a version and verb we know.
bool parse_gateway_message(base::ByteView b, GatewayMessage& out);
// A packet begins with IP version 6, a message never does.
constexpr bool is_gateway_message(base::ByteView b) { return !b.empty() && b[0] == 'M'; }

}  // namespace mrc::wire
