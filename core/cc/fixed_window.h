// Two plain controllers: a window that never moves ("fixed-window"), and none at all ("null": only the MPR
// limits). They keep the signed inflight and the base RTT as NSCC does; reference 7, first paragraph,
// and 7.3.
#pragma once

#include "cc/nscc_math.h"

namespace mrc::cc {

class FixedWindow : public Controller {
 public:
  FixedWindow(const CcConfig& config, const LinkParams& link, base::Instant /*now*/) : config_(config) {
    take(link);
  }

  void on_send(base::Instant /*now*/, int64_t nominal) override { inflight_ += nominal; }
  void on_ack(const AckEvent& e) override {
    ++counts_.acks;
    inflight_ -= e.newly_bytes;
    learn_base_rtt(e.rtt);
  }
  void on_nack(const NackEvent& e) override {
    ++counts_.nacks;
    inflight_ -= e.nominal;
    learn_base_rtt(e.rtt);
  }
  void on_loss(const LossEvent& e) override {
    ++counts_.losses;
    inflight_ -= e.nominal;
  }
  void on_outstanding(int64_t outstanding) override {
    const int64_t repaired = outstanding == 0 ? 0 : std::min(inflight_, outstanding);
    if (repaired != inflight_) ++counts_.repairs;
    inflight_ = repaired;
  }
  void on_link(base::Instant /*now*/, const LinkParams& link) override {
    ++counts_.links;
    take(link);
  }
  [[nodiscard]] bool can_send() const override { return window_ > inflight_; }
  [[nodiscard]] bool wants_ack(int64_t nominal, int64_t peer_sack_bytes) const override {
    return window_ - inflight_ - nominal < mtu_ || window_ < peer_sack_bytes;
  }
  [[nodiscard]] Snapshot snapshot() const override {
    return {window_, inflight_, window_, base_rtt_, {}, target_qdelay_};
  }
  [[nodiscard]] std::vector<NamedCounter> counters() const override {
    return {{"ack", counts_.acks},
            {"nack", counts_.nacks},
            {"loss", counts_.losses},
            {"repair", counts_.repairs},
            {"link", counts_.links}};
  }

 protected:
  void take(const LinkParams& link) {
    const NsccParams p = derive_params(config_, link);
    mtu_ = p.mtu;
    floor_ = p.min_base_rtt;
    target_qdelay_ = p.target_qdelay;
    base_rtt_ = std::min(p.base_rtt, least_rtt_);
    // Here max_cwnd is the window itself, not a cap.
    window_ = std::max(config_.max_cwnd > 0 ? config_.max_cwnd : static_cast<int64_t>(p.max_wnd), mtu_);
  }
  void learn_base_rtt(const std::optional<base::Duration>& rtt) {
    if (!rtt) return;
    least_rtt_ = std::min(least_rtt_, std::max(*rtt, floor_));
    base_rtt_ = std::min(base_rtt_, least_rtt_);
  }

  struct Counts {
    uint64_t acks = 0, nacks = 0, losses = 0, repairs = 0, links = 0;
  };
  CcConfig config_;
  Counts counts_;
  int64_t window_ = 0, inflight_ = 0, mtu_ = 0;
  base::Duration base_rtt_{}, least_rtt_ = kInfiniteDelay, floor_{}, target_qdelay_{};
};

class NoControl final : public FixedWindow {
 public:
  // Larger than anything that can be in flight: rules that compare with the window never bind.
  static constexpr int64_t kUnlimited = int64_t{1} << 40;

  using FixedWindow::FixedWindow;
  [[nodiscard]] bool can_send() const override { return true; }
  [[nodiscard]] bool wants_ack(int64_t /*nominal*/, int64_t /*peer_sack_bytes*/) const override {
    return false;
  }
  [[nodiscard]] Snapshot snapshot() const override {
    return {kUnlimited, inflight_, kUnlimited, base_rtt_, {}, target_qdelay_};
  }
};

}  // namespace mrc::cc
