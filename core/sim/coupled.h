// A switch whose egress ports depend on each other: priority flow control (IEEE 802.1Qbb: bytes buffered per
// ingress port, pause and resume of the upstream port) and one buffer that all ports share. Decides
// admission, pauses and departures of all ports of a switch in exact time order. Leaves marking, trimming and
// the order of classes to aqm.h, routes and the moment a pause reaches the upstream port to the window loop.
//
// With PFC the data class is bounded at the ingress (xoff + headroom), and `data_bytes` of the egress queue
// does not apply; with a shared buffer it does not apply either. Control frames and trimmed headers are in
// neither account. Bytes leave an account when their frame begins to leave on the line.
#pragma once

#include <span>
#include <vector>

#include "sim/fabric.h"
#include "sim/stack.h"
#include "sim/totals.h"

namespace mrc::sim {

// `port`: the upstream egress port whose data class must hold (on) or may go again. `at`: when it takes
// effect there.
struct Pause {
  Ps at = 0;
  PortId port = kNoPort;
  bool on = false;
};

class Coupled {
 public:
  // `alpha` > 0: dynamic threshold, an egress queue may hold alpha x the shared buffer's free bytes. 0: any
  // port may take all of it.
  Coupled(Fabric& fabric, FramePool& pool, Totals& totals, double alpha = 0);

  // A frame reaches the egress queue of `egress` on switch `node` at `at`, inside the window that run() is
  // called for next. Its in_port must be the upstream egress port it came by.
  void arrive(uint32_t node, Ps at, PortId egress, FrameId frame);
  // Runs all ports of `node` from `begin` to `end` (not included). `in`: pauses that reach ports of this
  // switch in the window, sorted by time. Adds frames that leave to `out` and pauses for others to `pauses`,
  // both in time order.
  void run(uint32_t node, Ps begin, Ps end, std::span<const Pause> in, std::vector<Hosts::Sent>& out,
           std::vector<Pause>& pauses);
  // Nothing has arrived and nothing is queued.
  [[nodiscard]] bool idle(uint32_t node) const;
  // Counts the pauses that still last at the end of the run.
  void close(Ps now);

  // Bytes of the data class that are buffered from `in_port`, and in the whole switch.
  [[nodiscard]] uint32_t ingress_bytes(PortId in_port) const { return ingress_[in_port].bytes; }
  [[nodiscard]] uint64_t used(uint32_t node) const { return state(node).used; }
  // What `in_port` can still deliver after xoff was crossed: two frames, the pause behind a frame, and what
  // is on the cable.
  [[nodiscard]] uint32_t headroom(PortId in_port) const;

 private:
  static constexpr uint32_t kMaxFrame = 9216 + 256;  // jumbo payload and headers
  struct In {
    Ps at = 0;
    PortId from = kNoPort, egress = kNoPort;
    FrameId frame = kNoFrame;
  };
  struct Line {
    Ps at = 0;
    PortId port = kNoPort;
  };
  struct State {
    std::vector<In> in;
    std::vector<PortId> active;  // egress ports with something queued
    uint64_t used = 0;           // bytes of the data class
  };
  struct Ingress {
    uint32_t bytes = 0, room = 0;  // room: xoff + headroom
    bool paused = false;           // its upstream was told to hold
    Ps since = 0, told = 0;        // when it began to hold, when the last pause or resume reached it
  };
  static bool later(const Line& a, const Line& b) { return a.at > b.at || (a.at == b.at && a.port > b.port); }
  [[nodiscard]] const State& state(uint32_t node) const { return states_[node - fabric_.hosts()]; }
  [[nodiscard]] State& state(uint32_t node) { return states_[node - fabric_.hosts()]; }
  const QueueRules& rules(const Port& p);
  void take(State& s, const In& in, std::vector<Pause>& pauses);
  [[nodiscard]] bool admits(const State& s, const Port& p, const Frame& f) const;
  void refuse(State& s, Port& p, const In& in, Frame& f);
  void leave(State& s, const Frame& f, Ps now, std::vector<Pause>& pauses);
  void serve(State& s, PortId id, Ps now, std::vector<Hosts::Sent>& out, std::vector<Pause>& pauses);
  void lose_queued(State& s, Port& p, Ps now, std::vector<Pause>& pauses);
  void tell(PortId in_port, bool on, Ps now, std::vector<Pause>& pauses);
  void activate(State& s, PortId id);
  void await_line(PortId id, Ps at);

  Fabric& fabric_;
  FramePool& pool_;
  Totals& totals_;
  double alpha_;
  std::vector<State> states_;      // by switch
  std::vector<Ingress> ingress_;   // by the upstream egress port
  std::vector<uint8_t> active_;    // by egress port: in State::active
  std::vector<uint8_t> waiting_;   // by egress port: in lines_
  std::vector<QueueRules> rules_;  // by Port::queue: the fabric's, without data_bytes
  std::vector<uint8_t> have_rules_;
  std::vector<Line> lines_;  // scratch of run(): a heap of lines that fall free
};

}  // namespace mrc::sim
