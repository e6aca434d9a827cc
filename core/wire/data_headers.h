// Extension headers of data packets: METH, TSETH, RETH, ImmDt (reference 2.4 to 2.7).
#pragma once

#include <optional>

#include "base/bytes.h"

namespace mrc::wire {

struct Meth {
  static constexpr size_t kSize = 4;
  uint16_t rqmsn = 0, msn = 0;

  bool operator==(const Meth&) const = default;
  static std::optional<Meth> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    return Meth{base::load_be16(&b[0]), base::load_be16(&b[2])};
  }
  void emit(uint8_t* p) const {
    base::store_be16(p, rqmsn);
    base::store_be16(p + 2, msn);
  }
};

struct Tseth {
  static constexpr size_t kSize = 4;
  uint16_t tx_timestamp = 0;
  bool tsr = false;
  uint16_t reserved = 0;   // 11 bits
  uint8_t ftype = 1;       // 4 bits

  bool operator==(const Tseth&) const = default;
  static std::optional<Tseth> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    Tseth h;
    h.tx_timestamp = base::load_be16(&b[0]);
    const uint16_t w = base::load_be16(&b[2]);
    h.tsr = (w & 0x8000) != 0;
    h.reserved = (w >> 4) & 0x7FF;
    h.ftype = w & 0x0F;
    return h;
  }
  void emit(uint8_t* p) const {
    base::store_be16(p, tx_timestamp);
    base::store_be16(p + 2, static_cast<uint16_t>((tsr ? 0x8000 : 0) | ((reserved & 0x7FF) << 4) | (ftype & 0x0F)));
  }
};

struct Reth {
  static constexpr size_t kSize = 16;
  uint64_t va = 0;          // of this packet's payload
  uint32_t r_key = 0;
  uint32_t dmalen = 0;      // of the whole message

  bool operator==(const Reth&) const = default;
  static std::optional<Reth> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    return Reth{base::load_be64(&b[0]), base::load_be32(&b[8]), base::load_be32(&b[12])};
  }
  void emit(uint8_t* p) const {
    base::store_be64(p, va);
    base::store_be32(p + 8, r_key);
    base::store_be32(p + 12, dmalen);
  }
};

struct ImmDt {
  static constexpr size_t kSize = 4;
  uint32_t imm = 0;

  bool operator==(const ImmDt&) const = default;
  static std::optional<ImmDt> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    return ImmDt{base::load_be32(&b[0])};
  }
  void emit(uint8_t* p) const { base::store_be32(p, imm); }
};

}  // namespace mrc::wire
