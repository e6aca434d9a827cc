// Layer CALC of vector files: which function of reliability/ or cc/ the given names ask for.
#include <cmath>
#include <initializer_list>

#include "cc/nscc_math.h"
#include "reliability/arith.h"
#include "wire_layers.h"

namespace mrc::bindings {

namespace {

using base::Duration;

template <typename T>
T get(const nb::dict& d, const char* key) {
  T v{};
  if (!d.contains(key) || !nb::try_cast(d[key], v))
    throw std::invalid_argument(std::string("CALC: bad or missing '") + key + "'");
  return v;
}
bool has(const nb::dict& d, std::initializer_list<const char*> keys) {
  return std::all_of(keys.begin(), keys.end(), [&](const char* k) { return d.contains(k); });
}

nb::dict ack_timeout(const nb::dict& f) {
  const auto linear = get<uint8_t>(f, "linear_cnt");
  const auto exp = get<uint8_t>(f, "exp_cnt");
  nb::dict d;
  nb::list waits;
  for (const Duration w : reliability::ack_timeout_sequence(get<uint8_t>(f, "timeout"), linear, exp)) {
    waits.append(static_cast<double>(w.ns) / 1e3);
  }
  d["wait_us_per_transmission"] = waits;
  if (const auto fatal = reliability::fatal_expiry(linear, exp))
    d["error_on_timeout_number"] = *fatal;
  else
    d["error_on_timeout_number"] = nb::none();
  return d;
}

nb::dict nscc_params(const nb::dict& f) {
  cc::LinkParams link;
  link.bytes_per_second = get<int64_t>(f, "link_bytes_per_s");
  link.base_rtt = Duration{get<int64_t>(f, "config_base_rtt_ns")};
  link.mtu = get<int64_t>(f, "mtu");
  link.trimming = get<bool>(f, "trimming");
  if (link.bytes_per_second <= 0 || link.base_rtt.ns <= 0 || link.mtu <= 0)
    throw std::invalid_argument("CALC: link parameters");
  const cc::NsccParams p = cc::derive_params({}, link);
  nb::dict d;
  d["bdp"] = p.bdp;
  d["scaling_a"] = p.scaling_a;
  d["target_qdelay_ns"] = p.target_qdelay.ns;
  d["scaling_b"] = p.scaling_b;
  d["alpha_bytes_per_us"] = p.alpha * 1e3;
  d["fi"] = p.fi;
  d["fi_scale"] = p.fi_scale;
  d["eta"] = p.eta;
  d["max_wnd"] = p.max_wnd;
  d["adjust_bytes"] = p.adjust_bytes;
  d["adjust_period_ns"] = p.adjust_period.ns;
  if (p.qa_threshold == cc::kInfiniteDelay)
    d["qa_threshold"] = "infinite";
  else
    d["qa_threshold"] = p.qa_threshold.ns;
  return d;
}

nb::dict nscc_decrease(const nb::dict& f) {
  cc::NsccParams p;
  p.mtu = get<int64_t>(f, "mtu");
  p.target_qdelay = Duration{get<int64_t>(f, "target_qdelay_ns")};
  p.gamma = get<double>(f, "gamma");
  p.max_md_jump = get<double>(f, "max_md_jump");
  nb::dict d;
  d["cwnd"] =
      cc::decreased(get<double>(f, "cwnd"), p, Duration{get<int64_t>(f, "avg_delay_ns")},
                    Duration{get<int64_t>(f, "since_last_dec_ns")}, Duration{get<int64_t>(f, "base_rtt_ns")});
  return d;
}

nb::dict nscc_penalty(const nb::dict& f) {
  const auto cwnd = get<double>(f, "cwnd");
  const auto saved = get<double>(f, "saved_cwnd");
  const auto pen = get<uint8_t>(f, "rcv_cwnd_pen");
  nb::dict d;
  d["cwnd"] = pen == 0 ? cwnd
                       : cc::penalised(cwnd, get<double>(f, "inflight_after_ack"), pen,
                                       get<int64_t>(f, "newly"), get<int64_t>(f, "mtu"));
  d["saved_cwnd"] = pen != 0 && saved == 0 ? cwnd : saved;
  d["increase_allowed"] = pen == 0;
  return d;
}

// Both increases collect `inc` first; `gain` is what one newly received byte adds to it.
nb::dict nscc_fulfil(const nb::dict& f, double gain) {
  const auto newly = get<double>(f, "newly_total");
  const auto cwnd = get<double>(f, "cwnd");
  const bool due = newly > get<double>(f, "adjust_bytes") || get<bool>(f, "period_elapsed");
  nb::dict d;
  d["cwnd"] = due ? cc::fulfilled(cwnd, gain * newly, get<double>(f, "max_wnd")) : cwnd;
  d["inc"] = due ? 0.0 : gain * newly;
  d["received"] = due ? 0.0 : newly;
  return d;
}

}  // namespace

nb::dict calculate(const nb::dict& f) {
  nb::dict d;
  if (has(f, {"accumulated_nominal_bytes"})) {
    d["rcvd_bytes_field"] = reliability::rcvd_bytes_field(get<uint64_t>(f, "accumulated_nominal_bytes"));
  } else if (has(f, {"prev", "cur"})) {
    d["newly_rcvd_bytes"] = reliability::newly_rcvd_bytes(get<uint32_t>(f, "prev"), get<uint32_t>(f, "cur"));
  } else if (has(f, {"now_ticks", "echoed"})) {
    d["rtt_ns"] = reliability::rtt_from_ticks(get<uint16_t>(f, "now_ticks"), get<uint16_t>(f, "echoed")).ns;
  } else if (has(f, {"timeout", "linear_cnt", "exp_cnt"})) {
    return ack_timeout(f);
  } else if (has(f, {"link_bytes_per_s"})) {
    return nscc_params(f);
  } else if (has(f, {"avg_delay_ns", "gamma"})) {
    return nscc_decrease(f);
  } else if (has(f, {"rcv_cwnd_pen"})) {
    return nscc_penalty(f);
  } else if (has(f, {"newly_total", "fi"})) {
    return nscc_fulfil(f, get<double>(f, "fi"));
  } else if (has(f, {"newly_total", "alpha_bytes_per_us"})) {
    const double missing_us = (get<double>(f, "target_qdelay_ns") - get<double>(f, "delay_ns")) / 1e3;
    return nscc_fulfil(f, get<double>(f, "alpha_bytes_per_us") * missing_us);
  } else {
    throw std::invalid_argument("CALC: no formula takes these fields");
  }
  return d;
}

}  // namespace mrc::bindings
