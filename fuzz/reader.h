// Takes decisions from fuzzer bytes: numbers of fixed width and byte runs, zeros once the input is used up.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/bytes.h"

namespace mrc::fuzz {

class Reader {
 public:
  explicit Reader(base::ByteView bytes) : rest_(bytes) {}

  [[nodiscard]] bool empty() const { return rest_.empty(); }
  uint8_t u8() {
    if (rest_.empty()) return 0;
    const uint8_t v = rest_.front();
    rest_ = rest_.subspan(1);
    return v;
  }
  uint16_t u16() { return static_cast<uint16_t>(u8() << 8 | u8()); }
  uint32_t u32() { return uint32_t{u16()} << 16 | u16(); }
  base::ByteView take(size_t n) {
    const base::ByteView out = rest_.first(std::min(n, rest_.size()));
    rest_ = rest_.subspan(out.size());
    return out;
  }
  base::ByteView rest() { return take(rest_.size()); }

 private:
  base::ByteView rest_;
};

// Ends the process in every build type, so that a broken promise is a finding.
#define MRC_FUZZ_CHECK(expr)       \
  do {                             \
    if (!(expr)) __builtin_trap(); \
  } while (false)

}  // namespace mrc::fuzz
