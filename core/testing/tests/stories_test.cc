// Stories of one connection on a healthy or hurt fabric; field cases B09, B15, B17, B20, B21 by name.
#include <map>
#include <set>

#include "story.h"

using namespace mrc;           // NOLINT(google-build-using-namespace): a test file
using namespace mrc::testing;  // NOLINT(google-build-using-namespace)

TEST_CASE("a megabyte crosses four planes, byte for byte, and every plane carries the same") {
  Story s;
  REQUIRE(s.post(0, 0, 0, 0, 1 << 20) == 0);
  REQUIRE(s.run_until_sent(0, 1));
  CHECK(s.all_in_order(0, 1));
  CHECK(s.equal(0, 0, 1 << 20));
  std::map<int, uint64_t> per_plane;
  for (const auto& p : s.paths(0)) per_plane[p.port] += p.counters.sent;
  for (const auto& [port, n] : per_plane) CHECK_EQ(n, 256u);
  CHECK_EQ(s.demotions(0), 0u);
  CHECK_EQ(s.stats(0).tx.data_tx, 1024u);
}

TEST_CASE("completions come in posting order for many small writes at odd offsets (B66)") {
  Story s;
  for (uint32_t i = 0; i < 500; ++i)
    REQUIRE(s.post(0, i, 1 + i * 977u, 3 + i * 977u, 1 + (i * 37) % 900) == 0);
  REQUIRE(s.run_until_sent(0, 500));
  CHECK(s.all_in_order(0, 500));
  for (uint32_t i = 0; i < 500; ++i) {
    CHECK(s.equal(1 + i * 977u, 3 + i * 977u, 1 + (i * 37) % 900));
    CHECK_EQ(s.end[1].memory[3 + i * 977u + 1 + (i * 37) % 900], 0xEE);
  }
}

TEST_CASE("B09: packets of one dead EV are resent on others and the message completes") {
  Story s;
  impair::Rule r;
  r.ev = s.paths(0)[5].tag;
  r.port = s.paths(0)[5].port;
  r.down = true;
  s.pair.line().add_rule(r);
  REQUIRE(s.post(0, 0, 0, 0, 1 << 20) == 0);
  REQUIRE(s.run_until_sent(0, 1, Duration::millis(20)));
  CHECK(s.equal(0, 0, 1 << 20));
  s.events(0);
  std::set<uint32_t> bad;
  for (const auto& e : s.end[0].events) {
    if (e.kind == engine::EventKind::ev_state && e.ev.state == ev::State::assumed_bad) bad.insert(e.ev.tag);
  }
  CHECK_EQ(bad.size(), 1u);
  CHECK(bad.contains(*r.ev));
}

TEST_CASE("B09: a local send error leaves that EV at once and is never fatal") {
  Story s;
  bool failed = false;
  uint32_t tag = 0;
  s.pair.on_transmit = [&](int side, const engine::Transmit& t, base::ByteView) {
    if (side != 0 || !t.is_data || failed) return;
    failed = true;
    tag = t.tag;
    s.pair.side(0).on_send_failed(s.pair.now(), t);
    impair::Rule r;
    r.ev = t.tag;
    r.down = true;
    s.pair.line().add_rule(r);
  };
  REQUIRE(s.post(0, 0, 0, 0, 200'000) == 0);
  REQUIRE(s.run_until_sent(0, 1));
  CHECK(s.all_in_order(0, 1));
  CHECK(s.equal(0, 0, 200'000));
  const auto paths = s.paths(0);
  const auto it = std::find_if(paths.begin(), paths.end(), [&](const auto& p) { return p.tag == tag; });
  REQUIRE(it != paths.end());
  CHECK(it->state == ev::State::assumed_bad);
  CHECK(it->counters.sent <= 2);
}

TEST_CASE("B15: PSNs FFFFFF and 000000 are lost at the wrap and repaired") {
  StoryConfig c;
  c.psn0 = 0xFFFFF0;
  Story s(c);
  std::set<uint32_t> lost;
  // Dropped by corrupting them: the receiver must count bad_icrc, not place anything.
  s.pair.on_transmit = [&](int side, const engine::Transmit& t, base::ByteView b) {
    if (side != 0 || !t.is_data) return;
    const uint32_t psn = base::load_be24(b.data() + 9);
    if ((psn == 0xFFFFFF || psn == 0) && lost.insert(psn).second) {
      impair::Rule r;
      r.corrupt_ppm = 1'000'000;
      r.from = s.pair.now();
      r.until = s.pair.now() + Duration{1};
      s.pair.line().add_rule(r);
    }
  };
  for (uint32_t i = 0; i < 64; ++i) REQUIRE(s.post(0, i, i * 4096u, i * 4096u, 4096) == 0);
  REQUIRE(s.run_until_sent(0, 64));
  CHECK(s.all_in_order(0, 64));
  CHECK(s.equal(0, 0, 64 * 4096));
  CHECK_EQ(lost.size(), 2u);
  CHECK(s.pair.side(1).stats().drops[static_cast<size_t>(wire::DropReason::bad_icrc)] >= 1);
}

TEST_CASE("B15: a QP runs past 2^24 packets and 2^16 messages") {
  StoryConfig c;
  c.pmtu = 64;
  c.memory = 1 << 16;
  c.mpr = 32;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  c.psn0 = (1u << 24) - 16 * 1024;
#else
  c.psn0 = 0;
#endif
  c.pair.planes = 1;
  c.pair.evs_per_plane = 1;
  c.cc = "null";
  Story s(c);
  // 2^24 / 1024 messages of 1024 packets; MSN wraps in the next story.
  uint64_t id = 0;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // Sanitized code takes ten times as long: start a little before the wrap instead of running up to it.
  const uint64_t total = 32;
#else
  const uint64_t total = (1u << 24) / 1024 + 16;
#endif
  while (id < total) {
    for (int k = 0; k < 8 && id < total; ++k) REQUIRE(s.post(0, id++, 0, 0, 65536) == 0);
    REQUIRE(s.run_until_sent(0, id));
  }
  CHECK(s.all_in_order(0, total));
  CHECK(s.equal(0, 0, 65536));
  CHECK_EQ(s.stats(0).next_psn, 16u * 1024u);
}

TEST_CASE("MSN and RQMSN wrap at 16 bits; immediates stay in order") {
  StoryConfig c;
  c.memory = 1 << 12;
  c.cc = "null";
  Story s(c);
  uint32_t id = 0;
  while (id < 70'000) {
    for (int k = 0; k < 200; ++k, ++id) REQUIRE(s.post(0, id, 0, 0, 0, id) == 0);
    REQUIRE(s.run_until_sent(0, id));
    for (const auto& r : s.end[1].received)
      REQUIRE(s.pair.side(1).post_recv(s.pair.now(), s.end[1].qpn, r.imm) == 0);
    REQUIRE(s.end[1].received.size() == 200);
    for (uint32_t i = 0; i < 200; ++i) CHECK_EQ(s.end[1].received[i].imm, id - 200 + i);
    s.end[1].received.clear();
  }
  CHECK(s.all_in_order(0, 70'000));
}

TEST_CASE("B17: a path three RTTs slower gives one completion a message and no second window cut") {
  StoryConfig c;
  Story s(c);
  impair::Rule r;
  r.port = 2;
  r.delay = Duration::micros(35);
  s.pair.line().add_rule(r);
  for (uint32_t i = 0; i < 100; ++i) REQUIRE(s.post(0, i, i * 10'000u, i * 10'000u, 10'000) == 0);
  REQUIRE(s.run_until_sent(0, 100));
  s.pair.run_for(Duration::millis(50));
  s.collect(0);
  CHECK(s.all_in_order(0, 100));
  CHECK(s.equal(0, 0, 1'000'000));
  const auto st = s.stats(1);
  CHECK(st.rx.duplicates <= s.stats(0).tx.data_tx - 1000);
  // All EVs are back in use once probes answered.
  s.pair.line().clear();
  s.pair.run_for(Duration::millis(100));
  CHECK_EQ(s.count_state(0, ev::State::assumed_bad), 0u);
}

TEST_CASE("B20: zero-length writes take a PSN, complete in order and touch no memory") {
  Story s;
  REQUIRE(s.post(0, 0, 0, 0, 9000) == 0);
  REQUIRE(s.post(0, 1, 0, 0, 0) == 0);
  REQUIRE(s.post(0, 2, 0, 0, 0, 77) == 0);
  REQUIRE(s.post(0, 3, 9000, 9000, 9000) == 0);
  REQUIRE(s.run_until_sent(0, 4));
  CHECK(s.all_in_order(0, 4));
  CHECK(s.equal(0, 0, 18'000));
  CHECK_EQ(s.end[1].memory[18'000], 0xEE);
  REQUIRE(s.end[1].received.size() == 1);
  CHECK_EQ(s.end[1].received[0].imm, 77u);
  CHECK_EQ(s.end[1].received[0].byte_len, 0u);
  CHECK_EQ(s.stats(0).next_psn, (100u + 9 + 1 + 1 + 9));
}

TEST_CASE("B21: 24-bit QP numbers work over their whole width") {
  for (const uint32_t qpn : {65'535u, 65'536u, 121'789u, 0xFFFFFFu}) {
    StoryConfig c;
    c.qpn0 = qpn;
    c.qpn1 = 0xFFFFFF - (qpn == 0xFFFFFF ? 7 : 0);
    Story s(c);
    REQUIRE(s.post(0, 0, 0, 0, 50'000) == 0);
    REQUIRE(s.run_until_sent(0, 1));
    CHECK(s.all_in_order(0, 1));
    CHECK(s.equal(0, 0, 50'000));
  }
}

TEST_CASE("immediates arrive in order with all earlier data in place under loss and reordering") {
  Story s;
  impair::Rule r;
  r.drop_ppm = 50'000;
  r.reorder_ppm = 200'000;
  r.reorder_delay = Duration::micros(60);
  s.pair.line().add_rule(r);
  for (uint32_t i = 0; i < 200; ++i) {
    REQUIRE(s.post(0, i, i * 5000u, i * 5000u, 5000,
                   i % 3 == 0 ? std::optional<uint32_t>(i) : std::nullopt) == 0);
  }
  uint32_t next = 0;
  const bool ok = s.pair.run_until(
      [&] {
        s.collect(0);
        s.collect(1);
        for (const auto& w : s.end[1].received) {
          CHECK_EQ(w.imm, next);
          CHECK(s.equal(0, 0, (next + 1) * 5000u));  // its own bytes and everything before
          next += 3;
        }
        s.end[1].received.clear();
        return s.end[0].sent.size() >= 200;
      },
      s.pair.now() + Duration::seconds(20));
  REQUIRE(ok);
  CHECK(s.all_in_order(0, 200));
  CHECK_EQ(next, 201u);
}

TEST_CASE("same seed, same trace; another seed, another trace") {
  const auto run = [](uint64_t seed) {
    StoryConfig c;
    c.pair.seed = seed;
    Story s(c);
    impair::Rule r;
    r.drop_ppm = 20'000;
    r.dup_ppm = 10'000;
    r.jitter = Duration::micros(9);
    s.pair.line().add_rule(r);
    for (uint32_t i = 0; i < 50; ++i) REQUIRE(s.post(0, i, i * 9000u, i * 9000u, 9000, i) == 0);
    REQUIRE(s.run_until_sent(0, 50));
    return std::pair(s.pair.side(0).trace_digest(), s.pair.side(1).trace_digest());
  };
  CHECK(run(11) == run(11));
  CHECK(run(11) != run(12));
}

TEST_CASE("news: no completion and no event without it, and none for data and SACKs") {
  Story s;
  for (int side = 0; side < 2; ++side) s.pair.side(side).take_news();
  for (uint64_t id = 0; id < 3; ++id) REQUIRE(s.post(0, id, 0, 0, 100'000, 7) == 0);
  std::array<int, 2> news{};
  int steps = 0;
  while (s.end[0].sent.size() < 3 && s.pair.step()) {
    for (int side = 0; side < 2; ++side) {
      Story::End& e = s.end[static_cast<size_t>(side)];
      const size_t before = e.sent.size() + e.received.size() + e.events.size();
      s.collect(side);
      s.events(side);
      const bool more = e.sent.size() + e.received.size() + e.events.size() > before;
      const bool told = s.pair.side(side).take_news();
      CHECK_EQ(told, more);
      news[static_cast<size_t>(side)] += told ? 1 : 0;
    }
    ++steps;
  }
  CHECK(s.all_in_order(0, 3));
  CHECK_EQ(s.end[1].received.size(), 3u);
  for (const int n : news) CHECK(n >= 1 && n <= 3);
  CHECK(steps > 100);
  REQUIRE(s.pair.side(0).set_port_up(s.pair.now(), 2, false) == 0);
  CHECK(s.pair.side(0).take_news());
  CHECK(!s.pair.side(0).take_news());
}
