// METH and TSETH, the headers MRC adds to every data packet (reference 2.4, 2.5).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace mrc::wire {

inline constexpr size_t kMethBytes = 4, kTsethBytes = 4;
inline constexpr uint8_t kFtypeNone = 0, kFtypeTimestamp = 1;

struct Meth {
  uint16_t rqmsn = 0, msn = 0;
  bool operator==(const Meth&) const = default;
};

constexpr bool parse_meth(base::ByteView b, Meth& out) {
  if (b.size() < kMethBytes) return false;
  out.rqmsn = base::load_be16(b.data());
  out.msn = base::load_be16(b.data() + 2);
  return true;
}
constexpr size_t emit_meth(const Meth& h, uint8_t* p) {
  base::store_be16(p, h.rqmsn);
  base::store_be16(p + 2, h.msn);
  return kMethBytes;
}

// tsr:1, reserved:11, ftype:4, as TSETH, PETH and ERTH end.
struct TimestampFlags {
  bool tsr = false;
  uint16_t reserved = 0;
  uint8_t ftype = kFtypeTimestamp;
};
constexpr TimestampFlags unpack_timestamp_flags(uint16_t v) {
  return {(v & 0x8000) != 0, static_cast<uint16_t>((v >> 4) & 0x07FF), static_cast<uint8_t>(v & 0x0F)};
}
constexpr uint16_t pack_timestamp_flags(TimestampFlags f) {
  return static_cast<uint16_t>((f.tsr ? 0x8000 : 0) | ((f.reserved & 0x07FF) << 4) | (f.ftype & 0x0F));
}

struct Tseth {
  uint16_t tx_timestamp = 0;
  bool tsr = false;
  uint16_t reserved = 0;
  uint8_t ftype = kFtypeTimestamp;
  // An unknown ftype means: no usable timestamp (2.5).
  [[nodiscard]] constexpr uint16_t echo() const {
    return ftype == kFtypeTimestamp ? tx_timestamp : uint16_t{0};
  }
  bool operator==(const Tseth&) const = default;
};

constexpr bool parse_tseth(base::ByteView b, Tseth& out) {
  if (b.size() < kTsethBytes) return false;
  const TimestampFlags f = unpack_timestamp_flags(base::load_be16(b.data() + 2));
  out = {base::load_be16(b.data()), f.tsr, f.reserved, f.ftype};
  return true;
}
constexpr size_t emit_tseth(const Tseth& h, uint8_t* p) {
  base::store_be16(p, h.tx_timestamp);
  base::store_be16(p + 2, pack_timestamp_flags({h.tsr, h.reserved, h.ftype}));
  return kTsethBytes;
}

}  // namespace mrc::wire
