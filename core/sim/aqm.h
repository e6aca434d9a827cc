// What an egress queue does with a frame that arrives: mark, trim, drop or take it. Thresholds of
// paper-results E.3; reference 3.2 and 3.3.
#pragma once

#include "sim/port.h"

namespace mrc::sim {

struct QueueRules {
  uint32_t data_bytes = 0;            // capacity of the data class
  uint32_t control_bytes = 0;         // capacity of the control class
  uint32_t ecn_min = 0, ecn_max = 0;  // 0, 0: no marking. Equal: a threshold
  double ecn_pmax = 1.0;
  bool ecn_last_hop = false;
  uint32_t trim_bytes = 0, trim_last_hop = 0;  // data queued at which arrivals are trimmed; 0: never
  bool weighted = false;                       // else the control class always goes first
  uint32_t control_share_ppm = 250'000;
  uint8_t trimmed_dscp = 12, trimmed_lasthop_dscp = 16, control_dscp = 46;
};

enum class Fate : uint8_t { queued, dropped };

// Probability of a mark at `queued` bytes, in parts per 2^32.
inline uint64_t mark_probability(const QueueRules& r, uint32_t queued) {
  if (r.ecn_max == 0 || queued < r.ecn_min) return 0;
  if (queued >= r.ecn_max) return static_cast<uint64_t>(1) << 32;
  const double part = static_cast<double>(queued - r.ecn_min) / static_cast<double>(r.ecn_max - r.ecn_min);
  return static_cast<uint64_t>(part * r.ecn_pmax * 4294967296.0);
}

// Cuts the payload and moves the frame to the control class (reference 3.3).
inline void trim(Frame& f, const QueueRules& r, bool last_hop) {
  f.trim = last_hop ? Trim::trimmed_lasthop : Trim::trimmed;
  f.dscp = last_hop ? r.trimmed_lasthop_dscp : r.trimmed_dscp;
  f.cls = Class::control;
  f.full_udp = static_cast<uint16_t>(8 + f.head_len + f.payload + wire::pad_bytes(f.payload) + 4);
  f.head_len = f.trim_len;
  f.payload = 0;
  f.size = kWireOverhead + f.trim_len;
  if (f.size < kMinWireBytes) f.size = kMinWireBytes;
}

// The frame arrives at the egress queue of `p`. On `dropped` the caller gives it back to the pool.
inline Fate enqueue(FramePool& pool, Port& p, const QueueRules& r, FrameId id, Frame& f) {
  if (f.cls == Class::data) {
    const uint32_t queued = p.data.bytes;
    if (f.ecn == Ecn::ect0 && r.ecn_max != 0 && (!p.last_hop || r.ecn_last_hop)) {
      const uint64_t chance = mark_probability(r, queued);
      if (chance != 0 && (p.rng.next() >> 32) < chance) {
        f.ecn = Ecn::ce;
        ++p.n.marks;
      }
    }
    const uint32_t limit = p.last_hop ? r.trim_last_hop : r.trim_bytes;
    if (f.trimmable && limit != 0 && queued + f.size > limit) {
      trim(f, r, p.last_hop);
      ++p.n.trims;
    } else if (queued + f.size > r.data_bytes) {
      ++p.n.drops;
      return Fate::dropped;
    } else {
      push(pool, p.data, id, f);
      if (p.data.bytes > p.n.window_queue) p.n.window_queue = p.data.bytes;
      if (p.data.bytes > p.n.max_queue) p.n.max_queue = p.data.bytes;
      return Fate::queued;
    }
  }
  if (p.control.bytes + f.size > r.control_bytes) {
    ++p.n.drops;
    return Fate::dropped;
  }
  push(pool, p.control, id, f);
  return Fate::queued;
}

// Takes the frame that the line sends next; kNoFrame: nothing may go.
inline FrameId dequeue(FramePool& pool, Port& p, const QueueRules& r) {
  const bool data = !p.data.empty() && !p.paused;
  if (p.control.empty()) return data ? pop(pool, p.data) : kNoFrame;
  // Weighted: control may run ahead of its share of the line by its credit, which data refills.
  if (data && r.weighted && p.credit <= 0) {
    const FrameId id = pop(pool, p.data);
    const auto share = static_cast<uint64_t>(r.control_share_ppm);
    p.credit += static_cast<int32_t>(pool[id].size * share / (1'000'000 - share));
    return id;
  }
  const FrameId id = pop(pool, p.control);
  if (r.weighted) p.credit = data ? p.credit - static_cast<int32_t>(pool[id].size) : 0;
  return id;
}

}  // namespace mrc::sim
