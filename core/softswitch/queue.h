// The egress of one directed link: two classes of packets, the rules that mark, trim and drop them, and the
// line behind. Thresholds of paper-results E.3; reference 3.2 and 3.3.
#pragma once

#include <cstdint>

#include "base/rng.h"
#include "base/time.h"
#include "softswitch/frame.h"
#include "softswitch/packet.h"

namespace mrc::softswitch {

struct QueueRules {
  uint32_t data_bytes = 1 << 20;      // capacity of the data class
  uint32_t control_bytes = 1 << 20;   // and of the control class, which always goes first
  uint32_t ecn_min = 0, ecn_max = 0;  // data queued: marks begin, everything is marked; 0, 0: none
  uint32_t ecn_pmax_ppm = 1'000'000;  // chance of a mark just below ecn_max
  uint32_t trim_bytes = 0;            // data queued at which arrivals are trimmed; 0: never
  uint8_t trimmed_dscp = 12;          // 16 where the next hop is the receiver (the last-hop exception)
};

struct PortFault {
  bool down = false;  // no carrier: what is queued is lost, and the sender is told
  bool hole = false;  // everything vanishes, nobody is told
  uint32_t loss_ppm = 0, corrupt_ppm = 0;
  uint64_t rate_bps = 0;   // instead of the port's own; 0: the port's own
  base::Duration delay{};  // on top of the port's own
  bool operator==(const PortFault&) const = default;
};

struct PortCounters {
  uint64_t tx_packets = 0, tx_bytes = 0;  // put on the line; with 14 bytes of Ethernet each
  uint64_t dropped = 0;                   // queue full
  uint64_t marked = 0, trimmed = 0;
  uint64_t lost = 0, corrupted = 0;  // by faults, on the line
  uint64_t flushed = 0;              // lost in a queue whose link went down
  uint32_t queued_bytes = 0, max_queued_bytes = 0;
};

struct Fifo {
  FrameId head = kNoFrame, tail = kNoFrame;
  uint32_t bytes = 0;
  [[nodiscard]] bool empty() const { return head == kNoFrame; }
};

inline void push(FramePool& pool, Fifo& q, FrameId id) {
  Frame& f = pool[id];
  f.next = kNoFrame;
  if (q.empty()) {
    q.head = id;
  } else {
    pool[q.tail].next = id;
  }
  q.tail = id;
  q.bytes += f.size;
}
inline FrameId pop(FramePool& pool, Fifo& q) {
  const FrameId id = q.head;
  q.head = pool[id].next;
  if (q.head == kNoFrame) q.tail = kNoFrame;
  q.bytes -= pool[id].size;
  return id;
}

struct Port {
  uint32_t from = 0, to = 0;  // nodes
  uint64_t rate_bps = 0;      // 0: no limit
  base::Duration delay{};
  QueueRules rules;
  wire::Dscps dscps;
  Fifo data, control;
  bool busy = false;
  uint64_t rest = 0;  // part of a nanosecond the line is behind, in 1/rate
  PortFault fault;
  base::Rng rng{0};
  PortCounters n;

  // False: the queue is full, the caller gives the frame back. It may have been trimmed.
  bool enqueue(FramePool& pool, FrameId id);
  // What the line sends next; kNoFrame: nothing is queued.
  FrameId dequeue(FramePool& pool);
  // How long the line needs for `bytes`.
  base::Duration on_line(uint32_t bytes);
  void flush(FramePool& pool);
};

}  // namespace mrc::softswitch
