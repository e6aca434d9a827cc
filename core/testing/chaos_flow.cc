#include "testing/chaos_flow.h"

#include <algorithm>
#include <cstring>

namespace mrc::testing {

Flow::Flow(const FlowLimits& limits, uint64_t seed)
    : limits_(limits),
      rng_(seed),
      source_(size_t{limits.slots} * limits.slot_bytes),
      target_(size_t{limits.slots} * limits.slot_bytes, kCanary),
      clean_(limits.slot_bytes, kCanary) {}

OpenWrite Flow::next() {
  OpenWrite w;
  w.id = next_id_++;
  w.slot = static_cast<uint32_t>(w.id % limits_.slots);
  const uint32_t room = limits_.slot_bytes - 2 * kGuard;
  if (rng_.below(100) >= limits_.zero_percent) {
    // Small and large writes in equal measure, at any alignment (B66).
    const uint32_t cap = rng_.below(2) == 0 ? std::min(room, 300u) : room;
    w.length = 1 + rng_.below(cap);
  }
  w.offset = kGuard + rng_.below(room - w.length + 1);
  w.with_imm = rng_.below(100) < limits_.imm_percent;
  w.imm = static_cast<uint32_t>(rng_.next());
  uint8_t* p = source_.data() + remote_offset(w);
  uint64_t x = rng_.next();
  for (uint32_t i = 0; i < w.length; i += 8) {
    std::memcpy(p + i, &x, std::min<size_t>(8, w.length - i));
    x = x * 6364136223846793005ULL + 1442695040888963407ULL;
  }
  return w;
}

void Flow::posted(const OpenWrite& w) {
  open_.push_back(w);
  ++writes;
  bytes += w.length;
  if (w.with_imm) {
    expected_.push_back({w.id, w.imm, w.length});
    ++imm_posted_;
    ++immediates;
  }
}

bool Flow::placed(const OpenWrite& w, std::string& why) const {
  const uint32_t at = remote_offset(w);
  if (std::memcmp(source_.data() + at, target_.data() + at, w.length) == 0) return true;
  why = "write " + std::to_string(w.id) + " of " + std::to_string(w.length) + " B is not in place";
  return false;
}

void Flow::wipe(const OpenWrite& w) { std::memset(target_.data() + remote_offset(w), kCanary, w.length); }

bool Flow::on_send_complete(uint64_t id, std::string& why) {
  if (open_.empty() || open_.front().id != id) {
    why = "completion of write " + std::to_string(id) + " is out of order or double";
    return false;
  }
  const OpenWrite w = open_.front();
  open_.pop_front();
  if (!placed(w, why)) return false;
  // The whole slot but this write must still be canary: nothing was written outside.
  const uint8_t* slot = target_.data() + size_t{w.slot} * limits_.slot_bytes;
  const uint32_t behind = w.offset + w.length;
  if (std::memcmp(slot, clean_.data(), w.offset) != 0 ||
      std::memcmp(slot + behind, clean_.data(), limits_.slot_bytes - behind) != 0) {
    why = "bytes outside write " + std::to_string(id) + " changed";
    return false;
  }
  wipe(w);
  return true;
}

bool Flow::on_immediate(uint32_t imm, uint32_t length, std::string& why) {
  ++imm_seen_;
  if (expected_.empty() || expected_.front().imm != imm || expected_.front().length != length) {
    why = "immediate " + std::to_string(imm) + " is out of order, double or unknown";
    return false;
  }
  const Expected e = expected_.front();
  expected_.pop_front();
  // It promises that its own bytes and those of every earlier message are placed (6.9).
  for (const OpenWrite& w : open_) {
    if (w.id > e.id) break;
    if (!placed(w, why)) {
      why = "immediate of write " + std::to_string(e.id) + " came early: " + why;
      return false;
    }
  }
  return true;
}

void Flow::abandon() {
  open_.clear();
  expected_.clear();
  imm_seen_ = imm_posted_;
  std::fill(target_.begin(), target_.end(), kCanary);
}

bool Flow::finished(std::string& why) const {
  if (!open_.empty()) {
    why = std::to_string(open_.size()) + " writes never completed, first " + std::to_string(open_.front().id);
    return false;
  }
  if (!expected_.empty()) {
    why = std::to_string(expected_.size()) + " immediates never arrived";
    return false;
  }
  if (!std::all_of(target_.begin(), target_.end(), [](uint8_t b) { return b == kCanary; })) {
    why = "target memory changed after all writes completed";
    return false;
  }
  return true;
}

}  // namespace mrc::testing
