// Random and mutated packets for the decoder, and a count of what became of them.
// Decides what is thrown; leaves the running to the wire_fuzz tool and the bindings.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "wire/drop.h"

namespace mrc::wire {

struct FuzzCounts {
  // By DropReason; index 0 counts packets that are kept.
  std::array<uint64_t, static_cast<size_t>(DropReason::count_)> by_reason{};
  uint64_t trimmed = 0;  // of the kept ones: took the trim path
};

// Throws `n` packets at parse_frame, parse_datagram, parse_ib and parse_trimmed. `corpus` holds frames from
// the IP header on; well-formed frames of every opcode and carrier are made in addition.
FuzzCounts fuzz_decoder(uint64_t seed, uint64_t n, const std::vector<std::vector<uint8_t>>& corpus);

}  // namespace mrc::wire
