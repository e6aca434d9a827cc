// The queue a controller polls EV events from (reference 12.5): it never overruns, what finds it full is
// dropped, and the next event delivered says how many were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "ev/value.h"

namespace mrc::ev {

struct EvEvent {
  uint64_t profile_id = 0;
  EvEntry ev;
  uint32_t state = 0;       // kStateGood, kStateAssumedBad
  uint64_t drop_count = 0;  // events dropped between the one before and this one, exact
};

class EventQueue {
 public:
  explicit EventQueue(size_t capacity) : capacity_(capacity == 0 ? 1 : capacity) {}

  void push(EvEvent e) {
    if (events_.size() >= capacity_) {
      ++dropped_;
      return;
    }
    e.drop_count = dropped_;
    dropped_ = 0;
    events_.push_back(e);
  }
  // What was lost before it entered this queue, for instance in EvTable::events_dropped().
  void note_dropped(uint64_t n) { dropped_ += n; }

  std::optional<EvEvent> poll() {
    if (events_.empty()) return std::nullopt;
    const EvEvent e = events_.front();
    events_.pop_front();
    return e;
  }
  [[nodiscard]] size_t size() const { return events_.size(); }

 private:
  size_t capacity_;
  uint64_t dropped_ = 0;
  std::deque<EvEvent> events_;
};

}  // namespace mrc::ev
