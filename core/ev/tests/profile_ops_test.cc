// EV operations (reference 12.3), the sets QPs draw (4.6) and events (12.5).
#include "profile_stories.h"

#include <cerrno>
#include <map>
#include <set>

#include "ev/event_queue.h"

using namespace mrc::ev;           // NOLINT(google-build-using-namespace)
using namespace mrc::ev::stories;  // NOLINT(google-build-using-namespace)

TEST_CASE("a batch stops at its first error and keeps what it did") {
  ProfileStore s = explicit_store();
  const Ran r = run(s, 7, EvOp::modify_ev_state,
                    {{entry(0x100, 1), {}, kStateDenied, false},
                     {entry(0x999, 1), {}, kStateDenied, false},
                     {entry(0x102, 1), {}, kStateDenied, false}});
  CHECK_EQ(r.error, ENOENT);
  CHECK_EQ(r.batch.count, 1u);
  REQUIRE(r.effects.size() == 1);
  CHECK_EQ(r.effects[0].now.tag, 0x00010000u);  // 0x100: the first field is 1, the second 0
  CHECK(r.effects[0].state == State::denied);
  const Ran q =
      run(s, 7, EvOp::query_ev_state, {{entry(0x100, 1), {}, 0, false}, {entry(0x102, 1), {}, 0, false}});
  CHECK_EQ(q.error, 0);
  CHECK_EQ(q.batch.entries[0].state, kStateDenied);
  CHECK_EQ(q.batch.entries[1].state, kStateGood);
}

TEST_CASE("states: UNKNOWN is no order, DENIED is left by GOOD only, ports are real") {
  ProfileStore s = explicit_store();
  const auto set = [&](uint32_t state, uint8_t port = 1) {
    return run(s, 7, EvOp::modify_ev_state, {{entry(0x100, port), {}, state, false}}).error;
  };
  const auto get = [&] {
    return run(s, 7, EvOp::query_ev_state, {{entry(0x100, 1), {}, 0, false}}).batch.entries[0].state;
  };
  CHECK_EQ(set(kStateUnknown), EINVAL);
  CHECK_EQ(set(3), EINVAL);
  CHECK_EQ(set(kStateDenied, 0), EINVAL);
  CHECK_EQ(set(kStateDenied, 32), EINVAL);
  CHECK_EQ(set(kStateDenied, 3), ENOENT);
  CHECK_EQ(set(kStateDenied), 0);
  CHECK_EQ(set(kStateAssumedBad), 0);
  CHECK_EQ(get(), kStateDenied);
  CHECK_EQ(set(kStateGood), 0);
  CHECK_EQ(get(), kStateGood);
}

TEST_CASE("a queried state is that of the QPs, unless it is denied") {
  ProfileStore s = explicit_store();
  const StateOf bad = [](PathId) { return std::optional(State::assumed_bad); };
  const StateOf skip = [](PathId) { return std::optional(State::skip); };
  const auto get = [&](const StateOf& of) {
    return run(s, 7, EvOp::query_ev_state, {{entry(0x101, 2), {}, 0, false}}, of).batch.entries[0].state;
  };
  CHECK_EQ(get(bad), kStateAssumedBad);
  CHECK_EQ(get(skip), kStateGood);
  REQUIRE(run(s, 7, EvOp::modify_ev_state, {{entry(0x101, 2), {}, kStateAssumedBad, false}}).error == 0);
  CHECK_EQ(get(skip), kStateGood);  // it has revived since
  CHECK_EQ(get({}), kStateAssumedBad);
  REQUIRE(run(s, 7, EvOp::modify_ev_state, {{entry(0x101, 2), {}, kStateDenied, false}}).error == 0);
  CHECK_EQ(get(bad), kStateDenied);
}

TEST_CASE("copies: one or all of them") {
  ProfileStore s = explicit_store(4);
  REQUIRE(run(s, 7, EvOp::replace_ev, {{entry(0x101, 2), entry(0x100, 1), kStateGood, false}}).error == 0);
  const auto copies = [&](const EvEntry& e) {
    const auto all = run(s, 7, EvOp::query_ev_array, std::vector<EvOpEntry>(4)).batch.entries;
    int n = 0;
    for (const auto& x : all) n += x.ev == e ? 1 : 0;
    return n;
  };
  CHECK_EQ(copies(entry(0x100, 1)), 2);
  REQUIRE(run(s, 7, EvOp::replace_ev, {{entry(0x100, 1), entry(0x105, 2), kStateGood, false}}).error == 0);
  CHECK_EQ(copies(entry(0x100, 1)), 1);
  REQUIRE(run(s, 7, EvOp::replace_ev, {{entry(0x105, 2), entry(0x100, 1), kStateGood, false}}).error == 0);
  REQUIRE(run(s, 7, EvOp::replace_ev, {{entry(0x100, 1), entry(0x106, 1), kStateDenied, true}}).error == 0);
  CHECK_EQ(copies(entry(0x106, 1)), 2);
  const auto set = s.make_set(7, 1, 0b110).value();  // the table holds a tag once
  std::set<uint32_t> tags;
  for (const auto& p : set.active) CHECK(tags.insert(p.tag).second);
  for (const auto& p : set.backup) CHECK(tags.insert(p.tag).second);
  CHECK_EQ(tags.size(), 3u);
  REQUIRE(set.marks.size() == 1);
  CHECK(set.marks[0].state == State::denied);
}

TEST_CASE("REPLACE: bad ports, bits that nothing expands, low UDP ports and other modes are refused") {
  ProfileStore s = explicit_store();
  const auto with = [&](const EvEntry& e) {
    return run(s, 7, EvOp::replace_ev, {{entry(0x100, 1), e, kStateGood, false}}).error;
  };
  CHECK_EQ(with(entry(0x150, 0)), EINVAL);
  CHECK_EQ(with(entry(0x150, 32)), EINVAL);
  CHECK_EQ(with({ev_from_u32(1), 1}), EINVAL);
  CHECK_EQ(run(s, 7, EvOp::replace_ev, {{entry(0x100, 1), entry(0x150, 1), kStateUnknown, false}}).error,
           EINVAL);
  CHECK_EQ(run(s, 7, EvOp::replace_ev, {fill(entry(0x150, 1))}).error, ENOENT);  // nothing is unpopulated
  CHECK_EQ(with(entry(0x150, 1)), 0);

  ProfileStore u;
  online_format(u, 1, FormatMode::udp);
  EvModify m = attributes(EvMode::explicit_list, 1);
  m.fields = Fields{{16, 0, 0, 0, 0xFFFF}};
  m.state = S::offline;
  REQUIRE(modify(u, 7, m) == 0);
  CHECK_EQ(run(u, 7, EvOp::replace_ev, {fill({ev_from_u16(1023), 1})}).error, EINVAL);
  CHECK_EQ(run(u, 7, EvOp::replace_ev, {fill({ev_from_u16(1024), 1})}).error, 0);
  ProfileStore a;
  REQUIRE(modify(a, 7, attributes(EvMode::automatic, 4)) == 0);
  CHECK_EQ(run(a, 7, EvOp::replace_ev, {fill(entry(0x100, 1))}).error, EINVAL);
}

TEST_CASE("a live REPLACE names the old and the new path; before ONLINE nobody must hear") {
  ProfileStore s = explicit_store();
  const Ran r = run(s, 7, EvOp::replace_ev, {{entry(0x100, 1), entry(0x2FF, 2), kStateAssumedBad, false}});
  REQUIRE(r.effects.size() == 1);
  CHECK((r.effects[0].was == PathId{0x00010000, 1}));
  CHECK((r.effects[0].now == PathId{0x000200FF, 2}));
  CHECK(r.effects[0].state == State::assumed_bad);
  REQUIRE(go(s, 7, S::offline) == 0);
  CHECK(run(s, 7, EvOp::modify_ev_state, {{entry(0x101, 2), {}, kStateDenied, false}}).effects.empty());
}

TEST_CASE("new fields of a live profile move every path") {
  ProfileStore s = explicit_store(2);
  EvModify m;
  m.fields = Fields{{16, 0x4000, 1, 15, 0x0F}, {16, 0, 0, 255, 0xFF}};
  std::vector<EvEffect> effects;
  CHECK_EQ(modify(s, 7, m, &effects), 0);
  REQUIRE(effects.size() == 2);
  CHECK_EQ(effects[0].was.tag, 0x00010000u);
  CHECK_EQ(effects[0].now.tag, 0x40010000u);
}

TEST_CASE("sizes: a long batch, a short array; batch and fields together") {
  StoreLimits l;
  l.op_max_entries = 3;
  ProfileStore s(l);
  online_format(s);
  EvModify m = attributes(EvMode::generated, 3);
  m.state = S::offline;
  REQUIRE(modify(s, 7, m) == 0);
  CHECK_EQ(run(s, 7, EvOp::query_ev_state, std::vector<EvOpEntry>(4)).error, E2BIG);
  const Ran shortened = run(s, 7, EvOp::query_ev_array, std::vector<EvOpEntry>(2));
  CHECK_EQ(shortened.error, E2BIG);
  CHECK_EQ(shortened.batch.count, 3u);
  CHECK_EQ(run(s, 7, EvOp::query_ev_array, std::vector<EvOpEntry>(3)).error, 0);
  EvModify both;
  both.fields = kTwo;
  both.batch = EvBatch{};
  CHECK_EQ(modify(s, 7, both), EINVAL);
  CHECK_EQ(modify(s, 7, EvModify{}), 0);                         // neither: fine
  CHECK_EQ(run(s, 99, EvOp::query_ev_array, {}).error, EINVAL);  // a blank profile has no array
}

TEST_CASE("a generated set: equal planes, no tag twice, a quarter as many spares, other seeds other sets") {
  ProfileStore s;
  online_format(s);
  EvModify m = attributes(EvMode::generated, 160);
  m.state = S::offline;
  REQUIRE(modify(s, 7, m) == 0);
  REQUIRE(go(s, 7, S::online) == 0);
  const auto a = s.make_set(7, 1, 0x1FE).value();
  CHECK_EQ(a.active.size(), 128u);
  CHECK_EQ(a.backup.size(), 32u);
  std::map<uint8_t, int> n;
  std::set<uint32_t> tags;
  for (size_t i = 0; i < a.active.size(); ++i) {
    ++n[a.active[i].port];
    CHECK(tags.insert(a.active[i].tag).second);
    CHECK_EQ(ev_to_u32(a.active_values[i]), a.active[i].tag);
    const uint32_t hop = a.active[i].tag >> 16;
    CHECK(hop >= 1 && hop <= 15);
    const auto back = s.entry_of(7, a.active[i]);
    REQUIRE(back.has_value());
    CHECK_EQ(back->port, a.active[i].port);
  }
  for (const auto& [port, count] : n) CHECK_EQ(count, 16);
  CHECK(a.active == s.make_set(7, 1, 0x1FE).value().active);
  CHECK(a.active != s.make_set(7, 2, 0x1FE).value().active);
  CHECK(!s.entry_of(7, {0x00100001, 1}).has_value());  // the first field ends at 15
}

TEST_CASE("a denied EV of a generated profile is a spare in every later set") {
  ProfileStore s;
  online_format(s);
  EvModify m = attributes(EvMode::generated, 15 * 256);
  m.state = S::offline;
  REQUIRE(modify(s, 7, m) == 0);
  REQUIRE(go(s, 7, S::online) == 0);
  CHECK_EQ(run(s, 7, EvOp::modify_ev_state, {{entry(0x000, 1), {}, kStateDenied, false}}).error,
           ENOENT);  // below min_val
  const Ran r = run(s, 7, EvOp::modify_ev_state, {{entry(0x123, 1), {}, kStateDenied, false}});
  CHECK_EQ(r.error, 0);
  REQUIRE(r.effects.size() == 1);
  CHECK_EQ(r.effects[0].now.tag, 0x00010023u);
  const auto set = s.make_set(7, 1, 0b10).value();  // one port: the whole product is drawn
  REQUIRE(set.marks.size() == 1);
  CHECK_EQ(set.marks[0].tag, 0x00010023u);
  for (const auto& p : set.active) CHECK(p.tag != 0x00010023u);
  CHECK_EQ(run(s, 7, EvOp::query_ev_state, {{entry(0x123, 1), {}, 0, false}}).batch.entries[0].state,
           kStateDenied);
  REQUIRE(run(s, 7, EvOp::modify_ev_state, {{entry(0x123, 1), {}, kStateGood, false}}).error == 0);
  CHECK(s.make_set(7, 1, 0b10).value().marks.empty());
}

TEST_CASE("AUTO: an EV is known when a QP holds it") {
  ProfileStore s;
  REQUIRE(modify(s, 7, attributes(EvMode::automatic, 4)) == 0);
  REQUIRE(go(s, 7, S::offline) == 0);
  REQUIRE(go(s, 7, S::online) == 0);
  const EvEntry e{ev_from_u32(5000), 1};
  const StateOf held = [](PathId p) { return p.tag == 5000 ? std::optional(State::good) : std::nullopt; };
  CHECK_EQ(run(s, 7, EvOp::modify_ev_state, {{e, {}, kStateDenied, false}}).error, ENOENT);
  const Ran r = run(s, 7, EvOp::modify_ev_state, {{e, {}, kStateDenied, false}}, held);
  CHECK_EQ(r.error, 0);
  REQUIRE(r.effects.size() == 1);
  CHECK((r.effects[0].now == PathId{5000, 1}));
  CHECK_EQ(run(s, 7, EvOp::query_ev_state, {{e, {}, 0, false}}).batch.entries[0].state, kStateDenied);
  CHECK_EQ(run(s, 7, EvOp::query_ev_array, {}).batch.count, 0u);
}

TEST_CASE("the same value on two planes stays with one, and the planes stay equal") {
  ProfileStore s;
  online_format(s);
  EvModify m = attributes(EvMode::explicit_list, 20);
  m.state = S::offline;
  REQUIRE(modify(s, 7, m) == 0);
  std::vector<EvOpEntry> all;
  for (uint32_t i = 0; i < 10; ++i) {
    for (uint8_t port = 1; port <= 2; ++port) all.push_back(fill(entry(0x100 + i, port)));
  }
  REQUIRE(run(s, 7, EvOp::replace_ev, all).error == 0);
  REQUIRE(go(s, 7, S::online) == 0);
  const auto set = s.make_set(7, 3, 0b110).value();
  std::map<uint8_t, int> n;
  std::set<uint32_t> tags;
  for (const auto& p : set.active) {
    ++n[p.port];
    CHECK(tags.insert(p.tag).second);
  }
  CHECK_EQ(n[1], n[2]);
  CHECK_EQ(set.active.size() + set.backup.size(), 10u);
  CHECK(s.make_set(7, 3, 0b1000).error() == EINVAL);  // no EV on that port
}

TEST_CASE("SRv6: wide values get tags of port and index, a template gives 32-bit ones") {
  ProfileStore s;
  REQUIRE(format(s, 1, S::offline, FormatMode::srv6, FormatWidths{32, 16, 16}) == 0);
  REQUIRE(format(s, 1, S::online) == 0);
  EvModify m = attributes(EvMode::explicit_list, 2);
  m.fields = Fields{{32, 0xFCBBBB00, 0, 0, 0}, {16, 0x0100, 0, 255, 0xFF}, {16, 0x0200, 0, 255, 0xFF}};
  m.state = S::offline;
  REQUIRE(modify(s, 7, m) == 0);
  REQUIRE(
      run(s, 7, EvOp::replace_ev, {fill({ev_from_u32(0x11220000), 1}), fill({ev_from_u32(0x33440000), 2})})
          .error == 0);
  REQUIRE(go(s, 7, S::online) == 0);
  const auto set = s.make_set(7, 1, 0b110).value();
  REQUIRE(set.active.size() == 2);
  for (size_t i = 0; i < 2; ++i) {
    const auto e = s.entry_of(7, set.active[i]);
    REQUIRE(e.has_value());
    CHECK_EQ(set.active[i].tag >> 24, e->port);
    CHECK_EQ(ev_to_u32(set.active_values[i]), 0xFCBBBB00u);
  }

  FormatModify f;
  f.mode = FormatMode::srv6;
  f.fields = FormatWidths{3, 8};
  f.address_template = Srv6Template{};
  f.address_template->address.bytes = {0xfc, 0xbb, 0xbb, 0, 0x00, 0x10, 0x10, 0x00, 0x00, 0x20, 0x30, 0x07};
  f.address_template->n_slots = 4;
  f.state = S::offline;
  REQUIRE(s.modify_format(2, f) == 0);
  REQUIRE(format(s, 2, S::online) == 0);
  EvModify t = attributes(EvMode::generated, 2048);
  t.fmt_id = 2;
  t.fields = Fields{{3, 0, 0, 7, 7}, {8, 0, 0, 255, 0xFF}};
  t.state = S::offline;
  REQUIRE(modify(s, 8, t) == 0);
  REQUIRE(go(s, 8, S::online) == 0);
  const auto native = s.make_set(8, 1, 0b10).value();
  CHECK_EQ(native.active.size() + native.backup.size(), 2048u);
  for (size_t i = 0; i < native.active.size(); ++i) {
    CHECK(native.active[i].tag < 2048);
    CHECK_EQ(native.active_values[i].bytes[4], native.active[i].tag >> 8);  // the plane is in the first uSID
    const auto e = s.entry_of(8, native.active[i]);
    REQUIRE(e.has_value());
    CHECK_EQ(ev_to_u32(e->value) >> 21, native.active[i].tag);
  }
}

TEST_CASE("generated SRv6 tags number the product") {
  ProfileStore s;
  REQUIRE(format(s, 1, S::offline, FormatMode::srv6, FormatWidths{32, 16, 16}) == 0);
  REQUIRE(format(s, 1, S::online) == 0);
  EvModify m = attributes(EvMode::generated, 100);
  m.fields = Fields{{32, 0xFCBBBB00, 0, 0, 0}, {16, 0x0100, 1, 10, 0xFF}, {16, 0x0200, 1, 10, 0xFF}};
  m.state = S::offline;
  REQUIRE(modify(s, 7, m) == 0);
  REQUIRE(go(s, 7, S::online) == 0);
  const auto set = s.make_set(7, 1, 0b110).value();
  std::set<uint32_t> tags;
  for (const auto& p : set.active) {
    CHECK(tags.insert(p.tag).second);
    CHECK((p.tag & 0xFFFFFF) < 100);
    const auto e = s.entry_of(7, p);
    REQUIRE(e.has_value());
    CHECK(run(s, 7, EvOp::modify_ev_state, {{*e, {}, kStateDenied, false}}).effects[0].now == p);
  }
}

TEST_CASE(
    "events of a profile: only those its mask names; the queue never overruns and counts what it dropped") {
  ProfileStore s = explicit_store();
  CHECK(!s.wants_event(7, State::assumed_bad));
  EvModify m;
  m.event_mask = kStateAssumedBad;
  REQUIRE(modify(s, 7, m) == 0);
  CHECK(s.wants_event(7, State::assumed_bad));
  CHECK(!s.wants_event(7, State::good));
  CHECK(!s.wants_event(7, State::denied));
  CHECK(!s.wants_event(8, State::good));

  EventQueue q(2);
  for (uint32_t i = 0; i < 5; ++i) q.push(EvEvent{7, entry(i, 1), kStateGood, 0});
  CHECK_EQ(q.poll()->drop_count, 0u);
  CHECK_EQ(q.poll()->drop_count, 0u);
  CHECK(!q.poll().has_value());
  q.note_dropped(4);
  q.push(EvEvent{7, entry(9, 1), kStateGood, 0});
  CHECK_EQ(q.poll()->drop_count, 7u);
}
