// An entropy value as the controller API holds it (32 bytes, network order; reference 12.3, D-19) and the
// 32-bit wire tag that the peer reflects (4.1, 4.3).
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>

#include "base/bytes.h"
#include "ev/format.h"

namespace mrc::ev {

struct EvValue {
  std::array<uint8_t, 32> bytes{};
  auto operator<=>(const EvValue&) const = default;
  [[nodiscard]] bool is_zero() const {
    return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
  }
};

// An EV as the controller names it. Unpopulated: all zero and port 0.
struct EvEntry {
  EvValue value;
  uint8_t port = 0;  // 1-based
  auto operator<=>(const EvEntry&) const = default;
  [[nodiscard]] bool populated() const { return port != 0 || !value.is_zero(); }
};

// STEV: the value is its own tag, in the first four bytes.
inline EvValue ev_from_u32(uint32_t v) {
  EvValue e;
  base::store_be32(e.bytes.data(), v);
  return e;
}
inline uint32_t ev_to_u32(const EvValue& v) { return base::load_be32(v.bytes.data()); }

// UDP: a packet value has 16 bits and starts at the first bit like every other (4.4), so it fills two bytes.
inline EvValue ev_from_u16(uint16_t v) {
  EvValue e;
  base::store_be16(e.bytes.data(), v);
  return e;
}
inline uint16_t ev_to_u16(const EvValue& v) { return base::load_be16(v.bytes.data()); }

// SRv6 values are wider than the wire: a tag that names port and position in the profile's array stands for
// them.
constexpr uint32_t tag_of_index(uint8_t port, uint32_t index) {
  return (uint32_t{port} << 24) | (index & 0xFFFFFF);
}

// The tag of a packet value. `native`: a format whose SRv6 address comes from a template has 32-bit EVs of
// its own (4.5).
inline uint32_t wire_tag(FormatMode mode, bool native, const EvValue& v, uint8_t port, uint32_t index) {
  if (mode == FormatMode::udp) return ev_to_u16(v);
  return mode == FormatMode::stev || native ? ev_to_u32(v) : tag_of_index(port, index);
}

}  // namespace mrc::ev
