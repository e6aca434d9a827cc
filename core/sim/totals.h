// Counters of a whole run, and what somebody wants to watch over time. Every counter names the branch that
// fired.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/units.h"

namespace mrc::sim {

struct Totals {
  // transports
  uint64_t data_packets = 0, data_packets_rtx = 0, data_bytes = 0, control_packets = 0;
  uint64_t rtx_trimmed = 0, rtx_inferred = 0, rtx_probe = 0, rtx_timeout = 0, timeouts = 0, spurious = 0,
           nacks = 0, sacks = 0;
  uint64_t ev_bad = 0, qp_errors = 0, ev_probes = 0, datagrams_dropped = 0;
  uint64_t timer_stalls = 0;  // a timer that stayed due: a bug of the transport
  uint64_t cnps = 0, pfc_pauses = 0, pfc_pause_ps = 0;
  // fabric (summed over ports at the end, apart from these)
  uint64_t drops_link = 0, drops_loss = 0, drops_corrupt = 0, drops_no_route = 0, drops_switch = 0;
  uint64_t ecn_marks = 0, trims = 0, trims_last_hop = 0, drops_queue = 0;
  uint64_t frames_sent = 0, frames_delivered = 0, frames_queued = 0;

  // What a transport counted.
  void add(const Totals& o) {
    data_packets += o.data_packets;
    data_packets_rtx += o.data_packets_rtx;
    data_bytes += o.data_bytes;
    control_packets += o.control_packets;
    rtx_inferred += o.rtx_inferred;
    rtx_timeout += o.rtx_timeout;
    timeouts += o.timeouts;
    spurious += o.spurious;
    nacks += o.nacks;
    sacks += o.sacks;
    qp_errors += o.qp_errors;
    cnps += o.cnps;
  }
};

// EV state change, for the timeline.
struct EvChange {
  int64_t at_ns = 0;
  uint32_t host = 0, peer = 0, qp = 0, tag = 0;
  uint8_t plane = 0, state = 0, reason = 0;
};

// Counters that a stack feeds while it runs; the sampler (series.h) reads and clears them every interval.
struct Watch {
  std::vector<int32_t> flow_slot;    // by task: index into flow_bytes, -1 = not watched; empty = none
  std::vector<uint64_t> flow_bytes;  // delivered to the destination
  std::vector<uint64_t> group_bytes;
  std::vector<uint64_t> plane_bytes;  // by plane - 1: data bytes that arrived at hosts
  std::vector<uint64_t> host_bytes;   // by host: data bytes that arrived; empty = not watched
  std::vector<int64_t> task_bytes;    // by task: delivered; empty unless wanted
  std::vector<uint32_t> task_rtx;     // by task: packets sent again
  std::vector<EvChange> ev_changes;
  uint64_t ev_changes_dropped = 0;
  uint64_t rtx = 0;
  static constexpr size_t kMaxEvChanges = 1'000'000;
};

}  // namespace mrc::sim
