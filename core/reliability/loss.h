// When is a packet in flight lost, judged by what overtook it (reference 5.7 rules (a) and (b), D-31).
// Decides on the oldest transmission only: transmissions are resolved from that end, so two running totals
// replace a search; leaves the consequences to the requester.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "reliability/requester.h"
#include "reliability/sent_window.h"

namespace mrc::reliability {

struct LossConfig {
  double bytes_factor = 1.5;
  uint32_t min_packets = 5;
  double time_factor = 1.0;
  bool queues_seen = false;  // RequesterConfig
  base::Duration min_time{};
  int64_t full_packet = 1024;  // nominal size
};

class LossDetector {
 public:
  explicit LossDetector(const LossConfig& c) : c_(c) {}

  void on_transmit(SentRecord& r) {
    r.bytes_before = transmitted_;
    transmitted_ += r.nominal;
  }
  // The latest transmission of `r` is acknowledged, refused or given up.
  void on_resolved(const SentRecord& r) { resolved_ += r.nominal; }
  // A transmission that surely arrived, for rule (b).
  void on_arrival(base::Instant tx_time) {
    if (tx_time > newest_arrived_) newest_arrived_ = tx_time;
  }
  // Valid for the oldest unresolved transmission: all before it is resolved, so what exceeds `bytes_before`
  // was transmitted later and is known to have arrived.
  [[nodiscard]] bool overtaken(const SentRecord& oldest, base::Instant now, const Timing& t);
  // Something sent later than `r` by more than reordering explains is known to have arrived.
  [[nodiscard]] bool outlived(const SentRecord& r, const Timing& t) const {
    return newest_arrived_ - r.tx_time > window(t);
  }
  // Old enough that even a slow path would have delivered it.
  [[nodiscard]] bool aged(const SentRecord& r, base::Instant now, const Timing& t) const;

  // A packet declared lost had arrived: be more patient, at most one doubling a round trip.
  void on_spurious(base::Instant now, const Timing& t);
  void relax(base::Instant now, const Timing& t);
  [[nodiscard]] int64_t tolerance() const { return tolerance_; }

 private:
  static constexpr int64_t kMaxTolerance = 16;
  static constexpr int64_t kRelaxRtts = 64;
  static constexpr base::Duration kMinRelax = base::Duration::millis(10);
  [[nodiscard]] base::Duration window(const Timing& t) const;
  [[nodiscard]] int64_t recent_cwnd(base::Instant now, const Timing& t);

  LossConfig c_;
  int64_t transmitted_ = 0, resolved_ = 0;
  base::Instant newest_arrived_{INT64_MIN / 2};
  int64_t tolerance_ = 1;
  int64_t peak_cwnd_ = 0;  // what is in flight was sent with it
  base::Instant peak_at_{INT64_MIN / 2};
  base::Instant tolerance_set_{INT64_MIN / 2};
};

}  // namespace mrc::reliability
