// Completion queues: a bounded ring of completions and the one-shot notification of verbs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/types.h"

namespace mrc::engine {

class Cq {
 public:
  explicit Cq(uint32_t capacity) : capacity_(capacity) {}

  // False when full: the completion is lost and the CQ has overrun, which is fatal to its QPs as in verbs.
  bool push(const Completion& c, bool solicited) {
    if (size_ == capacity_) {
      overrun_ = true;
      return false;
    }
    if (ring_.size() < capacity_ && size_ == ring_.size()) grow();
    ring_[(head_ + size_) % ring_.size()] = c;
    ++size_;
    if (armed_ && (!solicited_only_ || solicited || c.status != Status::success)) {
      armed_ = false;
      fired_ = true;
    }
    return true;
  }

  size_t poll(std::span<Completion> out) {
    size_t n = 0;
    while (n < out.size() && size_ > 0) {
      out[n++] = ring_[head_];
      head_ = (head_ + 1) % ring_.size();
      --size_;
    }
    return n;
  }

  void arm(bool solicited_only) {
    // IBV semantics: arming for every completion outranks an earlier solicited-only arming.
    solicited_only_ = armed_ ? (solicited_only_ && solicited_only) : solicited_only;
    armed_ = true;
  }
  bool take_fired() {
    const bool f = fired_;
    fired_ = false;
    return f;
  }
  [[nodiscard]] bool overrun() const { return overrun_; }
  uint32_t users = 0;  // QP ends attached

 private:
  // Memory follows use: a CQ asked for 65,536 entries costs nothing until they are needed.
  void grow() {
    const size_t want = std::min<size_t>(capacity_, ring_.empty() ? 16 : ring_.size() * 2);
    std::vector<Completion> bigger(want);
    for (size_t i = 0; i < size_; ++i) bigger[i] = ring_[(head_ + i) % ring_.size()];
    ring_.swap(bigger);
    head_ = 0;
  }

  uint32_t capacity_;
  std::vector<Completion> ring_;
  size_t head_ = 0, size_ = 0;
  bool armed_ = false, solicited_only_ = false, fired_ = false, overrun_ = false;
};

}  // namespace mrc::engine
