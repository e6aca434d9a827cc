// Work requests in posting order: how one becomes packets, and when it is complete
// (reference 5.2, 5.9, 5.11). Decides segmentation, MSN and RQMSN, and the order of completions; leaves
// windows and loss to the requester.
#pragma once

#include <cstdint>

#include "reliability/requester.h"
#include "reliability/ring.h"

namespace mrc::reliability {

struct Message {
  WorkRequest wr;
  int64_t first_seq = 0;  // valid once started
  uint32_t packets = 1;
  uint16_t rqmsn = 0;
  Status status = Status::success;
  uint8_t vendor_err = 0;
  [[nodiscard]] int64_t last_seq() const { return first_seq + packets - 1; }
  [[nodiscard]] bool is_wimm() const { return wr.opcode == WrOpcode::rdma_write_imm; }
};

class MessageQueue {
 public:
  static constexpr uint32_t kMaxLength = uint32_t{1} << 31;
  static constexpr size_t kIdleMessages = 8;

  MessageQueue(uint32_t pmtu, uint32_t max_wr, uint16_t first_rqmsn)
      : pmtu_(pmtu), max_wr_(max_wr), next_rqmsn_(first_rqmsn) {}

  base::Errno post(const WorkRequest& wr);
  // The message whose next packet is new data; null when all is sent.
  [[nodiscard]] const Message* sending() const { return send_ < end() ? &ring_[index(send_)] : nullptr; }
  [[nodiscard]] bool at_first_packet() const { return sent_ == 0; }
  // No other message waits behind the one being sent.
  [[nodiscard]] bool sending_is_last() const { return send_ + 1 >= end(); }
  // MSNs compare serially, so fewer than 2^15 messages may be outstanding (2.4).
  [[nodiscard]] bool may_start() const { return send_ - done_ < (1 << 15) - 1; }
  // The next packet of new data, without changing anything.
  void plan_new(PlannedPacket& p) const;
  // The planned packet went out as `seq`; returns its MSN.
  uint16_t advance(int64_t seq);
  // A packet of a message that was started: for retransmission.
  void plan_again(int64_t seq, uint16_t msn, PlannedPacket& p) const;

  // The oldest incomplete message if all its packets have been sent, else null.
  [[nodiscard]] const Message* oldest_sent() const;
  [[nodiscard]] uint16_t oldest_msn() const { return static_cast<uint16_t>(done_); }
  // Completes with success what ends at or before `seq`; the number of messages completed.
  uint32_t complete_through(int64_t seq);
  // Ends everything: the oldest incomplete message with `first`, the others flushed.
  void fail(Status first, uint8_t vendor_err);

  bool pop_completion(SendCompletion& out);
  [[nodiscard]] bool idle() const { return done_ == end(); }
  [[nodiscard]] bool has_unsent() const { return send_ < end(); }
  [[nodiscard]] uint32_t incomplete() const { return static_cast<uint32_t>(end() - done_); }
  [[nodiscard]] uint32_t wimm_outstanding() const { return wimm_out_; }
  void prefetch() const {
    if (has_unsent()) __builtin_prefetch(&ring_[index(send_)]);
    if (send_ != done_ && !idle()) __builtin_prefetch(&ring_[index(done_)]);
  }
  void trim() {
    if (idle()) ring_.trim(kIdleMessages);
  }
  [[nodiscard]] size_t bytes() const { return ring_.bytes(); }

 private:
  [[nodiscard]] int64_t end() const { return front_ + static_cast<int64_t>(ring_.size()); }
  [[nodiscard]] size_t index(int64_t n) const { return static_cast<size_t>(n - front_); }
  void fill(const Message& m, uint16_t msn, uint32_t packet, PlannedPacket& p) const;
  void drop_silent();

  uint32_t pmtu_, max_wr_;
  uint16_t next_rqmsn_;
  uint32_t sent_ = 0;      // packets of message send_ that went out
  uint32_t wimm_out_ = 0;  // WIMMs started and not complete
  // Absolute numbers, whose low 16 bits are MSNs: ring front <= done <= send <= end.
  int64_t front_ = 0, done_ = 0, send_ = 0;
  Ring<Message> ring_;
};

}  // namespace mrc::reliability
