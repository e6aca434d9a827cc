// The steps of DCQCN's reaction point.
#include "sim/dcqcn.h"

#include <algorithm>

namespace mrc::sim {

namespace {

// Below this alpha no cut can be felt any more (a billionth of the rate): its timer stops.
constexpr double kNoAlpha = 1e-9;

}  // namespace

DcqcnState dcqcn_start(const DcqcnConfig& c, double line_bps) {
  DcqcnState s;
  s.current = s.target = s.line = line_bps;
  s.alpha = c.initial_alpha;
  return s;
}

void dcqcn_on_cnp(const DcqcnConfig& c, DcqcnState& s, Ps now) {
  if (s.last_cut >= 0 && now - s.last_cut < from_ns(c.decrease_interval_ns)) return;
  s.last_cut = now;
  s.target = s.current;
  s.current = std::max(s.current * (1 - s.alpha / 2), std::min(c.min_mbps * 1e6, s.line));
  s.alpha = (1 - c.g) * s.alpha + c.g;
  s.time_events = s.byte_events = 0;
  s.bytes = 0;
  s.alpha_due = now + from_ns(c.alpha_timer_ns);
  s.rate_due = now + from_ns(c.rate_timer_ns);
}

void dcqcn_increase(const DcqcnConfig& c, DcqcnState& s) {
  const uint32_t most = std::max(s.time_events, s.byte_events),
                 least = std::min(s.time_events, s.byte_events);
  if (least > c.fast_recovery) {
    s.target += c.hai_mbps * 1e6;
  } else if (most >= c.fast_recovery) {
    s.target += c.ai_mbps * 1e6;
  }
  s.target = std::min(s.target, s.line);
  s.current = std::min((s.target + s.current) / 2, s.line);
  // Halving the distance never arrives: a bit per second short is the line rate.
  if (s.target >= s.line && s.line - s.current < 1) s.current = s.line;
  if (s.current >= s.line) s.rate_due = kNever;
}

void dcqcn_on_sent(const DcqcnConfig& c, DcqcnState& s, int64_t bytes) {
  if (s.rate_due == kNever) return;
  for (s.bytes += bytes; s.bytes >= c.byte_counter; s.bytes -= c.byte_counter) {
    ++s.byte_events;
    dcqcn_increase(c, s);
  }
}

void dcqcn_advance(const DcqcnConfig& c, DcqcnState& s, Ps now) {
  while (s.alpha_due <= now) {
    s.alpha *= 1 - c.g;
    s.alpha_due = s.alpha < kNoAlpha ? kNever : s.alpha_due + from_ns(c.alpha_timer_ns);
  }
  while (s.rate_due <= now) {
    const Ps due = s.rate_due;
    s.rate_due = due + from_ns(c.rate_timer_ns);
    ++s.time_events;
    dcqcn_increase(c, s);
  }
}

}  // namespace mrc::sim
