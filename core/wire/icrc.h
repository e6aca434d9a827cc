// The invariant CRC (reference 2.16): which bytes it covers, which are masked, and the CRC-32 itself.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "wire/meta.h"

namespace mrc::wire {

// Running CRC-32 (reflected 0xEDB88320). Start with kCrcInit, finish with ~state.
inline constexpr uint32_t kCrcInit = 0xFFFFFFFF;
uint32_t crc32_update(uint32_t state, base::ByteView bytes);
// The same by table only, and whether this CPU takes the carry-less multiply path instead.
uint32_t crc32_update_portable(uint32_t state, base::ByteView bytes);
bool crc32_accelerated();

// iCRC over the pseudo header of `meta` and head | payload | pad zero bytes. `head` starts with BTH. The UDP length is
// derived: 8 + head + payload + pad + 4. IPv4: identification 0 and DF, what an unconnected Linux socket sends with
// path MTU discovery on.
uint32_t icrc(const DatagramMeta& meta, base::ByteView head, base::ByteView payload, uint8_t pad);

// The value travels least significant byte first.
inline void store_icrc(uint8_t* p, uint32_t v) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<uint8_t>(v >> (8 * i));
}
inline uint32_t load_icrc(const uint8_t* p) {
  return p[0] | (uint32_t{p[1]} << 8) | (uint32_t{p[2]} << 16) | (uint32_t{p[3]} << 24);
}

// Same, with the IPv4 identification and fragment word as they stand in a captured frame.
uint32_t icrc_v4(const DatagramMeta& meta, uint16_t identification, uint16_t flags, base::ByteView ib);

}  // namespace mrc::wire
