// EVs that answer probes and lose data: a path whose MTU has become too small for full packets.
#include <algorithm>

#include "ev/table.h"
#include "testing/check.h"

namespace mrc::ev {
namespace {

using base::Duration;
using base::Instant;
using base::Rng;

constexpr uint32_t kAll = 0b110;

EvTable two_planes() {
  std::vector<PathId> active;
  for (uint32_t k = 0; k < 4; ++k) {
    active.push_back({100 + k, 1});
    active.push_back({200 + k, 2});
  }
  return {active, {}, TableConfig{}, std::move(make_policy("bitmap").value()), Rng(7)};
}

// Answers every probe at once until the EV is in use again; the time when it is.
Instant revive(EvTable& t, uint32_t tag, Instant now) {
  while (t.state(tag) == State::assumed_bad) {
    now = std::max(now, t.next_probe_at());
    const auto path = t.take_probe(now, kAll);
    CHECK(path.has_value());
    t.on_probe_ack(now, path->tag, PathFeedback::none);
  }
  return now;
}

Instant lose(EvTable& t, uint32_t tag, Instant now) {
  now = now + Duration::micros(100);
  CHECK(t.on_loss(now, tag, BadReason::loss, now));
  return now;
}

BadReason reason_of(const EvTable& t, uint32_t tag) {
  for (const EvTable::Row& r : t.rows()) {
    if (r.path.tag == tag) return r.reason;
  }
  return BadReason::none;
}

TEST_CASE(
    "an EV whose probes are answered and whose data is lost is tried ever later, up to a second apart") {
  EvTable t = two_planes();
  Instant now{1'000'000};
  std::vector<Duration> apart;
  for (int i = 0; i < 14; ++i) {
    const Instant left = now = lose(t, 101, now);
    now = revive(t, 101, now);
    CHECK(t.on_trial(101));
    apart.push_back(now - left);
  }
  CHECK(apart[0] < Duration::millis(5) && apart[1] < Duration::millis(5));  // chance has no price
  CHECK(std::is_sorted(apart.begin() + 1, apart.end()));
  CHECK(apart.back() >= Duration::millis(500) && apart.back() < Duration::millis(1100));
}

TEST_CASE("the third relapse in a row is named, and said as an event") {
  EvTable t = two_planes();
  Instant now = lose(t, 101, Instant{1'000'000});
  for (int i = 0; i < 3; ++i) {
    CHECK(reason_of(t, 101) == BadReason::loss);
    now = lose(t, 101, revive(t, 101, now));
  }
  CHECK(reason_of(t, 101) == BadReason::relapse);
  std::vector<StateEvent> events;
  t.take_events(events);
  CHECK(events.back().reason == BadReason::relapse && events.back().tag == 101 && events.back().port == 1);
}

TEST_CASE("a full packet that arrived ends the trial, and a loss after it is one like any other") {
  EvTable t = two_planes();
  Instant now{1'000'000};
  for (int i = 0; i < 20; ++i) {
    const Instant left = now = lose(t, 101, now);
    now = revive(t, 101, now);
    CHECK(now - left < Duration::millis(5));
    CHECK(t.on_trial(101));
    t.on_full_arrived(101);
    CHECK(!t.on_trial(101));
  }
  CHECK(reason_of(t, 101) == BadReason::none);
}

TEST_CASE("losses of an EV that was never bad, and those of its neighbours, are no relapses") {
  EvTable t = two_planes();
  Instant now = lose(t, 101, Instant{1'000'000});
  CHECK(!t.on_trial(102));
  now = revive(t, 101, lose(t, 102, now));
  t.on_full_arrived(101);
  for (const uint32_t tag : {100u, 103u, 101u}) now = lose(t, tag, now);
  for (const uint32_t tag : {100u, 101u, 103u}) CHECK(reason_of(t, tag) == BadReason::loss);
}

TEST_CASE("a neighbour whose probe is answered does not shorten the wait of one that relapses") {
  EvTable t = two_planes();
  Instant now = lose(t, 101, Instant{1'000'000});
  for (int i = 0; i < 8; ++i) now = lose(t, 101, revive(t, 101, now));
  const Instant left = now;
  now = revive(t, 102, lose(t, 102, now));
  CHECK(t.state(101) == State::assumed_bad);
  now = revive(t, 101, now);
  CHECK(now - left > Duration::millis(120));
}

TEST_CASE("a port that comes back, and a controller, forget relapses") {
  for (const bool port : {true, false}) {
    EvTable t = two_planes();
    Instant now = lose(t, 101, Instant{1'000'000});
    for (int i = 0; i < 8; ++i) now = lose(t, 101, revive(t, 101, now));
    if (port) {
      t.set_usable_ports(now, 0b100);
      t.set_usable_ports(now, kAll);
    } else {
      CHECK(t.set_state(now, 101, State::good));
    }
    const Instant before = now;
    now = revive(t, 101, now);
    CHECK(now - before < Duration::millis(5));
    now = lose(t, 101, now + Duration::millis(1));
    CHECK(reason_of(t, 101) == BadReason::loss);
  }
}

}  // namespace
}  // namespace mrc::ev
