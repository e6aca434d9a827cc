// Two plain controllers: a window that never moves, and none at all (algorithm NULL: only the MPR limits).
#pragma once

#include "cc/nscc_math.h"

namespace mrc::cc {

class FixedWindow : public Controller {
 public:
  FixedWindow(const CcConfig& config, const LinkParams& link, base::Instant now)
      : config_(config), window_(static_cast<int64_t>(max_window(link, derive_params(config, link).base_rtt, config.max_cwnd))), mtu_(link.mtu), base_rtt_(derive_params(config, link).base_rtt) {
    (void)now;
  }

  void on_send(base::Instant now, int64_t nominal) override {
    (void)now;
    inflight_ += nominal;
  }
  void on_ack(const AckEvent& e) override {
    inflight_ -= e.newly_bytes;
    const auto floor = config_.min_base_rtt.ns > 0 ? config_.min_base_rtt : base::Duration::micros(1);
    if (e.rtt) base_rtt_ = std::min(base_rtt_, std::max(*e.rtt, floor));
  }
  void on_nack(const NackEvent& e) override { inflight_ -= e.nominal; }
  void on_loss(const LossEvent& e) override { inflight_ -= e.nominal; }
  void on_outstanding(int64_t outstanding) override { inflight_ = outstanding == 0 ? 0 : std::min(inflight_, outstanding); }
  void on_link(base::Instant now, const LinkParams& link) override {
    (void)now;
    window_ = static_cast<int64_t>(max_window(link, derive_params(config_, link).base_rtt, config_.max_cwnd));
  }
  [[nodiscard]] bool can_send() const override { return window_ > inflight_; }
  [[nodiscard]] bool wants_ack(int64_t nominal, int64_t peer_sack_bytes) const override {
    return window_ - inflight_ - nominal < mtu_ || window_ < peer_sack_bytes;
  }
  [[nodiscard]] Snapshot snapshot() const override { return {window_, inflight_, window_, base_rtt_, {}, base_rtt_}; }
  [[nodiscard]] std::vector<NamedCounter> counters() const override { return {}; }

 protected:
  CcConfig config_;
  int64_t window_, inflight_ = 0, mtu_;
  base::Duration base_rtt_;
};

class NoControl final : public FixedWindow {
 public:
  NoControl(const CcConfig& config, const LinkParams& link, base::Instant now) : FixedWindow(config, link, now) {
    window_ = int64_t{1} << 40;
  }
  void on_link(base::Instant now, const LinkParams& link) override {
    (void)now;
    (void)link;
  }
};

}  // namespace mrc::cc
