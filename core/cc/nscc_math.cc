// See nscc_math.h; each function names its paragraph of reference section 7.
#include "cc/nscc_math.h"

namespace mrc::cc {

namespace {
double or_default(double given, double derived) { return given != 0 ? given : derived; }
base::Duration or_default(base::Duration given, base::Duration derived) {
  return given.ns != 0 ? given : derived;
}
}  // namespace

double max_window(const LinkParams& link, base::Duration base_rtt, int64_t max_cwnd) {
  const double window =
      1.5 * static_cast<double>(link.bytes_per_second) * static_cast<double>(base_rtt.ns) / 1e9;
  const double capped = max_cwnd > 0 ? std::min(window, static_cast<double>(max_cwnd)) : window;
  return std::max(capped, static_cast<double>(link.mtu));
}

NsccParams derive_params(const CcConfig& c, const LinkParams& link) {
  NsccParams p;
  p.mtu = link.mtu;
  p.base_rtt = or_default(c.base_rtt, link.base_rtt);
  const auto mtu = static_cast<double>(link.mtu);
  p.bdp = static_cast<double>(link.bytes_per_second) * static_cast<double>(p.base_rtt.ns) / 1e9;
  p.scaling_a = p.bdp / kReferenceBdp;
  p.target_qdelay = or_default(c.target_delay, link.trimming ? p.base_rtt.scaled(0.75) : p.base_rtt);
  p.scaling_b = static_cast<double>(p.target_qdelay.ns) / static_cast<double>(kReferenceRtt.ns);
  p.alpha = 4.0 * p.scaling_a * p.scaling_b * mtu / static_cast<double>(p.target_qdelay.ns);
  p.fi = or_default(c.fi, 5.0 * mtu * p.scaling_a);
  p.fi_scale = or_default(c.fi_scale, 0.25 * p.scaling_a);
  p.eta = or_default(c.eta, 0.15 * mtu * p.scaling_a);
  p.gamma = or_default(c.gamma, 0.8);
  p.max_md_jump = or_default(c.max_md_jump, 0.5);
  p.max_wnd = max_window(link, p.base_rtt, c.max_cwnd);
  p.adjust_bytes = c.adjust_bytes_threshold != 0 ? c.adjust_bytes_threshold : 8 * link.mtu;
  p.adjust_period = or_default(c.adjust_period_threshold, p.base_rtt);
  // With trimming, the trims themselves report overload: no delay threshold.
  p.qa_threshold = or_default(c.qa_threshold, link.trimming ? kInfiniteDelay : p.target_qdelay * 4);
  p.qa_gate = c.qa_gate != 0 ? c.qa_gate : uint8_t{3};
  p.disable_qa = c.disable_qa;
  p.min_base_rtt = or_default(c.min_base_rtt, base::Duration::micros(1));
  p.clear_delay = std::max(base::Duration::micros(1), p.base_rtt.scaled(c.clear_delay_fraction));
  return p;
}

bool decrease_due(const NsccParams& p, base::Duration avg_delay, base::Duration since_last,
                  base::Duration base_rtt) {
  return avg_delay > p.target_qdelay && since_last > base_rtt;
}

double average_weight(double fixed, base::Duration gap, base::Duration base_rtt) {
  if (fixed > 0) return fixed;
  return std::clamp(static_cast<double>(gap.ns) / static_cast<double>(std::max<int64_t>(base_rtt.ns, 1)), 0.0,
                    1.0);
}

double decreased(double cwnd, const NsccParams& p, base::Duration avg_delay, base::Duration since_last,
                 base::Duration base_rtt) {
  if (!decrease_due(p, avg_delay, since_last, base_rtt)) return cwnd;
  const auto avg = static_cast<double>(avg_delay.ns);
  const double factor = 1.0 - p.gamma * (avg - static_cast<double>(p.target_qdelay.ns)) / avg;
  return std::max(static_cast<double>(p.mtu), cwnd * std::max(factor, p.max_md_jump));
}

double penalised(double cwnd, double inflight, uint8_t pen, int64_t newly, int64_t mtu) {
  const double bounded = std::min(cwnd, inflight);
  const auto cut = static_cast<double>((int64_t{pen} * newly) >> 7);
  return std::max(static_cast<double>(mtu), bounded - cut);
}

double fulfilled(double cwnd, double inc, double max_wnd) { return std::min(cwnd + inc / cwnd, max_wnd); }

}  // namespace mrc::cc
