// How much of what a plane sends may wait below its sockets, in the queue of its own link. A link slower than
// the others would otherwise hold a socket's whole buffer for tens of milliseconds: its packets look lost,
// and the window that all planes share follows its delay. Decides when a plane takes nothing for a moment;
// leaves asking the kernel to udp_linux and the turn to the loop.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace mrc::net {

class Backlog {
 public:
  // Time for which the link should have work. Where threads come late it runs dry meanwhile, and gets more.
  static constexpr int64_t kTargetNs = 1'500'000, kMostNs = 6'000'000;
  // Queues of devices and shapers commonly hold half a megabyte; what they drop is loss that nobody can tell
  // from a path's.
  static constexpr int64_t kMostBytes = 384 * 1024;
  static constexpr int64_t kMostRate = 100'000'000'000;  // bytes a second
  static constexpr int64_t kMinBytes = 24 * 1024;  // whatever the rate: two full packets and what they cost
  static constexpr int64_t kRunBytes = 64 * 1024;
  static constexpr base::Duration kLookAgain = base::Duration::millis(2);   // the rate may be wrong
  static constexpr base::Duration kShortest = base::Duration::micros(500);  // of a measurement of the rate

  // False: the kernel said that nothing waits, and nothing was sent since.
  [[nodiscard]] bool worth_asking() const { return waiting_ > 0 || sent_since_; }
  // The kernel says that so many bytes wait, and nothing was sent since it was last told by after_send().
  void before_send(base::Instant now, int64_t waiting) {
    // Only a queue that never ran empty shows what the link carries. One that was empty sooner than it should
    // have been shows that it carries more, or that a bucket of tokens passed it at once: the rate is tried
    // upwards, and measured again. One that was left alone for longer shows nothing.
    if (waiting == 0) {
      if (sent_since_ && rate_ > 0 && now - told_at_ < time_of(handed_))
        rate_ = std::min(rate_ + std::max<int64_t>(rate_ / 8, 1), kMostRate);
      if (held_) target_ns_ = std::min(target_ns_ + target_ns_ / 4, kMostNs);
      left_ = 0;
      span_ = {};
    } else if (sent_since_) {
      left_ += told_ - waiting;
      span_ = span_ + (now - told_at_);
      if (span_ >= kShortest) measure();
      told_ = handed_ = waiting;
      told_at_ = now;
    }
    waiting_ = waiting;
    sent_since_ = waiting > 0;
    held_ = room() == 0;
  }
  // So many bytes were handed down. True: the kernel should be asked what waits now, and after_send() be
  // told. What any link takes is not worth a question.
  [[nodiscard]] bool note_sent(int64_t sent) {
    unasked_ += sent;
    return waiting_ > 0 || unasked_ >= kMinBytes;
  }
  // So many bytes wait now.
  void after_send(base::Instant now, int64_t waiting) {
    handed_ = waiting_ + unasked_;
    unasked_ = 0;
    waiting_ = told_ = waiting;
    told_at_ = now;
    sent_since_ = true;
  }
  // Bytes that may be handed down now; 0: come back at retry_at(). Little room is none: runs are cheaper than
  // packets.
  [[nodiscard]] int64_t room() const {
    if (rate_ == 0) return INT64_MAX;
    const int64_t left = limit() - waiting_;
    return left >= std::min(limit() / 2, kRunBytes) ? left : 0;
  }
  [[nodiscard]] base::Instant retry_at(base::Instant now) const {
    if (rate_ == 0) return now;
    const int64_t over = waiting_ - limit() + std::min(limit() / 2, kRunBytes);
    return now + std::min(time_of(std::max<int64_t>(over, 1)), kLookAgain);
  }
  [[nodiscard]] int64_t bytes_per_second() const { return rate_; }

 private:
  [[nodiscard]] int64_t limit() const {
    return std::clamp(rate_ / 1'000'000 * (target_ns_ / 1000), kMinBytes, kMostBytes);
  }

  [[nodiscard]] base::Duration time_of(int64_t bytes) const {
    return base::Duration{bytes * 1'000'000'000 / rate_};
  }

  void measure() {
    const int64_t rate = left_ * 1'000'000'000 / span_.ns;
    if (rate > 0) rate_ = rate_ == 0 ? rate : rate_ + (rate - rate_) / 8;
    target_ns_ = std::max(target_ns_ - target_ns_ / 128, kTargetNs);
    left_ = 0;
    span_ = {};
  }

  int64_t target_ns_ = kTargetNs;
  int64_t waiting_ = 0, told_ = 0, rate_ = 0;
  int64_t unasked_ = 0;  // bytes handed down since the kernel was asked
  int64_t handed_ = 0;   // what waited when the last bytes had been handed down, had none left meanwhile
  int64_t left_ = 0;     // bytes that left while the queue had some, and for how long it was watched
  base::Duration span_{};
  base::Instant told_at_{};
  bool sent_since_ = false, held_ = false;  // held_: it was told to come back
};

}  // namespace mrc::net
