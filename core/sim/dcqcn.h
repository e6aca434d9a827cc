// DCQCN, the rate control of RoCE NICs (Zhu et al., "Congestion Control for Large-Scale RDMA Deployments",
// SIGCOMM 2015): decides the sending rate of one QP from its CNPs. Every step is a pure function of state and
// parameters. Leaves marking to the switch, the CNP itself to roce_qp.h and pacing to roce_stack.h.
#pragma once

#include <cstdint>

#include "sim/units.h"

namespace mrc::sim {

// Published defaults: section 5 and figure 14 of the paper, unless a line says otherwise.
struct DcqcnConfig {
  bool enabled = true;
  double g = 1.0 / 256;              // gain of alpha, between 0 and 1
  double initial_alpha = 1.0;        // 0..1
  int64_t cnp_interval_ns = 50'000;  // receiver: at most one CNP in this time for one QP
  // Sender: at most one cut in this time (NIC guides: rate_reduce_monitor_period).
  int64_t decrease_interval_ns = 4'000;
  int64_t alpha_timer_ns = 55'000;    // > 0; alpha falls after this time without a CNP
  int64_t rate_timer_ns = 55'000;     // > 0; one increase event each
  int64_t byte_counter = 10'000'000;  // > 0; one increase event for so many bytes sent
  uint32_t fast_recovery = 5;         // F: events of either kind before the additive phase
  double ai_mbps = 40;                // R_AI
  // R_HAI. The paper gives none: ten times R_AI, the ratio of 802.1Qau and of NIC guides.
  double hai_mbps = 400;
  double min_mbps = 100;  // the rate never falls below
};

// One QP's reaction point. Rates in bit/s.
struct DcqcnState {
  double current = 0, target = 0, line = 0;
  double alpha = 1;
  uint32_t time_events = 0, byte_events = 0;  // since the last cut
  int64_t bytes = 0;                          // since the last byte event
  Ps alpha_due = kNever, rate_due = kNever;   // kNever: at line rate, no timer runs
  Ps last_cut = -1;                           // -1: none yet
};

DcqcnState dcqcn_start(const DcqcnConfig& c, double line_bps);
// A CNP arrived: R_T = R_C, R_C *= 1 - alpha / 2, alpha rises, counters and timers start anew (paper,
// equation 1).
void dcqcn_on_cnp(const DcqcnConfig& c, DcqcnState& s, Ps now);
// One increase event: fast recovery, additive or hyper increase by the events so far (paper, figure 7,
// equations 2-4).
void dcqcn_increase(const DcqcnConfig& c, DcqcnState& s);
// Bytes left the NIC.
void dcqcn_on_sent(const DcqcnConfig& c, DcqcnState& s, int64_t bytes);
// Runs the timers that fell due up to `now`, in order.
void dcqcn_advance(const DcqcnConfig& c, DcqcnState& s, Ps now);

}  // namespace mrc::sim
