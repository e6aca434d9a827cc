#include "reliability/loss.h"

#include <algorithm>

namespace mrc::reliability {

base::Duration LossDetector::window(const Timing& t) const {
  // Where a host's own queues may differ by milliseconds from plane to plane, a round trip as it is now is
  // the least that tells a longer queue from a hole.
  const base::Duration queues = c_.min_time.ns > 0 ? t.srtt : base::Duration{};
  const base::Duration seen = c_.queues_seen ? t.rtt_peak + t.target_delay / 2 : base::Duration{};
  const base::Duration w = std::max({t.base_rtt + t.target_delay, t.rttvar * 4, c_.min_time, queues, seen});
  return w.scaled(c_.time_factor * static_cast<double>(tolerance_));
}

bool LossDetector::aged(const SentRecord& r, base::Instant now, const Timing& t) const {
  return now - r.tx_time > std::max(t.srtt + t.target_delay, window(t));
}

// A window that was just cut says nothing about the order of what was sent before.
int64_t LossDetector::recent_cwnd(base::Instant now, const Timing& t) {
  if (t.cwnd >= peak_cwnd_ || now - peak_at_ > window(t)) {
    peak_cwnd_ = t.cwnd;
    peak_at_ = now;
  }
  return peak_cwnd_;
}

bool LossDetector::overtaken(const SentRecord& oldest, base::Instant now, const Timing& t) {
  // (a) by volume. The floor keeps it from firing on a host whose scheduler delays whole batches.
  const auto scaled = static_cast<int64_t>(c_.bytes_factor * static_cast<double>(recent_cwnd(now, t)));
  const int64_t capped = t.max_wnd > 0 ? std::min(scaled, t.max_wnd) : scaled;
  const int64_t volume = std::max(capped, c_.full_packet * c_.min_packets) * tolerance_;
  const base::Duration age = now - oldest.tx_time;
  // Where congestion trims, only time tells: a small window is overtaken by what took another path past one
  // queue.
  if (!c_.queues_seen && resolved_ - oldest.bytes_before >= volume && age >= c_.min_time * tolerance_)
    return true;
  // (b) by time; without any RTT knowledge there is no scale to judge by.
  if (t.base_rtt.ns <= 0 && t.srtt.ns <= 0 && c_.min_time.ns <= 0) return false;
  return newest_arrived_ - oldest.tx_time > window(t) && age > t.srtt + t.target_delay && age > c_.min_time;
}

void LossDetector::on_spurious(base::Instant now, const Timing& t) {
  if (tolerance_ > 1 && now - tolerance_set_ < std::max(t.srtt, t.base_rtt)) return;
  tolerance_ = std::min(tolerance_ * 2, kMaxTolerance);
  tolerance_set_ = now;
}

void LossDetector::relax(base::Instant now, const Timing& t) {
  if (tolerance_ == 1 || now - tolerance_set_ < std::max(t.srtt * kRelaxRtts, kMinRelax)) return;
  tolerance_ /= 2;
  tolerance_set_ = now;
}

}  // namespace mrc::reliability
