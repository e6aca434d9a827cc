// ERTH and EETH, the connectionless endpoint operations on QPN 2 (reference 2.13, 2.14).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "wire/mrc_headers.h"
#include "wire/sack.h"

namespace mrc::wire {

inline constexpr size_t kErthBytes = 16, kEethBytes = 36;
inline constexpr uint8_t kOpPortStatus = 0, kOpEvProbe = 1;
// D-03: where the op sits in byte 1 of EETH.
inline constexpr unsigned kEethOpShift = 2;

struct Erth {
  uint8_t type = 0, nh = 0;
  uint8_t op = 0;
  uint8_t vendor_info = 0;
  uint32_t port_status_mask = 0;
  uint16_t tx_timestamp = 0;
  bool tsr = false;
  uint8_t ftype = kFtypeTimestamp;
  bool operator==(const Erth&) const = default;
};

constexpr bool parse_erth(base::ByteView b, Erth& out) {
  if (b.size() < kErthBytes) return false;
  const uint8_t* p = b.data();
  const HeaderStart s = unpack_header_start(p);
  const TimestampFlags f = unpack_timestamp_flags(base::load_be16(p + 14));
  out.type = s.type;
  out.nh = s.nh;
  out.op = p[1] & 3;
  out.vendor_info = p[3];
  out.port_status_mask = base::load_be32(p + 4);
  out.tx_timestamp = base::load_be16(p + 12);
  out.tsr = f.tsr;
  out.ftype = f.ftype;
  return true;
}
constexpr size_t emit_erth(const Erth& h, uint8_t* p) {
  pack_header_start({h.type, h.nh}, h.op & 3, p);
  p[2] = 0;
  p[3] = h.vendor_info;
  base::store_be32(p + 4, h.port_status_mask);
  base::store_be32(p + 8, 0);
  base::store_be16(p + 12, h.tx_timestamp);
  base::store_be16(p + 14, pack_timestamp_flags({h.tsr, 0, h.ftype}));
  return kErthBytes;
}

struct Eeth {
  uint8_t type = 0, nh = 0;
  uint8_t op = 0;  // informative: responses are matched by request id (2.14)
  uint16_t tx_timestamp = 0;
  bool operator==(const Eeth&) const = default;
};

constexpr bool parse_eeth(base::ByteView b, Eeth& out) {
  if (b.size() < kEethBytes) return false;
  const uint8_t* p = b.data();
  const HeaderStart s = unpack_header_start(p);
  out = {s.type, s.nh, static_cast<uint8_t>((p[1] >> kEethOpShift) & 3), base::load_be16(p + 28)};
  return true;
}
constexpr size_t emit_eeth(const Eeth& h, uint8_t* p) {
  std::fill_n(p, kEethBytes, uint8_t{0});
  pack_header_start({h.type, h.nh}, static_cast<uint8_t>((h.op & 3) << kEethOpShift), p);
  base::store_be16(p + 28, h.tx_timestamp);
  return kEethBytes;
}

}  // namespace mrc::wire
