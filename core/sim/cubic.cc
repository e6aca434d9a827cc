// The equations of RFC 9438.
#include "sim/cubic.h"

#include <algorithm>
#include <cmath>

namespace mrc::sim {

double cubic_k(double w_max, double cwnd, double c) {
  return w_max <= cwnd ? 0 : std::cbrt((w_max - cwnd) / c);
}

double cubic_window(double c, double t, double k, double w_max) {
  return c * (t - k) * (t - k) * (t - k) + w_max;
}

double cubic_reno_gain(const CubicState& s, double cwnd, double acked, double beta) {
  const double share = s.w_est >= s.prior ? 1 : 3 * (1 - beta) / (1 + beta);
  return share * acked / cwnd;
}

double cubic_on_ack(const TcpConfig& c, CubicState& s, double cwnd, double acked, Ps now, Ps rtt) {
  if (s.epoch < 0) {
    s.epoch = now;
    s.w_max = std::max(s.w_max, cwnd);
    s.k = cubic_k(s.w_max, cwnd, c.cubic_c);
    s.w_est = cwnd;
  }
  const double t = static_cast<double>(now - s.epoch) * 1e-12;
  s.w_est += cubic_reno_gain(s, cwnd, acked, c.cubic_beta);
  if (c.cubic_friendly && cubic_window(c.cubic_c, t, s.k, s.w_max) < s.w_est) return std::max(cwnd, s.w_est);
  const double ahead = cubic_window(c.cubic_c, t + static_cast<double>(rtt) * 1e-12, s.k, s.w_max);
  const double target = std::clamp(ahead, cwnd, 1.5 * cwnd);
  return cwnd + acked * (target - cwnd) / cwnd;
}

double cubic_on_loss(const TcpConfig& c, CubicState& s, double cwnd) {
  // A window that did not reach the last one again gives up some of it, for flows that have just come.
  s.w_max = cwnd < s.w_max ? cwnd * (1 + c.cubic_beta) / 2 : cwnd;
  s.prior = cwnd;
  s.epoch = -1;
  return std::max(cwnd * c.cubic_beta, 2.0);
}

}  // namespace mrc::sim
