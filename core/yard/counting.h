// What every stream of the yardsticks shares, however it moves datagrams: the window of a sender, the clocks
// of both. Decides when a window opens again after silence and when a count begins and ends.
#pragma once

#include <algorithm>

#include "yard/stream.h"

namespace mrc::yard {

// Datagrams in flight until an acknowledgement; limit 0: as many as there are.
class Window {
 public:
  Window(uint32_t limit, double now) : limit_(limit), progress_(now) {}

  [[nodiscard]] bool has_room(uint64_t sent, uint32_t more) const {
    return limit_ == 0 || sent - acked_ + more <= std::max(limit_, more);
  }
  // The receiver has `count` of the `sent` ones, and of those written off before.
  void on_ack(uint64_t count, uint64_t sent, double now) {
    count = std::min(std::min(count, sent) + written_off_, sent);
    if (count <= acked_) return;
    acked_ = count;
    progress_ = now;
  }
  // True when nothing was acknowledged for so long that the window opens again.
  bool reopen(uint64_t sent, double now) {
    if (now - progress_ <= kSilence) return false;
    written_off_ += sent - acked_;
    acked_ = sent;
    progress_ = now;
    return true;
  }

 private:
  static constexpr double kSilence = 0.2;
  uint32_t limit_;
  uint64_t acked_ = 0, written_off_ = 0;
  double progress_;
};

// Calls `turn`, which may send something, for so long; `f` is told the time that it took.
template <typename Turn>
void send_for(double seconds, Figures& f, Turn turn) {
  const double start = seconds_now(), cpu = thread_cpu_seconds();
  while (seconds_now() - start < seconds) turn();
  f.seconds = seconds_now() - start;
  f.cpu_seconds = thread_cpu_seconds() - cpu;
}

// Calls `take` until the measurement is over; it counts into `f` and returns whether something arrived.
template <typename Take>
Figures count_arrivals(const ReceiveConfig& c, Figures& f, Take take) {
  const double asked = seconds_now();
  double first = 0, last = 0, start = 0, cpu = 0;
  const auto finish = [&](double end) {
    f.seconds = end - start;
    f.cpu_seconds = thread_cpu_seconds() - cpu;
    return f;
  };
  while (true) {
    const bool got = take();
    const double now = seconds_now();
    if (got) {
      last = now;
      if (first == 0) first = now;
      if (start == 0 && now - first >= c.warm_up) {
        start = now;
        cpu = thread_cpu_seconds();
        f = {};
      }
    }
    if (first == 0 && now - asked > c.patience) return {};
    if (start > 0 && now - start >= c.seconds) return finish(now);
    // The sender is gone: the figures stand for the time it sent.
    if (last > 0 && now - last > 1) return start > 0 ? finish(last) : Figures{};
  }
}

}  // namespace mrc::yard
