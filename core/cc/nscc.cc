// The events of reference 7.5 in their order; every branch leaves a count.
#include "cc/nscc.h"

namespace mrc::cc {

using base::Duration;
using base::Instant;

Nscc::Nscc(const CcConfig& config, const LinkParams& link, Instant now)
    : config_(config),
      link_(link),
      p_(derive_params(config, link)),
      cwnd_(p_.max_wnd),
      base_rtt_(p_.base_rtt),
      last_adjust_(now),
      last_dec_(now),
      last_sample_(now) {}

void Nscc::on_send(Instant /*now*/, int64_t nominal) { inflight_ += nominal; }

// The floor keeps a bad clock from collapsing the window.
void Nscc::learn_base_rtt(Duration rtt) {
  least_rtt_ = std::min(least_rtt_, std::max(rtt, p_.min_base_rtt));
  if (least_rtt_ >= base_rtt_) return;
  count(kBaseRtt);
  base_rtt_ = least_rtt_;
  p_.max_wnd = max_window(link_, base_rtt_, config_.max_cwnd);
  cwnd_ = std::min(cwnd_, p_.max_wnd);
}

void Nscc::average(Instant now, Duration delay) {
  const double w = average_weight(config_.avg_weight, now - last_sample_, base_rtt_);
  avg_delay_ns_ += w * (static_cast<double>(delay.ns) - avg_delay_ns_);
  last_sample_ = now;
}

void Nscc::on_ack(const AckEvent& e) {
  // What a wrong loss took out of flight comes back before its arrival is counted, or the window would stay
  // too wide by as much until the QP falls idle.
  inflight_ += e.spurious_bytes - e.newly_bytes;
  ignored_ += e.newly_bytes;
  received_ += e.newly_bytes;
  achieved_ += e.newly_bytes;
  const bool limited = penalty(e);
  if (!e.rtt) return count(kNoRtt);
  learn_base_rtt(*e.rtt);
  const Duration delay = std::max(*e.rtt - base_rtt_, Duration{});
  average(e.now, delay);
  if (quick_adapt(e.now, false, e.ecn, delay)) return;
  quadrant(e, delay, limited);
  if (e.now - last_adjust_ >= p_.adjust_period || received_ > p_.adjust_bytes) fulfil(e.now);
}

// True: this ACK must not add to the increase.
bool Nscc::penalty(const AckEvent& e) {
  if (e.rcv_cwnd_pen > 0) {
    count(kPenalty);
    if (saved_cwnd_ == 0) saved_cwnd_ = cwnd_;
    cwnd_ = penalised(cwnd_, static_cast<double>(inflight_), e.rcv_cwnd_pen, e.newly_bytes, p_.mtu);
    return true;
  }
  if (e.restore_cwnd && saved_cwnd_ > 0) {
    count(kRestore);
    cwnd_ = std::min(saved_cwnd_, p_.max_wnd);  // the maximum may have moved since it was saved
    saved_cwnd_ = 0;
  }
  return false;
}

void Nscc::quadrant(const AckEvent& e, Duration delay, bool limited) {
  const bool slow = delay >= p_.target_qdelay;
  if (e.ecn) {
    if (slow) return decrease(e.now);
    return count(kHold);
  }
  if (e.delayed) return yield(e.now);
  if (limited) return count(kLimited);
  const auto newly = static_cast<double>(e.newly_bytes);
  if (slow) {
    count(kFair);
    inc_ += p_.fi * newly;
    return;
  }
  if (fast_increase(e.newly_bytes, delay)) return count(kFast);
  count(kProportional);
  inc_ += p_.alpha * newly * static_cast<double>((p_.target_qdelay - delay).ns);
}

bool Nscc::fast_increase(int64_t newly, Duration delay) {
  if (delay < p_.clear_delay) {
    fi_count_ += newly;
    if (static_cast<double>(fi_count_) > cwnd_ || increase_) {
      cwnd_ = std::min(cwnd_ + static_cast<double>(newly) * p_.fi_scale, p_.max_wnd);
      increase_ = true;
      return true;
    }
  } else {
    fi_count_ = 0;
  }
  increase_ = false;
  return false;
}

void Nscc::decrease(Instant now) {
  increase_ = false;
  fi_count_ = 0;
  const Duration since = now - last_dec_;
  if (!decrease_due(p_, avg_delay(), since, base_rtt_)) return count(kDecreaseEarly);
  count(kDecrease);
  cwnd_ = decreased(cwnd_, p_, avg_delay(), since, base_rtt_);
  last_dec_ = now;
}

// A fabric without marks leaves only delay to go by. Delay may be the host's own, which no window makes
// shorter: one step a round trip as it is now, and never below a part of the maximum.
void Nscc::yield(Instant now) {
  increase_ = false;
  fi_count_ = 0;
  if (now - last_dec_ <= base_rtt_ + avg_delay()) return count(kDelayEarly);
  count(kDelay);
  const double floor = std::min(cwnd_, p_.max_wnd / kDelayFloor);
  cwnd_ = std::max(decreased(cwnd_, p_, avg_delay(), now - last_dec_, base_rtt_), floor);
  last_dec_ = now;
}

void Nscc::fulfil(Instant now) {
  count(kFulfil);
  cwnd_ = fulfilled(cwnd_, inc_, p_.max_wnd);
  if (now - last_adjust_ >= p_.adjust_period) {
    count(kPeriod);
    last_adjust_ = now;
    cwnd_ = std::min(cwnd_ + p_.eta, p_.max_wnd);
  }
  inc_ = 0;
  received_ = 0;
}

bool Nscc::quick_adapt(Instant now, bool loss, bool ecn, Duration delay) {
  if (p_.disable_qa) return false;
  bool handled = false;
  if (ignored_ < to_ignore_ && ecn) {
    count(kQaIgnored);  // feedback for the window that was cut already
    handled = true;
  } else if (now >= qa_end_) {
    const int64_t gate = static_cast<int64_t>(p_.max_wnd) >> p_.qa_gate;
    const bool overload = trigger_qa_ || loss || delay > p_.qa_threshold;
    if (qa_started_ && overload && achieved_ < gate) {
      count(kQaFired);
      cwnd_ = std::max(static_cast<double>(achieved_), static_cast<double>(p_.mtu));
      to_ignore_ = inflight_;
      ignored_ = 0;
      trigger_qa_ = false;
      handled = true;
    } else {
      count(kQaQuiet);
    }
    achieved_ = 0;
    qa_end_ = now + base_rtt_ + p_.target_qdelay;
    qa_started_ = true;
  }
  if (handled) {
    inc_ = 0;
    received_ = 0;
  }
  return handled;
}

void Nscc::lower(int64_t nominal) {
  cwnd_ = std::max(cwnd_ - static_cast<double>(nominal), static_cast<double>(p_.mtu));
}

void Nscc::on_nack(const NackEvent& e) {
  inflight_ -= e.nominal;
  if (e.rtt) learn_base_rtt(*e.rtt);
  if (e.nominal == 0) return count(kLateNack);  // its transmission was found lost before: told once (7.3)
  // Both trim kinds act, as MRC has no receiver credit; other refusals say nothing about the network.
  if (e.kind == NackKind::other) return count(kOtherNack);
  average(e.now, p_.base_rtt);
  ignored_ += e.nominal;
  trigger_qa_ = true;
  if (quick_adapt(e.now, true, true, Duration{})) return count(kTrimQa);
  count(kTrim);
  lower(e.nominal);
}

void Nscc::on_loss(const LossEvent& e) {
  if (e.nominal == 0) return count(kLateLoss);
  count(e.failure ? kFailure : e.timeout ? kTimeout : kLoss);
  // The planes that are left carry a window of their own; what a dead one swallows before all its EVs are
  // found out may be more than the whole window.
  if (!e.failure) lower(e.nominal);
  ignored_ += e.nominal;
  inflight_ -= e.nominal;
}

void Nscc::on_outstanding(int64_t outstanding) {
  const int64_t repaired = outstanding == 0 ? 0 : std::min(inflight_, outstanding);
  if (repaired == inflight_) return;
  count(kRepair);
  inflight_ = repaired;
}

void Nscc::on_link(Instant /*now*/, const LinkParams& link) {
  count(kLink);
  link_ = link;
  p_ = derive_params(config_, link);
  // A new configured base RTT counts at once, but never above what was measured.
  base_rtt_ = std::min(p_.base_rtt, least_rtt_);
  p_.max_wnd = max_window(link_, base_rtt_, config_.max_cwnd);
  cwnd_ = std::clamp(cwnd_, static_cast<double>(p_.mtu), p_.max_wnd);
}

bool Nscc::wants_ack(int64_t nominal, int64_t peer_sack_bytes) const {
  return cwnd_ - static_cast<double>(inflight_ + nominal) < static_cast<double>(p_.mtu) ||
         cwnd_ < static_cast<double>(peer_sack_bytes);
}

Snapshot Nscc::snapshot() const {
  return {static_cast<int64_t>(cwnd_),
          inflight_,
          static_cast<int64_t>(p_.max_wnd),
          base_rtt_,
          avg_delay(),
          p_.target_qdelay};
}

std::vector<NamedCounter> Nscc::counters() const {
  static constexpr const char* kNames[kBranches] = {
      "fair",     "proportional", "fast",     "hold",      "limited",  "decrease",   "decrease_early",
      "delay",    "delay_early",  "fulfil",   "period",    "penalty",  "restore",    "no_rtt",
      "qa_fired", "qa_ignored",   "qa_quiet", "trim",      "trim_qa",  "other_nack", "late_nack",
      "loss",     "failure",      "timeout",  "late_loss", "base_rtt", "repair",     "link"};
  std::vector<NamedCounter> out;
  out.reserve(kBranches);
  for (size_t i = 0; i < kBranches; ++i) out.push_back({kNames[i], count_[i]});
  return out;
}

}  // namespace mrc::cc
