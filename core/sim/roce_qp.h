// One direction of a RoCEv2 RC QP, go-back-N at both ends (InfiniBand Architecture 1.x, 9.7): decides which
// packet is next, what an ACK, a NAK or a timeout means, and what a data packet means to the responder. Pure
// state: no clock, no queues; roce_stack.h owns time, rate and lines. PSNs count on in 64 bits; the wire
// shows the low 24.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/messages.h"

namespace mrc::sim {

struct RocePacket {
  uint64_t psn = 0;
  TaskId task = 0;
  uint32_t payload = 0;
  int64_t message_size = 0;
  bool first = false, last = false;  // of the message
  bool again = false;                // sent before
};

class RoceRequester {
 public:
  RoceRequester(uint32_t mtu, int64_t window) : mtu_(mtu), window_(window) {}

  void post(MessagePool& pool, TaskId task, int64_t size);
  // Something may be sent: there is a packet, and the window has room (a window below one packet lets one
  // go).
  [[nodiscard]] bool can_send(const MessagePool& pool) const;
  [[nodiscard]] RocePacket send(const MessagePool& pool);
  // All PSNs below `psn` have arrived. Calls `done(task)` for each message that completes. False: nothing
  // new.
  template <typename F>
  bool ack(MessagePool& pool, uint64_t psn, F done);
  // Goes back to the oldest packet that is not acknowledged.
  void rewind();
  // The QP failed: calls `lost(task)` for everything that was posted.
  template <typename F>
  void fail(MessagePool& pool, F lost);

  [[nodiscard]] uint64_t una() const { return una_; }
  [[nodiscard]] uint64_t next() const { return next_; }
  [[nodiscard]] bool outstanding() const { return next_ > una_; }
  [[nodiscard]] bool unfinished() const { return head_ != kNone; }
  [[nodiscard]] int64_t in_flight() const { return in_flight_; }
  [[nodiscard]] bool window_full() const { return in_flight_ + mtu_ > window_; }

 private:
  static constexpr uint32_t kNone = MessagePool::kNone;
  // Payload of the packets from `from` to `to` (not included) that lie in m.
  [[nodiscard]] int64_t bytes_in(const Message& m, uint64_t from, uint64_t to) const;

  uint32_t mtu_;
  uint32_t head_ = kNone, tail_ = kNone;  // posted and not completed
  uint32_t at_ = kNone;                   // the message of next_, kNone: all sent
  uint64_t una_ = 0, next_ = 0, sent_ = 0, end_ = 0;
  int64_t window_, in_flight_ = 0;  // payload bytes
};

inline void RoceRequester::post(MessagePool& pool, TaskId task, int64_t size) {
  const uint32_t i = pool.take();
  const uint64_t packets = packets_of(size, mtu_);
  pool[i] = {end_, end_ + packets, size, task, kNone};
  end_ += packets;
  (head_ == kNone ? head_ : pool[tail_].next) = i;
  tail_ = i;
  if (at_ == kNone) at_ = i;
}

inline bool RoceRequester::can_send(const MessagePool& pool) const {
  if (at_ == kNone) return false;
  return in_flight_ == 0 || in_flight_ + payload_of(pool[at_], next_, mtu_) <= window_;
}

inline RocePacket RoceRequester::send(const MessagePool& pool) {
  const Message& m = pool[at_];
  RocePacket p{next_,        m.task, payload_of(m, next_, mtu_), m.size, next_ == m.first, next_ + 1 == m.end,
               next_ < sent_};
  in_flight_ += p.payload;
  ++next_;
  sent_ = std::max(sent_, next_);
  if (next_ == m.end) at_ = m.next;
  return p;
}

inline int64_t RoceRequester::bytes_in(const Message& m, uint64_t from, uint64_t to) const {
  from = std::max(from, m.first);
  to = std::min(to, m.end);
  if (from >= to) return 0;
  return static_cast<int64_t>(to - from - 1) * mtu_ + payload_of(m, to - 1, mtu_);
}

template <typename F>
bool RoceRequester::ack(MessagePool& pool, uint64_t psn, F done) {
  if (psn <= una_ || psn > sent_) return false;
  const uint64_t counted =
      std::min(psn, next_);  // after a rewind, old copies may be acknowledged beyond next_
  while (head_ != kNone && pool[head_].first < psn) {
    Message& m = pool[head_];
    in_flight_ -= bytes_in(m, una_, counted);
    if (m.end > psn) break;
    const TaskId task = m.task;
    const uint32_t gone = head_;
    head_ = m.next;
    if (head_ == kNone) tail_ = kNone;
    if (at_ == gone) at_ = head_;
    pool.give(gone);
    done(task);
  }
  una_ = psn;
  next_ = std::max(next_, psn);
  return true;
}

inline void RoceRequester::rewind() {
  next_ = una_;
  in_flight_ = 0;
  at_ = head_;
}

template <typename F>
void RoceRequester::fail(MessagePool& pool, F lost) {
  while (head_ != kNone) {
    const uint32_t gone = head_;
    head_ = pool[gone].next;
    lost(pool[gone].task);
    pool.give(gone);
  }
  tail_ = at_ = kNone;
  una_ = next_ = sent_ = end_;
  in_flight_ = 0;
}

// The responder: takes packets in order only.
struct RoceResponder {
  enum class Verdict : uint8_t { in_order, duplicate, gap, known_gap };
  uint64_t expected = 0;
  bool nak_out = false;  // this gap was reported

  Verdict data(uint64_t psn) {
    if (psn == expected) {
      ++expected;
      nak_out = false;
      return Verdict::in_order;
    }
    if (psn < expected) return Verdict::duplicate;
    if (nak_out) return Verdict::known_gap;
    nak_out = true;
    return Verdict::gap;
  }
};

}  // namespace mrc::sim
