// One packet against every rule that holds, in the order in which the rules were added.
#include "impair/line.h"

#include <algorithm>

namespace mrc::impair {

using base::Duration;
using base::Instant;

namespace {
constexpr size_t kTrimmedSize = 80;          // what a trimmed packet still costs a link
constexpr uint64_t kNsBits = 8'000'000'000;  // bits per byte x ns per second
constexpr uint32_t kTwinWithinNs = 50'000;   // a duplicate follows its original by less than this
size_t index(Dir dir) { return dir == Dir::rx ? 1 : 0; }
}  // namespace

uint64_t Line::add_rule(const Rule& rule) {
  Live live;
  live.id = next_id_++;
  live.rule = rule;
  rules_.push_back(live);
  return live.id;
}

std::vector<uint64_t> Line::set_rules(const std::vector<Rule>& rules) {
  clear();
  std::vector<uint64_t> ids;
  ids.reserve(rules.size());
  for (const Rule& r : rules) ids.push_back(add_rule(r));
  return ids;
}

bool Line::remove_rule(uint64_t id) {
  return std::erase_if(rules_, [id](const Live& l) { return l.id == id; }) > 0;
}

void Line::clear() { rules_.clear(); }

LineCounters Line::rule_counters(uint64_t id) const {
  const auto it = std::find_if(rules_.begin(), rules_.end(), [id](const Live& l) { return l.id == id; });
  return it == rules_.end() ? LineCounters{} : it->counters;
}

bool Line::applies(const Rule& r, const Offer& o) {
  if (o.now < r.from || o.now >= r.until) return false;
  if ((static_cast<uint8_t>(r.dir) & static_cast<uint8_t>(o.dir)) == 0) return false;
  if (r.port != 0 && r.port != o.port) return false;
  if (r.ev && *r.ev != o.ev && !(*r.ev <= 0xFFFF && *r.ev == (o.ev & 0xFFFF))) return false;
  return r.control_too || o.is_data;
}

void Line::through_link(Live& live, const Offer& o, Verdict& v) {
  const Rule& r = live.rule;
  Link& link = live.links[index(o.dir)][o.port & 31];  // ports are 1..32
  const size_t bytes = v.trim ? std::min(o.bytes, kTrimmedSize) : o.bytes;
  const Instant arrival = v.deliver_at;
  const Instant start = std::max(link.busy_until, arrival);
  // The wait can be long and the rate high: their product leaves 64 bits.
  const double queued = static_cast<double>((start - arrival).ns) * static_cast<double>(r.rate_bps) /
                        static_cast<double>(kNsBits);
  if (r.queue_bytes > 0 && queued + static_cast<double>(bytes) > r.queue_bytes) {
    ++live.counters.overflowed;
    ++counters_.overflowed;
    if (!r.trim_on_overflow || !o.is_data) {
      v.drop = true;
      return;
    }
    v.trim = true;  // the header overtakes the queue
    v.deliver_at = arrival + Duration{static_cast<int64_t>(kTrimmedSize * kNsBits / r.rate_bps)};
    return;
  }
  if (r.ecn_bytes > 0 && queued > r.ecn_bytes && o.ect) v.mark_ce = true;
  // Whole nanoseconds alone would shorten each small packet on a fast link.
  const uint64_t work = bytes * kNsBits + (start == link.busy_until ? link.rest : 0);
  link.busy_until = start + Duration{static_cast<int64_t>(work / r.rate_bps)};
  link.rest = work % r.rate_bps;
  v.deliver_at = link.busy_until;
}

void Line::apply(Live& live, const Offer& o, Verdict& v) {
  const Rule& r = live.rule;
  LineCounters& c = live.counters;
  ++c.seen;
  if (r.down || rng_.chance_ppm(r.drop_ppm)) {
    v.drop = true;
    return;
  }
  const Instant before = v.deliver_at;
  if (o.is_data && rng_.chance_ppm(r.trim_ppm)) v.trim = true;
  if (o.ect && rng_.chance_ppm(r.ce_ppm)) v.mark_ce = true;
  if (rng_.chance_ppm(r.corrupt_ppm)) {
    v.corrupt = true;
    v.corrupt_bit = static_cast<uint32_t>(rng_.next() >> 33);
    ++c.corrupted;
  }
  if (r.rate_bps > 0) through_link(live, o, v);
  if (v.drop) return;
  if (r.delay.ns > 0) v.deliver_at = v.deliver_at + r.delay;
  if (r.jitter.ns > 0) {
    v.deliver_at =
        v.deliver_at + Duration{static_cast<int64_t>(rng_.next() % static_cast<uint64_t>(r.jitter.ns))};
  }
  if (rng_.chance_ppm(r.reorder_ppm)) {
    v.deliver_at = v.deliver_at + r.reorder_delay;
    ++c.reordered;
    ++counters_.reordered;
  }
  // The twin of an earlier rule travels the rest of the way too.
  if (v.duplicate) v.duplicate_at = v.duplicate_at + (v.deliver_at - before);
  if (rng_.chance_ppm(r.dup_ppm)) {
    v.duplicate = true;
    v.duplicate_at = v.deliver_at + Duration{static_cast<int64_t>(rng_.below(kTwinWithinNs))};
    ++c.duplicated;
  }
  if (v.deliver_at > before) ++c.delayed;
}

void Line::expire(Instant now) {
  std::erase_if(rules_, [now](const Live& l) { return l.rule.until <= now; });
}

void Line::total(const Verdict& v, Instant now) {
  const auto one = [](bool b) { return b ? uint64_t{1} : uint64_t{0}; };
  counters_.trimmed += one(v.trim);
  counters_.marked += one(v.mark_ce);
  counters_.corrupted += one(v.corrupt);
  counters_.duplicated += one(v.duplicate);
  counters_.delayed += one(v.deliver_at > now);
}

Verdict Line::judge(Instant now, Dir dir, uint8_t port, uint32_t ev, size_t bytes, bool is_data, bool ect) {
  Verdict v;
  v.deliver_at = now;
  ++counters_.seen;
  // Long runs add thousands of short rules; the dead ones are swept now and then.
  if (rules_.size() > 64 && counters_.seen % 1024 == 0) expire(now);
  const Offer o{now, dir, port, ev, bytes, is_data, ect};
  for (Live& live : rules_) {
    if (!applies(live.rule, o)) continue;
    const bool trimmed = v.trim;
    const bool marked = v.mark_ce;
    apply(live, o, v);
    if (v.drop) {
      ++live.counters.dropped;
      ++counters_.dropped;
      return v;
    }
    if (v.trim && !trimmed) ++live.counters.trimmed;
    if (v.mark_ce && !marked) ++live.counters.marked;
  }
  total(v, now);
  return v;
}

}  // namespace mrc::impair
