#include "softswitch/queue.h"

#include <algorithm>

namespace mrc::softswitch {

namespace {

constexpr uint64_t kNsBits = 8'000'000'000;  // bits per byte x ns per second

uint32_t mark_ppm(const QueueRules& r, uint32_t queued) {
  if (r.ecn_max == 0 || queued < r.ecn_min) return 0;
  if (queued >= r.ecn_max) return 1'000'000;
  return static_cast<uint32_t>(uint64_t{queued - r.ecn_min} * r.ecn_pmax_ppm / (r.ecn_max - r.ecn_min));
}

}  // namespace

bool Port::enqueue(FramePool& pool, FrameId id) {
  Frame& f = pool[id];
  if (f.cls == Class::data) {
    if (rng.chance_ppm(mark_ppm(rules, data.bytes)) && mark(f)) ++n.marked;
    if (rules.trim_bytes != 0 && data.bytes + f.size > rules.trim_bytes && trimmable(f.view(), dscps)) {
      trim(f, rules.trimmed_dscp);
      ++n.trimmed;
    } else if (data.bytes + f.size > rules.data_bytes) {
      ++n.dropped;
      return false;
    } else {
      push(pool, data, id);
      n.max_queued_bytes = std::max(n.max_queued_bytes, data.bytes);
      return true;
    }
  }
  if (control.bytes + f.size > rules.control_bytes) {
    ++n.dropped;
    return false;
  }
  push(pool, control, id);
  return true;
}

FrameId Port::dequeue(FramePool& pool) {
  if (!control.empty()) return pop(pool, control);
  return data.empty() ? kNoFrame : pop(pool, data);
}

base::Duration Port::on_line(uint32_t bytes) {
  const uint64_t rate = fault.rate_bps != 0 ? fault.rate_bps : rate_bps;
  if (rate == 0) return {};
  const uint64_t work = uint64_t{bytes} * kNsBits + std::min(rest, rate - 1);
  rest = work % rate;
  return {static_cast<int64_t>(work / rate)};
}

void Port::flush(FramePool& pool) {
  for (FrameId id = dequeue(pool); id != kNoFrame; id = dequeue(pool)) {
    pool.give_back(id);
    ++n.flushed;
  }
}

}  // namespace mrc::softswitch
