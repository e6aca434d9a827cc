// CONTRACT SKETCH. An entropy value as the controller API holds it: 32 bytes in network order
// (reference 12.3, D-19) and how it becomes a 32-bit wire tag (4.1, 4.3).
#pragma once

#include <array>
#include <cstdint>

namespace mrc::ev {

struct EvValue {
  std::array<uint8_t, 32> bytes{};
  bool operator==(const EvValue&) const = default;
};
// First 4 bytes, network order.
EvValue ev_from_u32(uint32_t v);
uint32_t ev_to_u32(const EvValue& v);

}  // namespace mrc::ev
