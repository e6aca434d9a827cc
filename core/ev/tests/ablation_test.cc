// The experiments of TableConfig and ReverseSet: one idea of the protocol off at a time, the rest as it was.
#include <map>
#include <set>

#include "ev/reverse_set.h"
#include "ev/table.h"
#include "testing/check.h"

using namespace mrc::ev;  // NOLINT(google-build-using-namespace)
using mrc::base::Duration;
using mrc::base::Instant;

namespace {

constexpr uint32_t kAll = UINT32_MAX;
Instant us(int64_t t) { return Instant{t * 1000}; }

// Two planes of four EVs and a spare each; tag = plane * 100 + k, the spare has k = 50.
EvTable table(TableConfig c, const char* policy = "bitmap", uint64_t seed = 1) {
  std::vector<PathId> active, backup;
  for (uint8_t p = 1; p <= 2; ++p) {
    for (uint32_t k = 0; k < 4; ++k) active.push_back({p * 100u + k, p});
    backup.push_back({p * 100u + 50, p});
  }
  return EvTable(active, backup, c, std::move(make_policy(policy).value()), mrc::base::Rng(seed));
}

std::map<uint8_t, int> planes_used(EvTable& t, int packets) {
  std::map<uint8_t, int> n;
  for (int i = 0; i < packets; ++i) ++n[t.choose(us(1), kAll, std::nullopt)->port];
  return n;
}

uint32_t actives_of(const EvTable& t, uint8_t port) {
  uint32_t n = 0;
  for (const auto& r : t.rows()) n += r.active && r.path.port == port ? 1 : 0;
  return n;
}

EvCounters counters_of(const EvTable& t, uint32_t tag) {
  for (const auto& r : t.rows()) {
    if (r.path.tag == tag) return r.counters;
  }
  REQUIRE(false);
  return {};
}

}  // namespace

TEST_CASE("no ECN steering: marks, delay and marked probe answers are counted and change nothing") {
  TableConfig c;
  c.ecn_steering = false;
  EvTable t = table(c);
  EvTable same = table(c);
  CHECK(t.on_feedback(us(0), 101, PathFeedback::skip_once));
  t.on_delayed(us(0), 102);
  t.on_probe_ack(us(0), 103, PathFeedback::skip_once);
  CHECK_EQ(t.count(State::skip), 0u);
  CHECK_EQ(counters_of(t, 101).ecn, 1u);
  for (int i = 0; i < 64; ++i)
    CHECK_EQ(t.choose(us(1), kAll, std::nullopt)->tag, same.choose(us(1), kAll, std::nullopt)->tag);
}

TEST_CASE("no ECN steering: a trim and a loss steer as ever") {
  TableConfig c;
  c.ecn_steering = false;
  EvTable t = table(c);
  t.on_trimmed(us(0), 101);
  CHECK(t.state(101) == State::skip);
  t.on_loss(us(5), 102, BadReason::loss, us(1));
  CHECK(t.state(102) == State::assumed_bad);
}

TEST_CASE("no ECN steering: an EV that a marked probe answer takes back is GOOD, not SKIP") {
  for (const bool steering : {true, false}) {
    TableConfig c;
    c.probe_successes = 1;
    c.ecn_steering = steering;
    EvTable t = table(c);
    t.on_loss(us(5), 102, BadReason::loss, us(1));
    REQUIRE(t.take_probe(us(5000), kAll).has_value());
    t.on_probe_ack(us(5001), 102, PathFeedback::skip_once);
    CHECK(t.state(102) == (steering ? State::skip : State::good));
  }
}

TEST_CASE(
    "no demotion: losses are counted and EVs stay; a dead port and the controller still take them out") {
  TableConfig c;
  c.demotion = false;
  EvTable t = table(c);
  for (const BadReason why : {BadReason::loss, BadReason::timeout, BadReason::probe})
    t.on_loss(us(5), 102, why, us(1));
  t.on_feedback(us(5), 102, PathFeedback::always_skip);
  CHECK(t.state(102) == State::good);
  CHECK_EQ(counters_of(t, 102).lost, 3u);
  t.set_usable_ports(us(6), 1u << 2);
  CHECK(t.state(102) == State::assumed_bad);
  CHECK(t.set_state(us(7), 201, State::assumed_bad));
  CHECK(t.state(201) == State::assumed_bad);
}

TEST_CASE("spares of any plane: the second bad EV of a plane is replaced by the other plane's spare") {
  EvTable own = table({});
  TableConfig c;
  c.any_port_spares = true;
  EvTable any = table(c);
  for (EvTable* t : {&own, &any}) {
    t->on_loss(us(5), 101, BadReason::loss, us(1));
    t->on_loss(us(5), 102, BadReason::loss, us(1));
  }
  CHECK_EQ(own.usable_active(), 7u);
  CHECK_EQ(any.usable_active(), 8u);
  CHECK_EQ(actives_of(own, 1), 4u);  // one of them bad
  CHECK_EQ(actives_of(any, 1), 3u);
  CHECK_EQ(actives_of(any, 2), 5u);
  // The rotation knows the newcomer, and never offers what is bad.
  std::set<uint32_t> used;
  for (int i = 0; i < 200; ++i) used.insert(any.choose(us(6), kAll, std::nullopt)->tag);
  CHECK_EQ(used.size(), 8u);
  CHECK(!used.contains(101) && !used.contains(102));
}

TEST_CASE("spares of any plane: no plane is always the first to give one") {
  TableConfig c;
  c.any_port_spares = true;
  std::set<bool> first;
  for (uint64_t seed = 1; seed <= 16; ++seed) {
    EvTable t = table(c, "bitmap", seed);
    t.on_loss(us(5), 101, BadReason::loss, us(1));
    first.insert(actives_of(t, 1) == 4);
  }
  CHECK_EQ(first.size(), 2u);
}

TEST_CASE("spares of any plane: an EV that recovers fills a hole of another plane") {
  TableConfig c;
  c.any_port_spares = true;
  c.probe_successes = 1;
  EvTable t = table(c);
  for (const uint32_t tag : {101u, 102u, 201u}) t.on_loss(us(5), tag, BadReason::loss, us(1));
  REQUIRE(t.usable_active() == 7);  // two spares for three
  REQUIRE(t.take_probe(us(5000), kAll).has_value());
  t.on_probe_ack(us(5001), 102, PathFeedback::none);
  CHECK_EQ(t.usable_active(), 8u);
}

TEST_CASE("one rotation for all planes: shares follow the number of EVs, not the planes") {
  TableConfig c;
  c.any_port_spares = true;
  for (const char* policy : {"bitmap", "bitmap-flat"}) {
    EvTable t = table(c, policy);
    for (const uint32_t tag : {101u, 102u}) t.on_loss(us(5), tag, BadReason::loss, us(1));
    REQUIRE(actives_of(t, 1) == 3 && actives_of(t, 2) == 5);
    const auto n = planes_used(t, 8000);
    CHECK_EQ(n.at(1), policy == std::string("bitmap") ? 4000 : 3000);
  }
}

TEST_CASE("one rotation for all planes: SKIP is passed once, a busy port all the time") {
  EvTable t = table({}, "bitmap-flat");
  std::map<uint32_t, int> n;
  t.on_feedback(us(0), 101, PathFeedback::skip_once);
  for (int i = 0; i < 15; ++i) ++n[t.choose(us(1), kAll, std::nullopt)->tag];
  CHECK_EQ(n[101], 1);
  for (int i = 0; i < 100; ++i) CHECK_EQ(t.choose(us(1), 1u << 2, std::nullopt)->port, 2);
}

TEST_CASE("one rotation for all planes: a marked plane loses its share, equal planes keep it") {
  for (const char* policy : {"bitmap", "bitmap-flat"}) {
    EvTable t = table({}, policy);
    std::map<uint8_t, int> n;
    for (int i = 0; i < 80; ++i) {
      for (uint32_t k = 0; k < 4; ++k) t.on_feedback(us(0), 100 + k, PathFeedback::skip_once);
      ++n[t.choose(us(1), kAll, std::nullopt)->port];
    }
    CHECK_EQ(n[1], policy == std::string("bitmap") ? 40 : 0);
  }
}

TEST_CASE("one rotation for all planes: a busy port's SKIP stays") {
  EvTable t = table({}, "bitmap-flat");
  for (uint32_t k = 0; k < 4; ++k) t.on_feedback(us(0), 100 + k, PathFeedback::skip_once);
  for (int i = 0; i < 40; ++i) t.choose(us(1), 1u << 2, std::nullopt);
  CHECK_EQ(t.count(State::skip), 4u);
}

TEST_CASE("oblivious: every EV alike, whatever was heard, as long as it is in use") {
  TableConfig c;
  c.demotion = false;
  EvTable t = table(c, "oblivious");
  EvTable deaf = table(c, "oblivious");
  std::map<uint32_t, int> n;
  for (int i = 0; i < 8000; ++i) {
    t.on_feedback(us(i), 101, PathFeedback::skip_once);
    t.on_trimmed(us(i), 102);
    t.on_loss(us(i), 103, BadReason::loss, us(i));
    const auto p = t.choose(us(i), kAll, 101);
    ++n[p->tag];
    CHECK_EQ(p->tag, deaf.choose(us(i), kAll, std::nullopt)->tag);
  }
  CHECK_EQ(n.size(), 8u);
  for (const auto& [tag, count] : n) CHECK(count > 850 && count < 1150);
}

TEST_CASE("oblivious: EVs out of use and busy ports are left out, evenly") {
  EvTable t = table({}, "oblivious");
  for (const uint32_t tag : {101u, 102u, 103u, 100u}) CHECK(t.set_state(us(0), tag, State::denied));
  std::map<uint32_t, int> n;
  for (int i = 0; i < 1000; ++i) {
    const auto p = t.choose(us(1), 1u << 1, std::nullopt);
    REQUIRE(p.has_value());
    ++n[p->tag];
  }
  CHECK_EQ(n[150], 1000);  // the spare took a slot
}

TEST_CASE("a fixed reverse EV: the first path of a plane stays, proven or lost") {
  ReverseSet r(true);
  r.proven(us(0), {11, 1});
  r.proven(us(1), {12, 1});
  CHECK_EQ(r.choose(1, kAll)->tag, 11u);
  r.lost(11);
  CHECK_EQ(r.choose(1, kAll)->tag, 11u);
  r.port_down(1);
  CHECK(!r.choose(1, kAll).has_value());
  r.proven(us(2), {12, 1});
  CHECK_EQ(r.choose(1, kAll)->tag, 12u);
}
