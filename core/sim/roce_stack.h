// RoCEv2 NICs (InfiniBand RC over UDP/IPv6): the transport CONTRACT of stack.h over roce_qp.h and dcqcn.h.
// Decides which QP of a host sends next (in turn, as its window and its rate allow), when ACKs, NAKs and CNPs
// go, and when a QP times out or fails. One QP has one path: the plane and the UDP source port are drawn from
// the seed. docs/sim-baselines.md says what is left out.
#pragma once

#include <string>
#include <vector>

#include "sim/flow_list.h"
#include "sim/roce_config.h"
#include "sim/roce_qp.h"
#include "sim/stack.h"

namespace mrc::sim {

class RoceStack {
 public:
  RoceStack(Env& env, RoceConfig config) : env_(env), config_(config) {}

  std::string open(const std::vector<Pair>& pairs);
  void post(Ps now, uint32_t host, TaskId task);
  void receive(Ps now, uint32_t host, FrameId id);
  [[nodiscard]] Ps next_timer(uint32_t host) const { return timers_[host].next(); }
  void on_timer(Ps now, uint32_t host);
  [[nodiscard]] uint32_t wants(uint32_t host) const { return wants_[host]; }
  bool transmit(Ps now, uint32_t host, uint32_t free, Frame& out);
  // A dead link makes no QP move: it waits for its timer until it fails, or until the link is back.
  void on_port(Ps now, uint32_t host, uint8_t plane, bool up) {
    if (!up) watch_stranded(now, host, plane);
  }
  void on_pause(Ps now, uint32_t host, uint8_t plane, bool paused);
  void add_totals(Totals& t) const;

  // Kinds of Frame::kind.
  enum class Kind : uint8_t { data, ack, nak, cnp };
  // The rate that DCQCN allows a flow at `now`, bit/s.
  [[nodiscard]] double rate(uint32_t flow, Ps now) const;

 private:
  enum Timer : uint32_t { kPause, kPace, kRetry };
  struct Tx {
    RoceRequester qp;
    uint32_t src = 0, dst = 0;
    Ps paced_until = 0,
       pace_entry = kNever;  // when the rate allows the next packet; the timer that waits for it
    Ps retry_at = kNever, retry_entry = kNever;  // acknowledgement timer; the earliest entry of the heap
    Ps asked_at = 0;                             // the last packet that asked for an ACK
    uint32_t timeouts = 0;                       // in a row
    uint32_t ack_every = 1;
    uint16_t port = 0;
    uint8_t plane = 0;
    bool failed = false, after_timeout = false;
  };
  struct Rx {
    RoceResponder qp;
    Ps last_cnp = -1;  // -1: none yet
    bool owe_ack = false, owe_nak = false;
  };
  struct Lines {
    FlowList cnp, ack, data;
    bool paused = false;
  };
  // What the simulation carries behind the wire's own bytes of Frame::head.
  struct Note {
    uint64_t psn = 0;
    TaskId task = 0;
    uint8_t ask = 0, last = 0;
  };
  static constexpr size_t kNoteAt = 40;
  static constexpr uint32_t kIcrc = 4;

  [[nodiscard]] std::string check() const;
  std::string open_pair(const Pair& pair);
  [[nodiscard]] int64_t window_of(double bps, Ps rtt) const;
  Lines& lines(uint32_t host, uint8_t plane) { return lines_[host * env_.fabric.planes() + plane - 1u]; }
  void refresh(uint32_t host, uint8_t plane);
  void ready(Ps now, uint32_t flow);
  void arm_retry(Ps now, uint32_t flow);
  void watch_stranded(Ps now, uint32_t host, uint8_t plane);
  void timeout(Ps now, uint32_t flow);
  void fail(Ps now, uint32_t flow);
  void data_in(Ps now, uint32_t host, const Frame& f, const Note& note);
  void deliver(Ps now, const Frame& f, const Note& note);
  void ack_in(Ps now, uint32_t flow, uint64_t psn, bool nak);
  void head_of(Frame& out, uint32_t flow, Kind kind, uint8_t opcode, bool ask, uint64_t psn) const;
  void fill(Frame& out, Kind kind, bool control, uint32_t payload) const;
  void make_data(Ps now, uint32_t flow, Frame& out);
  void make_ack(uint32_t flow, Frame& out);
  void make_cnp(uint32_t flow, Frame& out);
  bool from_plane(Ps now, uint32_t host, uint8_t plane, Frame& out);
  void pace(Ps now, uint32_t flow, uint32_t bytes);

  Env& env_;
  RoceConfig config_;
  FlowTable table_;
  MessagePool messages_;
  std::vector<Tx> tx_;            // by flow, at its source
  std::vector<Rx> rx_;            // by flow, at its destination
  std::vector<DcqcnState> rate_;  // by flow; empty: DCQCN is off
  FlowLinks data_links_, ack_links_, cnp_links_;
  std::vector<Lines> lines_;        // by host and plane
  std::vector<uint32_t> wants_;     // by host
  std::vector<HostTimers> timers_;  // by host
  Totals n_;
};

}  // namespace mrc::sim
