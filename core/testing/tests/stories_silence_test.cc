// Tails that are lost and answers that do not arrive: how long it takes until somebody notices
// (reference 5.7, 6.13).
#include <map>
#include <set>

#include "story.h"

using namespace mrc;           // NOLINT(google-build-using-namespace): a test file
using namespace mrc::testing;  // NOLINT(google-build-using-namespace)

namespace {

using wire::Opcode;

constexpr Duration kOneWay = Duration::micros(500);
constexpr Duration kTimer = Duration::millis(50);

// A software host a millisecond away, whose ACK timer is fifty round trips long.
StoryConfig far() {
  StoryConfig c;
  c.pair.one_way = kOneWay;
  c.base_rtt = kOneWay * 2;
  c.min_ack_timeout = kTimer;
  c.adjust = [](int, engine::QpAttr& a) {
    if (a.state == engine::QpState::rts) a.reorder_min_time = Duration::millis(3);
  };
  return c;
}

// One active EV a plane, one spare.
StoryConfig far_with_spares() {
  StoryConfig c = far();
  c.adjust = [before = c.adjust](int side, engine::QpAttr& a) {
    before(side, a);
    if (a.state == engine::QpState::init) a.ev_count = 4;
  };
  return c;
}

impair::Rule dead(uint32_t tag, impair::Dir dir) {
  impair::Rule r;
  r.ev = tag;
  r.port = static_cast<uint8_t>(tag >> 24);
  r.dir = dir;
  r.down = true;
  return r;
}

// How long a write of `length` bytes takes to complete.
Duration write(Story& s, uint64_t id, uint32_t length) {
  const Instant begin = s.pair.now();
  s.end[0].sent.clear();
  REQUIRE(s.post(0, id, 0, 0, length) == 0);
  REQUIRE(s.run_until_sent(0, 1));
  return s.pair.now() - begin;
}

uint64_t timeouts(Story& s) { return s.stats(0).tx.timeouts; }

}  // namespace

TEST_CASE("a lost tail is found by probes in a few round trips, wherever its packets were sent") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    StoryConfig c = far();
    c.pair.seed = seed;
    Story s(c);
    write(s, 0, 16'384);
    // The last two packets of the next write are dropped; what comes later passes.
    size_t data = 0;
    s.pair.on_transmit = [&](int side, const engine::Transmit& t, base::ByteView) {
      if (side != 0 || !t.is_data) return;
      impair::Rule r = dead(t.tag, impair::Dir::tx);
      r.until = s.pair.now() + Duration::micros(1);
      r.control_too = false;
      if (++data == 15 || data == 16) s.pair.line().add_rule(r);
    };
    CHECK(write(s, 1, 16'384) < Duration::millis(12));
    CHECK_EQ(timeouts(s), 0u);
    CHECK_EQ(s.stats(0).tx.spurious, 0u);
  }
}

TEST_CASE("a lost tail whose path is dead, too, is found: probes take another path of its plane") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    StoryConfig c = far_with_spares();
    c.pair.seed = seed;
    Story s(c);
    write(s, 0, 16'384);
    uint32_t victim = 0;
    for (const auto& p : s.paths(0)) victim = p.active && p.port == 1 ? p.tag : victim;
    s.pair.line().add_rule(dead(victim, impair::Dir::both));
    CHECK(write(s, 1, 3000) < Duration::millis(12));
    CHECK(write(s, 2, 8000) < Duration::millis(12));
    CHECK_EQ(timeouts(s), 0u);
  }
}

TEST_CASE("a lost last answer is asked for by a probe: SACK and Transport ACK come again") {
  for (const Opcode lost : {Opcode::sack, Opcode::transport_ack}) {
    Story s(far());
    write(s, 0, 16'384);
    bool once = false;
    s.pair.on_transmit = [&](int side, const engine::Transmit& t, base::ByteView bytes) {
      if (side != 1 || once || static_cast<Opcode>(bytes[0]) != lost) return;
      if (lost == Opcode::sack && s.stats(1).rx.messages_done < 2) return;
      once = true;
      impair::Rule r = dead(t.tag, impair::Dir::rx);
      r.until = s.pair.now() + Duration::micros(1);
      s.pair.line().add_rule(r);
    };
    CHECK(write(s, 1, 16'384) < Duration::millis(12));
    CHECK(once);
    CHECK_EQ(timeouts(s), 0u);
    CHECK_EQ(s.stats(0).tx.rtx_timeout + s.stats(0).tx.rtx_ack_solicit, 0u);
  }
}

TEST_CASE("the path of the answers dies in a plane: they leave it within three round trips, and for good") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    StoryConfig c = far_with_spares();
    c.pair.seed = seed;
    c.pair.one_way = Duration::micros(2500);
    const Duration rtt = c.pair.one_way * 2;
    c.base_rtt = rtt;
    Story s(c);
    std::map<uint32_t, Instant> last;
    s.pair.on_transmit = [&](int side, const engine::Transmit& t, base::ByteView bytes) {
      if (side == 1 && static_cast<Opcode>(bytes[0]) == Opcode::sack) last[t.tag] = s.pair.now();
    };
    uint64_t id = 0;
    const auto stream = [&](Duration d) {
      for (const Instant end = s.pair.now() + d; s.pair.now() < end;) {
        if (s.stats(0).queued < 4) REQUIRE(s.post(0, id++, 0, 0, 60'000) == 0);
        s.pair.run_for(Duration::micros(50));
        s.collect(0);
        s.collect(1);
      }
    };
    stream(Duration::millis(150));
    uint32_t victim = 0;
    for (const auto& p : s.paths(1)) victim = p.active && p.port == 2 ? p.tag : victim;
    REQUIRE(last.contains(victim));
    const uint64_t before = timeouts(s);
    s.pair.line().add_rule(dead(victim, impair::Dir::rx));
    const Instant cut = s.pair.now();
    stream(Duration::millis(200));
    // One for the turn of the plane, two of patience.
    CHECK(last[victim] - cut <= rtt * 3 + Duration::millis(2));
    CHECK_EQ(timeouts(s), before);
    // The EV is out of use at the receiver, and a spare of the plane carries its answers.
    size_t carried = 0;
    for (const auto& p : s.paths(1)) {
      if (p.tag == victim) CHECK(p.state == ev::State::assumed_bad);
      if (p.tag != victim && p.port == 2 && last.contains(p.tag) && last[p.tag] > cut + Duration::millis(100))
        ++carried;
    }
    CHECK(carried > 0);
  }
}
