// Network-signal congestion control of UET 1.0 ("uet-1.0-nscc"): decides the window from ECN, delay and loss.
// Leaves the arithmetic of a single step to nscc_math. Reference section 7; the order of steps is that
// of 7.5.
#pragma once

#include <array>

#include "base/prefetch.h"
#include "cc/nscc_math.h"

namespace mrc::cc {

class Nscc final : public Controller {
 public:
  Nscc(const CcConfig& config, const LinkParams& link, base::Instant now);

  void on_send(base::Instant now, int64_t nominal) override;
  void on_ack(const AckEvent& e) override;
  void on_nack(const NackEvent& e) override;
  void on_loss(const LossEvent& e) override;
  void on_outstanding(int64_t outstanding) override;
  void on_link(base::Instant now, const LinkParams& link) override;
  [[nodiscard]] bool can_send() const override { return cwnd_ > static_cast<double>(inflight_); }
  [[nodiscard]] bool wants_ack(int64_t nominal, int64_t peer_sack_bytes) const override;
  void prefetch() const override { base::prefetch(*this); }
  [[nodiscard]] Snapshot snapshot() const override;
  [[nodiscard]] std::vector<NamedCounter> counters() const override;
  [[nodiscard]] const NsccParams& params() const { return p_; }

 private:
  // One counter for each branch of 7.5 and the rules around it; docs/congestion-control.md explains them.
  enum Branch : uint8_t {
    kFair,
    kProportional,
    kFast,
    kHold,
    kLimited,
    kDecrease,
    kDecreaseEarly,
    kDelay,
    kDelayEarly,
    kFulfil,
    kPeriod,
    kPenalty,
    kRestore,
    kNoRtt,
    kQaFired,
    kQaIgnored,
    kQaQuiet,
    kTrim,
    kTrimQa,
    kOtherNack,
    kLateNack,
    kLoss,
    kFailure,
    kTimeout,
    kLateLoss,
    kBaseRtt,
    kRepair,
    kLink,
    kBranches
  };
  static constexpr double kDelayFloor = 8;
  void count(Branch b) { ++count_[b]; }

  void learn_base_rtt(base::Duration rtt);
  void average(base::Instant now, base::Duration delay);
  bool penalty(const AckEvent& e);
  bool quick_adapt(base::Instant now, bool loss, bool ecn, base::Duration delay);
  bool fast_increase(int64_t newly, base::Duration delay);
  void quadrant(const AckEvent& e, base::Duration delay, bool limited);
  void decrease(base::Instant now);
  void yield(base::Instant now);
  void fulfil(base::Instant now);
  void lower(int64_t nominal);
  [[nodiscard]] base::Duration avg_delay() const { return {static_cast<int64_t>(avg_delay_ns_)}; }

  CcConfig config_;
  LinkParams link_;
  NsccParams p_;
  double cwnd_, saved_cwnd_ = 0, inc_ = 0;
  int64_t inflight_ = 0;  // signed: rcvd_bytes is rounded up to 256 B (7.3)
  int64_t achieved_ = 0, received_ = 0, fi_count_ = 0, to_ignore_ = 0, ignored_ = 0;
  base::Duration base_rtt_, least_rtt_ = kInfiniteDelay;
  double avg_delay_ns_ = 0;  // not whole ns: steps below 1 ns must add up
  base::Instant qa_end_{}, last_adjust_, last_dec_, last_sample_;
  bool qa_started_ = false, trigger_qa_ = false, increase_ = false;
  std::array<uint64_t, kBranches> count_{};
};

}  // namespace mrc::cc
