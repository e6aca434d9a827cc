#include "cc/nscc.h"

namespace mrc::cc {

using base::Duration;
using base::Instant;

Nscc::Nscc(const CcConfig& config, const LinkParams& link, Instant now)
    : config_(config), link_(link), p_(derive_params(config, link)), cwnd_(p_.max_wnd), base_rtt_(p_.base_rtt), last_adjust_(now), last_dec_(now), last_sample_(now) {}

void Nscc::on_send(Instant now, int64_t nominal) {
  (void)now;
  inflight_ += nominal;
}

void Nscc::sample(Instant now, Duration rtt) {
  const Duration floored = std::max(rtt, p_.min_base_rtt);
  if (floored < base_rtt_) {
    base_rtt_ = floored;
    p_.max_wnd = max_window(link_, base_rtt_, config_.max_cwnd);
    cwnd_ = std::min(cwnd_, p_.max_wnd);
  }
  last_delay_ = std::max(rtt - base_rtt_, Duration{});
  average(now, last_delay_);
}

void Nscc::average(Instant now, Duration delay) {
  const Duration gap = now - last_sample_;
  last_sample_ = now;
  const double w = config_.avg_weight > 0 ? config_.avg_weight
                                          : std::min(1.0, static_cast<double>(gap.ns) / static_cast<double>(std::max<int64_t>(base_rtt_.ns, 1)));
  avg_delay_ = Duration{avg_delay_.ns + static_cast<int64_t>(w * static_cast<double>(delay.ns - avg_delay_.ns))};
}

void Nscc::penalty(const AckEvent& e) {
  limited_ = false;
  if (e.rcv_cwnd_pen > 0) {
    count(kPenalty);
    if (saved_cwnd_ == 0) saved_cwnd_ = cwnd_;
    cwnd_ = penalised(cwnd_, static_cast<double>(inflight_), e.rcv_cwnd_pen, e.newly_bytes, p_.mtu);
    limited_ = true;
  } else if (e.restore_cwnd && saved_cwnd_ > 0) {
    count(kRestore);
    cwnd_ = std::min(saved_cwnd_, p_.max_wnd);
    saved_cwnd_ = 0;
  }
}

void Nscc::on_ack(const AckEvent& e) {
  inflight_ -= e.newly_bytes;
  ignored_ += e.newly_bytes;
  received_ += e.newly_bytes;
  achieved_ += e.newly_bytes;
  penalty(e);
  if (!e.rtt) return count(kNoRtt);
  sample(e.now, *e.rtt);
  if (quick_adapt(e.now, false, e.ecn, last_delay_)) return;
  quadrant(e, last_delay_);
  if (e.now - last_adjust_ >= p_.adjust_period || received_ > p_.adjust_bytes) fulfil(e.now);
}

void Nscc::quadrant(const AckEvent& e, Duration delay) {
  const bool slow = delay >= p_.target_qdelay;
  if (e.ecn) {
    if (slow) return decrease(e.now);
    return count(kHold);
  }
  if (limited_) return count(kHold);
  const auto newly = static_cast<double>(e.newly_bytes);
  if (slow) {
    count(kFair);
    increase_ = false;
    fi_count_ = 0;
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
  const double lower = decreased(cwnd_, p_, avg_delay_, now - last_dec_, base_rtt_);
  if (lower == cwnd_) return count(kDecreaseEarly);
  count(kDecrease);
  cwnd_ = lower;
  last_dec_ = now;
}

void Nscc::fulfil(Instant now) {
  count(kFulfil);
  cwnd_ = fulfilled(cwnd_, inc_, p_.max_wnd);
  if (now - last_adjust_ >= p_.adjust_period) {
    last_adjust_ = now;
    if (!limited_) cwnd_ = std::min(cwnd_ + p_.eta, p_.max_wnd);
  }
  inc_ = 0;
  received_ = 0;
}

bool Nscc::quick_adapt(Instant now, bool loss, bool ecn, Duration delay) {
  if (p_.disable_qa) return false;
  bool handled = false;
  if (ignored_ < to_ignore_ && ecn) {
    count(kQaIgnored);   // feedback for the window that was cut already
    handled = true;
  } else if (now >= qa_end_) {
    const auto gate = static_cast<int64_t>(p_.max_wnd) >> p_.qa_gate;
    if (qa_started_ && (trigger_qa_ || loss || delay > p_.qa_threshold) && achieved_ < gate) {
      count(kQaFired);
      cwnd_ = std::max(static_cast<double>(achieved_), static_cast<double>(p_.mtu));
      to_ignore_ = inflight_;
      ignored_ = 0;
      trigger_qa_ = false;
      handled = true;
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

void Nscc::lower(int64_t nominal) { cwnd_ = std::max(cwnd_ - static_cast<double>(nominal), static_cast<double>(p_.mtu)); }

void Nscc::on_nack(const NackEvent& e) {
  inflight_ -= e.nominal;
  if (e.rtt) {
    const Duration floored = std::max(*e.rtt, p_.min_base_rtt);
    if (floored < base_rtt_) sample(e.now, *e.rtt);
  }
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
  count(kLoss);
  lower(e.nominal);
  ignored_ += e.nominal;
  inflight_ -= e.nominal;
}

void Nscc::on_outstanding(int64_t outstanding) {
  inflight_ = outstanding == 0 ? 0 : std::min(inflight_, outstanding);
}

void Nscc::on_link(Instant now, const LinkParams& link) {
  (void)now;
  link_ = link;
  const NsccParams fresh = derive_params(config_, link);
  p_ = fresh;
  // A measured base RTT below the configured one stays known; the rate is what changed.
  p_.max_wnd = max_window(link_, std::min(base_rtt_, p_.base_rtt), config_.max_cwnd);
  cwnd_ = std::min(cwnd_, p_.max_wnd);
}

bool Nscc::wants_ack(int64_t nominal, int64_t peer_sack_bytes) const {
  return cwnd_ - static_cast<double>(inflight_ + nominal) < static_cast<double>(p_.mtu) || cwnd_ < static_cast<double>(peer_sack_bytes);
}

Snapshot Nscc::snapshot() const {
  return {static_cast<int64_t>(cwnd_), inflight_, static_cast<int64_t>(p_.max_wnd), base_rtt_, avg_delay_, p_.target_qdelay};
}

std::vector<NamedCounter> Nscc::counters() const {
  static constexpr const char* kNames[kBranches] = {"fair", "proportional", "fast", "hold", "decrease", "decrease_early", "fulfil", "penalty", "restore",
                                                    "qa_fired", "qa_ignored", "trim", "trim_qa", "other_nack", "loss", "no_rtt"};
  std::vector<NamedCounter> out;
  for (size_t i = 0; i < kBranches; ++i) out.push_back({kNames[i], count_[i]});
  return out;
}

}  // namespace mrc::cc
