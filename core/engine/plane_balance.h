// Equal planes (reference 5.4, paper-results A.3): over each plane of a QP goes the same amount of new
// data, so that the plane that carries least sets the pace of all. Decides which planes are too far ahead
// of the slowest to be used; leaves the order among the others to the path policy.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/time.h"

namespace mrc::engine {

class PlaneBalance {
 public:
  // Bytes; enough for lines that are full now and then, and a few runs of packets on one path.
  static constexpr uint32_t kMaxAhead = 256 * 1024;
  // A line that takes nothing for so long is waited for no more. Above what a host's own queue may hold.
  static constexpr base::Duration kPatience = base::Duration::millis(20);

  // Which lines take a packet now: nobody waits for those.
  void writable(uint32_t lines) {
    stuck_ &= ~lines;
    waiting_ &= ~lines;
    if (waiting_ == 0) since_ = base::Instant::never();
  }
  // Which planes are kept level; any that comes, goes or comes back lets all start level.
  void count(uint32_t planes) {
    if (const uint32_t counted = planes & ~stuck_; counted != counted_) restart(counted);
  }
  [[nodiscard]] uint32_t too_far_ahead() const { return ahead_; }
  [[nodiscard]] bool stuck(uint8_t port) const { return (stuck_ & 1u << port) != 0; }

  // New data of `bytes` went over `port`.
  void sent(uint8_t port, uint32_t bytes) {
    const uint32_t bit = 1u << port;
    if ((counted_ & bit) == 0) return;
    sent_[port] += bytes;
    if (sent_[port] >= kMaxAhead) ahead_ |= bit;
    last_ &= ~bit;
    if (last_ == 0) level();
  }

  // What is to be sent now has to go over one of `wanted`, which take nothing. True: they have not for so
  // long that they are left alone until they do.
  bool refused(base::Instant now, uint32_t wanted) {
    if ((wanted & waiting_) == 0) since_ = now;
    waiting_ = wanted;
    if (now - since_ < kPatience) return false;
    stuck_ |= wanted;
    restart(counted_ & ~stuck_);
    return true;
  }
  // Planes that no other is behind.
  [[nodiscard]] uint32_t last() const { return last_; }
  // When to try again if no line becomes free; never() while nothing waits.
  [[nodiscard]] base::Instant retry_at() const {
    return since_.is_never() ? base::Instant::never() : since_ + kPatience;
  }

 private:
  void restart(uint32_t planes) {
    counted_ = last_ = planes;
    sent_ = {};
    ahead_ = waiting_ = 0;
    since_ = base::Instant::never();
  }
  // Every plane has sent something: what all have sent counts no more.
  void level() {
    uint32_t least = UINT32_MAX;
    for (uint32_t left = counted_; left != 0; left &= left - 1)
      least = std::min(least, sent_[static_cast<size_t>(std::countr_zero(left))]);
    ahead_ = 0;
    for (uint32_t left = counted_; left != 0; left &= left - 1) {
      const auto port = static_cast<size_t>(std::countr_zero(left));
      sent_[port] -= least;
      if (sent_[port] == 0) last_ |= 1u << port;
      if (sent_[port] >= kMaxAhead) ahead_ |= 1u << port;
    }
  }

  uint32_t counted_ = 0, last_ = 0, ahead_ = 0, stuck_ = 0, waiting_ = 0;
  std::array<uint32_t, 32> sent_{};  // more than the planes in last_
  base::Instant since_ = base::Instant::never();
};

}  // namespace mrc::engine
