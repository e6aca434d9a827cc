// AETH of Transport ACK and NAK (reference 2.8).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace mrc::wire {

inline constexpr size_t kAethBytes = 4;
inline constexpr uint8_t kAethAck = 0x1F;  // code 000, credit count "not valid"
inline constexpr uint8_t kNakInvalidRequest = 0x61, kNakRemoteAccess = 0x62, kNakRemoteOperation = 0x63;

struct Aeth {
  uint8_t syndrome = 0;
  uint32_t msn = 0;  // 24 bits
  bool operator==(const Aeth&) const = default;
};

constexpr bool parse_aeth(base::ByteView b, Aeth& out) {
  if (b.size() < kAethBytes) return false;
  out = {b[0], base::load_be24(b.data() + 1)};
  return true;
}
constexpr size_t emit_aeth(const Aeth& h, uint8_t* p) {
  p[0] = h.syndrome;
  base::store_be24(p + 1, h.msn);
  return kAethBytes;
}

}  // namespace mrc::wire
