// Base transport header, 12 bytes, as MRC uses it (reference 2.3; D-02 for the order of se and m).
#pragma once

#include <optional>

#include "base/bytes.h"

namespace mrc::wire {

struct Bth {
  static constexpr size_t kSize = 12;

  uint8_t opcode = 0;
  bool se = false, m = false;
  uint8_t pad = 0, tver = 0;       // 2 and 4 bits
  uint16_t p_key = 0xFFFF;
  uint8_t var_res = 0;
  uint32_t dqp = 0;                // 24 bits
  bool a = false, r = false, rtx = false, ts = false;
  uint8_t inv_res = 0;             // 4 bits
  uint32_t psn = 0;                // 24 bits

  bool operator==(const Bth&) const = default;
  static std::optional<Bth> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    Bth h;
    h.opcode = b[0];
    h.se = (b[1] & 0x80) != 0;
    h.m = (b[1] & 0x40) != 0;
    h.pad = (b[1] >> 4) & 3;
    h.tver = b[1] & 0x0F;
    h.p_key = base::load_be16(&b[2]);
    h.var_res = b[4];
    h.dqp = base::load_be24(&b[5]);
    h.a = (b[8] & 0x80) != 0;
    h.r = (b[8] & 0x40) != 0;
    h.rtx = (b[8] & 0x20) != 0;
    h.ts = (b[8] & 0x10) != 0;
    h.inv_res = b[8] & 0x0F;
    h.psn = base::load_be24(&b[9]);
    return h;
  }
  void emit(uint8_t* p) const {
    p[0] = opcode;
    p[1] = static_cast<uint8_t>((se ? 0x80 : 0) | (m ? 0x40 : 0) | ((pad & 3) << 4) | (tver & 0x0F));
    base::store_be16(p + 2, p_key);
    p[4] = var_res;
    base::store_be24(p + 5, dqp);
    p[8] = static_cast<uint8_t>((a ? 0x80 : 0) | (r ? 0x40 : 0) | (rtx ? 0x20 : 0) | (ts ? 0x10 : 0) | (inv_res & 0x0F));
    base::store_be24(p + 9, psn);
  }
};

inline constexpr uint32_t kEndpointQpn = 2;

// Low 15 bits equal and at least one side a full member (IBTA; reference 2.17 check 10).
constexpr bool pkey_matches(uint16_t a, uint16_t b) { return ((a ^ b) & 0x7FFF) == 0 && ((a | b) & 0x8000) != 0; }

}  // namespace mrc::wire
