// The EVs that control packets use (reference 6.13): one proven path per plane, found by SACKs of own data or
// by EV probes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/rng.h"
#include "base/time.h"
#include "ev/policy.h"
#include "ev/table.h"

namespace mrc::ev {

class ReverseSet {
 public:
  // `fixed` (experiment, docs/sim-ablations.md): the first path of a plane stays, whatever becomes of it.
  explicit ReverseSet(bool fixed = false) : fixed_(fixed) {}
  [[nodiscard]] bool fixed() const { return fixed_; }

  void proven(base::Instant now, PathId path) {
    (void)now;
    if (fixed_ && (set_ & (1u << (path.port & 31))) != 0) return;
    tags_[path.port & 31] = path.tag;
    set_ |= 1u << (path.port & 31);
    doubt_ &= ~(1u << (path.port & 31));
  }
  // A probe on this EV was not answered: the slot that holds it is empty again.
  void lost(uint32_t tag) {
    if (fixed_) return;
    for (uint32_t p = 0; p < 32; ++p) {
      if ((set_ & (1u << p)) == 0 || tags_[p] != tag) continue;
      set_ &= ~(1u << p);
      doubt_ |= 1u << p;
    }
  }
  // The same as another QP saw it: that one looks for a path that works.
  void forget(uint32_t tag) {
    const uint32_t before = doubt_;
    lost(tag);
    doubt_ = before;
  }
  void port_down(uint8_t port) {
    set_ &= ~(1u << (port & 31));
    doubt_ &= ~(1u << (port & 31));
  }
  // Planes whose proven path died, and no other one is known yet: many may have died with it.
  [[nodiscard]] uint32_t in_doubt() const { return doubt_; }

  // The proven path of a plane.
  [[nodiscard]] std::optional<PathId> of(uint8_t port) const {
    return (set_ & (1u << (port & 31))) != 0 ? std::optional(at(port & 31)) : std::nullopt;
  }

  // The slot of the plane the question came by, else the planes in turn.
  std::optional<PathId> choose(uint8_t preferred, uint32_t usable) {
    const uint32_t have = set_ & usable;
    if (have == 0) return std::nullopt;
    if ((have & (1u << (preferred & 31))) != 0) return at(preferred & 31);
    do {
      turn_ = (turn_ + 1) & 31;
    } while ((have & (1u << turn_)) == 0);
    return at(turn_);
  }

  // The path to probe next: planes in turn; the EV in its slot, to see that it still works, else a fresh one.
  std::optional<PathId> probe_candidate(base::Instant now, EvTable& table, uint32_t usable, base::Rng& rng) {
    (void)rng;  // the table's rotation is random already
    if (usable == 0) return std::nullopt;
    do {
      probe_turn_ = (probe_turn_ + 1) & 31;
    } while ((usable & (1u << probe_turn_)) == 0);
    if ((set_ & (1u << probe_turn_)) != 0) return at(probe_turn_);
    const auto path = table.choose(now, 1u << probe_turn_, std::nullopt);
    if (fixed_ && path) proven(now, *path);  // the first one stays, also when a probe is the first to use it
    return path;
  }

 private:
  [[nodiscard]] PathId at(uint32_t port) const { return {tags_[port], static_cast<uint8_t>(port)}; }
  std::array<uint32_t, 32> tags_{};
  uint32_t set_ = 0, doubt_ = 0, turn_ = 0, probe_turn_ = 0;
  bool fixed_;
};

}  // namespace mrc::ev
