// The clocks of a requester: smoothed RTT, and where the ACK timer stands in its sequence of waits.
// Decides how long to wait and when the budget is spent (reference 5.7); leaves to the requester what is
// declared lost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/time.h"
#include "reliability/arith.h"

namespace mrc::reliability {

// Smoothed round trip and its mean deviation, gains 1/8 and 1/4 as usual for transports.
class RttEstimator {
 public:
  void sample(base::Duration rtt) {
    if (rtt.ns <= 0) return;
    note_peak(rtt);
    if (!has_sample_) {
      has_sample_ = true;
      srtt_ = rtt;
      rttvar_ = rtt / 2;
      return;
    }
    const base::Duration error = rtt - srtt_;
    srtt_ = {srtt_.ns + error.ns / 8};
    const int64_t magnitude = error.ns < 0 ? -error.ns : error.ns;
    rttvar_ = {rttvar_.ns + (magnitude - rttvar_.ns) / 4};
  }
  [[nodiscard]] bool has_sample() const { return has_sample_; }
  [[nodiscard]] base::Duration srtt() const { return srtt_; }
  [[nodiscard]] base::Duration rttvar() const { return rttvar_; }
  // The longest of the last kPeakSamples to twice as many.
  [[nodiscard]] base::Duration peak() const { return std::max(peak_, last_peak_); }

 private:
  static constexpr uint32_t kPeakSamples = 32;
  void note_peak(base::Duration rtt) {
    peak_ = std::max(peak_, rtt);
    if (++samples_ < kPeakSamples) return;
    samples_ = 0;
    last_peak_ = std::exchange(peak_, base::Duration{});
  }
  base::Duration srtt_{}, rttvar_{}, peak_{}, last_peak_{};
  uint32_t samples_ = 0;
  bool has_sample_ = false;
};

struct AckTimerConfig {
  uint8_t timeout = 12, linear_cnt = 7, exp_cnt = 8;
  base::Duration min_interval{};
  base::Duration hold_time{};  // above zero: replaces the budget
  base::Duration hold_retry_cap{};
};

// Position in the waits and use of the budget. Two counters: a resend after a NACK or an inferred loss
// returns to the first wait but does not refund the budget; progress does both.
class AckTimer {
 public:
  explicit AckTimer(const AckTimerConfig& c) : c_(c) {}

  // The interval that runs now. `floor` guards against a base interval below a few round trips (section 16).
  [[nodiscard]] base::Duration interval(base::Duration floor) const {
    const base::Duration t = base_interval(floor);
    const base::Duration cap = c_.hold_time.ns > 0 ? std::max(c_.hold_retry_cap, t) : kAckTimeoutCap;
    return std::min(ack_wait(t, c_.linear_cnt, position_), std::max(cap, t));
  }
  [[nodiscard]] base::Duration base_interval(base::Duration floor) const {
    return std::max({ack_base_interval(c_.timeout), c_.min_interval, floor});
  }
  // The clock cannot start before the last expiry, even if nothing could be sent since.
  [[nodiscard]] base::Instant deadline(base::Instant sent_at, base::Duration floor) const {
    return std::max(sent_at, last_expiry_) + interval(floor);
  }
  // One expiry, however many packets it declares lost. True when the budget is spent.
  bool expire(base::Instant now) {
    last_expiry_ = now;
    position_ = std::min(position_ + 1, kCounterCap);
    retry_used_ = std::min(retry_used_ + 1, kCounterCap);
    return spent();
  }
  // A retry that costs nothing: a port came back.
  void expire_free(base::Instant now) {
    last_expiry_ = now;
    position_ = 0;
  }
  // A refusal counts without an expiry.
  void charge() { retry_used_ = std::min(retry_used_ + 1, kCounterCap); }
  void restart() { position_ = 0; }
  void progress() {
    position_ = 0;
    retry_used_ = 0;
    last_expiry_ = kNone;
  }
  [[nodiscard]] bool spent() const {
    if (c_.hold_time.ns > 0) return false;
    const auto limit = fatal_expiry(c_.linear_cnt, c_.exp_cnt);
    return limit && retry_used_ >= *limit;
  }
  [[nodiscard]] bool backed_off() const { return position_ > 0; }
  [[nodiscard]] uint32_t retry_used() const { return retry_used_; }
  // How long the whole sequence of waits lasts; refusals may not end a QP sooner than silence would.
  [[nodiscard]] base::Duration budget_time(base::Duration floor) const {
    base::Duration sum{};
    const uint32_t n = fatal_expiry(c_.linear_cnt, c_.exp_cnt).value_or(1u + c_.linear_cnt + kRetryForever);
    for (uint32_t i = 0; i < n; ++i) sum = sum + ack_wait(base_interval(floor), c_.linear_cnt, i);
    return sum;
  }

 private:
  static constexpr base::Instant kNone{INT64_MIN / 2};
  static constexpr uint32_t kCounterCap = 1u << 20;
  AckTimerConfig c_;
  uint32_t position_ = 0, retry_used_ = 0;
  base::Instant last_expiry_ = kNone;
};

}  // namespace mrc::reliability
