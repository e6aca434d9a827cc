// 16-bit floats in plain integer arithmetic: what the vector instructions do, for processors without them,
// and for bf16 everywhere (loops over these become vector code).
#pragma once

#include <bit>
#include <cstdint>

namespace mrc::coll {

inline float bf16_to_float(uint16_t h) { return std::bit_cast<float>(uint32_t{h} << 16); }

// Nearest even; every NaN becomes the quiet one.
inline uint16_t bf16_from_float(float f) {
  const auto u = std::bit_cast<uint32_t>(f);
  const uint32_t rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((u & 0x7FFF'FFFFu) > 0x7F80'0000u ? 0x7FC0u : rounded);
}

inline float half_to_float(uint16_t h) {
  const uint32_t sign = (uint32_t{h} & 0x8000u) << 16;
  const uint32_t rest = uint32_t{h} & 0x7FFFu;
  if (rest >= 0x7C00u) {  // infinity, or a NaN made quiet
    const uint32_t quiet = rest > 0x7C00u ? 0x40'0000u : 0u;
    return std::bit_cast<float>(sign | 0x7F80'0000u | ((rest & 0x3FFu) << 13) | quiet);
  }
  if (rest < 0x400u) {  // subnormal: a whole number of 2^-24
    const float f = static_cast<float>(rest) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(f) | sign);
  }
  return std::bit_cast<float>(sign | ((rest << 13) + ((127u - 15u) << 23)));
}

inline uint16_t half_from_float(float f) {
  const auto u = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (u >> 16) & 0x8000u;
  const uint32_t rest = u & 0x7FFF'FFFFu;
  uint32_t h = 0;
  if (rest > 0x7F80'0000u) {
    h = 0x7E00u | ((rest >> 13) & 0x3FFu);
  } else if (rest >= 0x477F'F000u) {  // rounds beyond 65504
    h = 0x7C00u;
  } else if (rest < 0x3880'0000u) {  // subnormal: adding 0.5 leaves the bits in place, rounded
    const float shifted = std::bit_cast<float>(rest) + 0.5f;
    h = std::bit_cast<uint32_t>(shifted) - 0x3F00'0000u;
  } else {
    h = (rest + 0xFFFu + ((rest >> 13) & 1u) - ((127u - 15u) << 23)) >> 13;
  }
  return static_cast<uint16_t>(sign | h);
}

}  // namespace mrc::coll
