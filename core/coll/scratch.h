// Memory for intermediate results, kept for the next job: fresh memory costs a page fault every 4 KiB, which
// is more than the arithmetic on it.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

namespace mrc::coll {

class ScratchPool {
 public:
  // Not cleared. Throws std::bad_alloc.
  std::unique_ptr<uint8_t[]> take(uint64_t bytes) {
    size_t best = free_.size();
    for (size_t i = 0; i < free_.size(); ++i) {
      if (free_[i].bytes < bytes || free_[i].bytes > bytes * kSlack) continue;
      if (best == free_.size() || free_[i].bytes < free_[best].bytes) best = i;
    }
    if (best == free_.size()) return std::unique_ptr<uint8_t[]>(new uint8_t[bytes]);
    auto p = std::move(free_[best].memory);
    kept_ -= free_[best].bytes;
    free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(best));
    return p;
  }
  // `bytes` as it was asked for; what was handed out may be larger and then counts for less.
  void give(std::unique_ptr<uint8_t[]> memory, uint64_t bytes) {
    if (memory == nullptr || bytes > kMost) return;
    while (kept_ + bytes > kMost) {
      kept_ -= free_.front().bytes;
      free_.erase(free_.begin());
    }
    kept_ += bytes;
    free_.push_back({std::move(memory), bytes});
  }

 private:
  static constexpr uint64_t kMost = uint64_t{512} << 20, kSlack = 2;
  struct Piece {
    std::unique_ptr<uint8_t[]> memory;
    uint64_t bytes = 0;
  };
  std::vector<Piece> free_;
  uint64_t kept_ = 0;
};

}  // namespace mrc::coll
