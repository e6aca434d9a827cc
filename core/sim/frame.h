// One packet in flight, without its payload, and the pool it lives in. Two cache lines: what switches read,
// and the header bytes that only hosts read.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/units.h"
#include "wire/packet.h"

namespace mrc::sim {

using FrameId = uint32_t;
inline constexpr FrameId kNoFrame = UINT32_MAX;
inline constexpr size_t kMaxSids = 6;  // what fits behind a 32-bit block (D-34)

enum class Class : uint8_t { data, control };
enum class Ecn : uint8_t { not_ect = 0, ect1 = 1, ect0 = 2, ce = 3 };
enum class Trim : uint8_t { none, trimmed, trimmed_lasthop };

struct alignas(64) Frame {
  // --- what switches read
  FrameId next = kNoFrame;       // the queue it waits in
  uint32_t size = 0;             // bytes on the wire, kWireOverhead included
  uint32_t src = 0, dst = 0;     // hosts
  uint32_t tag = 0;              // EV on the wire: entropy of ECMP, path of STEV
  uint32_t in_port = 0;          // the port it left the last node by
  uint16_t sids[kMaxSids] = {};  // uSID list; sids[hop] is next
  uint8_t hop = 0, sid_count = 0;
  uint8_t plane = 0;  // 1-based
  Class cls = Class::data;
  Ecn ecn = Ecn::not_ect;
  Trim trim = Trim::none;
  bool trimmable = false, is_data = false;
  uint16_t payload = 0;  // bytes
  uint8_t head_len = 0;  // of `head`
  uint8_t dscp = 0;
  uint8_t trim_len = 0;   // header bytes that a trimming switch keeps
  uint8_t kind = 0;       // baselines: their own packet type
  uint16_t full_udp = 0;  // trimmed: UDP length before the cut, which the header goes on saying
  uint32_t flow = 0;      // baselines: their own flow number
  // --- what hosts read
  alignas(64) uint8_t head[64] = {};
};
static_assert(sizeof(Frame) == 128 && wire::kMaxHeaderBytes + 4 <= 64);

// Grows in blocks that never move; freed frames are used again first, newest first (they are in the cache).
class FramePool {
 public:
  Frame& operator[](FrameId id) { return starts_[id >> kBlockBits][id & (kBlock - 1)]; }
  FrameId take() {
    if (free_.empty()) grow();
    const FrameId id = free_.back();
    free_.pop_back();
    return id;
  }
  void give(FrameId id) { free_.push_back(id); }
  [[nodiscard]] size_t in_use() const { return blocks_.size() * kBlock - free_.size(); }
  [[nodiscard]] size_t capacity() const { return blocks_.size() * kBlock; }
  // Inlined by force: gcc takes a function that only prefetches for one without effect and drops its calls.
  [[gnu::always_inline]] void prefetch(FrameId id) { __builtin_prefetch(&(*this)[id], 1); }
  [[gnu::always_inline]] void prefetch_all(FrameId id) {
    const Frame& f = (*this)[id];
    __builtin_prefetch(&f, 1);
    __builtin_prefetch(f.head);
  }

 private:
  static constexpr uint32_t kBlockBits = 12, kBlock = 1u << kBlockBits;
  void grow() {
    const auto first = static_cast<FrameId>(blocks_.size() << kBlockBits);
    blocks_.emplace_back(kBlock);
    starts_.push_back(blocks_.back().data());
    for (uint32_t i = kBlock; i-- > 0;) free_.push_back(first + i);
  }
  std::vector<std::vector<Frame>> blocks_;
  std::vector<Frame*> starts_;
  std::vector<FrameId> free_;
};

}  // namespace mrc::sim
