// Whole frames from the IP header to the iCRC: what raw drivers, simulators, captures and vectors hold.
// Decides decapsulation (SRv6, SRH), the merge of traffic classes (reference 3.2, 3.3) and checks 1..3
// of 2.17; leaves the rest to packet.h and the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "wire/packet.h"
#include "wire/srv6.h"
#include "wire/udp_ip.h"

namespace mrc::wire {

struct FrameRules {
  Dscps dscps;
  // UDP destination ports taken as MRC (D-01); 0 = unused entry.
  uint16_t ports[3] = {kUdpPort, kUdpPortAlternative, 0};
};

struct Frame {
  bool v4 = false, encapsulated = false, has_srh = false;
  Ipv6 outer;  // encapsulated
  Srh srh;     // has_srh
  Ipv4 ip4;    // innermost header: v4 ? ip4 : ip6
  Ipv6 ip6;
  Udp udp;
  TrimClass trim = TrimClass::none;
  DatagramMeta meta;  // traffic class merged, EV parts from the inner header (D-21)
  base::ByteView ip_bytes, udp_bytes;
  base::ByteView datagram;  // the UDP payload: BTH .. iCRC, or what a trim left of it
};

// Checks 1..3 plus our own (IP version and protocol, fragment, UDP port). A trimmed frame skips check 3.
DropReason decode_frame(base::ByteView bytes, const FrameRules& rules, Frame& out);
// Check 4 on the bytes as they are (any IPv4 identification and flags).
bool frame_icrc_ok(const Frame& f);
// Checks 1..8, or the trim path when out.trim says so (then only BTH, METH, TSETH of `packet` are set).
DropReason parse_frame(base::ByteView bytes, const FrameRules& rules, Frame& out, Packet& packet);

struct Encapsulation {
  base::IpAddr src, dst;  // traffic class and flow label are copied from the inner header
  std::optional<Srh> srh;
};
struct FrameSpec {
  DatagramMeta meta;  // addresses, ports, flow label, DSCP and ECN
  uint8_t hop_limit = kDefaultHopLimit;
  uint16_t ipv4_id = 0;
  bool ipv4_df = true;
  bool udp_checksum = false;  // false: 0, as hardware sends it
  std::optional<Encapsulation> outer;
};
// Builds the frame with payload, pad (from packet.bth.pad) and iCRC; the size, or 0 if `out` is too small or
// the sizes do not fit the 16-bit length fields.
size_t emit_frame(const FrameSpec& spec, const Packet& packet, base::MutByteView out);
size_t frame_bytes(const FrameSpec& spec, const Packet& packet);

// What a trimming switch makes of `frame`: cut behind METH/TSETH, `dscp` in the outermost header, IP length
// fixed, UDP length kept (3.3). The new size; 0: nothing to trim (not a data packet, or too short).
size_t trim_frame(base::MutByteView frame, uint8_t dscp);

}  // namespace mrc::wire
