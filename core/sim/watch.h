// What every transport tells the counters that somebody watches over time (totals.h): bytes that arrived at a
// host, bytes of a task that were delivered, packets sent again.
#pragma once

#include "sim/stack.h"

namespace mrc::sim {

inline void watch_arrival(const Env& env, uint32_t host, uint8_t plane, uint32_t payload) {
  Watch& w = env.watch;
  if (plane >= 1 && plane <= w.plane_bytes.size()) w.plane_bytes[plane - 1u] += payload;
  if (!w.host_bytes.empty()) w.host_bytes[host] += payload;
}

inline void watch_delivery(const Env& env, TaskId task, uint32_t payload) {
  Watch& w = env.watch;
  if (!w.flow_slot.empty() && w.flow_slot[task] >= 0)
    w.flow_bytes[static_cast<size_t>(w.flow_slot[task])] += payload;
  if (!w.group_bytes.empty()) w.group_bytes[static_cast<size_t>(env.tasks.spec().group[task])] += payload;
  if (!w.task_bytes.empty()) w.task_bytes[task] += payload;
}

inline void watch_resend(const Env& env, TaskId task) {
  Watch& w = env.watch;
  if (!w.task_rtx.empty()) ++w.task_rtx[task];
  ++w.rtx;
}

}  // namespace mrc::sim
