// What a switch does to the bytes of a packet: cut it to its headers, or damage it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "wire/packet.h"

namespace mrc::impair {

// Keeps BTH and METH, and TSETH when BTH announces it (reference 3.3). Shorter packets stay as they are.
inline void trim_packet(base::ByteView bytes, std::vector<uint8_t>& out) {
  constexpr uint8_t kTsFlag = 0x10;  // BTH byte 8
  const size_t keep = wire::trimmed_bytes(bytes.size() > 8 && (bytes[8] & kTsFlag) != 0);
  const base::ByteView head = bytes.first(std::min(keep, bytes.size()));
  out.assign(head.begin(), head.end());
}

inline void corrupt(std::vector<uint8_t>& bytes, uint32_t bit) {
  if (bytes.empty()) return;
  const size_t at = bit % (bytes.size() * 8);
  bytes[at / 8] = static_cast<uint8_t>(bytes[at / 8] ^ (1u << (at % 8)));
}

}  // namespace mrc::impair
