// What goes wrong on a path, and when. A rule is plain data; Line applies it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace mrc::impair {

// Directions as the owner of the Line sees them; a pair in virtual time takes side 0 as the owner.
enum class Dir : uint8_t { tx = 1, rx = 2, both = 3 };

struct Rule {
  uint8_t port = 0;  // local port (plane); 0 = any
  std::optional<uint32_t>
      ev;  // wire tag; absent = any. A tag below 2^16 is compared with the source port only
  Dir dir = Dir::both;
  base::Instant from{}, until = base::Instant::never();
  bool down = false;  // everything is lost
  uint32_t drop_ppm = 0, dup_ppm = 0, reorder_ppm = 0, corrupt_ppm = 0, trim_ppm = 0, ce_ppm = 0;
  base::Duration delay{}, jitter{}, reorder_delay{};  // jitter: uniform in [0, jitter), keeps no order
  // A link: serialisation at rate_bps behind a FIFO of queue_bytes. Above ecn_bytes ECT packets get CE.
  uint64_t rate_bps = 0;
  uint32_t queue_bytes = 0, ecn_bytes = 0;
  bool trim_on_overflow = false;  // data packets are cut instead of dropped
  bool control_too = true;        // false: only data packets
};

}  // namespace mrc::impair
