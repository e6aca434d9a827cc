// Rows of the EV state table (reference 8) and the rules of rotation (5.4), one story each.
#include "ev/table.h"

#include <algorithm>
#include <map>
#include <set>

#include "testing/check.h"

using namespace mrc::ev;  // NOLINT(google-build-using-namespace)
using mrc::base::Duration;
using mrc::base::Instant;

namespace {

constexpr uint32_t kAll = UINT32_MAX;
Instant us(int64_t t) { return Instant{t * 1000}; }

// `planes` x `active` EVs and `backup` spares each; tag = plane * 100 + k.
EvTable table(uint32_t planes, uint32_t active, uint32_t backup, TableConfig c = {}, uint64_t seed = 1,
              const char* policy = "bitmap") {
  std::vector<PathId> a;
  std::vector<PathId> b;
  for (uint32_t p = 1; p <= planes; ++p) {
    for (uint32_t k = 0; k < active; ++k) a.push_back({p * 100 + k, static_cast<uint8_t>(p)});
    for (uint32_t k = 0; k < backup; ++k) b.push_back({p * 100 + 50 + k, static_cast<uint8_t>(p)});
  }
  return EvTable(a, b, c, std::move(make_policy(policy).value()), mrc::base::Rng(seed));
}

void revive(EvTable& t, uint32_t tag, PathFeedback m = PathFeedback::none) {
  for (int i = 0; i < 3; ++i) t.on_probe_ack(us(1000), tag, m);
}

}  // namespace

TEST_CASE("eight planes carry exactly the same number of packets") {
  EvTable t = table(8, 16, 0);
  std::map<uint8_t, int> n;
  std::map<uint32_t, int> each;
  for (int i = 0; i < 10'240; ++i) {
    const auto p = t.choose(us(i), kAll, std::nullopt);
    REQUIRE(p.has_value());
    ++n[p->port];
    ++each[p->tag];
  }
  CHECK_EQ(n.size(), 8u);
  for (const auto& [port, c] : n) CHECK_EQ(c, 1280);
  for (const auto& [tag, c] : each) CHECK_EQ(c, 80);  // a full pass uses every EV once
}

TEST_CASE("two seeds start differently; one seed repeats itself") {
  EvTable a = table(4, 8, 0, {}, 1);
  EvTable b = table(4, 8, 0, {}, 2);
  EvTable c = table(4, 8, 0, {}, 1);
  int differ = 0;
  for (int i = 0; i < 64; ++i) {
    const auto x = a.choose(us(i), kAll, std::nullopt);
    differ += x == b.choose(us(i), kAll, std::nullopt) ? 0 : 1;
    CHECK(x == c.choose(us(i), kAll, std::nullopt));
  }
  CHECK(differ > 32);
}

TEST_CASE("GOOD -> SKIP on a mark; passed over once, then used again") {
  EvTable t = table(1, 2, 0);
  CHECK(t.on_feedback(us(0), 100, PathFeedback::skip_once));
  CHECK(t.state(100) == State::skip);
  int sends = 0;
  for (; sends < 10 && t.state(100) == State::skip; ++sends)
    CHECK_EQ(t.choose(us(1), kAll, std::nullopt)->tag, 101u);
  CHECK(sends >= 1);
  CHECK(sends <= 2);  // by then the rotation has come past it
  std::set<uint32_t> next;
  for (int i = 0; i < 3; ++i) next.insert(t.choose(us(1), kAll, std::nullopt)->tag);
  CHECK(next.contains(100));
}

TEST_CASE("an EV that was just passed over is not the one that is taken, at no place of the rotation") {
  for (uint64_t seed = 1; seed <= 64; ++seed) {
    EvTable t = table(1, 2, 0, {}, seed);
    for (uint64_t i = 0; i < seed % 4; ++i) t.choose(us(0), kAll, std::nullopt);
    t.on_feedback(us(0), 100, PathFeedback::skip_once);
    CHECK_EQ(t.choose(us(1), kAll, std::nullopt)->tag, 101u);
  }
}

TEST_CASE("one send clears one SKIP at most") {
  EvTable t = table(1, 4, 0);
  for (uint32_t k = 0; k < 3; ++k) t.on_feedback(us(0), 100 + k, PathFeedback::skip_once);
  CHECK_EQ(t.choose(us(1), kAll, std::nullopt)->tag, 103u);
  CHECK(t.count(State::skip) >= 2);
  // Nor one on each of the planes it has to try.
  EvTable two = table(2, 1, 0);
  for (const uint32_t tag : {100u, 200u}) two.on_feedback(us(0), tag, PathFeedback::skip_once);
  CHECK_EQ(two.choose(us(1), kAll, 100)->tag, 200u);
  CHECK(two.count(State::skip) >= 1);
}

TEST_CASE("a plane with nothing but SKIP keeps its share, and all its EVs take part") {
  EvTable t = table(2, 4, 0);
  std::map<uint8_t, int> n;
  std::map<uint32_t, int> each;
  for (int i = 0; i < 800; ++i) {
    for (uint32_t k = 0; k < 4; ++k) t.on_feedback(us(i), 100 + k, PathFeedback::skip_once);
    const auto p = t.choose(us(i), kAll, std::nullopt);
    ++n[p->port];
    ++each[p->tag];
  }
  CHECK_EQ(n[1], 400);
  CHECK_EQ(n[2], 400);
  CHECK_EQ(each.size(), 8u);
  for (const auto& [tag, count] : each) CHECK(count > 50);
}

TEST_CASE("inside a plane what is not marked goes first, also when other planes have more of it") {
  EvTable t = table(2, 4, 0);
  std::map<uint32_t, int> each;
  for (int i = 0; i < 80; ++i) {
    for (uint32_t k = 1; k < 4; ++k) t.on_feedback(us(0), 100 + k, PathFeedback::skip_once);  // all the time
    ++each[t.choose(us(1), kAll, std::nullopt)->tag];
  }
  CHECK_EQ(each[100], 40);
  for (uint32_t k = 0; k < 4; ++k) CHECK_EQ(each[200 + k], 10);
}

TEST_CASE("a retransmission takes a marked EV of its plane rather than the lost one's") {
  for (const char* policy : {"bitmap", "bitmap-flat"}) {
    EvTable t = table(1, 2, 0, {}, 1, policy);
    t.on_feedback(us(0), 101, PathFeedback::skip_once);
    for (int i = 0; i < 5; ++i) CHECK_EQ(t.choose(us(1), kAll, 100)->tag, 101u);
    CHECK_EQ(t.choose(us(1), kAll, std::nullopt)->tag, 100u);
  }
}

TEST_CASE("SKIP ends by time after one base RTT") {
  EvTable t = table(1, 1, 0);
  t.on_feedback(us(0), 100, PathFeedback::skip_once);
  t.choose(us(20), kAll, std::nullopt);
  CHECK(t.state(100) == State::good);
}

TEST_CASE("TRIMMED marks SKIP, another mark restarts it, m = NONE leaves it") {
  EvTable t = table(1, 2, 0);
  t.on_trimmed(us(0), 100);
  CHECK(t.state(100) == State::skip);
  t.on_feedback(us(1), 100, PathFeedback::none);
  CHECK(t.state(100) == State::skip);
}

TEST_CASE("loss retires an EV and a spare of the same plane takes over") {
  EvTable t = table(2, 4, 2);
  CHECK(t.on_loss(us(10), 100, BadReason::loss, us(5)));
  CHECK(t.state(100) == State::assumed_bad);
  CHECK_EQ(t.usable_active(), 8u);
  std::set<uint32_t> used;
  std::map<uint8_t, int> n;
  for (int i = 0; i < 80; ++i) {
    const auto p = t.choose(us(20), kAll, std::nullopt);
    used.insert(p->tag);
    ++n[p->port];
  }
  CHECK(!used.contains(100));
  CHECK(used.contains(150));
  CHECK_EQ(n[1], n[2]);
  revive(t, 100);
  CHECK(t.state(100) == State::good);
  used.clear();
  for (int i = 0; i < 80; ++i) used.insert(t.choose(us(2000), kAll, std::nullopt)->tag);
  CHECK(!used.contains(100));  // it stays a spare until needed
}

TEST_CASE("without a spare the plane shrinks, and the revived EV fills the hole") {
  EvTable t = table(2, 2, 0);
  t.on_loss(us(1), 100, BadReason::loss, us(1));
  CHECK_EQ(t.usable_active(), 3u);
  std::map<uint8_t, int> n;
  for (int i = 0; i < 100; ++i) ++n[t.choose(us(2), kAll, std::nullopt)->port];
  CHECK_EQ(n[1], 50);
  revive(t, 100);
  CHECK_EQ(t.usable_active(), 4u);
}

TEST_CASE("the floor turns a loss into SKIP; ports and ALWAYS_SKIP ignore it") {
  TableConfig c;
  c.min_active = 2;
  EvTable t = table(2, 1, 0, c);
  t.on_loss(us(1), 100, BadReason::loss, us(1));
  CHECK(t.state(100) == State::skip);
  t.on_feedback(us(2), 100, PathFeedback::always_skip);
  CHECK(t.state(100) == State::assumed_bad);
  t.set_usable_ports(us(3), 1u << 1);
  CHECK(t.state(200) == State::assumed_bad);
}

TEST_CASE("late feedback does not revive; losses of packets sent before the revival do not demote") {
  EvTable t = table(1, 4, 0);
  t.on_loss(us(10), 100, BadReason::loss, us(5));
  t.on_feedback(us(11), 100, PathFeedback::none);
  t.on_feedback(us(12), 100, PathFeedback::skip_once);
  CHECK(t.state(100) == State::assumed_bad);
  revive(t, 100);  // at 1000 us
  t.on_loss(us(1100), 100, BadReason::loss, us(9));
  CHECK(t.state(100) == State::good);
  t.on_loss(us(1100), 100, BadReason::loss, us(1050));
  CHECK(t.state(100) == State::assumed_bad);
}

TEST_CASE("EVs that died together are not probed together for ever: one of many is soon found alive again") {
  EvTable t = table(1, 48, 0);
  for (uint32_t k = 0; k < 48; ++k) t.set_state(us(0), 100 + k, State::assumed_bad);
  // 200 ms of silence, then an answer within a small part of the time that each of them waits by now.
  Instant now = us(0);
  while (t.next_probe_at() < us(200'000)) {
    now = t.next_probe_at();
    const auto p = t.take_probe(now, kAll);
    REQUIRE(p.has_value());
    t.on_probe_lost(now, p->tag);
  }
  CHECK(t.next_probe_at() - us(200'000) < Duration::millis(10));
  int probed = 0;
  for (; t.next_probe_at() < us(264'000); ++probed)
    t.on_probe_lost(t.next_probe_at(), t.take_probe(t.next_probe_at(), kAll)->tag);
  CHECK(probed >= 16);
  CHECK(probed <= 96);
}

TEST_CASE("probes: first delay, back-off while failing, three answers in a row, D-12") {
  TableConfig c;
  c.min_active = 1;
  EvTable t = table(1, 4, 0, c);
  CHECK(t.next_probe_at().is_never());
  t.on_loss(us(0), 100, BadReason::loss, us(0));
  CHECK_EQ(t.next_probe_at().ns, 24'000);
  CHECK(!t.take_probe(us(23), kAll).has_value());
  REQUIRE(t.take_probe(us(24), kAll).has_value());
  CHECK(t.next_probe_at().is_never());  // one outstanding an EV
  int64_t at = 24'000;
  for (const int64_t wait : {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000}) {
    t.on_probe_lost(Instant{at}, 100);
    const int64_t waits = t.next_probe_at().ns - at;
    CHECK(waits <= wait * 1'000'000);
    CHECK(waits >= (wait == 1 ? 1'000'000 : wait * 500'000));
    at = t.next_probe_at().ns;
    REQUIRE(t.take_probe(Instant{at}, kAll).has_value());
  }
  t.on_probe_ack(Instant{at}, 100, PathFeedback::none);
  CHECK_EQ(t.next_probe_at().ns, at + 1'000'000);  // a success resets the back-off
  t.on_probe_ack(Instant{at}, 100, PathFeedback::none);
  CHECK(t.state(100) == State::assumed_bad);
  t.on_probe_ack(Instant{at}, 100, PathFeedback::skip_once);
  CHECK(t.state(100) == State::skip);
}

TEST_CASE("a failed or ALWAYS_SKIP probe starts the count again") {
  EvTable t = table(1, 4, 0);
  t.on_loss(us(0), 100, BadReason::loss, us(0));
  t.on_probe_ack(us(1), 100, PathFeedback::none);
  t.on_probe_ack(us(2), 100, PathFeedback::none);
  t.on_probe_lost(us(3), 100);
  t.on_probe_ack(us(4), 100, PathFeedback::none);
  t.on_probe_ack(us(5), 100, PathFeedback::none);
  t.on_probe_ack(us(6), 100, PathFeedback::always_skip);
  CHECK(t.state(100) == State::assumed_bad);
}

TEST_CASE("losses never take the last EV, however few there are") {
  for (const uint32_t evs : {1u, 2u, 3u}) {
    EvTable t = table(1, evs, 0);
    for (uint32_t k = 0; k < evs; ++k) t.on_loss(us(1), 100 + k, BadReason::timeout, us(1));
    CHECK_EQ(t.usable_active(), 1u);
    CHECK(t.state(100 + evs - 1) == State::skip);
  }
}

TEST_CASE("DENIED is never used, never probed, left only by the controller's GOOD") {
  EvTable t = table(1, 2, 0);
  CHECK(t.set_state(us(0), 100, State::denied));
  CHECK(t.set_state(us(0), 101, State::denied));
  CHECK(!t.choose(us(1), kAll, std::nullopt).has_value());
  CHECK(t.next_probe_at().is_never());
  revive(t, 100);
  t.set_state(us(2), 100, State::assumed_bad);
  t.on_loss(us(3), 100, BadReason::loss, us(3));
  t.set_usable_ports(us(4), 0);
  t.set_usable_ports(us(5), kAll);
  CHECK(t.state(100) == State::denied);
  t.set_state(us(6), 100, State::good);
  CHECK(t.state(100) == State::good);
  CHECK(!t.set_state(us(7), 999, State::good));
}

TEST_CASE("all bad: SKIP first, then the one bad longest; the avoided one only alone") {
  EvTable t = table(1, 3, 0);
  t.on_feedback(us(1), 100, PathFeedback::always_skip);
  t.on_feedback(us(2), 101, PathFeedback::always_skip);
  t.on_trimmed(us(3), 102);
  CHECK_EQ(t.choose(us(3), kAll, std::nullopt)->tag, 102u);
  t.on_feedback(us(3), 102, PathFeedback::always_skip);
  CHECK_EQ(t.choose(us(4), kAll, std::nullopt)->tag, 100u);
  CHECK_EQ(t.choose(us(4), kAll, 100)->tag, 101u);
  EvTable one = table(1, 1, 0);
  CHECK_EQ(one.choose(us(0), kAll, 100)->tag, 100u);
}

TEST_CASE("a plane whose EVs are all bad gets nothing while another one is only busy") {
  EvTable t = table(2, 2, 0);
  t.on_loss(us(1), 100, BadReason::loss, us(1));
  t.on_loss(us(2), 101, BadReason::loss, us(2));
  CHECK(!t.choose(us(3), 1u << 1, std::nullopt).has_value());  // the line of plane 2 will be free again
  CHECK_EQ(t.choose(us(3), kAll, std::nullopt)->port, 2);
  t.on_trimmed(us(3), 200);
  t.on_loss(us(3), 201, BadReason::loss, us(3));
  CHECK(!t.choose(us(4), 1u << 1, std::nullopt).has_value());  // marked is not bad
  t.set_usable_ports(us(5), 1u << 1);
  CHECK_EQ(t.choose(us(6), 1u << 1, std::nullopt)->tag, 100u);  // now nothing better can come
}

TEST_CASE("a retransmission avoids the EV of the lost transmission") {
  EvTable t = table(1, 2, 0);
  for (int i = 0; i < 50; ++i) CHECK_EQ(t.choose(us(i), kAll, 100)->tag, 101u);
}

TEST_CASE("port down and up: all its EVs leave, and return at once with the equal split") {
  EvTable t = table(2, 2, 0);
  t.set_usable_ports(us(0), 1u << 2);
  CHECK_EQ(t.count(State::assumed_bad), 2u);
  CHECK(t.next_probe_at().is_never());  // no probing of a port that is down
  for (int i = 0; i < 10; ++i) CHECK_EQ(t.choose(us(1), kAll, std::nullopt)->port, 2);
  t.set_usable_ports(us(100), kAll);
  CHECK_EQ(t.count(State::good), 4u);
  CHECK(t.next_probe_at().is_never());
  std::map<uint8_t, int> n;
  for (int i = 0; i < 100; ++i) ++n[t.choose(us(100), kAll, std::nullopt)->port];
  CHECK_EQ(n[1], 50);
}

TEST_CASE("port up: only what its port alone had made bad is GOOD at once, the rest is probed at once") {
  EvTable t = table(2, 5, 0);
  t.on_loss(us(1), 100, BadReason::loss, us(1));
  t.on_feedback(us(1), 101, PathFeedback::always_skip);
  t.set_usable_ports(us(2), 1u << 2);
  t.set_state(us(3), 102, State::assumed_bad);  // while its port is down
  t.set_state(us(3), 103, State::denied);
  t.set_usable_ports(us(100), kAll);
  for (const uint32_t tag : {100u, 101u, 102u}) CHECK(t.state(tag) == State::assumed_bad);
  CHECK(t.state(103) == State::denied);
  CHECK(t.state(104) == State::good);
  CHECK_EQ(t.next_probe_at().ns, us(100).ns);
  std::set<uint32_t> probed;
  while (const auto p = t.take_probe(us(100), kAll)) probed.insert(p->tag);
  CHECK((probed == std::set<uint32_t>{100, 101, 102}));
}

TEST_CASE("port up: losses of what was sent before do not retire its EVs again") {
  EvTable t = table(2, 2, 0);
  t.set_usable_ports(us(50), 1u << 2);
  t.set_usable_ports(us(100), kAll);
  t.on_loss(us(110), 100, BadReason::loss, us(49));
  CHECK(t.state(100) == State::good);
  t.on_loss(us(120), 100, BadReason::loss, us(101));
  CHECK(t.state(100) == State::assumed_bad);
}

TEST_CASE("a loss that was none gives its EV back at once, into the gap it left") {
  EvTable t = table(2, 2, 0);
  t.on_loss(us(10), 100, BadReason::loss, us(5));
  t.on_loss(us(10), 101, BadReason::loss, us(5));
  t.on_spurious(us(30), 100);
  t.on_late_original(us(31), 101);
  CHECK_EQ(t.usable_active(), 4u);
  CHECK(t.next_probe_at().is_never());
  std::vector<StateEvent> ev;
  t.take_events(ev);
  REQUIRE(ev.size() == 4);
  CHECK(ev[2].state == State::good && ev[2].tag == 100 && ev[2].at == us(30));
  CHECK(ev[3].state == State::good && ev[3].tag == 101);
}

TEST_CASE("a late arrival forgives an inferred loss and nothing else") {
  EvTable t = table(2, 4, 0);
  t.on_loss(us(1), 100, BadReason::timeout, us(1));
  t.on_loss(us(1), 101, BadReason::probe, us(1));
  t.on_feedback(us(1), 102, PathFeedback::always_skip);
  t.set_state(us(1), 103, State::denied);
  t.set_state(us(1), 200, State::assumed_bad);
  t.on_feedback(us(1), 201, PathFeedback::skip_once);
  t.on_loss(us(1), 202, BadReason::loss, us(1));
  t.set_state(us(2), 202, State::assumed_bad);  // and then the controller said so too
  for (const uint32_t tag : {100u, 101u, 102u, 103u, 200u, 201u, 202u, 999u}) {
    t.on_spurious(us(2), tag);
    t.on_late_original(us(2), tag);
  }
  for (const uint32_t tag : {100u, 101u, 102u, 200u, 202u}) CHECK(t.state(tag) == State::assumed_bad);
  CHECK(t.state(103) == State::denied);
  CHECK(t.state(201) == State::skip);
}

TEST_CASE("a late SACK may have the halves of its EV swapped (D-04), our own record has not") {
  std::vector<PathId> a{{0x00010002, 1}, {0x00020001, 1}, {0x00030004, 1}};
  EvTable t(a, {}, {}, std::move(make_policy("bitmap").value()), mrc::base::Rng(1));
  t.on_loss(us(1), 0x00030004, BadReason::loss, us(1));
  t.on_late_original(us(2), 0x00040003);  // from now on this peer is known to swap
  CHECK(t.state(0x00030004) == State::good);
  t.on_loss(us(3), 0x00010002, BadReason::loss, us(3));
  t.on_spurious(us(4), 0x00020001);  // another EV of ours
  CHECK(t.state(0x00010002) == State::assumed_bad);
  t.on_spurious(us(4), 0x00010002);
  CHECK(t.state(0x00010002) == State::good);
}

TEST_CASE("a port that cannot take a packet is passed over without a state change") {
  EvTable t = table(2, 2, 0);
  t.on_trimmed(us(0), 100);
  for (int i = 0; i < 10; ++i) CHECK_EQ(t.choose(us(0), 1u << 2, std::nullopt)->port, 2);
  CHECK(t.state(100) == State::skip);
}

TEST_CASE("bad_after 2: one loss is forgiven, two within the window are not") {
  TableConfig c;
  c.bad_after = 2;
  EvTable t = table(1, 4, 0, c);
  t.on_loss(us(0), 100, BadReason::loss, us(0));
  CHECK(t.state(100) == State::good);
  t.on_loss(us(20'000), 100, BadReason::loss, us(1));
  CHECK(t.state(100) == State::good);
  t.on_loss(us(21'000), 100, BadReason::loss, us(1));
  CHECK(t.state(100) == State::assumed_bad);
}

TEST_CASE("a peer with the halves of the EV swapped is understood (D-04); unknown EVs do nothing") {
  std::vector<PathId> a{{0x00010002, 1}, {0x00030004, 1}};
  EvTable t(a, {}, {}, std::move(make_policy("bitmap").value()), mrc::base::Rng(1));
  CHECK(t.on_feedback(us(0), 0x00020001, PathFeedback::skip_once));
  CHECK(t.state(0x00010002) == State::skip);
  CHECK(t.on_feedback(us(0), 0x00040003, PathFeedback::skip_once));
  CHECK(!t.on_feedback(us(0), 0xDEAD, PathFeedback::skip_once));
}

TEST_CASE("events name GOOD <-> ASSUMED_BAD changes only, SKIP shows as GOOD") {
  EvTable t = table(1, 4, 0);
  std::vector<StateEvent> ev;
  t.on_trimmed(us(0), 100);
  CHECK(!t.has_events());
  t.on_loss(us(1), 101, BadReason::timeout, us(1));
  revive(t, 101, PathFeedback::skip_once);
  t.take_events(ev);
  REQUIRE(ev.size() == 2);
  CHECK(ev[0].state == State::assumed_bad);
  CHECK(ev[0].reason == BadReason::timeout);
  CHECK(ev[1].state == State::good);
}

TEST_CASE("replace puts a new EV into the same slot") {
  EvTable t = table(2, 1, 0);
  REQUIRE(t.replace(us(0), 100, {777, 2}));
  CHECK(!t.state(100).has_value());
  CHECK(t.state(777) == State::good);
  std::set<uint32_t> used;
  for (int i = 0; i < 10; ++i) used.insert(t.choose(us(1), kAll, std::nullopt)->tag);
  CHECK((used == std::set<uint32_t>{777, 200}));
}

TEST_CASE("128 EVs and 32 spares stay small; unknown policies are refused") {
  EvTable t = table(8, 16, 4);
  CHECK(t.memory_bytes() <= 12 * 1024);
  CHECK(!make_policy("no-such-policy").ok());
}

TEST_CASE("bad_after counts losses, whatever marks come between") {
  TableConfig c;
  c.bad_after = 2;
  EvTable t = table(1, 4, 0, c);
  t.on_loss(us(0), 100, BadReason::loss, us(0));
  t.on_trimmed(us(100), 100);
  t.on_loss(us(200), 100, BadReason::loss, us(0));
  CHECK(t.state(100) == State::assumed_bad);
  t.on_loss(us(0), 101, BadReason::loss, us(0));
  t.on_trimmed(us(9'000), 101);
  t.on_loss(us(15'000), 101, BadReason::loss, us(0));
  CHECK(t.state(101) == State::skip);
}

TEST_CASE("a spare revived with a mark still replaces a bad EV") {
  TableConfig c;
  c.min_active = 1;
  EvTable t = table(1, 2, 1, c);
  t.on_loss(us(1), 150, BadReason::loss, us(1));
  revive(t, 150, PathFeedback::skip_once);
  CHECK(t.state(150) == State::skip);
  t.on_loss(us(5000), 100, BadReason::loss, us(5000));
  CHECK_EQ(t.usable_active(), 2u);
}

TEST_CASE("answers that come after the port went down revive nothing") {
  EvTable t = table(2, 2, 0);
  t.on_loss(us(0), 100, BadReason::loss, us(0));
  t.set_usable_ports(us(1), 1u << 2);
  revive(t, 100);
  CHECK(t.state(100) == State::assumed_bad);
  t.set_state(us(2), 100, State::good);
  CHECK(t.state(100) == State::assumed_bad);
  t.set_state(us(3), 101, State::denied);
  t.set_state(us(4), 101, State::good);
  CHECK(t.state(101) == State::assumed_bad);  // allowed again, but its port is down
  t.set_usable_ports(us(5), kAll);
  CHECK(t.state(101) == State::good);
  CHECK(t.state(100) == State::assumed_bad);  // its loss was before: it has to prove itself
  revive(t, 100);
  CHECK(t.state(100) == State::good);
}

TEST_CASE("replace refuses a tag that another EV has, and a replaced spare fills a gap of its plane") {
  EvTable t = table(1, 2, 1);
  CHECK(!t.replace(us(0), 100, {101, 1}));
  CHECK(t.replace(us(0), 100, {100, 1}));
  CHECK(!t.replace(us(0), 999, {998, 1}));
  t.on_feedback(us(1), 150, PathFeedback::always_skip);
  t.on_feedback(us(1), 100, PathFeedback::always_skip);
  CHECK_EQ(t.usable_active(), 1u);
  CHECK(t.replace(us(2), 150, {177, 1}));
  CHECK_EQ(t.usable_active(), 2u);
}

TEST_CASE("plain round robin uses every EV in turn, passes a SKIP once and ignores planes") {
  EvTable t = table(2, 2, 0, {}, 1, "rr");
  std::map<uint32_t, int> n;
  for (int i = 0; i < 400; ++i) ++n[t.choose(us(0), kAll, std::nullopt)->tag];
  for (const auto& [tag, count] : n) CHECK_EQ(count, 100);
  t.on_trimmed(us(0), 100);
  n.clear();
  for (int i = 0; i < 7; ++i) ++n[t.choose(us(0), kAll, std::nullopt)->tag];
  CHECK_EQ(n[100], 1);  // eight turns, one of them passed over
  for (const uint32_t tag : {100u, 101u, 200u, 201u}) t.on_trimmed(us(1), tag);
  CHECK(t.choose(us(1), kAll, std::nullopt).has_value());
}

TEST_CASE("policies have names, a name has one policy") {
  const auto names = policies();
  CHECK(std::find(names.begin(), names.end(), "bitmap") != names.end());
  CHECK(std::find(names.begin(), names.end(), "rr") != names.end());
  CHECK(register_policy("bitmap", nullptr) != 0);
}

TEST_CASE("another: a usable EV of the ports, spares included, never the one to avoid; the rotation stays") {
  EvTable t = table(2, 1, 1);
  std::map<uint32_t, int> n;
  for (int i = 0; i < 200; ++i) {
    const auto p = t.another(1u << 1, 100);
    REQUIRE(p.has_value());
    ++n[p->tag];
  }
  CHECK_EQ(n[150], 200);
  CHECK_EQ(n.size(), 1u);
  n.clear();
  for (int i = 0; i < 200; ++i) ++n[t.another(kAll, std::nullopt)->tag];
  CHECK_EQ(n.size(), 4u);
  t.set_state(us(1), 150, State::assumed_bad);
  CHECK(!t.another(1u << 1, 100).has_value());
  CHECK(!t.another(1u << 3, std::nullopt).has_value());
}

TEST_CASE("EV probes: the second in a row without an answer retires an EV, if the peer is there") {
  EvTable t = table(1, 2, 1);
  t.on_ev_probe_lost(us(1), 100, true);
  t.on_ev_probe_ack(100);
  t.on_ev_probe_lost(us(2), 100, true);
  CHECK(t.state(100) == State::good);
  t.on_ev_probe_lost(us(3), 101, false);
  t.on_ev_probe_lost(us(4), 101, false);  // nobody answers anything: no path is to blame
  CHECK(t.state(101) == State::good);
  t.on_ev_probe_lost(us(5), 101, true);
  CHECK(t.state(101) == State::assumed_bad);
  CHECK_EQ(t.usable_active(), 2u);  // the spare has its place
  t.on_ev_probe_lost(us(6), 100, true);
  CHECK(t.state(100) == State::assumed_bad);
  t.on_ev_probe_lost(us(7), 150, true);
  t.on_ev_probe_lost(us(8), 150, true);
  CHECK(t.state(150) != State::assumed_bad);  // the floor
  t.on_ev_probe_lost(us(9), 777, true);       // unknown
}
