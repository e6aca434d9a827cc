// The one clock of the product: CLOCK_MONOTONIC, the same for all processes of a host.
#pragma once

#include <time.h>

#include "base/time.h"

namespace mrc::net {

inline base::Instant monotonic_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return base::Instant{int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec};
}

}  // namespace mrc::net
