// What arrives where, sorted into windows of equal length. Decides nothing about order inside a window: every
// node sorts its own arrivals, which are few. Far-away windows wait in a map.
#pragma once

#include <map>
#include <vector>

#include "sim/frame.h"

namespace mrc::sim {

struct Record {
  enum class Kind : uint32_t { port = 0, host = 1, pause = 2, resume = 3 };
  Ps at = 0;
  uint32_t frame = kNoFrame;
  uint32_t key = 0;  // kind in the two highest bits, then the port or host
  [[nodiscard]] Kind kind() const { return static_cast<Kind>(key >> 30); }
  [[nodiscard]] uint32_t id() const { return key & 0x3FFFFFFF; }
  static constexpr uint32_t make_key(Kind k, uint32_t id) { return (static_cast<uint32_t>(k) << 30) | id; }
};

class Calendar {
 public:
  // `window`: length in ps.
  explicit Calendar(Ps window = 1) : window_(window), ring_(kRing) {}

  [[nodiscard]] int64_t index(Ps at) const { return at / window_; }
  void put(const Record& r) {
    const int64_t w = index(r.at);
    ++size_;
    if (w - base_ < kRing) {
      ring_[static_cast<size_t>(w) & (kRing - 1)].push_back(r);
    } else {
      far_[w].push_back(r);
    }
  }
  // The windows before `w` are over. Call with increasing `w`.
  void advance(int64_t w) {
    base_ = w;
    while (!far_.empty() && far_.begin()->first - base_ < kRing) {
      auto& slot = ring_[static_cast<size_t>(far_.begin()->first) & (kRing - 1)];
      // What was put when the window was far came before what was put since.
      std::vector<Record> merged = std::move(far_.begin()->second);
      merged.insert(merged.end(), slot.begin(), slot.end());
      slot = std::move(merged);
      far_.erase(far_.begin());
    }
  }
  // Moves what arrives in window `w` before `end` to `out`; the rest stays.
  void take(int64_t w, Ps end, std::vector<Record>& out) {
    auto& slot = ring_[static_cast<size_t>(w) & (kRing - 1)];
    out.clear();
    if (slot.empty()) return;
    if (end >= (w + 1) * window_) {
      out.swap(slot);
    } else {
      size_t keep = 0;
      for (const Record& r : slot) {
        if (r.at < end) {
          out.push_back(r);
        } else {
          slot[keep++] = r;
        }
      }
      slot.resize(keep);
    }
    size_ -= out.size();
  }
  // The first window at or after base that holds something; -1: none.
  [[nodiscard]] int64_t next() const {
    if (size_ == 0) return -1;
    for (int64_t w = base_; w < base_ + kRing; ++w) {
      if (!ring_[static_cast<size_t>(w) & (kRing - 1)].empty()) return w;
    }
    return far_.empty() ? -1 : far_.begin()->first;
  }
  [[nodiscard]] size_t size() const { return size_; }

 private:
  static constexpr int64_t kRing = 1 << 10;
  Ps window_;
  int64_t base_ = 0;
  size_t size_ = 0;
  std::vector<std::vector<Record>> ring_;
  std::map<int64_t, std::vector<Record>> far_;
};

}  // namespace mrc::sim
