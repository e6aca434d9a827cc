// RETH, in every data packet, and ImmDt (reference 2.6, 2.7).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace mrc::wire {

inline constexpr size_t kRethBytes = 16, kImmDtBytes = 4;

struct Reth {
  uint64_t va = 0;  // where the payload of this packet goes
  uint32_t r_key = 0;
  uint32_t dmalen = 0;  // length of the whole message
  bool operator==(const Reth&) const = default;
};

constexpr bool parse_reth(base::ByteView b, Reth& out) {
  if (b.size() < kRethBytes) return false;
  out = {base::load_be64(b.data()), base::load_be32(b.data() + 8), base::load_be32(b.data() + 12)};
  return true;
}
constexpr size_t emit_reth(const Reth& h, uint8_t* p) {
  base::store_be64(p, h.va);
  base::store_be32(p + 8, h.r_key);
  base::store_be32(p + 12, h.dmalen);
  return kRethBytes;
}

struct ImmDt {
  uint32_t imm = 0;
  bool operator==(const ImmDt&) const = default;
};

constexpr bool parse_immdt(base::ByteView b, ImmDt& out) {
  if (b.size() < kImmDtBytes) return false;
  out.imm = base::load_be32(b.data());
  return true;
}
constexpr size_t emit_immdt(const ImmDt& h, uint8_t* p) {
  base::store_be32(p, h.imm);
  return kImmDtBytes;
}

}  // namespace mrc::wire
