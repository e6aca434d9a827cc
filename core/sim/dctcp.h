// DCTCP (RFC 8257): decides how far marks cut the window. Pure functions; windows in segments. Growth and
// losses are Reno's.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/tcp_config.h"

namespace mrc::sim {

struct DctcpState {
  double alpha = 1;                // estimated share of marked segments
  uint64_t acked = 0, marked = 0;  // segments of this window of data
  uint64_t window_end = 0;         // the first segment that belongs to the next one
  uint64_t cut_end = 0;            // no second cut before this segment is acknowledged
};

// alpha = (1 - g) alpha + g M, M = the share of marked segments (3.3, step 5-6).
inline double dctcp_alpha(double alpha, double g, double share) { return (1 - g) * alpha + g * share; }
// Window after marks: cwnd (1 - alpha / 2), at least 2 (3.3, step 9).
inline double dctcp_cut(double cwnd, double alpha) { return std::max(cwnd * (1 - alpha / 2), 2.0); }

// An ACK of `acked` segments, `marked` of them with CE, up to `una`; `next` is the next new segment. Closes
// the window of data when `una` passes its end.
inline void dctcp_count(const TcpConfig& c, DctcpState& s, uint64_t acked, uint64_t marked, uint64_t una,
                        uint64_t next) {
  s.acked += acked;
  s.marked += std::min(marked, acked);
  if (una < s.window_end || s.acked == 0) return;
  s.alpha = dctcp_alpha(s.alpha, c.dctcp_g, static_cast<double>(s.marked) / static_cast<double>(s.acked));
  s.acked = s.marked = 0;
  s.window_end = next;
}

}  // namespace mrc::sim
