// NETH of a reliability NACK (reference 2.11).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "wire/sack.h"

namespace mrc::wire {

inline constexpr size_t kNethBytes = 20;

enum class NackReason : uint8_t {
  trimmed = 0x01,
  trimmed_lasthop = 0x02,
  no_bitmap = 0x06,
  no_pkt_buffer = 0x07,
  no_resource = 0x0A,
  psn_oor_window = 0x0B,
  unexp_event = 0x19,
};

struct Neth {
  uint8_t type = 0, nh = 0;
  uint8_t nack_reason = 0, vendor_info = 0;
  uint32_t entropy = 0;
  uint16_t spdcid = 0, dpdcid = 0;
  uint32_t nack_psn = 0;
  uint8_t cc_type = 2, cc_fl = 0;
  uint16_t tx_timestamp = 0;
  bool operator==(const Neth&) const = default;
};

constexpr bool parse_neth(base::ByteView b, Neth& out) {
  if (b.size() < kNethBytes) return false;
  const uint8_t* p = b.data();
  const HeaderStart s = unpack_header_start(p);
  out.type = s.type;
  out.nh = s.nh;
  out.nack_reason = p[2];
  out.vendor_info = p[3];
  out.entropy = base::load_be32(p + 4);
  out.spdcid = base::load_be16(p + 8);
  out.dpdcid = base::load_be16(p + 10);
  out.nack_psn = base::load_be24(p + 13);
  out.cc_type = p[16] >> 4;
  out.cc_fl = p[16] & 0x0F;
  out.tx_timestamp = base::load_be16(p + 18);
  return true;
}
constexpr size_t emit_neth(const Neth& h, uint8_t* p) {
  pack_header_start({h.type, h.nh}, 0, p);
  p[2] = h.nack_reason;
  p[3] = h.vendor_info;
  base::store_be32(p + 4, h.entropy);
  base::store_be16(p + 8, h.spdcid);
  base::store_be16(p + 10, h.dpdcid);
  p[12] = 0;
  base::store_be24(p + 13, h.nack_psn);
  p[16] = static_cast<uint8_t>((h.cc_type << 4) | (h.cc_fl & 0x0F));
  p[17] = 0;
  base::store_be16(p + 18, h.tx_timestamp);
  return kNethBytes;
}

}  // namespace mrc::wire
