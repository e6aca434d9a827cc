// Who runs the loop: the I/O thread as a rule, a caller that waits instead (help) while it does. Decides when
// the I/O thread stands back and when it comes again; leaves waking it from its sleep in the kernel to the
// driver.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

namespace mrc::net {

class Baton {
 public:
  // One helper at a time. False: there is one.
  bool claim() {
    const std::lock_guard lock(mutex_);
    if (claimed_) return false;
    claimed_ = true;
    return true;
  }
  // True when the I/O thread does not stand by, so that it may sleep on without knowing until when.
  bool release() {
    const std::lock_guard lock(mutex_);
    claimed_ = false;
    resume_at_ = Clock::now() + kGrace;
    // After a short claim the next one is near: then waking the I/O thread costs more than it is worth.
    if (deep_) changed_.notify_all();
    return !standing_by_;
  }
  // For the I/O thread: returns when the loop is its own.
  void stand_by(const std::atomic<bool>& stop) {
    std::unique_lock lock(mutex_);
    standing_by_ = true;
    for (bool first = true; !stop.load() && (claimed_ || Clock::now() < resume_at_); first = false) {
      deep_ = claimed_ && !first;
      if (deep_) {
        changed_.wait(lock);
      } else {
        changed_.wait_for(lock, kGrace);
      }
    }
    standing_by_ = deep_ = false;
  }
  [[nodiscard]] bool claimed() {
    const std::lock_guard lock(mutex_);
    return claimed_;
  }
  void stop() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kGrace{200};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool claimed_ = false, standing_by_ = false, deep_ = false;
  Clock::time_point resume_at_{};
};

}  // namespace mrc::net
