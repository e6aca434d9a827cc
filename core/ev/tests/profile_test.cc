// Profiles (reference 12.2): every state against every transition, what each needs, counts and limits.
#include "profile_stories.h"

#include <cerrno>
#include <map>
#include <set>

using namespace mrc::ev;           // NOLINT(google-build-using-namespace)
using namespace mrc::ev::stories;  // NOLINT(google-build-using-namespace)

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
