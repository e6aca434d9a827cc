// The egress of one directed link: a FIFO data class, a control class before it, and the line behind both.
// Decides order and departure times exactly (store and forward, non-preemptive); what queues do when they
// fill is aqm.h, where frames go next is the fabric's.
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "sim/frame.h"

namespace mrc::sim {

using PortId = uint32_t;
inline constexpr PortId kNoPort = UINT32_MAX;
// PortId = 2 * link + direction: the two directions of a link are neighbours.
constexpr PortId reverse_of(PortId p) { return p ^ 1; }

struct PortCounters {
  uint64_t tx_bytes = 0, tx_packets = 0;
  uint64_t drops = 0, marks = 0, trims = 0;  // drops: queue full
  uint64_t lost = 0;                         // link down, loss, corruption
  uint32_t max_queue = 0, window_queue = 0;  // most bytes queued: ever, since the last sample
};

struct Fifo {
  FrameId head = kNoFrame, tail = kNoFrame;
  uint32_t bytes = 0;
  [[nodiscard]] bool empty() const { return head == kNoFrame; }
};

struct alignas(64) Port {
  Ps free_at = 0;  // when the line has sent what it is sending
  Fifo data, control;
  ByteTime per_byte = 0, full_per_byte = 0;  // now, undamaged
  Ps delay = 0;  // from the last bit on the line to the egress queue of the next node
  // --- second line
  uint32_t from = 0, to = 0;  // nodes
  uint16_t queue = 0;         // QueueRules
  uint8_t plane = 0;
  bool up = true, listed = false, last_hop = false, lossy = false;
  bool paused = false;                     // PFC: the data class holds still
  uint32_t loss_ppb = 0, corrupt_ppb = 0;  // parts per billion, after the line
  int32_t credit = 0;   // weighted control class: control bytes it may still send before data
  bool unseen = false;  // down in this direction alone: a NIC goes on sending into it
  base::Rng rng{0};
  PortCounters n;
};

inline void push(FramePool& pool, Fifo& q, FrameId id, Frame& f) {
  f.next = kNoFrame;
  if (q.head == kNoFrame) {
    q.head = id;
  } else {
    pool[q.tail].next = id;
  }
  q.tail = id;
  q.bytes += f.size;
}
inline FrameId pop(FramePool& pool, Fifo& q) {
  const FrameId id = q.head;
  Frame& f = pool[id];
  q.head = f.next;
  if (q.head == kNoFrame) {
    q.tail = kNoFrame;
  } else {
    pool.prefetch(q.head);
  }
  q.bytes -= f.size;
  return id;
}

}  // namespace mrc::sim
