// SETH and CC_STATE of a reliability SACK (reference 2.9, 2.10).
// Decides the layout; leaves which PSNs a SACK speaks of, and what m means for a path, to reliability/ and
// ev/.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace mrc::wire {

inline constexpr size_t kSethBytes = 28, kCcStateBytes = 8;
inline constexpr uint8_t kCcTypeNscc = 0;

// type:4 and nh:5, the start of SETH, NETH, PETH, ERTH and EETH.
struct HeaderStart {
  uint8_t type = 0, nh = 0;
};
constexpr HeaderStart unpack_header_start(const uint8_t* p) {
  return {static_cast<uint8_t>(p[0] >> 4), static_cast<uint8_t>(((p[0] & 0x0F) << 1) | (p[1] >> 7))};
}
// Sets byte 0 and bit 7 of byte 1; the rest of byte 1 becomes `low`.
constexpr void pack_header_start(HeaderStart h, uint8_t low, uint8_t* p) {
  p[0] = static_cast<uint8_t>((h.type << 4) | ((h.nh >> 1) & 0x0F));
  p[1] = static_cast<uint8_t>(((h.nh & 1) << 7) | (low & 0x7F));
}

struct Seth {
  uint8_t type = 0, nh = 0;
  uint8_t m = 0;  // path feedback: 0 NONE, 1 SKIP_ONCE, 2 ALWAYS_SKIP
  bool pr = false;
  int16_t ack_psn_offset = 0;  // pr = 0 only
  uint16_t probe_id = 0;       // pr = 1 only, same bytes
  uint32_t entropy = 0;
  uint16_t spdcid = 0, dpdcid = 0;
  uint32_t cack_psn = 0;
  uint8_t cc_type = kCcTypeNscc, cc_fl = 0, mpr = 0;
  int16_t sack_offset = 0;
  uint64_t sack_bitmap = 0;  // bit i: PSN cack_psn + sack_offset + i
  bool operator==(const Seth&) const = default;
};

constexpr bool parse_seth(base::ByteView b, Seth& out) {
  if (b.size() < kSethBytes) return false;
  const uint8_t* p = b.data();
  const HeaderStart s = unpack_header_start(p);
  out.type = s.type;
  out.nh = s.nh;
  out.m = (p[1] >> 5) & 3;
  out.pr = (p[1] & 0x02) != 0;
  const uint16_t v = base::load_be16(p + 2);
  out.ack_psn_offset = out.pr ? int16_t{0} : static_cast<int16_t>(v);
  out.probe_id = out.pr ? v : uint16_t{0};
  out.entropy = base::load_be32(p + 4);
  out.spdcid = base::load_be16(p + 8);
  out.dpdcid = base::load_be16(p + 10);
  out.cack_psn = base::load_be24(p + 13);
  out.cc_type = p[16] >> 4;
  out.cc_fl = p[16] & 0x0F;
  out.mpr = p[17];
  out.sack_offset = static_cast<int16_t>(base::load_be16(p + 18));
  out.sack_bitmap = base::load_be64(p + 20);
  return true;
}

constexpr size_t emit_seth(const Seth& h, uint8_t* p) {
  pack_header_start({h.type, h.nh}, static_cast<uint8_t>(((h.m & 3) << 5) | (h.pr ? 0x02 : 0)), p);
  base::store_be16(p + 2, h.pr ? h.probe_id : static_cast<uint16_t>(h.ack_psn_offset));
  base::store_be32(p + 4, h.entropy);
  base::store_be16(p + 8, h.spdcid);
  base::store_be16(p + 10, h.dpdcid);
  p[12] = 0;
  base::store_be24(p + 13, h.cack_psn);
  p[16] = static_cast<uint8_t>((h.cc_type << 4) | (h.cc_fl & 0x0F));
  p[17] = h.mpr;
  base::store_be16(p + 18, static_cast<uint16_t>(h.sack_offset));
  base::store_be64(p + 20, h.sack_bitmap);
  return kSethBytes;
}

struct CcState {
  uint16_t tx_timestamp = 0;
  uint16_t ooo_count = 0;  // 15 bits
  bool restore_cwnd = false;
  uint8_t rcv_cwnd_pen = 0;  // 7 bits
  uint32_t rcvd_bytes = 0;   // 24 bits, unit 256 bytes
  bool operator==(const CcState&) const = default;
};

constexpr bool parse_cc_state(base::ByteView b, CcState& out) {
  if (b.size() < kCcStateBytes) return false;
  const uint8_t* p = b.data();
  out.tx_timestamp = base::load_be16(p);
  out.ooo_count = base::load_be16(p + 2) & 0x7FFF;
  out.restore_cwnd = (p[4] & 0x80) != 0;
  out.rcv_cwnd_pen = p[4] & 0x7F;
  out.rcvd_bytes = base::load_be24(p + 5);
  return true;
}
constexpr size_t emit_cc_state(const CcState& h, uint8_t* p) {
  base::store_be16(p, h.tx_timestamp);
  base::store_be16(p + 2, h.ooo_count & 0x7FFF);
  p[4] = static_cast<uint8_t>((h.restore_cwnd ? 0x80 : 0) | (h.rcv_cwnd_pen & 0x7F));
  base::store_be24(p + 5, h.rcvd_bytes);
  return kCcStateBytes;
}

}  // namespace mrc::wire
