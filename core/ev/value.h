// An entropy value as the controller API holds it (32 bytes, network order; reference 12.3, D-19) and the 32-bit wire
// tag that the peer reflects (4.1, 4.3).
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace mrc::ev {

struct EvValue {
  std::array<uint8_t, 32> bytes{};
  bool operator==(const EvValue&) const = default;
};

// UDP and STEV: the value is its own tag, in the first four bytes.
inline EvValue ev_from_u32(uint32_t v) {
  EvValue e;
  base::store_be32(e.bytes.data(), v);
  return e;
}
inline uint32_t ev_to_u32(const EvValue& v) { return base::load_be32(v.bytes.data()); }

// SRv6 values are wider than the wire: a tag that names port and position in the profile's array stands for them.
constexpr uint32_t tag_of_index(uint8_t port, uint32_t index) { return (uint32_t{port} << 24) | (index & 0xFFFFFF); }

}  // namespace mrc::ev
