// SRv6 carriers: the uSID container in an IPv6 destination, its shift at a hop, and a one-segment SRH
// (reference 4.5). Leaves which container a packet gets to ev/, and decapsulation to frame.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "wire/udp_ip.h"

namespace mrc::wire {

inline constexpr size_t kSrhFixedBytes = 8, kSrhBytes = 24;
inline constexpr uint8_t kRoutingTypeSrh = 4;

struct Srh {
  uint8_t next_header = kProtoIpv6, hdr_ext_len = 2, routing_type = kRoutingTypeSrh;
  uint8_t segments_left = 0, last_entry = 0, flags = 0;
  uint16_t tag = 0;
  base::IpAddr segment;  // the first (last to visit); others are skipped on receipt
  [[nodiscard]] constexpr size_t bytes() const { return kSrhFixedBytes + size_t{hdr_ext_len} * 8; }
};
// False: shorter than it says, not a segment routing header, or no segment inside.
bool parse_srh(base::ByteView b, Srh& out);
// Writes kSrhBytes, every one of them; always one segment.
size_t emit_srh(const Srh& h, uint8_t* p);

// Container geometry; D-34: a 32-bit block and 16-bit uSIDs.
struct UsidFormat {
  uint8_t block_bits = 32, usid_bits = 16;
  // Whole bytes, and at least one slot.
  [[nodiscard]] constexpr bool valid() const {
    return block_bits % 8 == 0 && usid_bits % 8 == 0 && usid_bits != 0 && block_bits + usid_bits <= 128;
  }
};
// What a uN hop does to the destination: everything behind the block moves one slot to the left, zeros
// follow.
base::IpAddr usid_shift(const base::IpAddr& dst, UsidFormat f = {});
// The first slot is zero: this node is the last one.
bool usid_end(const base::IpAddr& dst, UsidFormat f = {});

}  // namespace mrc::wire
