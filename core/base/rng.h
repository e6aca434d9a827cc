// Seeded pseudo-random numbers (SplitMix64). The engine's only source of randomness.
#pragma once

#include <cstdint>

namespace mrc::base {

class Rng {
 public:
  explicit constexpr Rng(uint64_t seed) : state_(seed) {}

  constexpr uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  // Uniform in [0, n); n = 0 yields 0. The multiply-shift bias is below 2^-32 for 32-bit n.
  constexpr uint32_t below(uint32_t n) {
    return static_cast<uint32_t>((static_cast<uint64_t>(static_cast<uint32_t>(next() >> 32)) * n) >> 32);
  }
  // True with probability ppm / 1e6.
  constexpr bool chance_ppm(uint32_t ppm) { return ppm != 0 && below(1'000'000) < ppm; }
  // An independent stream for a child object.
  constexpr Rng fork() { return Rng(next()); }

 private:
  uint64_t state_;
};

}  // namespace mrc::base
