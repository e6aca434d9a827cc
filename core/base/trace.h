// A running 64-bit digest (FNV-1a) of what the engine did. Equal seeds must give equal digests;
// recording costs a few multiplications and never allocates.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace mrc::base {

class TraceDigest {
 public:
  template <typename... Ts>
  constexpr void record(Instant now, uint8_t kind, Ts... values) {
    mix(static_cast<uint64_t>(now.ns));
    mix(kind);
    (mix(static_cast<uint64_t>(values)), ...);
    ++records_;
  }
  [[nodiscard]] constexpr uint64_t digest() const { return hash_; }
  [[nodiscard]] constexpr uint64_t records() const { return records_; }

 private:
  constexpr void mix(uint64_t v) { hash_ = (hash_ ^ v) * 0x100000001b3ULL + (hash_ >> 47); }
  uint64_t hash_ = 0xcbf29ce484222325ULL;
  uint64_t records_ = 0;
};

}  // namespace mrc::base
