// Deadlines of many objects: an indexed binary heap, one deadline an id. O(log n) to move, O(1) to look.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace mrc::engine {

class TimerHeap {
 public:
  // Instant::never() takes the id out.
  void set(uint32_t id, base::Instant at) {
    if (id >= pos_.size()) pos_.resize(id + 1, kAbsent);
    const uint32_t p = pos_[id];
    if (at.is_never()) {
      if (p != kAbsent) remove_at(p);
      return;
    }
    if (p == kAbsent) {
      heap_.push_back({at, id});
      pos_[id] = static_cast<uint32_t>(heap_.size() - 1);
      up(pos_[id]);
      return;
    }
    const base::Instant old = heap_[p].at;
    heap_[p].at = at;
    if (at < old) {
      up(p);
    } else if (old < at) {
      down(p);
    }
  }
  [[nodiscard]] base::Instant next() const { return heap_.empty() ? base::Instant::never() : heap_[0].at; }
  // The id whose deadline is due first; call only when next() is not never.
  [[nodiscard]] uint32_t front() const { return heap_[0].id; }
  [[nodiscard]] size_t size() const { return heap_.size(); }

 private:
  static constexpr uint32_t kAbsent = UINT32_MAX;
  struct Node {
    base::Instant at;
    uint32_t id;
  };
  // Ties break by id, so that equal seeds give equal orders.
  static bool less(const Node& a, const Node& b) { return a.at < b.at || (a.at == b.at && a.id < b.id); }
  void place(uint32_t p, Node n) {
    heap_[p] = n;
    pos_[n.id] = p;
  }
  void up(uint32_t p) {
    const Node n = heap_[p];
    while (p > 0 && less(n, heap_[(p - 1) / 2])) {
      place(p, heap_[(p - 1) / 2]);
      p = (p - 1) / 2;
    }
    place(p, n);
  }
  void down(uint32_t p) {
    const Node n = heap_[p];
    const auto size = static_cast<uint32_t>(heap_.size());
    for (uint32_t c = 2 * p + 1; c < size; c = 2 * p + 1) {
      if (c + 1 < size && less(heap_[c + 1], heap_[c])) ++c;
      if (!less(heap_[c], n)) break;
      place(p, heap_[c]);
      p = c;
    }
    place(p, n);
  }
  void remove_at(uint32_t p) {
    pos_[heap_[p].id] = kAbsent;
    const Node last = heap_.back();
    heap_.pop_back();
    if (p == heap_.size()) return;
    place(p, last);
    up(p);
    down(pos_[last.id]);
  }

  std::vector<Node> heap_;
  std::vector<uint32_t> pos_;
};

}  // namespace mrc::engine
