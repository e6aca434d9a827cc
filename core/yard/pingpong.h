// Round trip of one datagram between two processes. Decides how a bare program waits (asleep in the kernel,
// or polling); leaves pinning to its caller.
#pragma once

#include <functional>

#include "yard/socket.h"

namespace mrc::yard {

struct PongConfig {
  Target at;
  bool spin = false;
  double seconds = 10;  // answers for this long, or until it heard nothing for a second after the first one
};

struct PingConfig {
  Target to;
  uint32_t bytes = 64;         // 16 to 1400
  uint32_t iterations = 2000;  // 1 to 10,000,000, after a tenth of them (500 at most) unmeasured
  bool spin = false;
  double seconds = 10;  // no longer than this
};

struct RoundTrips {
  uint64_t count = 0, lost = 0;  // lost: no answer within 0.1 s
  double min_us = 0, p50_us = 0, p90_us = 0, p99_us = 0, p999_us = 0, max_us = 0;
};

// Calls `ready` once bound; returns the number of answers.
uint64_t answer_pings(const PongConfig& config, const std::function<void()>& ready);
RoundTrips measure_pings(const PingConfig& config);

}  // namespace mrc::yard
