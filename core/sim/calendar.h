// What arrives where, sorted into buckets of time. Decides nothing about order inside a bucket: every
// node sorts its own arrivals, which are few. Far-away buckets wait in a map.
#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <vector>

#include "sim/frame.h"

namespace mrc::sim {

struct Record {
  enum class Kind : uint32_t { port = 0, host = 1, pause = 2, resume = 3 };
  Ps at = 0;
  uint32_t frame = kNoFrame;
  uint32_t key = 0;               // kind in the two highest bits, then the port or host
  uint32_t in_port = UINT32_MAX;  // the port it left by: tells records of the same instant apart
  [[nodiscard]] Kind kind() const { return static_cast<Kind>(key >> 30); }
  [[nodiscard]] uint32_t id() const { return key & 0x3FFFFFFF; }
  [[nodiscard]] bool is_frame() const { return key >> 31 == 0; }
  static constexpr uint32_t make_key(Kind k, uint32_t id) { return (static_cast<uint32_t>(k) << 30) | id; }
};

class Calendar {
 public:
  // `width`: length of a bucket in ps, made longer to a power of two; any value above 0 is right, about a
  // window is fast.
  explicit Calendar(Ps width = 1)
      : shift_(static_cast<int>(std::bit_width(static_cast<uint64_t>(width - 1)))), ring_(kRing) {}

  void put(const Record& r) {
    const int64_t w = r.at >> shift_;
    ++size_;
    if (w - base_ < kRing) {
      auto& slot = ring_[static_cast<size_t>(w) & (kRing - 1)];
      if (slot.empty() && !spare_.empty()) {
        slot = std::move(spare_.back());
        spare_.pop_back();
      }
      slot.push_back(r);
    } else {
      far_[w].push_back(r);
    }
  }
  // Moves all that arrives before `end` to `out`, in the order it was put within a bucket. Call with
  // increasing `end`.
  void take(Ps end, std::vector<Record>& out) {
    out.clear();
    const int64_t last = end >> shift_;
    if (size_ == 0) return advance(last);
    for (; base_ < last; advance(base_ + 1))
      take_bucket(ring_[static_cast<size_t>(base_) & (kRing - 1)], out);
    take_part(ring_[static_cast<size_t>(last) & (kRing - 1)], end, out);
    size_ -= out.size();
  }
  // Time of the earliest record; kNever: there is none.
  [[nodiscard]] Ps next() const {
    if (size_ == 0) return kNever;
    for (int64_t w = base_; w < base_ + kRing; ++w) {
      const auto& slot = ring_[static_cast<size_t>(w) & (kRing - 1)];
      if (!slot.empty()) return earliest(slot);
    }
    return earliest(far_.begin()->second);
  }
  [[nodiscard]] size_t size() const { return size_; }
  // Nothing is earlier than `at`.
  void skip_to(Ps at) {
    if (const int64_t w = at >> shift_; w > base_) advance(w);
  }

 private:
  static constexpr int64_t kRing = 1 << 10;

  // The buckets before `w` are empty.
  void advance(int64_t w) {
    base_ = w;
    while (!far_.empty() && far_.begin()->first - base_ < kRing) {
      auto& slot = ring_[static_cast<size_t>(far_.begin()->first) & (kRing - 1)];
      // What was put when the bucket was far came before what was put since.
      std::vector<Record> merged = std::move(far_.begin()->second);
      merged.insert(merged.end(), slot.begin(), slot.end());
      slot = std::move(merged);
      far_.erase(far_.begin());
    }
  }
  static Ps earliest(const std::vector<Record>& records) {
    Ps at = kNever;
    for (const Record& r : records) at = std::min(at, r.at);
    return at;
  }
  void take_bucket(std::vector<Record>& slot, std::vector<Record>& out) {
    if (slot.empty()) return;
    out.insert(out.end(), slot.begin(), slot.end());
    slot.clear();
    // The next bucket to be filled takes this memory, which is in the cache.
    spare_.push_back(std::move(slot));
    slot = {};
  }
  static void take_part(std::vector<Record>& slot, Ps end, std::vector<Record>& out) {
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

  int shift_;
  int64_t base_ = 0;
  size_t size_ = 0;
  std::vector<std::vector<Record>> ring_, spare_;
  std::map<int64_t, std::vector<Record>> far_;
};

}  // namespace mrc::sim
