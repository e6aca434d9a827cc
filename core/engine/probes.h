// Reliability probes in flight on one QP: probe_id -> path and send time (reference 5.10).
// Decides which answers are ours and when a probe counts as failed; leaves what to probe to ev/ and
// reliability/.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"

namespace mrc::engine {

struct Probe {
  uint16_t id = 0;
  uint8_t port = 0;
  bool tail = false;  // sent for tail loss on a GOOD EV; its failure says nothing about the EV
  uint32_t tag = 0;
  base::Instant sent_at, expires_at;
};

class ProbeTable {
 public:
  uint16_t add(base::Instant now, uint32_t tag, uint8_t port, bool tail, base::Duration lifetime) {
    const uint16_t id = next_id_++;
    open_.push_back(Probe{id, port, tail, tag, now, now + lifetime});
    return id;
  }
  // The probe this answer belongs to; it is closed by this. Unknown or foreign ids yield nothing.
  std::optional<Probe> answered(uint16_t id, uint32_t entropy) {
    const auto it = std::find_if(open_.begin(), open_.end(), [&](const Probe& p) { return p.id == id; });
    // The reflected EV must be the one probed: an answer for another path proves nothing about this one.
    if (it == open_.end() || !same_path(it->tag, entropy)) return std::nullopt;
    const Probe p = *it;
    open_.erase(it);
    return p;
  }
  // Takes one probe whose time is over.
  std::optional<Probe> expired(base::Instant now) {
    const auto it =
        std::find_if(open_.begin(), open_.end(), [&](const Probe& p) { return p.expires_at <= now; });
    if (it == open_.end()) return std::nullopt;
    const Probe p = *it;
    open_.erase(it);
    return p;
  }
  [[nodiscard]] base::Instant next_expiry() const {
    base::Instant at = base::Instant::never();
    for (const Probe& p : open_) at = std::min(at, p.expires_at);
    return at;
  }
  void clear() { open_.clear(); }
  [[nodiscard]] size_t size() const { return open_.size(); }

 private:
  // Over IPv4 the upper half of the EV does not travel and comes back as 0; D-04 peers swap the halves.
  static bool same_path(uint32_t tag, uint32_t entropy) {
    return entropy == tag || entropy == (tag & 0xFFFF) || entropy == ((tag << 16) | (tag >> 16));
  }

  std::vector<Probe> open_;  // at most one an EV: a few in practice
  uint16_t next_id_ = 1;
};

}  // namespace mrc::engine
