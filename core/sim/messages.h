// Messages that wait in the send queues of the baselines: lists in one pool, no allocation once it has grown.
// Decides how a message is cut into packets.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/tasks.h"

namespace mrc::sim {

struct Message {
  uint64_t first = 0, end = 0;  // numbers of its packets
  int64_t size = 0;             // bytes
  TaskId task = 0;
  uint32_t next = UINT32_MAX;
};
class MessagePool {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  Message& operator[](uint32_t i) { return all_[i]; }
  const Message& operator[](uint32_t i) const { return all_[i]; }
  uint32_t take() {
    if (free_ == kNone) {
      all_.emplace_back();
      return static_cast<uint32_t>(all_.size() - 1);
    }
    const uint32_t i = free_;
    free_ = all_[i].next;
    all_[i] = {};
    return i;
  }
  void give(uint32_t i) {
    all_[i].next = free_;
    free_ = i;
  }

 private:
  std::vector<Message> all_;
  uint32_t free_ = kNone;
};

// Packets of a message; one of no bytes is one packet.
constexpr uint64_t packets_of(int64_t size, uint32_t mtu) {
  return size > 0 ? static_cast<uint64_t>((size - 1) / mtu + 1) : 1;
}
constexpr uint32_t payload_of(const Message& m, uint64_t number, uint32_t mtu) {
  return number + 1 < m.end ? mtu
                            : static_cast<uint32_t>(m.size - static_cast<int64_t>(m.end - m.first - 1) * mtu);
}

}  // namespace mrc::sim
