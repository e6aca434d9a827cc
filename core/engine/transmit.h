// The bytes that end a datagram: pad and iCRC of a Transmit (reference 2.3, 2.16).
#pragma once

#include "engine/types.h"

namespace mrc::engine {

struct Trailer {
  uint8_t bytes[7];
  uint8_t length;
};  // pad zero bytes, then the iCRC
// Reads head and payload once. With `elided` payload (simulator) the driver does not call this.
Trailer finish(const Transmit& t, const uint8_t* head, wire::PrefixCache* cache = nullptr);

}  // namespace mrc::engine
