// One direction of one QP under chaos: posts random writes, knows what the peer's memory must look like.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/types.h"

namespace mrc::testing {

struct FlowLimits {
  uint32_t slots = 32, slot_bytes = 8192, max_open = 24;
  uint32_t imm_percent = 30, zero_percent = 5;
};

// A write that was posted and not yet seen complete at the sender.
struct OpenWrite {
  uint64_t id = 0;
  uint32_t slot = 0, offset = 0, length = 0, imm = 0;
  bool with_imm = false;
};

class Flow {
 public:
  Flow(const FlowLimits& limits, uint64_t seed);

  // Memory both sides register. The target is all canary outside live writes.
  std::vector<uint8_t>& source() { return source_; }
  std::vector<uint8_t>& target() { return target_; }

  [[nodiscard]] bool may_post() const { return open_.size() < limits_.max_open; }
  // Draws the next write and prepares its source bytes.
  OpenWrite next();
  void posted(const OpenWrite& w);
  void take_back() { --next_id_; }  // the post was refused (queue full)

  // The sender saw a completion. False with `why` on a violation.
  bool on_send_complete(uint64_t id, std::string& why);
  // The receiver saw an immediate. False with `why` on a violation.
  bool on_immediate(uint32_t imm, uint32_t length, std::string& why);
  // The QP is gone: what was open is forgotten, the target is canary again.
  void abandon();
  // Everything is complete: nothing open, no immediate missing, canary everywhere.
  bool finished(std::string& why) const;
  [[nodiscard]] size_t open() const { return open_.size(); }
  [[nodiscard]] bool immediates_pending() const { return imm_seen_ != imm_posted_; }
  [[nodiscard]] uint32_t remote_offset(const OpenWrite& w) const {
    return w.slot * limits_.slot_bytes + w.offset;
  }

  uint64_t writes = 0, immediates = 0, bytes = 0;

 private:
  static constexpr uint8_t kCanary = 0xA5;
  static constexpr uint32_t kGuard = 64;
  bool placed(const OpenWrite& w, std::string& why) const;
  void wipe(const OpenWrite& w);

  FlowLimits limits_;
  base::Rng rng_;
  std::vector<uint8_t> source_, target_, clean_;  // clean_: a slot of canary
  std::deque<OpenWrite> open_;                    // posting order
  // Immediates in posting order; a write may complete at either side first.
  struct Expected {
    uint64_t id;
    uint32_t imm, length;
  };
  std::deque<Expected> expected_;
  uint64_t next_id_ = 0, imm_posted_ = 0, imm_seen_ = 0;
};

}  // namespace mrc::testing
