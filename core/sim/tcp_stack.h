// TCP over one path: the transport CONTRACT of stack.h over tcp_sender.h and tcp_receiver.h. Decides which
// connection of a host sends next (in turn, as its window allows), when ACKs go, and when a connection times
// out or fails. The plane and the source port of a connection are drawn from the seed. docs/sim-baselines.md
// says what is left out.
#pragma once

#include <string>
#include <vector>

#include "sim/flow_list.h"
#include "sim/stack.h"
#include "sim/tcp_config.h"
#include "sim/tcp_sender.h"

namespace mrc::sim {

class TcpStack {
 public:
  TcpStack(Env& env, TcpConfig config) : env_(env), config_(config) {}

  std::string open(const std::vector<Pair>& pairs);
  void post(Ps now, uint32_t host, TaskId task);
  void receive(Ps now, uint32_t host, FrameId id);
  [[nodiscard]] Ps next_timer(uint32_t host) const { return timers_[host].next(); }
  void on_timer(Ps now, uint32_t host);
  [[nodiscard]] uint32_t wants(uint32_t host) const { return wants_[host]; }
  bool transmit(Ps now, uint32_t host, uint32_t free, Frame& out);
  // A dead link moves no connection: it waits for its timer until it fails, or until the link is back.
  void on_port(Ps now, uint32_t host, uint8_t plane, bool up) {
    if (!up) watch_stranded(now, host, plane);
  }
  void on_pause(Ps now, uint32_t host, uint8_t plane, bool paused);
  void add_totals(Totals& t) const;

  enum class Kind : uint8_t { data, ack };  // of Frame::kind
  [[nodiscard]] const TcpSender& sender(uint32_t flow) const { return tx_[flow].tcp; }

 private:
  enum Timer : uint32_t { kPause, kReorder, kRetry, kDelayedAck };
  struct Tx {
    TcpSender tcp;
    uint32_t src = 0, dst = 0;
    Ps retry_at = kNever, retry_entry = kNever,
       reorder_entry = kNever;  // deadline; earliest entries of the heap
    uint16_t port = 0;
    uint8_t plane = 0;
    bool failed = false;
  };
  struct Rx {
    TcpReceiver tcp;
    Ps ack_at = kNever, ack_entry = kNever;
    uint32_t unacked = 0;  // segments in order since the last ACK
    uint32_t ce = 0;       // segments with CE so far
    bool ce_now = false, owe_ack = false;
  };
  struct Lines {
    FlowList ack, data;
    bool paused = false;
  };
  // What the simulation carries in Frame::head instead of a TCP header.
  struct Note {
    uint64_t seq = 0;                     // data: the segment; ACK: the first one that is missing
    uint32_t word = 0;                    // data: the task; ACK: segments with CE so far
    uint32_t count = 0;                   // data: 1, the last of its message; ACK: SACK blocks
    uint32_t sack[2 * kSackBlocks] = {};  // begin and end above `seq`
  };
  static constexpr size_t kNoteAt = 24;
  // Wire bytes of a segment without payload: the TCP header with timestamps takes the place of UDP's.
  static constexpr uint32_t kHeader = 20 + 12, kOverhead = kWireOverhead - 8 + kHeader;

  [[nodiscard]] std::string check() const;
  std::string open_pair(const Pair& pair);
  Lines& lines(uint32_t host, uint8_t plane) { return lines_[host * env_.fabric.planes() + plane - 1u]; }
  void refresh(uint32_t host, uint8_t plane);
  void ready(Ps now, uint32_t flow);
  void arm_retry(Ps now, uint32_t flow);
  void watch_stranded(Ps now, uint32_t host, uint8_t plane);
  void arm_reorder(uint32_t flow);
  void retry(Ps now, uint32_t flow);
  void on_retry_timer(Ps now, uint32_t flow, Ps entry);
  void on_ack_timer(Ps now, uint32_t flow, Ps entry);
  void data_in(Ps now, uint32_t host, const Frame& f, const Note& note);
  void delay_ack(Ps now, uint32_t host, uint32_t flow);
  void ack_in(Ps now, uint32_t flow, const Note& note);
  void fill(Frame& out, uint32_t flow, Kind kind, uint32_t payload, uint32_t options) const;
  void make_data(Ps now, uint32_t flow, Frame& out);
  void make_ack(uint32_t flow, Frame& out);
  bool from_plane(Ps now, uint32_t host, uint8_t plane, Frame& out);

  Env& env_;
  TcpConfig config_;
  FlowTable table_;
  MessagePool messages_;
  std::vector<Tx> tx_;  // by flow, at its source
  std::vector<Rx> rx_;  // by flow, at its destination
  FlowLinks data_links_, ack_links_;
  std::vector<Lines> lines_;        // by host and plane
  std::vector<uint32_t> wants_;     // by host
  std::vector<HostTimers> timers_;  // by host
  Totals n_;
};

}  // namespace mrc::sim
