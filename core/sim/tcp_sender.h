// The sending end of a TCP connection: decides which segment goes next, which ones are lost (SACK scoreboard
// of RFC 6675, time order of RFC 8985) and how large the window is (slow start; cubic.h or dctcp.h). Pure
// state: time comes as an argument; tcp_stack.h owns timers and frames. Segments are numbered, never cut
// anew, and never span two messages.
#pragma once

#include <span>
#include <vector>

#include "sim/cubic.h"
#include "sim/dctcp.h"
#include "sim/messages.h"
#include "sim/tcp_receiver.h"

namespace mrc::sim {

struct TcpSegment {
  uint64_t seq = 0;
  TaskId task = 0;
  uint32_t payload = 0;
  bool first = false, last = false;  // of the message
  bool again = false;                // sent before
};

struct TcpAck {
  uint64_t expected = 0;  // all below have arrived
  std::span<const SackBlock> sack;
  uint32_t ce = 0;  // segments with CE so far, duplicates included
};

class TcpSender {
 public:
  enum class State : uint8_t { open, recovery, loss };  // loss: after a timeout

  // `rtt`: the first sample, which the handshake would have brought.
  TcpSender(const TcpConfig& c, Ps rtt);

  void post(const TcpConfig& c, MessagePool& pool, TaskId task, int64_t size);
  [[nodiscard]] bool can_send() const;
  TcpSegment send(const TcpConfig& c, const MessagePool& pool, Ps now);
  // Calls `done(task)` for messages that are acknowledged now. True: new data were acknowledged.
  template <typename F>
  bool ack(const TcpConfig& c, MessagePool& pool, Ps now, const TcpAck& a, F done);
  // The retransmission timer fired: everything that is not SACKed is lost, the window is one segment.
  void timeout(const TcpConfig& c);
  // The time that reorder_at() names has come.
  void reorder_timer(const TcpConfig& c, Ps now);
  template <typename F>
  void fail(MessagePool& pool, F lost);

  [[nodiscard]] bool outstanding() const { return next_ > una_; }
  [[nodiscard]] bool unfinished() const { return head_ != kNone; }
  [[nodiscard]] Ps rto(const TcpConfig& c) const;  // with the back-off of timeouts in a row
  [[nodiscard]] uint32_t timeouts() const { return timeouts_; }
  [[nodiscard]] Ps reorder_at() const { return reorder_at_; }
  [[nodiscard]] double cwnd() const { return cwnd_; }
  [[nodiscard]] double ssthresh() const { return ssthresh_; }
  [[nodiscard]] double alpha() const { return dctcp_.alpha; }
  [[nodiscard]] State state() const { return state_; }
  [[nodiscard]] uint64_t una() const { return una_; }
  [[nodiscard]] uint64_t next() const { return next_; }
  [[nodiscard]] Ps srtt() const { return srtt_; }
  // Segments that the network is thought to hold (RFC 6675: pipe).
  [[nodiscard]] uint64_t pipe() const { return next_ - una_ - sacked_ - lost_; }

 private:
  static constexpr uint32_t kNone = MessagePool::kNone;
  enum Flag : uint8_t { kSacked = 1, kLost = 2, kAgain = 4, kFirst = 8, kLast = 16 };
  struct Slot {
    Ps sent = 0;
    TaskId task = 0;
    uint16_t payload = 0;
    uint8_t flags = 0;
  };
  struct Heard {             // what one ACK brought
    uint64_t flight = 0;     // pipe before it
    uint64_t delivered = 0;  // segments that were not known to have arrived
    Ps rtt = -1;             // of the segment sent last, if its echo is clear
    Ps rtt_sent = -1;
  };
  Slot& slot(uint64_t seq) { return ring_[seq & (ring_.size() - 1)]; }
  [[nodiscard]] const Slot& slot(uint64_t seq) const { return ring_[seq & (ring_.size() - 1)]; }
  void grow_ring();
  void deliver(Slot& s, uint64_t seq, Ps now, Heard& h);
  void take_cumulative(uint64_t expected, Ps now, Heard& h);
  void take_sack(std::span<const SackBlock> sack, Ps now, Heard& h);
  void sample_rtt(Ps rtt);
  bool mark_losses(const TcpConfig& c, Ps now);
  void mark(Slot& s, uint64_t seq);
  void enter_recovery(const TcpConfig& c);
  [[nodiscard]] double on_loss(const TcpConfig& c);
  void grow(const TcpConfig& c, Ps now, uint64_t acked, uint64_t flight);
  bool heed_marks(const TcpConfig& c, uint64_t acked, uint32_t ce);
  void after_ack(const TcpConfig& c, Ps now, uint64_t acked, uint32_t ce, const Heard& h);
  TcpSegment resend(Ps now);

  uint32_t head_ = kNone, tail_ = kNone, at_ = kNone;  // messages: not complete, the one of next_
  uint64_t una_ = 0, next_ = 0, end_ = 0;
  uint64_t sacked_ = 0, lost_ = 0;  // of [una_, next_); lost: and not sent again
  uint64_t lost_from_ = 0;          // no segment below is lost
  uint64_t recovery_end_ = 0, max_window_;
  double cwnd_, ssthresh_;
  State state_ = State::open;
  uint32_t timeouts_ = 0;  // in a row
  uint32_t backoff_ = 0;   // doublings of the RTO; a round trip that could be measured ends them (RFC 6298)
  uint32_t ce_seen_ = 0;
  Ps srtt_, rttvar_, min_rtt_, last_sent_ = 0;
  Ps rack_sent_ = -1, rack_rtt_ = 0,
     reorder_at_ = kNever;  // of the segment sent last among those that arrived
  uint64_t rack_seq_ = 0;
  CubicState cubic_;
  DctcpState dctcp_;
  std::vector<Slot> ring_;  // a power of two
};

template <typename F>
bool TcpSender::ack(const TcpConfig& c, MessagePool& pool, Ps now, const TcpAck& a, F done) {
  if (a.expected < una_ || a.expected > next_) return false;  // older than what is known
  Heard h;
  h.flight = pipe();
  const uint64_t acked = a.expected - una_;
  take_cumulative(a.expected, now, h);
  take_sack(a.sack, now, h);
  while (head_ != kNone && pool[head_].end <= una_) {
    const uint32_t gone = head_;
    const TaskId task = pool[gone].task;
    head_ = pool[gone].next;
    if (head_ == kNone) tail_ = kNone;
    pool.give(gone);
    done(task);
  }
  after_ack(c, now, acked, a.ce, h);
  return acked > 0;
}

template <typename F>
void TcpSender::fail(MessagePool& pool, F lost) {
  while (head_ != kNone) {
    const uint32_t gone = head_;
    head_ = pool[gone].next;
    lost(pool[gone].task);
    pool.give(gone);
  }
  tail_ = at_ = kNone;
  una_ = next_ = end_;
  sacked_ = lost_ = 0;
  reorder_at_ = kNever;
}

}  // namespace mrc::sim
