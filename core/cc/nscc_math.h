// The arithmetic of NSCC as pure functions: parameter derivation and the single window moves
// (reference 7.1, 7.5). Bytes are nominal sizes; times are Durations. Doubles carry the window, as every step
// has real factors.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "cc/controller.h"

namespace mrc::cc {

struct NsccParams {
  double bdp = 0;        // bytes
  double scaling_a = 1;  // BDP / 150,000
  base::Duration target_qdelay{};
  double scaling_b = 1;  // target / 12 us
  double alpha = 0;      // bytes per ns of missing delay, for each newly received byte
  double fi = 0;         // bytes
  double fi_scale = 0;
  double eta = 0;  // bytes
  double gamma = 0.8, max_md_jump = 0.5;
  double max_wnd = 0;  // bytes
  int64_t adjust_bytes = 0;
  base::Duration adjust_period{}, qa_threshold{}, base_rtt{}, min_base_rtt{}, clear_delay{};
  uint8_t qa_gate = 3;
  bool disable_qa = false;
  int64_t mtu = 0;
};

inline constexpr double kReferenceBdp = 150'000;  // 100 Gb/s x 12 us
inline constexpr base::Duration kReferenceRtt = base::Duration::micros(12);
inline constexpr base::Duration kInfiniteDelay = base::Duration{std::numeric_limits<int64_t>::max() / 4};

NsccParams derive_params(const CcConfig& config, const LinkParams& link);

// 1.5 x C x base_rtt, never above max_cwnd when that is set (D-36).
double max_window(const LinkParams& link, base::Duration base_rtt, int64_t max_cwnd);

// Multiplicative decrease: due when avg_delay exceeds the target and more than a base RTT has passed since
// the last one.
bool decrease_due(const NsccParams& p, base::Duration avg_delay, base::Duration since_last,
                  base::Duration base_rtt);
// The window after it; unchanged when it is not due.
double decreased(double cwnd, const NsccParams& p, base::Duration avg_delay, base::Duration since_last,
                 base::Duration base_rtt);

// Weight of a new delay sample `gap` after the one before: the fixed one, or the part of a base RTT that
// passed (7.4).
double average_weight(double fixed, base::Duration gap, base::Duration base_rtt);

// Receiver penalty (7.5, 7.8): the window falls to what is in flight, then by pen/128 of the newly received
// bytes.
double penalised(double cwnd, double inflight, uint8_t pen, int64_t newly, int64_t mtu);

// What the accumulated increase adds.
double fulfilled(double cwnd, double inc, double max_wnd);

}  // namespace mrc::cc
