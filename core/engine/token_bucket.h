// A rate limit in virtual time: `rate` events a second, bursts up to a tenth of a second.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace mrc::engine {

class TokenBucket {
 public:
  explicit TokenBucket(uint32_t per_second)
      : rate_(per_second), burst_(std::max<int64_t>(per_second / 10, 1)), tokens_(burst_) {}

  bool take(base::Instant now) {
    refill(now);
    if (tokens_ == 0) return false;
    --tokens_;
    return true;
  }

 private:
  void refill(base::Instant now) {
    if (rate_ == 0) return;
    const int64_t interval = 1'000'000'000 / rate_ > 0 ? 1'000'000'000 / rate_ : 1;
    const int64_t fresh = (now - last_).ns / interval;
    if (fresh <= 0) return;
    tokens_ = std::min(burst_, tokens_ + fresh);
    last_ = tokens_ == burst_ ? now : last_ + base::Duration{fresh * interval};
  }

  int64_t rate_, burst_, tokens_;
  base::Instant last_{};
};

}  // namespace mrc::engine
