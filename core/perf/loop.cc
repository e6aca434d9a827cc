// How the loop sleeps.
#include "perf/loop.h"

#include <poll.h>

#include <algorithm>

namespace mrc::perf {

using base::Duration;

void Loop::arm(engine::Endpoint& e) {
  notified_.clear();
  e.take_notified_cqs(notified_);
  (void)e.req_notify_cq(cq_, false);
}

void Loop::pause(Duration most) {
  const Duration wait = std::max(most, Duration{});
  if (!own_thread_) return driver_.progress(wait);
  pollfd p{driver_.event_fd(), POLLIN, 0};
  const timespec t{static_cast<time_t>(wait.ns / 1'000'000'000), static_cast<long>(wait.ns % 1'000'000'000)};
  if (ppoll(&p, 1, &t, nullptr) > 0) driver_.drain_event_fd();
}

}  // namespace mrc::perf
