// Paths that are slow, receivers that are slow, and paths with routes.
#include <cstring>
#include <set>

#include "story.h"

using namespace mrc;           // NOLINT(google-build-using-namespace): a test file
using namespace mrc::testing;  // NOLINT(google-build-using-namespace)

namespace {

using wire::Opcode;

// A software host: no loss is inferred from a few milliseconds of disorder.
StoryConfig host() {
  StoryConfig c;
  c.min_ack_timeout = Duration::millis(4);
  c.adjust = [](int, engine::QpAttr& a) {
    if (a.state == engine::QpState::rts) a.reorder_min_time = Duration::millis(3);
  };
  return c;
}

StoryConfig with_delay_mark(Duration mark) {
  StoryConfig c = host();
  c.adjust = [mark, before = c.adjust](int side, engine::QpAttr& a) {
    before(side, a);
    if (a.state == engine::QpState::rtr) a.delay_mark = mark;
  };
  return c;
}

// A write of 16 KB every 500 us.
void trickle(Story& s, Duration d) {
  const Instant end = s.pair.now() + d;
  for (uint64_t id = 0; s.pair.now() < end; ++id) {
    REQUIRE(s.post(0, id, 0, 0, 16'384) == 0);
    s.pair.run_for(Duration::micros(500));
    s.collect(0);
    s.collect(1);
    for (const auto& c : s.end[0].sent) CHECK(c.status == engine::Status::success);
    s.end[0].sent.clear();
  }
}

uint64_t branch(Story& s, const char* name) {
  for (const auto& c : s.stats(0).cc_counters) {
    if (std::strcmp(c.name, name) == 0) return c.value;
  }
  return UINT64_MAX;
}
uint64_t delays(Story& s) { return branch(s, "delay") + branch(s, "delay_early"); }

impair::Rule slow_plane() {
  impair::Rule r;
  r.port = 1;
  r.dir = impair::Dir::tx;
  r.delay = Duration::micros(300);
  return r;
}

uint64_t lost(Story& s) {
  uint64_t n = 0;
  for (const auto& p : s.paths(0)) n += p.counters.lost;
  return n;
}

}  // namespace

TEST_CASE("a slow path without marks is passed over and narrows the window") {
  Story s(with_delay_mark(Duration::micros(100)));
  const uint32_t slow = 1u << 24 | 2304u;  // the first EV of plane 1
  trickle(s, Duration::millis(20));
  CHECK_EQ(delays(s), 0u);
  impair::Rule r = slow_plane();
  r.ev = slow;
  s.pair.line().add_rule(r);
  trickle(s, Duration::millis(50));
  CHECK(delays(s) > 0);
  CHECK(branch(s, "delay") > 0);
  s.pair.run_for(Duration::millis(1));
  for (const auto& p : s.paths(0)) CHECK_EQ(p.state == ev::State::skip, p.tag == slow);
  CHECK_EQ(s.demotions(0), 0u);
  for (const auto& p : s.paths(0)) CHECK_EQ(p.counters.ecn, 0u);
}

TEST_CASE("delay below the limit, or without a limit, is no mark") {
  for (const auto& mark : {Duration::micros(400), Duration{}}) {
    Story s(with_delay_mark(mark));
    s.pair.line().add_rule(slow_plane());
    trickle(s, Duration::millis(50));
    CHECK_EQ(delays(s), 0u);
  }
}

TEST_CASE("while the fabric marks, delay is not asked; a second after the last mark it is") {
  Story s(with_delay_mark(Duration::micros(100)));
  impair::Rule marks;
  marks.port = 2;
  marks.dir = impair::Dir::tx;
  marks.ce_ppm = 1'000'000;
  const uint64_t rule = s.pair.line().add_rule(marks);
  trickle(s, Duration::millis(10));
  s.pair.line().add_rule(slow_plane());
  trickle(s, Duration::millis(50));
  CHECK(branch(s, "hold") + branch(s, "decrease") + branch(s, "decrease_early") > 0);
  CHECK_EQ(delays(s), 0u);
  s.pair.line().remove_rule(rule);
  trickle(s, Duration::millis(980));
  CHECK_EQ(delays(s), 0u);
  trickle(s, Duration::millis(60));
  CHECK(delays(s) > 0);
}

TEST_CASE("losses while the receiver asks for less blame no path; later ones do") {
  Story s(host());
  trickle(s, Duration::millis(5));
  s.pair.side(1).set_receive_pressure(95);
  trickle(s, Duration::millis(5));
  CHECK(branch(s, "penalty") > 0);
  impair::Rule loss;
  loss.dir = impair::Dir::tx;
  loss.drop_ppm = 100'000;
  const uint64_t rule = s.pair.line().add_rule(loss);
  trickle(s, Duration::millis(40));
  const uint64_t repaired = s.stats(0).tx.rtx_inferred + s.stats(0).tx.rtx_probe + s.stats(0).tx.rtx_timeout;
  CHECK(repaired > 10);
  CHECK(branch(s, "loss") + branch(s, "failure") > 10);  // congestion control hears of them
  CHECK_EQ(lost(s), 0u);
  CHECK_EQ(s.demotions(0), 0u);
  // For 50 ms after the last request, whatever the receiver says now.
  s.pair.side(1).set_receive_pressure(0);
  trickle(s, Duration::millis(30));
  CHECK_EQ(s.demotions(0), 0u);
  trickle(s, Duration::millis(60));
  CHECK(lost(s) > 0);
  CHECK(s.demotions(0) > 0);
  s.pair.line().remove_rule(rule);
}

TEST_CASE("a path that turns slow is left for as long as its packets are missing, not until probes say so") {
  StoryConfig c;
  c.pair.one_way = Duration::micros(50);
  Story s(c);
  const uint32_t slow = 1u << 24 | 2304u;  // the first EV of plane 1
  for (uint64_t id = 0; id < 8; ++id) REQUIRE(s.post(0, id, 0, 0, 500'000) == 0);
  s.pair.run_for(Duration::millis(1));
  REQUIRE(s.demotions(0) == 0);
  impair::Rule r = slow_plane();
  r.ev = slow;
  r.delay = Duration::micros(170);  // it is missed after 200 us, and heard of after 270
  r.until = s.pair.now() + Duration::micros(200);
  s.pair.line().add_rule(r);
  REQUIRE(s.run_until_sent(0, 8));
  CHECK(s.all_in_order(0, 8));
  CHECK_EQ(s.demotions(0), 1u);
  std::vector<Instant> at;
  for (const auto& e : s.end[0].events) {
    if (e.kind != engine::EventKind::ev_state) continue;
    CHECK_EQ(e.ev.tag, slow);
    at.push_back(e.at);
  }
  REQUIRE(at.size() == 2);  // ASSUMED_BAD, GOOD
  CHECK(at[1] - at[0] < Duration::micros(100));
  CHECK(s.stats(0).tx.spurious > 0);
}

TEST_CASE("every kind of packet goes by the route of its EV, and the peer stays the destination") {
  const auto list_of = [](int side, uint32_t tag) {
    base::IpAddr a;
    a.bytes[0] = 0xfc;
    a.bytes[1] = static_cast<uint8_t>(side);
    for (int i = 0; i < 4; ++i)
      a.bytes[static_cast<size_t>(8 + i)] = static_cast<uint8_t>(tag >> (24 - 8 * i));
    a.bytes[15] = 1;
    return a;
  };
  StoryConfig c = host();
  const uint32_t evs = c.pair.evs_per_plane;
  const auto tag_of = [](uint32_t plane, uint32_t k) {
    return plane << 24 | k << 16 | (2048 + plane * 256 + k);
  };
  c.adjust = [=, before = c.adjust](int side, engine::QpAttr& a) {
    before(side, a);
    if (a.state != engine::QpState::rtr) return;
    for (engine::PeerPort& p : *a.peer_ports) {
      std::vector<engine::EvRoute> routes;
      for (uint32_t k = 0; k < evs; ++k) {
        const uint32_t tag = tag_of(p.local_port, k);
        routes.push_back({tag, list_of(side, tag)});
      }
      p.routes = std::make_shared<const std::vector<engine::EvRoute>>(routes);
    }
  };
  Story s(c);
  std::array<std::set<Opcode>, 2> kinds;
  s.pair.on_transmit = [&](int side, const engine::Transmit& t, base::ByteView bytes) {
    kinds[static_cast<size_t>(side)].insert(static_cast<Opcode>(bytes[0]));
    CHECK(t.via == list_of(side, t.tag));
    CHECK(t.meta.dst == s.pair.peer_ports(side)[t.meta.port - 1u].addr);
  };
  trickle(s, Duration::millis(5));
  impair::Rule cut;
  cut.port = 3;
  cut.down = true;
  const uint64_t rule = s.pair.line().add_rule(cut);
  trickle(s, Duration::millis(10));  // probes of the plane
  s.pair.line().remove_rule(rule);
  REQUIRE(s.pair.side(0).set_port_up(s.pair.now(), 2, false) == 0);  // and a report of it
  s.pair.flush();
  trickle(s, Duration::millis(5));
  REQUIRE(s.pair.side(0).set_port_up(s.pair.now(), 2, true) == 0);
  trickle(s, Duration::millis(20));
  for (const Opcode k : {Opcode::reliability_probe, Opcode::endpoint_request}) CHECK(kinds[0].contains(k));
  for (const Opcode k : {Opcode::sack, Opcode::transport_ack, Opcode::endpoint_response})
    CHECK(kinds[1].contains(k));
  CHECK(s.equal(0, 0, 16'384));
}

TEST_CASE(
    "most paths of the only plane die at once, both ways: data flows again within a tenth of a second") {
  StoryConfig c = host();
  c.pair.planes = 1;
  c.pair.evs_per_plane = 16;
  c.min_ack_timeout = Duration::millis(20);
  Story s(c);
  trickle(s, Duration::millis(20));
  for (uint32_t k = 0; k < 12; ++k) {
    impair::Rule dead;
    dead.port = 1;
    dead.ev = s.paths(0)[k].tag;
    dead.down = true;
    s.pair.line().add_rule(dead);  // the same tags are the other side's
  }
  const Instant cut = s.pair.now();
  uint64_t id = 0;
  std::vector<Instant> done;
  while (s.pair.now() < cut + Duration::seconds(1)) {
    s.end[0].sent.clear();
    REQUIRE(s.post(0, id++, 0, 0, 16'384) == 0);
    REQUIRE(s.run_until_sent(0, 1, Duration::seconds(10)));
    done.push_back(s.pair.now());
  }
  // A write takes far less than a millisecond while all is well.
  const auto late =
      std::count_if(done.begin(), done.end(), [&](Instant t) { return t < cut + Duration::millis(200); });
  CHECK(late > 50);
  Instant last = cut;
  Duration longest{};
  for (const Instant t : done) {
    longest = std::max(longest, t - last);
    last = t;
  }
  CHECK(longest < Duration::millis(150));
}
