// CUBIC (RFC 9438): decides the window after an ACK in congestion avoidance and after a loss. Pure functions
// of state and time; windows in segments. Leaves slow start and loss detection to tcp_sender.h.
#pragma once

#include "sim/tcp_config.h"
#include "sim/units.h"

namespace mrc::sim {

struct CubicState {
  double w_max = 0;  // window before the last cut; 0: none yet
  double k = 0;      // s from the epoch's start to w_max
  double w_est = 0;  // what Reno would have
  double prior = 0;  // window at the last cut: beyond it Reno's estimate grows by 1 a round
  Ps epoch = -1;     // start of congestion avoidance; -1: not begun
};

// Time to climb from `cwnd` back to `w_max`, s (4.2, equation 2).
double cubic_k(double w_max, double cwnd, double c);
// W_cubic at `t` s after the epoch's start (4.2, equation 1).
double cubic_window(double c, double t, double k, double w_max);
// What Reno's window gains by an ACK of `acked` segments (4.3, equation 4): the share of a segment that keeps
// the mean window of a flow that cuts by `beta`, and 1 beyond the window at the last cut.
double cubic_reno_gain(const CubicState& s, double cwnd, double acked, double beta);
// Window after an ACK of `acked` segments at `now`, one smoothed round trip `rtt` long (4.2-4.4).
double cubic_on_ack(const TcpConfig& c, CubicState& s, double cwnd, double acked, Ps now, Ps rtt);
// A congestion event: the slow-start threshold, at least 2 (4.6, with fast convergence 4.7).
double cubic_on_loss(const TcpConfig& c, CubicState& s, double cwnd);

}  // namespace mrc::sim
