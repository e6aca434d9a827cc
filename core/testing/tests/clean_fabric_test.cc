// Ten minutes on a fabric without a fault, idle, half loaded and saturated: no path may be called bad.
#include "story.h"

using namespace mrc;           // NOLINT(google-build-using-namespace): a test file
using namespace mrc::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kPortRate =
    1'000'000;  // bytes a second and plane: slow, so that ten minutes are few packets
constexpr Duration kTenMinutes = Duration::seconds(600);

struct Outcome {
  uint64_t transitions = 0, delivered = 0, marked = 0, lost = 0, rtx = 0;
};

// `percent` of what the four links carry, in writes of 16 KB.
Outcome run(uint32_t percent) {
  StoryConfig c;
  c.pair.one_way = Duration::millis(1);
  c.pair.port_bytes_per_second = kPortRate;
  c.base_rtt = Duration::millis(5);  // propagation and the serialisation of a packet and its SACK
  Story s(c);
  impair::Rule link;
  link.rate_bps = kPortRate * 8;
  link.queue_bytes = 100'000;
  link.ecn_bytes = 10'000;
  for (uint8_t p = 1; p <= c.pair.planes; ++p) {
    link.port = p;
    s.pair.line().add_rule(link);
  }
  constexpr uint32_t kWrite = 16'384;
  const Instant end = s.pair.now() + kTenMinutes;
  const int64_t gap =
      percent == 0 ? 0
                   : int64_t{kWrite} * 100 * 1'000'000'000 / (int64_t{c.pair.planes} * kPortRate * percent);
  Instant next = s.pair.now();
  uint64_t posted = 0;
  Outcome o;
  const auto collect = [&] {
    s.collect(0);
    s.collect(1);
    for (const auto& w : s.end[0].sent) o.delivered += w.status == engine::Status::success ? kWrite : 0;
    s.end[0].sent.clear();
    o.transitions += s.demotions(0) + s.demotions(1);
    s.end[0].events.clear();
    s.end[1].events.clear();
  };
  while (s.pair.now() < end) {
    collect();
    const bool due =
        percent > 0 && (percent >= 100 ? posted - o.delivered / kWrite < 16 : s.pair.now() >= next);
    if (due) {
      if (s.post(0, posted, 0, 0, kWrite) != 0) break;
      ++posted;
      next = next + Duration{gap};
      continue;
    }
    const Instant until = percent == 0 || percent >= 100 ? end : std::min(next, end);
    s.pair.run_until([&] { return percent >= 100 && !s.pair.side(0).qp_count(); },
                     std::min(until, s.pair.now() + Duration::millis(4)));
  }
  collect();
  for (int side = 0; side < 2; ++side) o.transitions += s.count_state(side, ev::State::assumed_bad);
  o.marked = s.pair.line().counters().marked;
  o.lost = s.pair.line().counters().dropped;
  const auto& tx = s.stats(0).tx;
  o.rtx = tx.rtx_inferred + tx.rtx_probe + tx.rtx_timeout;
  return o;
}

}  // namespace

TEST_CASE("clean fabric, ten minutes idle: no transition away from GOOD") {
  CHECK_EQ(run(0).transitions, 0u);
}

TEST_CASE("clean fabric, ten minutes at half load: no transition away from GOOD") {
  const Outcome o = run(50);
  CHECK_EQ(o.transitions, 0u);
  CHECK_EQ(o.lost, 0u);
  CHECK_EQ(o.rtx, 0u);
  CHECK(o.delivered > 1'150'000'000);  // 2 MB/s
}

TEST_CASE("clean fabric, ten minutes saturated with ECN marks: no transition away from GOOD") {
  const Outcome o = run(100);
  CHECK_EQ(o.transitions, 0u);
  CHECK_EQ(o.lost, 0u);
  CHECK_EQ(o.rtx, 0u);
  CHECK(o.marked > 0);
  CHECK(o.delivered > 1'900'000'000);  // 80 % of 4 MB/s, headers included
}
