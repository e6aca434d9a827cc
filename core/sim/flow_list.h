// Bookkeeping that the baselines share: which flow a pair of hosts uses, first-in-first-out lists of flows,
// and the timers of a host. Decides order only, the same for every run: no order depends on addresses.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/stack.h"
#include "sim/watch.h"

namespace mrc::sim {

inline constexpr uint32_t kNoFlow = UINT32_MAX;

// A flow is one direction of one QP or connection. Flows of a pair follow one another: QP q from a to b is
// first + 2q, back it is first + 2q + 1.
class FlowTable {
 public:
  // Pairs with a >= b or twice the same are refused: false.
  bool build(std::vector<Pair> pairs);
  [[nodiscard]] uint32_t count() const { return count_; }
  [[nodiscard]] uint32_t pairs() const { return static_cast<uint32_t>(pairs_.size()); }
  [[nodiscard]] const Pair& pair(uint32_t i) const { return pairs_[i]; }
  // The flow of QP `qp`, with -1 the next one in turn; kNoFlow: there is none.
  uint32_t pick(uint32_t src, uint32_t dst, int32_t qp);
  static constexpr uint32_t back(uint32_t flow) { return flow ^ 1; }

 private:
  std::vector<Pair> pairs_;      // sorted
  std::vector<uint32_t> first_;  // by pair
  std::vector<uint32_t> turn_;   // by pair and direction
  uint32_t count_ = 0;
};

// A list of flows through links that its owner keeps (`next`, one a flow); a flow is in it once at most.
struct FlowList {
  uint32_t head = kNoFlow, tail = kNoFlow;
  [[nodiscard]] bool empty() const { return head == kNoFlow; }
};
class FlowLinks {
 public:
  void resize(uint32_t flows) { next_.assign(flows, kOut); }
  // Nothing happens if the flow is in a list of these links already.
  void push(FlowList& l, uint32_t flow) {
    if (next_[flow] != kOut) return;
    next_[flow] = kNoFlow;
    (l.empty() ? l.head : next_[l.tail]) = flow;
    l.tail = flow;
  }
  uint32_t pop(FlowList& l) {
    const uint32_t flow = l.head;
    l.head = next_[flow];
    if (l.empty()) l.tail = kNoFlow;
    next_[flow] = kOut;
    return flow;
  }
  template <typename F>
  void each(const FlowList& l, F f) const {
    for (uint32_t flow = l.head; flow != kNoFlow; flow = next_[flow]) f(flow);
  }

 private:
  static constexpr uint32_t kOut = UINT32_MAX - 1;
  std::vector<uint32_t> next_;
};

// Deadlines of one host, earliest first. Whoever moves a deadline leaves the old entry in and ignores it when
// it fires.
class HostTimers {
 public:
  struct Entry {
    Ps at = kNever;
    uint32_t id = 0;
    uint32_t kind = 0;
  };
  [[nodiscard]] Ps next() const { return heap_.empty() ? kNever : heap_.front().at; }
  void push(Ps at, uint32_t kind, uint32_t id) {
    heap_.push_back({at, id, kind});
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  bool pop_due(Ps now, Entry& out) {
    if (next() > now) return false;
    out = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), later);
    heap_.pop_back();
    return true;
  }

 private:
  static bool later(const Entry& a, const Entry& b) {
    if (a.at != b.at) return a.at > b.at;
    return a.kind != b.kind ? a.kind > b.kind : a.id > b.id;
  }
  std::vector<Entry> heap_;
};

// Wire rate of a port at the start of the run, bit/s.
double port_bps(const Port& p);
// The host's own port is down, and it knows: nothing leaves.
inline bool dark(const Fabric& fabric, uint32_t host, uint8_t plane) {
  const Port& p = fabric.port(fabric.nic_port(host, plane));
  return !p.up && !p.unseen;
}
// Both ways without queues: a data packet of `data` wire bytes and an answer of `ack`; 0: no path.
Ps base_rtt(const Fabric& fabric, uint32_t src, uint32_t dst, uint8_t plane, uint32_t data, uint32_t ack);
// The plane and the ECMP entropy of a QP, drawn from the seed and the QP's name: the same for any order of
// pairs. Plane 0: the hosts share none.
struct Route {
  uint8_t plane = 0;
  uint16_t port = 0;  // UDP or TCP source port, 49152..65535
};
Route draw_route(const Fabric& fabric, uint64_t seed, const Pair& pair, uint32_t qp);

}  // namespace mrc::sim
