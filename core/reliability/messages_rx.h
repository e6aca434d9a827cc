// Packets in order become messages: consistency, message ends, immediates and receive requests (6.8 to 6.10).
// Decides what is complete and which NAK a packet deserves; leaves arrival order to recv_window.h.
//
// Rules that compare packets of one message are checked when the packet's turn comes, not on arrival: the
// verdict then does not depend on the order of arrival, and a NAK may not leave earlier anyway.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "base/time.h"
#include "reliability/recv_window.h"
#include "reliability/responder.h"
#include "reliability/ring.h"

namespace mrc::reliability {

class MessagesRx {
 public:
  static constexpr uint32_t kMaxLength = uint32_t{1} << 31;
  static constexpr size_t kIdleEntries = 8;

  explicit MessagesRx(const ResponderConfig& c)
      : pmtu_(c.pmtu),
        max_wimm_(c.max_wimm_dest),
        grace_(c.rq_empty_grace),
        max_recv_(c.max_recv_wr),
        arriving_(c.first_rqmsn),
        completing_(c.first_rqmsn) {}

  // The record of a data packet, with the NAK it deserves by itself (2.17 lengths, 6.9 range).
  [[nodiscard]] RecvSlot inspect(const wire::Packet& p) const;
  // The packet `seq` is next in order. Returns 0 or the NAK syndrome that ends the QP at this packet.
  [[nodiscard]] uint8_t consume(base::Instant now, int64_t seq, const RecvSlot& s);

  base::Errno post_recv(uint64_t wr_id);
  void flush();
  bool pop_completion(RecvCompletion& out);
  [[nodiscard]] bool has_completion() const { return !done_q_.empty(); }

  // Newest message end up to which everything is complete; -1 before the first.
  [[nodiscard]] int64_t acked_end() const { return acked_end_; }
  [[nodiscard]] uint64_t done() const { return done_; }
  [[nodiscard]] uint64_t wimms_done() const { return wimms_done_; }
  // The immediate that waits for a receive request, and until when.
  [[nodiscard]] base::Instant starved_at() const {
    return held_.empty() ? base::Instant::never() : held_[0].since + grace_;
  }
  [[nodiscard]] int64_t starved_seq() const { return held_[0].seq; }
  // Receive requests the application posted are its own affair until they are used.
  [[nodiscard]] bool oversized() const {
    return held_.capacity() > kIdleEntries || done_q_.capacity() > kIdleEntries ||
           (recvs_.capacity() > kIdleEntries && recvs_.size() <= kIdleEntries);
  }
  void shrink() {
    held_.trim(kIdleEntries);
    done_q_.trim(kIdleEntries);
    recvs_.trim(kIdleEntries);
  }
  [[nodiscard]] size_t bytes() const { return held_.bytes() + done_q_.bytes() + recvs_.bytes(); }

 private:
  // A WIMM all of whose data is in, without a receive request; plain ends behind it wait with it.
  struct Held {
    int64_t seq = 0, last_end = 0;
    base::Instant since;
    uint32_t imm = 0, length = 0;
    uint32_t ends = 1;
    bool solicited = false;
  };
  [[nodiscard]] uint8_t check_sequence(const RecvSlot& s);
  uint8_t finish(base::Instant now, int64_t seq, const RecvSlot& s);
  void complete_wimm(uint32_t imm, uint32_t length, bool solicited);

  uint32_t pmtu_;
  uint16_t max_wimm_;
  base::Duration grace_;
  uint32_t max_recv_;
  uint16_t arriving_, completing_;  // RQMSN of the next WIMM in order, and of the next to complete
  bool in_message_ = false, msn_known_ = false, dead_ = false;
  uint16_t msn_ = 0;  // of this message, or expected of the next
  uint32_t dmalen_ = 0;
  uint64_t received_ = 0;  // bytes of this message
  int64_t acked_end_ = -1;
  uint64_t done_ = 0, wimms_done_ = 0;
  Ring<Held> held_;
  Ring<uint64_t> recvs_;
  Ring<RecvCompletion> done_q_;
};

}  // namespace mrc::reliability
