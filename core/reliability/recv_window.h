// Which PSNs arrived above the cumulative point, with what each of them said (reference 6.1, 6.2).
// Decides acceptance by number only; leaves contents to messages_rx.h. Memory follows the spread of what
// arrived out of order and is bounded by the window; nothing is held while all is in order.
#pragma once

#include <cstdint>
#include <memory>

#include "base/seq.h"

namespace mrc::reliability {

// What must be known of a packet when its turn comes.
struct RecvSlot {
  uint32_t dmalen = 0, imm = 0;
  uint16_t msn = 0, rqmsn = 0;
  uint16_t length = 0;  // payload bytes
  bool first : 1 = false, last : 1 = false, has_imm : 1 = false, solicited : 1 = false;
  uint8_t error = 0;  // NAK syndrome this packet deserves once all before it is in
};
static_assert(sizeof(RecvSlot) <= 16);

class RecvWindow {
 public:
  static constexpr uint32_t kMaxPsns = 255 * 128;
  static constexpr uint32_t kIdleSlots = 64;

  RecvWindow(base::Psn rq_psn, uint32_t mpr);

  enum class Verdict : uint8_t { fresh, old_duplicate, duplicate, above, impossible };
  // `seq` gets the 64-bit number of `psn` (0 = rq_psn); untouched when impossible.
  [[nodiscard]] Verdict classify(base::Psn psn, int64_t& seq) const;

  [[nodiscard]] int64_t cack() const { return cack_; }
  [[nodiscard]] int64_t max_received() const { return max_rcv_; }
  [[nodiscard]] uint32_t ooo_count() const { return ooo_; }
  [[nodiscard]] base::Psn psn_of(int64_t seq) const {
    return base::Psn(rq_psn_.value + static_cast<uint32_t>(seq));
  }
  [[nodiscard]] bool received(int64_t seq) const;
  // 64 bits from `seq` > cack on; bit 0 is `seq`.
  [[nodiscard]] uint64_t bits(int64_t seq) const;

  // Stores a fresh packet above cack.
  void mark(int64_t seq, const RecvSlot& slot);
  // The packet that follows cack, if it is here.
  [[nodiscard]] const RecvSlot* following() const {
    return received(cack_ + 1) ? &slots_[slot(cack_ + 1)] : nullptr;
  }
  // cack + 1 is dealt with, whether it was stored or came just in order.
  void step();

  // The right edge never moves back: what was granted stays acceptable (5.3).
  void set_mpr(uint32_t mpr);
  [[nodiscard]] uint32_t mpr() const { return mpr_; }
  [[nodiscard]] bool oversized() const { return capacity_ > kIdleSlots; }
  void shrink();
  [[nodiscard]] size_t bytes() const { return capacity_ * sizeof(RecvSlot) + capacity_ / 8; }

 private:
  [[nodiscard]] uint32_t slot(int64_t seq) const { return static_cast<uint32_t>(seq) & (capacity_ - 1); }
  void resize(uint32_t capacity);

  base::Psn rq_psn_;
  uint32_t mpr_;
  uint32_t capacity_ = 0;
  uint32_t ooo_ = 0;
  int64_t cack_ = -1, max_rcv_ = -1;
  int64_t granted_;  // highest acceptable
  std::unique_ptr<RecvSlot[]> slots_;
  std::unique_ptr<uint64_t[]> words_;
};

}  // namespace mrc::reliability
