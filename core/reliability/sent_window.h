// What is known of every PSN between the cumulative acknowledgement and the newest one sent
// (reference 5.1, 5.7). Keeps the records, their order of transmission and the queue of PSNs to resend;
// leaves to loss.h and the requester why a record changes state. Sequence numbers here are 64 bits wide and
// start at 0 for the first PSN.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>

#include "base/time.h"

namespace mrc::reliability {

enum class SentState : uint8_t { inflight, lost, received };
enum class RtxCause : uint8_t { none, trimmed, lasthop, other_nack, inferred, probe, timeout };

struct SentRecord {
  base::Instant tx_time;     // latest transmission
  int64_t bytes_before = 0;  // nominal bytes of all transmissions before it
  base::Instant held_until;  // LOST: not to be resent earlier
  uint32_t tag = 0;          // EV of the latest transmission
  uint32_t nominal = 0;
  uint16_t prev = 0, next = 0;  // neighbours in transmission order, low halves of their numbers
  uint16_t msn = 0;
  uint16_t refused_epoch = 0;  // progress count at the last refusal
  SentState state = SentState::inflight;
  RtxCause cause = RtxCause::none;
  uint8_t port = 0;
  uint8_t tx_count = 0;         // saturates
  uint8_t refusals = 0;         // consecutive NO_* refusals, saturates
  bool spurious = false;        // already counted as lost in error
  bool until_progress = false;  // held for PSN_OOR_WINDOW: a move of unack frees it too
};
static_assert(sizeof(SentRecord) <= 48);

class SentWindow {
 public:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::min();
  // Indices are 16 bits wide; the 8-bit MPR field allows 255 x 128 PSNs.
  static constexpr uint32_t kMaxPsns = 255 * 128;
  static constexpr uint32_t kIdleRecords = 32;

  [[nodiscard]] int64_t unack() const { return unack_; }
  [[nodiscard]] int64_t next() const { return next_; }
  [[nodiscard]] bool tracked(int64_t seq) const { return seq > unack_ && seq < next_; }
  [[nodiscard]] bool empty() const { return next_ == unack_ + 1; }
  SentRecord& at(int64_t seq) { return records_[slot(seq)]; }
  // The record of a PSN that may already be acknowledged; null once overwritten.
  [[nodiscard]] const SentRecord* recent(int64_t seq) const {
    if (seq < valid_from_ || seq >= next_ || seq < next_ - int64_t{capacity_}) return nullptr;
    return &records_[slot(seq)];
  }
  SentRecord* recent(int64_t seq) {
    return const_cast<SentRecord*>(static_cast<const SentWindow*>(this)->recent(seq));
  }

  // A fresh record for next(); the caller keeps next() - unack() <= kMaxPsns.
  SentRecord& append();
  // Transmission order.
  void link_newest(int64_t seq);
  void unlink(int64_t seq);
  [[nodiscard]] int64_t oldest_sent() const { return head_; }
  // Retransmission queue: lowest PSN first among those not held.
  void queue(int64_t seq, base::Instant held_until);
  void unqueue(int64_t seq);
  [[nodiscard]] int64_t first_ready(base::Instant now);
  [[nodiscard]] base::Instant next_release() const {
    return held_count_ > 0 ? next_release_ : base::Instant::never();
  }
  void release_until_progress();
  [[nodiscard]] uint32_t queued() const { return ready_count_ + held_count_; }
  [[nodiscard]] uint32_t ready() const { return ready_count_; }

  // unack + 1 is RECEIVED and leaves.
  void pop_front() { ++unack_; }
  // Asks the cache for the records that are written next, and for the oldest one.
  void prefetch() const {
    if (capacity_ == 0) return;
    __builtin_prefetch(&records_[slot(unack_ + 1)]);
    for (int64_t ahead = 0; ahead < 4; ++ahead) __builtin_prefetch(&records_[slot(next_ + ahead)], 1);
  }
  // Forgets every record, keeps the numbers.
  void abandon();
  // Gives memory back when nothing is outstanding.
  void shrink();
  [[nodiscard]] size_t bytes() const {
    return capacity_ * sizeof(SentRecord) + 2 * words() * sizeof(uint64_t);
  }

 private:
  [[nodiscard]] uint32_t slot(int64_t seq) const { return static_cast<uint32_t>(seq) & (capacity_ - 1); }
  [[nodiscard]] size_t words() const { return (capacity_ + 63) / 64; }
  [[nodiscard]] int64_t widen(uint16_t low) const {
    return unack_ + 1 + static_cast<uint16_t>(low - static_cast<uint16_t>(unack_ + 1));
  }
  void resize(uint32_t capacity);
  void set_ready(int64_t seq);
  void promote(base::Instant now);

  std::unique_ptr<SentRecord[]> records_;
  std::unique_ptr<uint64_t[]> ready_bits_, held_bits_;
  uint32_t capacity_ = 0;
  uint32_t ready_count_ = 0, held_count_ = 0;
  base::Instant next_release_ = base::Instant::never();  // a lower bound
  int64_t unack_ = -1, next_ = 0;
  int64_t valid_from_ = 0;
  int64_t head_ = kNone, tail_ = kNone;
};

}  // namespace mrc::reliability
