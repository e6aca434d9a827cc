// How the loop waits between its turns: it sleeps in the kernel, or looks again for a while. Decides what a
// look is: all descriptors, or a read of the only plane there is. What arrived is handed over by
// read_planes().
#include <sys/epoll.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/driver_impl.h"

namespace mrc::net {

using base::Duration;
using base::Instant;

namespace {

// Nanosecond timeouts where the kernel has them (5.11), rounded up to milliseconds where it has not.
int epoll_until(int epoll, std::span<epoll_event> ready, Instant now, Instant until) {
  const int64_t left = until.is_never() ? -1 : std::max<int64_t>((until - now).ns, 0);
#ifdef SYS_epoll_pwait2
  static std::atomic<bool> missing{false};
  if (!missing.load(std::memory_order_relaxed)) {
    const timespec t{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
    const long n = syscall(SYS_epoll_pwait2, epoll, ready.data(), static_cast<int>(ready.size()),
                           left < 0 ? nullptr : &t, nullptr, 0);
    if (n >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(n);
    missing = true;
  }
#endif
  const auto ms = left < 0 ? -1 : static_cast<int>(std::min<int64_t>((left + 999'999) / 1'000'000, 60'000));
  return epoll_wait(epoll, ready.data(), static_cast<int>(ready.size()), ms);
}

}  // namespace

void Driver::Impl::wait(Instant began, Instant until, int64_t gaps) {
  Instant spin_until{};
  uint64_t before = 0;
  {
    const std::lock_guard lock(loop);
    before = wakeups;
    // Looking again for a moment is cheaper than being woken, while packets follow each other that closely.
    if (usual_gap * gaps <= config.spin) spin_until = busy_until;
  }
  const bool may_read = config.planes.size() == 1;
  Instant now = began;
  Ready ready;
  int n = 0;
  uint64_t looks = 0;
  bool found = false;
  // Looked at first: the turn before may have taken the wake-up of close() with it.
  while (!stop.load() && n == 0) {
    ++looks;
    const bool again = now < spin_until;
    if (again && may_read && (before + looks) % kLooksAnEpoll != 0) {
      found = look_by_reading();
    } else {
      n = epoll_until(epoll.get(), ready, now, until <= now || again ? now : until);
    }
    now = monotonic_now();
    // Whoever gave a command while we looked has set `sleeping` back, and may not have reached the
    // descriptor.
    if (now >= until || found || !sleeping.load()) break;
  }
  const int error = n < 0 ? errno : 0;
  sleeping.store(false);
  {
    const std::lock_guard lock(loop);
    wakeups += looks;
    if (until > began) {
      const Duration gap = std::min(now - began, config.spin * 4);
      usual_gap = usual_gap + (gap - usual_gap) / 8;
    }
    absorb(ready, n);
  }
  if (error != 0 && error != EINTR) return die(std::string("epoll: ") + std::strerror(error));
}

bool Driver::Impl::look_by_reading() {
  const std::lock_guard lock(loop);
  if (stop.load() || fetched.plane == 0) return true;
  // A short message that comes alone is worth the call that would only find that it does; where they follow
  // each other, that call brings all of them.
  fetch(0, fetched_at_once < kSingles && last_was_short && sent_little.load() ? 1 : RxBatch::kMessages);
  if (fetched.messages == 0) {
    fetched.plane = kNoPlane;
    fetched_at_once = 0;
    return false;
  }
  ++fetched_at_once;
  readable |= 1u;
  return true;
}

void Driver::Impl::fetch(size_t i, size_t most) {
  batch.clear();
  fetched.plane = i;
  fetched.dropped = 0;
  fetched.messages = planes[i].receive(rx, batch, fetched.dropped, most);
  last_was_short =
      fetched.messages == 0 ? last_was_short : !batch.empty() && batch.back().bytes.size() <= kShort;
}

void Driver::Impl::look_now() {
  Ready ready;
  const int n = epoll_until(epoll.get(), ready, Instant{}, Instant{});
  ++wakeups;
  absorb(ready, n);
}

void Driver::Impl::absorb(const Ready& ready, int n) {
  for (int i = 0; i < n; ++i) {
    const uint32_t tag = ready[static_cast<size_t>(i)].data.u32;
    if (tag < planes.size()) {
      readable |= 1u << tag;
    } else if (tag == UINT32_MAX) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_fd.get(), &count, sizeof count);
      // The end is meant for every thread that sleeps here, the I/O thread and a helper.
      if (stop.load()) wake();
    } else if (links.drain()) {
      const std::lock_guard lock(mutex);
      check_links(monotonic_now());
    }
  }
}

}  // namespace mrc::net
