// PETH of a reliability probe (reference 2.12). The answer is a SACK with pr = 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "wire/mrc_headers.h"
#include "wire/sack.h"

namespace mrc::wire {

inline constexpr size_t kPethBytes = 16;

struct Peth {
  uint8_t type = 0, nh = 0;
  uint8_t vendor_info = 0;
  uint16_t probe_id = 0;
  uint16_t spdcid = 0, dpdcid = 0;
  uint16_t tx_timestamp = 0;
  bool tsr = false;
  uint8_t ftype = kFtypeTimestamp;
  bool operator==(const Peth&) const = default;
};

constexpr bool parse_peth(base::ByteView b, Peth& out) {
  if (b.size() < kPethBytes) return false;
  const uint8_t* p = b.data();
  const HeaderStart s = unpack_header_start(p);
  const TimestampFlags f = unpack_timestamp_flags(base::load_be16(p + 14));
  out.type = s.type;
  out.nh = s.nh;
  out.vendor_info = p[3];
  out.probe_id = base::load_be16(p + 4);
  out.spdcid = base::load_be16(p + 8);
  out.dpdcid = base::load_be16(p + 10);
  out.tx_timestamp = base::load_be16(p + 12);
  out.tsr = f.tsr;
  out.ftype = f.ftype;
  return true;
}
constexpr size_t emit_peth(const Peth& h, uint8_t* p) {
  pack_header_start({h.type, h.nh}, 0, p);
  p[2] = 0;
  p[3] = h.vendor_info;
  base::store_be16(p + 4, h.probe_id);
  base::store_be16(p + 6, 0);
  base::store_be16(p + 8, h.spdcid);
  base::store_be16(p + 10, h.dpdcid);
  base::store_be16(p + 12, h.tx_timestamp);
  base::store_be16(p + 14, pack_timestamp_flags({h.tsr, 0, h.ftype}));
  return kPethBytes;
}

}  // namespace mrc::wire
