// Profiles (reference 12.2, 12.3): every state against every transition, what each needs, and EV operations.
#include "ev/profile.h"

#include <cerrno>
#include <map>
#include <set>

#include "ev/event_queue.h"
#include "testing/check.h"

using namespace mrc::ev;  // NOLINT(google-build-using-namespace)
using S = ProfileState;

namespace {

const Fields kTwo{{16, 0, 1, 15, 0x0F}, {16, 0, 0, 255, 0xFF}};  // 12 compact bits
EvEntry entry(uint32_t compact, uint8_t port) { return {ev_from_u32(compact << 20), port}; }

int format(ProfileStore& s, uint64_t id, std::optional<S> state, std::optional<FormatMode> mode = {},
           std::optional<FormatWidths> fields = {}) {
  FormatModify m;
  m.state = state;
  m.mode = mode;
  m.fields = std::move(fields);
  return s.modify_format(id, m);
}
void online_format(ProfileStore& s, uint64_t id = 1, FormatMode mode = FormatMode::stev) {
  REQUIRE(format(s, id, S::offline, mode,
                 mode == FormatMode::udp ? FormatWidths{16} : FormatWidths{16, 16}) == 0);
  REQUIRE(format(s, id, S::online) == 0);
}
EvModify attributes(EvMode mode, uint32_t count) {
  EvModify m;
  m.mode = mode;
  m.count = count;
  m.min_active = 1;
  m.event_mask = 0;
  if (mode != EvMode::automatic) {
    m.fmt_id = 1;
    m.fields = kTwo;
  }
  return m;
}
int modify(ProfileStore& s, uint64_t id, EvModify m, std::vector<EvEffect>* effects = nullptr,
           const StateOf& of = {}) {
  std::vector<EvEffect> own;
  return s.modify_ev(id, m, effects != nullptr ? *effects : own, of);
}
int go(ProfileStore& s, uint64_t id, S state) {
  EvModify m;
  m.state = state;
  return modify(s, id, m);
}
struct Ran {
  int error;
  EvBatch batch;
  std::vector<EvEffect> effects;
};
Ran run(ProfileStore& s, uint64_t id, EvOp op, std::vector<EvOpEntry> entries, const StateOf& of = {}) {
  EvModify m;
  m.batch = EvBatch{op, std::move(entries), 0};
  Ran r{};
  r.error = s.modify_ev(id, m, r.effects, of);
  r.batch = *m.batch;
  return r;
}
EvOpEntry fill(const EvEntry& with, uint32_t state = kStateGood) { return {EvEntry{}, with, state, false}; }

// An explicit profile of `count` EVs over two ports, ONLINE.
ProfileStore explicit_store(uint32_t count = 8) {
  ProfileStore s;
  online_format(s);
  EvModify m = attributes(EvMode::explicit_list, count);
  m.state = S::offline;
  REQUIRE(modify(s, 7, m) == 0);
  std::vector<EvOpEntry> all;
  for (uint32_t i = 0; i < count; ++i) all.push_back(fill(entry(0x100 + i, static_cast<uint8_t>(1 + i % 2))));
  REQUIRE(run(s, 7, EvOp::replace_ev, all).error == 0);
  REQUIRE(go(s, 7, S::online) == 0);
  return s;
}

}  // namespace

TEST_CASE("the table of states: four transitions and no other") {
  using mrc::base::transition;
  for (const S from : {S::init, S::offline, S::online}) {
    for (const S to : {S::init, S::offline, S::online}) {
      const bool legal = (from == S::init && to == S::offline) || (from == S::offline && to != S::offline) ||
                         (from == S::online && to == S::offline);
      CHECK_EQ(transition(from, to, true, true, false), legal ? 0 : EINVAL);
    }
  }
  CHECK_EQ(transition(S::init, S::offline, false, true, false), EINVAL);
  CHECK_EQ(transition(S::offline, S::online, true, false, false), EINVAL);
  CHECK_EQ(transition(S::online, S::offline, true, true, true), EBUSY);
  CHECK_EQ(transition(S::offline, static_cast<S>(3), true, true, false), EINVAL);
}

TEST_CASE("formats and EV profiles obey it in every state") {
  for (const S to : {S::init, S::offline, S::online}) {
    for (int from = 0; from < 3; ++from) {
      ProfileStore s;
      online_format(s);
      EvModify m = attributes(EvMode::generated, 16);
      REQUIRE(modify(s, 7, m) == 0);
      if (from >= 1) REQUIRE(go(s, 7, S::offline) == 0);
      if (from == 2) REQUIRE(go(s, 7, S::online) == 0);
      const bool legal = (from == 0 && to == S::offline) || (from == 1 && to != S::offline) ||
                         (from == 2 && to == S::offline);
      CHECK_EQ(go(s, 7, to), legal ? 0 : EINVAL);
      CHECK(s.query_ev(7).state == (legal ? to : static_cast<S>(from)));

      ProfileStore f;
      REQUIRE(format(f, 1, {}, FormatMode::stev, FormatWidths{32}) == 0);
      if (from >= 1) REQUIRE(format(f, 1, S::offline) == 0);
      if (from == 2) REQUIRE(format(f, 1, S::online) == 0);
      CHECK_EQ(format(f, 1, to), legal ? 0 : EINVAL);
      CHECK(f.query_format(1).state == (legal ? to : static_cast<S>(from)));
    }
  }
}

TEST_CASE("CUR_STATE asserts the present state") {
  ProfileStore s;
  FormatModify m;
  m.cur_state = S::offline;
  m.state = S::offline;
  m.mode = FormatMode::stev;
  CHECK_EQ(s.modify_format(1, m), EINVAL);
  m.cur_state = S::init;
  CHECK_EQ(s.modify_format(1, m), 0);
  EvModify e = attributes(EvMode::generated, 4);
  e.cur_state = S::online;
  CHECK_EQ(modify(s, 7, e), EINVAL);
  CHECK(!s.query_ev(7).mode.has_value());
}

TEST_CASE("a format needs its mode for OFFLINE and its fields for ONLINE, now or before") {
  ProfileStore s;
  CHECK_EQ(format(s, 1, S::offline), EINVAL);
  CHECK_EQ(format(s, 1, S::offline, {}, FormatWidths{32}), EINVAL);
  CHECK_EQ(format(s, 1, S::offline, FormatMode::stev), 0);
  CHECK_EQ(format(s, 1, S::online), EINVAL);
  CHECK_EQ(format(s, 1, S::online, {}, FormatWidths{16, 16, 1}), E2BIG);
  CHECK_EQ(format(s, 1, S::online, static_cast<FormatMode>(3), FormatWidths{16}), EINVAL);
  CHECK_EQ(format(s, 1, S::online, {}, FormatWidths{16, 16}), 0);
  CHECK_EQ(format(s, 1, {}, {}, FormatWidths{32}), EINVAL);  // ONLINE: state and queries only
  CHECK_EQ(format(s, 1, S::offline, {}, FormatWidths{32}), EINVAL);
  CHECK_EQ(format(s, 1, S::offline), 0);
  CHECK_EQ(format(s, 1, S::init), 0);
  CHECK(!s.query_format(1).mode.has_value());  // INIT has forgotten
}

TEST_CASE("an EV profile needs mode, format, count and fields for OFFLINE") {
  for (int missing = 0; missing < 4; ++missing) {
    ProfileStore s;
    online_format(s);
    EvModify m = attributes(EvMode::generated, 8);
    m.state = S::offline;
    if (missing == 0) m.mode.reset();
    if (missing == 1) m.fmt_id.reset();
    if (missing == 2) m.count.reset();
    if (missing == 3) m.fields.reset();
    CHECK_EQ(modify(s, 7, m), EINVAL);
    CHECK(s.query_ev(7).state == S::init);
    CHECK(s.profile_ids().empty());  // nothing half given stays behind
  }
}

TEST_CASE("ONLINE needs min_active, the event mask, an ONLINE format and a full array") {
  ProfileStore s;
  EvModify m = attributes(EvMode::explicit_list, 2);
  m.min_active.reset();
  m.event_mask.reset();
  m.state = S::offline;
  CHECK_EQ(modify(s, 7, m), 0);  // the format may come later
  EvModify on;
  on.state = S::online;
  CHECK_EQ(modify(s, 7, on), EINVAL);
  on.min_active = 2;
  CHECK_EQ(modify(s, 7, on), EINVAL);
  CHECK(!s.query_ev(7).min_active.has_value());  // refused as a whole
  on.event_mask = 3;
  CHECK_EQ(modify(s, 7, on), EINVAL);  // no format
  REQUIRE(format(s, 1, S::offline, FormatMode::stev, FormatWidths{16, 16}) == 0);
  CHECK_EQ(modify(s, 7, on), EINVAL);  // format OFFLINE
  REQUIRE(format(s, 1, S::online) == 0);
  CHECK_EQ(modify(s, 7, on), EINVAL);  // nothing populated
  CHECK_EQ(run(s, 7, EvOp::replace_ev, {fill(entry(0x101, 1))}).error, 0);
  CHECK_EQ(modify(s, 7, on), EINVAL);
  on.batch = EvBatch{EvOp::replace_ev, {fill(entry(0x102, 2))}, 0};
  CHECK_EQ(modify(s, 7, on), 0);  // the last one, attributes and ONLINE in one call
  CHECK(s.query_ev(7).state == S::online);
}

TEST_CASE("AUTO needs neither format nor fields") {
  ProfileStore s;
  EvModify m = attributes(EvMode::automatic, 64);
  m.state = S::offline;
  CHECK_EQ(modify(s, 7, m), 0);
  CHECK_EQ(go(s, 7, S::online), 0);
  const auto set = s.make_set(7, 1, 0b11110).value();
  CHECK_EQ(set.active.size(), 64u);
  CHECK_EQ(set.backup.size(), 16u);
  std::map<uint8_t, int> n;
  std::set<uint32_t> tags;
  for (const PathId& p : set.active) {
    ++n[p.port];
    tags.insert(p.tag);
    CHECK(p.tag >= 1024 && p.tag <= 0xFFFF);
  }
  CHECK_EQ(tags.size(), 64u);
  for (const auto& [port, count] : n) CHECK_EQ(count, 16);
}

TEST_CASE("a format is busy while an ONLINE profile names it, a profile while a QP uses it") {
  ProfileStore s = explicit_store();
  CHECK_EQ(format(s, 1, S::offline), EBUSY);
  CHECK_EQ(format(s, 1, {}, {}, FormatWidths{32}), EBUSY);
  CHECK_EQ(s.acquire(7), 0);
  CHECK_EQ(s.acquire(7), 0);
  CHECK_EQ(go(s, 7, S::offline), EBUSY);
  CHECK_EQ(s.release(7), 0);
  CHECK_EQ(go(s, 7, S::offline), EBUSY);
  CHECK_EQ(s.release(7), 0);
  CHECK_EQ(s.release(7), EINVAL);
  CHECK_EQ(go(s, 7, S::offline), 0);
  CHECK_EQ(s.acquire(7), EINVAL);
  CHECK_EQ(s.make_set(7, 1, 6).error(), EINVAL);
  CHECK_EQ(format(s, 1, S::offline), 0);
  CHECK_EQ(go(s, 7, S::online), EINVAL);
}

TEST_CASE("ONLINE allows what the capability says, and no more") {
  for (const uint32_t caps : {0u, kCapEvProfileModifyOnline}) {
    StoreLimits l;
    l.caps = caps;
    ProfileStore s(l);
    online_format(s);
    EvModify m = attributes(EvMode::explicit_list, 1);
    m.state = S::offline;
    REQUIRE(modify(s, 7, m) == 0);
    REQUIRE(run(s, 7, EvOp::replace_ev, {fill(entry(0x101, 1))}).error == 0);
    REQUIRE(go(s, 7, S::online) == 0);
    const int expected = caps != 0 ? 0 : EINVAL;
    EvModify mask;
    mask.event_mask = kStateGood;
    CHECK_EQ(modify(s, 7, mask), expected);
    EvModify fields;
    fields.fields = kTwo;
    CHECK_EQ(modify(s, 7, fields), expected);
    CHECK_EQ(run(s, 7, EvOp::replace_ev, {{entry(0x101, 1), entry(0x109, 2), kStateGood, false}}).error,
             expected);
    const EvEntry now = caps != 0 ? entry(0x109, 2) : entry(0x101, 1);
    CHECK_EQ(run(s, 7, EvOp::modify_ev_state, {{now, {}, kStateDenied, false}}).error, 0);
    CHECK_EQ(run(s, 7, EvOp::query_ev_state, {{now, {}, 0, false}}).error, 0);
    EvModify other = attributes(EvMode::explicit_list, 1);
    other.fields.reset();
    other.event_mask.reset();
    CHECK_EQ(modify(s, 7, other), EINVAL);
  }
}

TEST_CASE("counts: rounded down to the alignment, bounded per profile and in total, min_active within them") {
  StoreLimits l;
  l.count_alignment = 8;
  l.max_evs_per_profile = 64;
  l.max_evs = 96;
  ProfileStore s(l);
  EvModify m = attributes(EvMode::automatic, 15);
  CHECK_EQ(modify(s, 1, m), 0);
  CHECK_EQ(*s.query_ev(1).count, 8u);
  m.count = 7;
  CHECK_EQ(modify(s, 2, m), EINVAL);
  m.count = 72;
  CHECK_EQ(modify(s, 2, m), EINVAL);
  m.count = 64;
  CHECK_EQ(modify(s, 2, m), 0);
  CHECK_EQ(s.free_evs(), 24u);
  m.count = 32;
  CHECK_EQ(modify(s, 3, m), EINVAL);
  CHECK_EQ(modify(s, 1, m), 0);  // its own share counts as free
  EvModify low;
  low.min_active = 33;
  CHECK_EQ(modify(s, 1, low), EINVAL);
  low.min_active = 32;
  CHECK_EQ(modify(s, 1, low), 0);
  EvModify mask;
  mask.event_mask = kStateDenied;
  CHECK_EQ(modify(s, 1, mask), EINVAL);
  mask.event_mask = kStateGood | kStateAssumedBad;
  CHECK_EQ(modify(s, 1, mask), 0);
}

TEST_CASE("limits of profiles, modes and widths") {
  StoreLimits l;
  l.max_formats = l.max_profiles = 1;
  l.ev_modes = 1;
  l.format_modes = 4;
  l.max_compact_width = 8;
  ProfileStore s(l);
  CHECK_EQ(format(s, 1, S::offline, FormatMode::stev), EINVAL);
  CHECK_EQ(format(s, 1, S::offline, FormatMode::udp), 0);
  CHECK_EQ(format(s, 2, S::offline, FormatMode::udp), EINVAL);
  CHECK_EQ(modify(s, 1, attributes(EvMode::generated, 8)), EINVAL);
  CHECK_EQ(modify(s, 1, attributes(EvMode::automatic, 8)), 0);
  CHECK_EQ(modify(s, UINT64_MAX, attributes(EvMode::automatic, 8)), EINVAL);
  EvModify wide;
  wide.fields = Fields{{16, 0, 0, 0, 0x1FF}};
  CHECK_EQ(modify(s, 1, wide), E2BIG);
}

TEST_CASE("fields of a profile are held against its format, at once or when it goes ONLINE") {
  ProfileStore s;
  EvModify m = attributes(EvMode::generated, 8);
  m.fields = Fields{{16, 0, 0, 1, 1}, {16, 0, 0, 1, 1}, {8, 0, 0, 1, 1}};
  m.state = S::offline;
  CHECK_EQ(modify(s, 7, m), 0);
  online_format(s);
  CHECK_EQ(go(s, 7, S::online), E2BIG);
  CHECK(s.query_ev(7).state == S::offline);
  EvModify again;
  again.fields = m.fields;
  CHECK_EQ(modify(s, 7, again), E2BIG);
  again.fields = Fields{{16, 0, 2, 1, 1}};
  CHECK_EQ(modify(s, 7, again), EINVAL);
  again.fields = kTwo;
  CHECK_EQ(modify(s, 7, again), 0);
  CHECK_EQ(go(s, 7, S::online), 0);
}

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
