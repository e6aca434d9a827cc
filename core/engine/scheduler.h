// Which QP sends next: a round robin of those that may have something to send (reference 7.7).
// A QP sits in at most one list; both operations are O(1) for any number of QPs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mrc::engine {

class Scheduler {
 public:
  // Puts the QP at the end of the ready list unless it is there already.
  void ready(uint32_t slot) {
    if (slot >= where_.size()) where_.resize(slot + 1, Where::none);
    if (where_[slot] == Where::ready) return;
    // A blocked QP that got an event may have something for another port: its entry in blocked_ goes stale.
    where_[slot] = Where::ready;
    push(slot);
  }
  // The QP popped last goes on, before the others.
  void again(uint32_t slot) {
    if (where_[slot] == Where::ready) return;
    where_[slot] = Where::ready;
    push(slot);  // makes room; the place before the head becomes the first one instead of the last
    head_ = (head_ - 1) & (ring_.size() - 1);
    ring_[head_] = slot;
  }
  // It has something, but no port can take it now.
  void blocked(uint32_t slot) {
    if (slot >= where_.size()) where_.resize(slot + 1, Where::none);
    if (slot >= listed_.size()) listed_.resize(slot + 1, false);
    where_[slot] = Where::blocked;
    if (listed_[slot]) return;  // a stale entry of it is still in the list
    listed_[slot] = true;
    blocked_.push_back(slot);
  }
  // A port became writable: everybody may try again.
  void unblock() {
    for (const uint32_t slot : blocked_) {
      listed_[slot] = false;
      if (where_[slot] == Where::blocked) {
        where_[slot] = Where::ready;
        push(slot);
      }
    }
    blocked_.clear();
  }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] size_t size() const { return count_; }
  // Who comes after `n` others.
  [[nodiscard]] uint32_t peek(size_t n) const { return ring_[(head_ + n) & (ring_.size() - 1)]; }
  uint32_t pop() {
    const uint32_t slot = ring_[head_];
    head_ = (head_ + 1) & (ring_.size() - 1);
    --count_;
    where_[slot] = Where::none;
    return slot;
  }

 private:
  enum class Where : uint8_t { none, ready, blocked };
  void push(uint32_t slot) {
    if (count_ == ring_.size()) {
      std::vector<uint32_t> bigger(ring_.empty() ? 16 : ring_.size() * 2);
      for (size_t i = 0; i < count_; ++i) bigger[i] = ring_[(head_ + i) & (ring_.size() - 1)];
      ring_.swap(bigger);
      head_ = 0;
    }
    ring_[(head_ + count_) & (ring_.size() - 1)] = slot;
    ++count_;
  }

  std::vector<uint32_t> ring_;
  size_t head_ = 0, count_ = 0;
  std::vector<Where> where_;
  std::vector<uint32_t> blocked_;
  std::vector<bool> listed_;
};

}  // namespace mrc::engine
