// Runs of packets on one EV, paths that are slow without a mark, and marks that grow stale (D-25).
#include <set>

#include "ev/table.h"
#include "testing/check.h"

using namespace mrc::ev;  // NOLINT(google-build-using-namespace)
using mrc::base::Duration;
using mrc::base::Instant;

namespace {

constexpr uint32_t kAll = UINT32_MAX;
Instant us(int64_t t) { return Instant{t * 1000}; }

// Two planes of four EVs and a spare each; tag = plane * 100 + k, the spare has k = 50.
EvTable table() {
  std::vector<PathId> active, backup;
  for (uint8_t p = 1; p <= 2; ++p) {
    for (uint32_t k = 0; k < 4; ++k) active.push_back({p * 100u + k, p});
    backup.push_back({p * 100u + 50, p});
  }
  return EvTable(active, backup, {}, std::move(make_policy("bitmap").value()), mrc::base::Rng(1));
}

uint32_t next_of(EvTable& t, uint32_t run, uint32_t ports = kAll) {
  const auto p = t.choose_run(us(0), ports, run);
  REQUIRE(p.has_value());
  return p->tag;
}

EvCounters counters_of(const EvTable& t, uint32_t tag) {
  for (const auto& r : t.rows()) {
    if (r.path.tag == tag) return r.counters;
  }
  REQUIRE(false);
  return {};
}

}  // namespace

TEST_CASE("runs keep to one EV for their length, and all EVs take turns") {
  EvTable t = table();
  std::set<uint32_t> begun;
  for (int i = 0; i < 8; ++i) {
    const uint32_t tag = next_of(t, 6);
    begun.insert(tag);
    for (int k = 1; k < 6; ++k) CHECK_EQ(next_of(t, 6), tag);
  }
  CHECK_EQ(begun.size(), 8u);
}

TEST_CASE("runs of one packet are the plain choice") {
  EvTable a = table();
  EvTable b = table();
  for (int i = 0; i < 100; ++i) CHECK_EQ(next_of(a, 1), b.choose(us(0), kAll, std::nullopt)->tag);
}

TEST_CASE("retransmissions in between do not end a run") {
  EvTable t = table();
  const uint32_t tag = next_of(t, 10);
  for (int i = 0; i < 9; ++i) {
    CHECK(t.choose(us(0), kAll, tag)->tag != tag);
    CHECK_EQ(next_of(t, 10), tag);
  }
}

TEST_CASE("a run ends when its EV is marked, bad or denied, or its port takes no more") {
  const auto ends = [](const char* what, auto change) {
    EvTable t = table();
    const uint32_t tag = next_of(t, 100);
    CHECK_EQ(next_of(t, 100), tag);
    const uint32_t ports = change(t, tag);
    const uint32_t after = next_of(t, 100, ports);
    if (!CHECK(after != tag)) std::fprintf(stderr, "%s\n", what);
    CHECK_EQ(next_of(t, 100), after);  // and the next run is a whole one
  };
  ends("mark", [](EvTable& t, uint32_t tag) {
    t.on_feedback(us(0), tag, PathFeedback::skip_once);
    return kAll;
  });
  ends("delay", [](EvTable& t, uint32_t tag) {
    t.on_delayed(us(0), tag);
    return kAll;
  });
  ends("loss", [](EvTable& t, uint32_t tag) {
    t.on_loss(us(1), tag, BadReason::loss, us(1));
    return kAll;
  });
  ends("denied", [](EvTable& t, uint32_t tag) {
    t.set_state(us(0), tag, State::denied);
    return kAll;
  });
  ends("port full", [](EvTable& t, uint32_t tag) { return kAll & ~(1u << *t.port_of(tag)); });
  ends("port down", [](EvTable& t, uint32_t tag) {
    t.set_usable_ports(us(0), kAll & ~(1u << *t.port_of(tag)));
    return kAll;
  });
}

TEST_CASE("an EV that came back as a spare does not go on with its old run") {
  EvTable t = table();
  const uint32_t tag = next_of(t, 100);
  t.set_state(us(0), tag, State::denied);  // the spare takes its place
  t.set_state(us(0), tag, State::good);
  CHECK(t.state(tag) == State::good);
  CHECK(next_of(t, 100) != tag);
}

TEST_CASE("no port: no run, and the next one starts clean") {
  EvTable t = table();
  CHECK(!t.choose_run(us(0), 0, 5).has_value());
  const uint32_t tag = next_of(t, 2);
  CHECK_EQ(next_of(t, 2), tag);
  CHECK(next_of(t, 2) != tag);
}

TEST_CASE("is_good: this very path, in the active set and GOOD") {
  EvTable t = table();
  CHECK(t.is_good({100, 1}));
  CHECK(!t.is_good({100, 2}));
  CHECK(!t.is_good({150, 1}));  // a spare
  CHECK(!t.is_good({999, 1}));
  t.on_sent(us(0), 101);
  CHECK(t.is_good({101, 1}));
  CHECK(!t.is_good({101, 2}));
  t.on_feedback(us(0), 101, PathFeedback::skip_once);
  CHECK(!t.is_good({101, 1}));
  CHECK(t.is_good({102, 1}));
  t.set_state(us(0), 102, State::denied);
  CHECK(!t.is_good({102, 1}));
  CHECK(t.is_good({150, 1}));  // took the place
}

TEST_CASE("sent packets are counted by EV, in any order") {
  EvTable t = table();
  for (int i = 0; i < 3; ++i) t.on_sent(us(i), 203);
  t.on_sent(us(4), 100);
  t.on_sent(us(5), 203);
  t.on_sent(us(6), 999);  // not ours
  CHECK_EQ(counters_of(t, 203).sent, 4u);
  CHECK_EQ(counters_of(t, 100).sent, 1u);
  uint64_t all = 0;
  for (const auto& r : t.rows()) all += r.counters.sent;
  CHECK_EQ(all, 5u);
}

TEST_CASE("a slow path is passed over once, without a mark in its counters") {
  EvTable t = table();
  t.on_delayed(us(0), 200);
  CHECK(t.state(200) == State::skip);
  CHECK_EQ(counters_of(t, 200).ecn, 0u);
  CHECK(!t.has_events());  // a controller sees it GOOD
  std::set<uint32_t> pass;
  for (int i = 0; i < 3; ++i) pass.insert(t.choose(us(1), 1u << 2, std::nullopt)->tag);
  CHECK((pass == std::set<uint32_t>{201, 202, 203}));
  bool back = false;
  for (int i = 0; i < 4; ++i) back |= t.choose(us(1), 1u << 2, std::nullopt)->tag == 200;
  CHECK(back);
}

TEST_CASE("slowness changes nothing on an EV that is marked, bad, denied or unknown") {
  EvTable t = table();
  t.on_feedback(us(0), 100, PathFeedback::skip_once);
  t.on_loss(us(1), 101, BadReason::loss, us(1));
  t.set_state(us(0), 102, State::denied);
  for (const uint32_t tag : {100u, 101u, 102u, 999u}) t.on_delayed(us(11), tag);
  CHECK(t.state(101) == State::assumed_bad);
  CHECK(t.state(102) == State::denied);
  // The mark is as old as it was: not renewed by the delay.
  std::set<uint32_t> pass;
  for (int i = 0; i < 3; ++i) pass.insert(t.choose(us(12), 1u << 1, std::nullopt)->tag);
  CHECK((pass == std::set<uint32_t>{100, 103, 150}));
}

TEST_CASE("D-25: a mark is stale after a base RTT, also one that delay made") {
  for (const bool delayed : {false, true}) {
    EvTable t = table();
    t.set_rtt(Duration::micros(100), Duration::micros(100));
    for (uint8_t p = 1; p <= 2; ++p) {
      for (uint32_t k = 0; k < 4; ++k) {
        if (delayed) t.on_delayed(us(0), p * 100u + k);
        if (!delayed) t.on_feedback(us(0), p * 100u + k, PathFeedback::skip_once);
      }
    }
    CHECK_EQ(t.count(State::skip), 8u);
    std::set<uint32_t> pass;
    for (int i = 0; i < 8; ++i) pass.insert(t.choose(us(100), kAll, std::nullopt)->tag);
    CHECK_EQ(pass.size(), 8u);  // nobody is passed over any more
    CHECK_EQ(t.count(State::skip), 0u);
  }
}

TEST_CASE("D-25: just below a base RTT the mark still counts") {
  EvTable t = table();
  t.set_rtt(Duration::micros(100), Duration::micros(100));
  t.on_feedback(us(0), 103, PathFeedback::skip_once);
  for (int i = 0; i < 3; ++i) CHECK(t.choose(Instant{99'999}, 1u << 1, std::nullopt)->tag != 103u);
}

TEST_CASE(
    "D-25: of two EVs the one that is marked gets every third packet at first, and is known for it soon") {
  EvTable t({{100, 1}, {101, 1}}, {}, {}, std::move(make_policy("bitmap").value()), mrc::base::Rng(1));
  const auto marked = [&t](int from, int until) {
    int n = 0;
    for (int i = from; i < until; ++i) {
      const uint32_t tag = t.choose(us(i / 8), kAll, std::nullopt)->tag;
      t.on_sent(us(i / 8), tag);
      n += tag == 100 ? 1 : 0;
      if (tag == 100) t.on_feedback(us(i / 8), 100, PathFeedback::skip_once);
    }
    return n;
  };
  CHECK_EQ(marked(0, 6), 2);
  marked(6, 1'000);
  const int late = marked(1'000, 7'000);
  CHECK(late >= 6'000 / 34);  // its SKIP is one turn more
  CHECK(late <= 6'000 / 20);
}
