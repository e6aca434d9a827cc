// Copies of packets that an impairment holds back, ordered by delivery time and bounded in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/time.h"
#include "wire/datagram.h"

namespace mrc::net {

struct HeldFrame {
  base::Instant at;
  uint64_t order = 0;
  bool outgoing = false;
  wire::DatagramMeta meta;
  base::IpAddr via;
  std::vector<uint8_t> bytes;
};

class FrameHeap {
 public:
  static constexpr size_t kMaxBytes = 256u << 20;

  // False when full: the packet is lost.
  bool push(HeldFrame f) {
    if (bytes_ + cost(f) > kMaxBytes) return false;
    bytes_ += cost(f);
    f.order = order_++;
    heap_.push_back(std::move(f));
    std::push_heap(heap_.begin(), heap_.end(), later);
    return true;
  }
  [[nodiscard]] base::Instant next() const {
    return heap_.empty() ? base::Instant::never() : heap_.front().at;
  }
  HeldFrame pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    HeldFrame f = std::move(heap_.back());
    heap_.pop_back();
    bytes_ -= cost(f);
    return f;
  }
  // Buffers go round: a rate-limited plane holds every packet for a while.
  std::vector<uint8_t> buffer() {
    if (spare_.empty()) return {};
    std::vector<uint8_t> b = std::move(spare_.back());
    spare_.pop_back();
    return b;
  }
  void recycle(std::vector<uint8_t> b) {
    if (spare_.size() < 1024 && b.capacity() > 0) spare_.push_back(std::move(b));
  }

 private:
  static size_t cost(const HeldFrame& f) { return f.bytes.size() + sizeof(HeldFrame) + 128; }
  static bool later(const HeldFrame& a, const HeldFrame& b) {
    return a.at > b.at || (a.at == b.at && a.order > b.order);
  }
  std::vector<HeldFrame> heap_;
  std::vector<std::vector<uint8_t>> spare_;
  size_t bytes_ = 0;
  uint64_t order_ = 0;
};

}  // namespace mrc::net
