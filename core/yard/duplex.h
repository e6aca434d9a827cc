// Both ways at once: one thread and one connected socket an end, one loop that receives and sends. Decides
// what an event loop without a protocol reaches; every run carries the count of runs received,
// acknowledgements of their own go out only when there is nothing else to send.
#pragma once

#include <functional>

#include "yard/stream.h"

namespace mrc::yard {

struct DuplexConfig {
  Target at, to;
  uint32_t payload = 4160, segments = 15;
  uint32_t window = 8;  // runs in flight
  uint64_t cold_bytes = 0;
  bool spin = false;
  double warm_up = 0.3, seconds = 1;
  double linger = 0.5;  // goes on for the other end's measurement
  double patience = 10;
};

// Figures of what arrived here.
Figures run_duplex(const DuplexConfig& config, const std::function<void()>& ready);

}  // namespace mrc::yard
