// Packets inside the switch: whole IPv6 packets in buffers of two sizes, taken from a pool of bounded memory.
// Decides where bytes live; leaves what they mean to packet.h.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"

namespace mrc::softswitch {

using FrameId = uint32_t;
inline constexpr FrameId kNoFrame = UINT32_MAX;

enum class Class : uint8_t { data, control };

// What the kernel's virtual header says of a checksum that is not filled in (veth); zero: nothing.
struct PartialSum {
  uint16_t start = 0, offset = 0;
};

struct Frame {
  uint8_t* bytes = nullptr;
  uint32_t size = 0;  // of the IPv6 packet
  FrameId next = kNoFrame;
  Class cls = Class::data;
  bool large = false;
  PartialSum sum;
  [[nodiscard]] base::MutByteView view() const { return {bytes, size}; }
};

class FramePool {
 public:
  static constexpr size_t kSmallBytes = 256, kLargeBytes = 16'384, kSlab = 256;

  explicit FramePool(size_t max_bytes) : max_bytes_(max_bytes) {}
  // kNoFrame: longer than a large buffer, or the memory set aside is used up.
  FrameId take(base::ByteView packet);
  void give_back(FrameId id) { (frames_[id].large ? large_ : small_).push_back(id); }
  Frame& operator[](FrameId id) { return frames_[id]; }
  [[nodiscard]] size_t in_use() const { return frames_.size() - small_.size() - large_.size(); }

 private:
  bool grow(bool large);

  size_t max_bytes_, bytes_ = 0;
  std::vector<Frame> frames_;
  std::vector<FrameId> small_, large_;
  std::vector<std::unique_ptr<uint8_t[]>> slabs_;
};

}  // namespace mrc::softswitch
