// Which EV a SACK travels on (reference 6.13).
#include "ev/reverse_set.h"

#include <map>

#include "testing/check.h"

using namespace mrc::ev;  // NOLINT(google-build-using-namespace)
using mrc::base::Instant;
using mrc::base::Rng;

namespace {
constexpr uint32_t kAll = 0b1110;
}

TEST_CASE("nothing proven: no path") {
  ReverseSet r;
  CHECK(!r.choose(1, kAll).has_value());
}

TEST_CASE("the plane the question came by, with the EV proven last") {
  ReverseSet r;
  r.proven(Instant{0}, {11, 1});
  r.proven(Instant{0}, {22, 2});
  r.proven(Instant{1}, {12, 1});
  CHECK((r.choose(1, kAll) == PathId{12, 1}));
  CHECK((r.choose(2, kAll) == PathId{22, 2}));
}

TEST_CASE("an empty or unusable plane: the others in turn") {
  ReverseSet r;
  r.proven(Instant{0}, {11, 1});
  r.proven(Instant{0}, {22, 2});
  std::map<uint8_t, int> n;
  for (int i = 0; i < 10; ++i) ++n[r.choose(3, kAll)->port];
  CHECK_EQ(n[1], 5);
  CHECK_EQ(n[2], 5);
  CHECK_EQ(r.choose(1, 1u << 2)->port, 2);
  CHECK(!r.choose(1, 1u << 3).has_value());
}

TEST_CASE("a probe without answer empties the slot that holds its EV, a port going down its own") {
  ReverseSet r;
  r.proven(Instant{0}, {11, 1});
  r.proven(Instant{0}, {22, 2});
  r.lost(99);
  r.lost(11);
  CHECK_EQ(r.choose(1, kAll)->port, 2);
  r.port_down(2);
  CHECK(!r.choose(2, kAll).has_value());
}

TEST_CASE("probes visit the planes in turn: the proven EV again, a fresh one where there is none") {
  EvTable t({{100, 1}, {200, 2}, {300, 3}}, {}, {}, std::move(make_policy("bitmap").value()), Rng(1));
  Rng rng(1);
  ReverseSet r;
  r.proven(Instant{0}, {222, 2});
  std::map<uint8_t, std::map<uint32_t, int>> seen;
  for (int i = 0; i < 9; ++i) {
    const auto p = r.probe_candidate(Instant{0}, t, kAll, rng);
    REQUIRE(p.has_value());
    ++seen[p->port][p->tag];
  }
  CHECK_EQ(seen[1][100], 3);
  CHECK_EQ(seen[2][222], 3);
  CHECK_EQ(seen[3][300], 3);
  CHECK(!r.probe_candidate(Instant{0}, t, 0, rng).has_value());
}

TEST_CASE("a path another QP found dead is left, and the search for the next is that one's") {
  ReverseSet r;
  r.proven(Instant{0}, {11, 1});
  r.proven(Instant{0}, {22, 2});
  r.forget(11);
  CHECK((r.choose(1, kAll) == PathId{22, 2}));
  CHECK_EQ(r.in_doubt(), 0u);
  r.lost(22);
  r.forget(22);
  CHECK_EQ(r.in_doubt(), uint32_t{1} << 2);
  CHECK(!r.choose(1, kAll).has_value());
}
