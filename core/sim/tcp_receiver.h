// The receiving end of a TCP connection: decides what has arrived, what the SACK blocks say (RFC 2018: the
// three ranges that changed last) and whether an ACK may wait (RFC 5681, 4.2). Pure state; tcp_stack.h owns
// timers and frames. Segments are numbered: they are never cut anew.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/tasks.h"

namespace mrc::sim {

inline constexpr size_t kSackBlocks = 3;  // what fits beside the timestamps option

struct SackBlock {
  uint64_t begin = 0, end = 0;  // end not included
};

class TcpReceiver {
 public:
  enum class Verdict : uint8_t {
    in_order,
    filled,
    early,
    duplicate
  };  // filled: closes a gap, early: behind a gap

  // Takes segment `seq`, the last of message `task` if `last`. Calls `done(task)` for messages that are
  // complete now.
  template <typename F>
  Verdict data(uint64_t seq, bool last, TaskId task, F done);
  [[nodiscard]] uint64_t expected() const { return expected_; }
  // Most recently changed first; returns their number.
  size_t blocks(std::array<SackBlock, kSackBlocks>& out) const;

 private:
  struct Range {
    uint64_t begin = 0, end = 0;
    uint64_t changed = 0;  // the higher, the later
  };
  struct Ending {  // of a message, beyond a gap
    uint64_t seq = 0;
    TaskId task = 0;
  };
  bool insert(uint64_t seq);

  uint64_t expected_ = 0, changes_ = 0;
  std::vector<Range> ranges_;    // beyond expected_, in order, never touching
  std::vector<Ending> endings_;  // in no order
};

// False: it is there already.
inline bool TcpReceiver::insert(uint64_t seq) {
  auto it = ranges_.end();
  while (it != ranges_.begin() && (it - 1)->begin > seq) --it;
  // Everything from `it` on begins behind seq.
  const bool left = it != ranges_.begin() && (it - 1)->end >= seq,
             right = it != ranges_.end() && it->begin == seq + 1;
  if (left && (it - 1)->end > seq) return false;
  ++changes_;
  if (left) {
    Range& r = *(it - 1);
    r.end = right ? it->end : seq + 1;
    r.changed = changes_;
    if (right) ranges_.erase(it);
  } else if (right) {
    it->begin = seq;
    it->changed = changes_;
  } else {
    ranges_.insert(it, {seq, seq + 1, changes_});
  }
  return true;
}

template <typename F>
TcpReceiver::Verdict TcpReceiver::data(uint64_t seq, bool last, TaskId task, F done) {
  if (seq < expected_) return Verdict::duplicate;
  if (seq > expected_) {
    if (!insert(seq)) return Verdict::duplicate;
    if (last) endings_.push_back({seq, task});
    return Verdict::early;
  }
  const bool gap = !ranges_.empty();
  ++expected_;
  if (last) done(task);
  if (!gap) return Verdict::in_order;
  if (ranges_.front().begin == expected_) {
    expected_ = ranges_.front().end;
    ranges_.erase(ranges_.begin());
    std::sort(endings_.begin(), endings_.end(),
              [](const Ending& a, const Ending& b) { return a.seq < b.seq; });
    size_t n = 0;
    for (; n < endings_.size() && endings_[n].seq < expected_; ++n) done(endings_[n].task);
    endings_.erase(endings_.begin(), endings_.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return Verdict::filled;
}

inline size_t TcpReceiver::blocks(std::array<SackBlock, kSackBlocks>& out) const {
  size_t n = 0;
  uint64_t below = UINT64_MAX;
  for (; n < kSackBlocks; ++n) {
    const Range* best = nullptr;
    for (const Range& r : ranges_) {
      if (r.changed < below && (best == nullptr || r.changed > best->changed)) best = &r;
    }
    if (best == nullptr) break;
    below = best->changed;
    out[n] = {best->begin, best->end};
  }
  return n;
}

}  // namespace mrc::sim
