// Probe and endpoint headers: PETH, ERTH, EETH (reference 2.12 to 2.14; D-03 for the op bits of EETH).
#pragma once

#include <cstring>
#include <optional>

#include "base/bytes.h"
#include "wire/ack_headers.h"

namespace mrc::wire {

inline constexpr uint8_t kOpPortStatus = 0, kOpEvProbe = 1;
inline constexpr unsigned kEethOpShift = 2;   // D-03: mask 0x0C; one source shifts by 4

// tx_timestamp, tsr and ftype as the last four bytes of PETH and ERTH.
struct TimeTail {
  static void parse(const uint8_t* p, uint16_t& stamp, bool& tsr, uint8_t& ftype) {
    stamp = base::load_be16(p);
    tsr = (p[2] & 0x80) != 0;
    ftype = p[3] & 0x0F;
  }
  static void emit(uint8_t* p, uint16_t stamp, bool tsr, uint8_t ftype) {
    base::store_be16(p, stamp);
    p[2] = tsr ? 0x80 : 0;
    p[3] = ftype & 0x0F;
  }
};

struct Peth {
  static constexpr size_t kSize = 16;
  uint8_t type = 0, nh = 0, vendor_info = 0;
  uint16_t probe_id = 0;
  uint16_t spdcid = 0, dpdcid = 0;
  uint16_t tx_timestamp = 0;
  bool tsr = false;
  uint8_t ftype = 1;

  bool operator==(const Peth&) const = default;
  static std::optional<Peth> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    Peth h;
    const TypeNh t = TypeNh::parse(b.data());
    h.type = t.type;
    h.nh = t.nh;
    h.vendor_info = b[3];
    h.probe_id = base::load_be16(&b[4]);
    h.spdcid = base::load_be16(&b[8]);
    h.dpdcid = base::load_be16(&b[10]);
    TimeTail::parse(&b[12], h.tx_timestamp, h.tsr, h.ftype);
    return h;
  }
  void emit(uint8_t* p) const {
    std::memset(p, 0, kSize);
    TypeNh{type, nh}.emit(p, 0);
    p[3] = vendor_info;
    base::store_be16(p + 4, probe_id);
    base::store_be16(p + 8, spdcid);
    base::store_be16(p + 10, dpdcid);
    TimeTail::emit(p + 12, tx_timestamp, tsr, ftype);
  }
};

struct Erth {
  static constexpr size_t kSize = 16;
  uint8_t type = 0, nh = 0;
  uint8_t op = 0;                  // 2 bits
  uint8_t vendor_info = 0;
  uint32_t port_status_mask = 0;
  uint16_t tx_timestamp = 0;
  bool tsr = false;
  uint8_t ftype = 1;

  bool operator==(const Erth&) const = default;
  static std::optional<Erth> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    Erth h;
    const TypeNh t = TypeNh::parse(b.data());
    h.type = t.type;
    h.nh = t.nh;
    h.op = b[1] & 3;
    h.vendor_info = b[3];
    h.port_status_mask = base::load_be32(&b[4]);
    TimeTail::parse(&b[12], h.tx_timestamp, h.tsr, h.ftype);
    return h;
  }
  void emit(uint8_t* p) const {
    std::memset(p, 0, kSize);
    TypeNh{type, nh}.emit(p, op & 3);
    p[3] = vendor_info;
    base::store_be32(p + 4, port_status_mask);
    TimeTail::emit(p + 12, tx_timestamp, tsr, ftype);
  }
};

struct Eeth {
  static constexpr size_t kSize = 36;
  uint8_t type = 0, nh = 0;
  uint8_t op = 0;                  // 2 bits
  uint16_t tx_timestamp = 0;

  bool operator==(const Eeth&) const = default;
  static std::optional<Eeth> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    Eeth h;
    const TypeNh t = TypeNh::parse(b.data());
    h.type = t.type;
    h.nh = t.nh;
    h.op = (b[1] >> kEethOpShift) & 3;
    h.tx_timestamp = base::load_be16(&b[28]);
    return h;
  }
  void emit(uint8_t* p) const {
    std::memset(p, 0, kSize);
    TypeNh{type, nh}.emit(p, static_cast<uint8_t>((op & 3) << kEethOpShift));
    base::store_be16(p + 28, tx_timestamp);
  }
};

}  // namespace mrc::wire
