// Serial-number arithmetic for PSN (24 bits), MSN and RQMSN (16 bits); reference 0.4.
// Decides how wrapped numbers compare; leaves windows to reliability/.
#pragma once

#include <cstdint>

namespace mrc::base {

template <unsigned Bits>
struct Serial {
  static constexpr uint32_t kMask = (uint32_t{1} << Bits) - 1;
  static constexpr uint32_t kHalf = uint32_t{1} << (Bits - 1);

  uint32_t value = 0;

  constexpr Serial() = default;
  constexpr explicit Serial(uint32_t v) : value(v & kMask) {}

  constexpr bool operator==(const Serial&) const = default;
  constexpr Serial operator+(int32_t d) const { return Serial(value + static_cast<uint32_t>(d)); }
  constexpr Serial operator-(int32_t d) const { return Serial(value - static_cast<uint32_t>(d)); }
  constexpr Serial& operator++() { return *this = *this + 1; }

  // Signed distance this - other in [-2^(Bits-1), 2^(Bits-1)). The value -2^(Bits-1) is the
  // "impossible" case of reference 6.2.
  [[nodiscard]] constexpr int32_t minus(Serial other) const {
    const uint32_t d = (value - other.value) & kMask;
    return d >= kHalf ? static_cast<int32_t>(d) - static_cast<int32_t>(kMask) - 1 : static_cast<int32_t>(d);
  }
  // True when this comes strictly before other in serial order.
  [[nodiscard]] constexpr bool before(Serial other) const { return other.minus(*this) > 0; }
};

using Psn = Serial<24>;
using Msn = Serial<16>;

}  // namespace mrc::base
