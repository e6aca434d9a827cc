#include "softswitch/frame.h"

#include <algorithm>

namespace mrc::softswitch {

bool FramePool::grow(bool large) {
  const size_t each = large ? kLargeBytes : kSmallBytes;
  if (bytes_ + each * kSlab > max_bytes_) return false;
  bytes_ += each * kSlab;
  slabs_.push_back(std::unique_ptr<uint8_t[]>(new uint8_t[each * kSlab]));
  uint8_t* at = slabs_.back().get();
  std::vector<FrameId>& spare = large ? large_ : small_;
  for (size_t i = 0; i < kSlab; ++i, at += each) {
    spare.push_back(static_cast<FrameId>(frames_.size()));
    frames_.emplace_back();
    frames_.back().bytes = at;
    frames_.back().large = large;
  }
  return true;
}

FrameId FramePool::take(base::ByteView packet) {
  if (packet.size() > kLargeBytes) return kNoFrame;
  const bool large = packet.size() > kSmallBytes;
  std::vector<FrameId>& spare = large ? large_ : small_;
  if (spare.empty() && !grow(large)) return kNoFrame;
  const FrameId id = spare.back();
  spare.pop_back();
  Frame& f = frames_[id];
  std::copy(packet.begin(), packet.end(), f.bytes);
  f.size = static_cast<uint32_t>(packet.size());
  f.next = kNoFrame;
  f.cls = Class::data;
  f.sum = {};
  return id;
}

}  // namespace mrc::softswitch
