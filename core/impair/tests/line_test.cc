// Each kind of harm alone, then together: rates, windows, order, marks, and equal seeds.
#include "impair/line.h"

#include <algorithm>

#include "impair/trim.h"
#include "testing/check.h"

using namespace mrc::impair;  // NOLINT(google-build-using-namespace)
using mrc::base::Duration;
using mrc::base::Instant;

namespace {
Instant us(int64_t t) { return Instant{t * 1000}; }
Verdict data(Line& l, Instant at, uint8_t port = 1, uint32_t ev = 7, size_t bytes = 1000) {
  return l.judge(at, Dir::tx, port, ev, bytes, true, true);
}
}  // namespace

TEST_CASE("without rules a packet passes at once") {
  Line l(1);
  const Verdict v = data(l, us(5));
  CHECK(!v.drop);
  CHECK_EQ(v.deliver_at.ns, 5000);
}

TEST_CASE("rules match by port, EV, direction, kind and time") {
  Line l(1);
  Rule r;
  r.port = 2;
  r.ev = 0x00050007;
  r.dir = Dir::rx;
  r.from = us(10);
  r.until = us(20);
  r.down = true;
  r.control_too = false;
  l.add_rule(r);
  const auto judge = [&](int64_t t, Dir d, uint8_t port, uint32_t ev, bool is_data) {
    return l.judge(us(t), d, port, ev, 100, is_data, true).drop;
  };
  CHECK(judge(10, Dir::rx, 2, 0x00050007, true));
  CHECK(!judge(9, Dir::rx, 2, 0x00050007, true));
  CHECK(!judge(20, Dir::rx, 2, 0x00050007, true));
  CHECK(!judge(10, Dir::tx, 2, 0x00050007, true));
  CHECK(!judge(10, Dir::rx, 1, 0x00050007, true));
  CHECK(!judge(10, Dir::rx, 2, 0x00050008, true));
  CHECK(!judge(10, Dir::rx, 2, 0x00050007, false));
}

TEST_CASE("a 16-bit EV names the source port of any tag") {
  Line l(1);
  Rule r;
  r.ev = 7;
  r.down = true;
  l.add_rule(r);
  CHECK(data(l, us(0), 1, 0x00090007).drop);
  CHECK(!data(l, us(0), 1, 0x00090008).drop);
}

TEST_CASE("drop, mark and trim rates are what they say") {
  Line l(3);
  Rule r;
  r.drop_ppm = 50'000;
  r.ce_ppm = 200'000;
  r.trim_ppm = 100'000;
  const uint64_t id = l.add_rule(r);
  for (int i = 0; i < 100'000; ++i) data(l, us(i));
  const LineCounters c = l.rule_counters(id);
  CHECK(c.dropped > 4700 && c.dropped < 5300);
  CHECK(c.marked > 18'300 && c.marked < 19'700);  // of the 95 % that live
  CHECK(c.trimmed > 9100 && c.trimmed < 9900);
}

TEST_CASE("a rate holds to 1 %, in order, with a bounded queue and ECN above its threshold") {
  Line l(1);
  Rule r;
  r.rate_bps = 100'000'000;
  r.queue_bytes = 50'000;
  r.ecn_bytes = 20'000;
  l.add_rule(r);
  Instant last{};
  uint64_t delivered = 0;
  uint64_t dropped = 0;
  uint64_t marked = 0;
  for (int i = 0; i < 100'000; ++i) {  // 1000 B every 40 us = 200 Mbit/s
    const Verdict v = data(l, us(i * 40));
    if (v.drop) {
      ++dropped;
      continue;
    }
    CHECK(v.deliver_at > last);
    CHECK(v.deliver_at <= us(i * 40) + Duration::micros(4'100));  // 50 kB at 100 Mbit/s
    last = v.deliver_at;
    delivered += 1000;
    marked += v.mark_ce ? 1 : 0;
  }
  const double seconds = static_cast<double>(last.ns) / 1e9;
  const double rate = static_cast<double>(delivered) * 8 / seconds;
  CHECK(rate > 99e6);
  CHECK(rate < 101e6);
  CHECK(dropped > 0);
  CHECK(marked > 0);
}

TEST_CASE("a fast link keeps its rate with small packets, where one lasts no whole nanosecond") {
  Line l(1);
  Rule r;
  r.rate_bps = 400'000'000'000;  // 64 B last 1.28 ns
  l.add_rule(r);
  Instant last{};
  for (int i = 0; i < 100'000; ++i) last = data(l, us(0), 1, 7, 64).deliver_at;
  CHECK_EQ(last.ns, 128'000);
}

TEST_CASE("a backlog of seconds on a fast link is measured, not wrapped") {
  Line l(1);
  Rule r;
  r.rate_bps = 400'000'000'000;
  r.queue_bytes = 4'000'000'000;
  r.ecn_bytes = 3'000'000'000;
  l.add_rule(r);
  uint64_t dropped = 0;
  uint64_t marked = 0;
  for (int i = 0; i < 5000; ++i) {
    const Verdict v = data(l, us(0), 1, 7, 1'000'000);
    dropped += v.drop ? 1 : 0;
    marked += v.mark_ce ? 1 : 0;
  }
  CHECK_EQ(dropped, 1000u);
  CHECK_EQ(marked, 999u);
}

TEST_CASE("a queue drains: after a pause nothing is marked or dropped") {
  Line l(1);
  Rule r;
  r.rate_bps = 8'000'000;
  r.queue_bytes = 3000;
  r.ecn_bytes = 1500;
  l.add_rule(r);
  CHECK(!data(l, us(0)).mark_ce);
  CHECK(!data(l, us(0)).mark_ce);
  CHECK(data(l, us(0)).mark_ce);  // 2000 B before it
  CHECK(data(l, us(0)).drop);
  CHECK(!l.judge(us(1000), Dir::tx, 1, 7, 900, true, false).mark_ce);  // not ECT
  const Verdict v = data(l, us(9000));
  CHECK(!v.drop);
  CHECK(!v.mark_ce);
  CHECK_EQ(v.deliver_at.ns, 10'000'000);
}

TEST_CASE("a delay keeps the order, reordering lets later packets pass") {
  Line l(5);
  Rule r;
  r.delay = Duration::micros(100);
  const uint64_t id = l.add_rule(r);
  CHECK_EQ(data(l, us(1)).deliver_at.ns, 101'000);
  CHECK_EQ(data(l, us(2)).deliver_at.ns, 102'000);
  CHECK_EQ(l.rule_counters(id).delayed, 2u);
  r.reorder_ppm = 100'000;
  r.reorder_delay = Duration::micros(50);
  const std::vector<uint64_t> ids = l.set_rules({r});
  Instant newest{};
  int behind = 0;
  for (int i = 0; i < 10'000; ++i) {
    const Instant at = data(l, us(10 + i)).deliver_at;
    behind += at < newest ? 1 : 0;
    newest = std::max(newest, at);
  }
  CHECK(behind > 1000);
  const uint64_t moved = l.rule_counters(ids[0]).reordered;
  CHECK(moved > 900 && moved < 1100);
  CHECK_EQ(l.rule_counters(id).seen, 0u);  // replaced
}

TEST_CASE("a twin travels the delays of the rules behind the one that made it") {
  Line l(5);
  Rule dup;
  dup.dup_ppm = 1'000'000;
  Rule delay;
  delay.delay = Duration::micros(200);
  l.set_rules({dup, delay});
  const Verdict v = data(l, us(0));
  REQUIRE(v.duplicate);
  CHECK_EQ(v.deliver_at.ns, 200'000);
  CHECK(v.duplicate_at >= v.deliver_at);
  CHECK(v.duplicate_at < us(250));
}

TEST_CASE("a trimmed packet costs the next link its header only") {
  Line l(5);
  Rule cut;
  cut.trim_ppm = 1'000'000;
  Rule slow;
  slow.rate_bps = 8'000'000;
  l.set_rules({cut, slow});
  CHECK_EQ(data(l, us(0)).deliver_at.ns, 80'000);
  CHECK(!l.judge(us(0), Dir::tx, 1, 7, 1000, false, false).trim);
}

TEST_CASE("a schedule: each rule harms only in its window") {
  Line l(5);
  Rule cut;
  cut.port = 3;
  cut.down = true;
  cut.from = us(100);
  cut.until = us(200);
  Rule lossy;
  lossy.port = 5;
  lossy.drop_ppm = 100'000;
  lossy.from = us(150);
  const std::vector<uint64_t> ids = l.set_rules({cut, lossy});
  for (int i = 0; i < 300; ++i) {
    CHECK_EQ(data(l, us(i), 3).drop, i >= 100 && i < 200);
    const bool lost = data(l, us(i), 5).drop;
    CHECK(!lost || i >= 150);
    CHECK(!data(l, us(i), 4).drop);
  }
  CHECK_EQ(l.rule_counters(ids[0]).dropped, 100u);
  CHECK_EQ(l.rule_counters(ids[1]).seen, 150u);
  CHECK_EQ(l.counters().seen, 900u);
}

TEST_CASE("two ports and two directions are separate links") {
  Line l(1);
  Rule r;
  r.rate_bps = 8'000'000;  // 1 B/us
  l.add_rule(r);
  CHECK_EQ(data(l, us(0), 1).deliver_at.ns, 1'000'000);
  CHECK_EQ(data(l, us(0), 2).deliver_at.ns, 1'000'000);
  CHECK_EQ(l.judge(us(0), Dir::rx, 1, 7, 1000, true, true).deliver_at.ns, 1'000'000);
  CHECK_EQ(data(l, us(0), 1).deliver_at.ns, 2'000'000);
}

TEST_CASE("overflow trims data when asked to, and the header overtakes the queue") {
  Line l(1);
  Rule r;
  r.rate_bps = 8'000'000;
  r.queue_bytes = 1500;
  r.trim_on_overflow = true;
  l.add_rule(r);
  data(l, us(0));
  const Verdict v = data(l, us(0));
  CHECK(v.trim);
  CHECK(!v.drop);
  CHECK(v.deliver_at < us(1000));
  CHECK(l.judge(us(0), Dir::tx, 1, 7, 1000, false, false).drop);  // control is never trimmed
}

TEST_CASE("equal seeds give equal verdicts; rules can be taken away") {
  Line a(9);
  Line b(9);
  Rule r;
  r.drop_ppm = 300'000;
  r.dup_ppm = 300'000;
  r.corrupt_ppm = 300'000;
  r.jitter = Duration::micros(50);
  const uint64_t id = a.add_rule(r);
  b.add_rule(r);
  for (int i = 0; i < 1000; ++i) {
    const Verdict x = data(a, us(i));
    const Verdict y = data(b, us(i));
    CHECK(x.drop == y.drop && x.deliver_at == y.deliver_at && x.corrupt_bit == y.corrupt_bit &&
          x.duplicate_at == y.duplicate_at);
  }
  CHECK(a.remove_rule(id));
  CHECK(!a.remove_rule(id));
  CHECK(!data(a, us(5000)).drop);
}

TEST_CASE("trimming keeps BTH, METH and an announced TSETH") {
  std::vector<uint8_t> packet(200, 0);
  packet[0] = 0xCA;
  std::vector<uint8_t> out;
  trim_packet(packet, out);
  CHECK_EQ(out.size(), 16u);
  packet[8] = 0x10;
  trim_packet(packet, out);
  CHECK_EQ(out.size(), 20u);
  corrupt(packet, 8 * 200 + 9);
  CHECK_EQ(packet[1], 2);
}
