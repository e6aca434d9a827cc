#include "impair/line.h"

#include <algorithm>

namespace mrc::impair {

using base::Duration;
using base::Instant;

namespace {
constexpr uint32_t kTrimmedSize = 80;   // what a trimmed packet still costs a link
size_t index(Dir dir) { return dir == Dir::rx ? 1 : 0; }
}  // namespace

uint64_t Line::add_rule(const Rule& rule) {
  Live live;
  live.id = next_id_++;
  live.rule = rule;
  rules_.push_back(live);
  return live.id;
}

bool Line::remove_rule(uint64_t id) {
  return std::erase_if(rules_, [id](const Live& l) { return l.id == id; }) > 0;
}

void Line::clear() { rules_.clear(); }

LineCounters Line::rule_counters(uint64_t id) const {
  const auto it = std::find_if(rules_.begin(), rules_.end(), [id](const Live& l) { return l.id == id; });
  return it == rules_.end() ? LineCounters{} : it->counters;
}

bool Line::applies(const Rule& r, Instant now, Dir dir, uint8_t port, uint32_t ev, bool is_data) {
  if (now < r.from || now >= r.until) return false;
  if ((static_cast<uint8_t>(r.dir) & static_cast<uint8_t>(dir)) == 0) return false;
  if (r.port != 0 && r.port != port) return false;
  if (r.ev && *r.ev != ev && !(*r.ev <= 0xFFFF && *r.ev == (ev & 0xFFFF))) return false;
  return r.control_too || is_data;
}

void Line::through_link(Live& live, Instant now, Dir dir, uint8_t port, size_t bytes, bool is_data, bool ect, Verdict& v) {
  const Rule& r = live.rule;
  Instant& busy = live.busy_until[index(dir)][port & 31];
  const Instant start = std::max({busy, now, v.deliver_at});
  const auto queued = static_cast<uint64_t>((start - std::max(now, v.deliver_at)).ns) * r.rate_bps / 8'000'000'000ULL;
  if (r.queue_bytes > 0 && queued + bytes > r.queue_bytes) {
    ++live.counters.overflowed;
    ++counters_.overflowed;
    if (!r.trim_on_overflow || !is_data) {
      v.drop = true;
      return;
    }
    v.trim = true;   // the header overtakes the queue
    v.deliver_at = std::max(now, v.deliver_at) + Duration{static_cast<int64_t>(kTrimmedSize * 8'000'000'000ULL / r.rate_bps)};
    return;
  }
  if (r.ecn_bytes > 0 && queued > r.ecn_bytes && ect) v.mark_ce = true;
  busy = start + Duration{static_cast<int64_t>(bytes * 8'000'000'000ULL / r.rate_bps)};
  v.deliver_at = busy;
}

void Line::apply(Live& live, Instant now, Dir dir, uint8_t port, size_t bytes, bool is_data, bool ect, Verdict& v) {
  const Rule& r = live.rule;
  ++live.counters.seen;
  if (r.down || rng_.chance_ppm(r.drop_ppm)) {
    v.drop = true;
    return;
  }
  if (is_data && rng_.chance_ppm(r.trim_ppm)) v.trim = true;
  if (ect && rng_.chance_ppm(r.ce_ppm)) v.mark_ce = true;
  if (rng_.chance_ppm(r.corrupt_ppm)) {
    v.corrupt = true;
    v.corrupt_bit = static_cast<uint32_t>(rng_.next() >> 33);
    ++live.counters.corrupted;
  }
  if (r.rate_bps > 0) through_link(live, now, dir, port, bytes, is_data, ect, v);
  if (v.drop) return;
  if (r.delay.ns > 0) v.deliver_at = v.deliver_at + r.delay;
  if (r.jitter.ns > 0) v.deliver_at = v.deliver_at + Duration{static_cast<int64_t>(rng_.next() % static_cast<uint64_t>(r.jitter.ns))};
  if (rng_.chance_ppm(r.reorder_ppm)) {
    v.deliver_at = v.deliver_at + r.reorder_delay;
    ++live.counters.reordered;
    ++counters_.reordered;
  }
  if (rng_.chance_ppm(r.dup_ppm)) {
    v.duplicate = true;
    v.duplicate_at = v.deliver_at + Duration{static_cast<int64_t>(rng_.below(50'000))};
    ++live.counters.duplicated;
  }
}

void Line::expire(Instant now) {
  std::erase_if(rules_, [now](const Live& l) { return l.rule.until <= now; });
}

Verdict Line::judge(Instant now, Dir dir, uint8_t port, uint32_t ev, size_t bytes, bool is_data, bool ect) {
  Verdict v;
  v.deliver_at = now;
  ++counters_.seen;
  // Long runs add thousands of short rules; the dead ones are swept now and then.
  if (rules_.size() > 64 && counters_.seen % 1024 == 0) expire(now);
  for (Live& live : rules_) {
    if (!applies(live.rule, now, dir, port, ev, is_data)) continue;
    const bool trimmed = v.trim;
    const bool marked = v.mark_ce;
    apply(live, now, dir, port, bytes, is_data, ect, v);
    if (v.drop) {
      ++live.counters.dropped;
      ++counters_.dropped;
      return v;
    }
    if (v.trim && !trimmed) ++live.counters.trimmed;
    if (v.mark_ce && !marked) ++live.counters.marked;
  }
  const auto one = [](bool b) { return b ? uint64_t{1} : uint64_t{0}; };
  counters_.trimmed += one(v.trim);
  counters_.marked += one(v.mark_ce);
  counters_.corrupted += one(v.corrupt);
  counters_.duplicated += one(v.duplicate);
  counters_.delayed += one(v.deliver_at > now);
  return v;
}

}  // namespace mrc::impair
