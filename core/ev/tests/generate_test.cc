// EVs that the device makes (reference 4.4 "Generated mode", 4.6 AUTO).
#include "ev/generate.h"

#include <map>
#include <set>

#include "ev/expand.h"
#include "testing/check.h"

using namespace mrc::ev;  // NOLINT(google-build-using-namespace)
using mrc::base::Rng;

namespace {
// Plane 1..8, a fixed part, uplink 2..17 in a sparse mask.
const Fields kFields{{8, 0, 1, 8, 0x0F}, {8, 0x40, 0, 0, 0}, {16, 0x8000, 2, 17, 0x0F01}};
}  // namespace

TEST_CASE("the whole product comes before anything comes twice, for every seed") {
  CHECK_EQ(product(kFields), 128u);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    Generator g(kFields, rng);
    std::set<EvValue> seen;
    std::set<uint64_t> ranks;
    for (int i = 0; i < 128; ++i) {
      const EvValue v = g.next();
      CHECK(seen.insert(v).second);
      const auto at = rank(kFields, v);
      REQUIRE(at.has_value());
      CHECK(unrank(kFields, *at) == v);
      ranks.insert(*at);
    }
    CHECK_EQ(ranks.size(), 128u);
    CHECK_EQ(*ranks.rbegin(), 127u);
    CHECK(seen.contains(g.next()));
  }
}

TEST_CASE("the first variable field turns fastest") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Rng rng(seed);
    Generator g(kFields, rng);
    for (int block = 0; block < 16; ++block) {
      std::set<uint32_t> planes;
      for (int i = 0; i < 8; ++i) planes.insert(g.next().bytes[0] >> 4u);
      CHECK_EQ(planes.size(), 8u);
      CHECK_EQ(*planes.begin(), 1u);
      CHECK_EQ(*planes.rbegin(), 8u);
    }
  }
  Generator plain(kFields);
  CHECK_EQ(plain.next().bytes[0] >> 4, 1);
  CHECK_EQ(plain.next().bytes[0] >> 4, 2);
}

TEST_CASE("two QPs walk differently") {
  Rng a(1);
  Rng b(2);
  Generator x(kFields, a);
  Generator y(kFields, b);
  int same = 0;
  for (int i = 0; i < 64; ++i) same += x.next() == y.next() ? 1 : 0;
  CHECK(same < 16);
}

TEST_CASE("ranges of 64 bits and products beyond 2^63 neither overflow nor repeat") {
  const Fields wide{{64, 0, 0, UINT64_MAX, UINT64_MAX}, {64, 0, 5, UINT64_MAX, UINT64_MAX}};
  Rng rng(9);
  Generator g(wide, rng);
  std::set<EvValue> seen;
  for (int i = 0; i < 1000; ++i) CHECK(seen.insert(g.next()).second);
  const Fields one{{8, 7, 0, 0, 0}};
  Generator still(one, rng);
  CHECK(still.next() == EvValue{});
  CHECK(still.next() == EvValue{});
}

TEST_CASE("values outside min..max, or with bits behind them, are not of the product") {
  EvValue v = unrank(kFields, 0);
  CHECK(rank(kFields, v) == 0u);
  v.bytes[0] = static_cast<uint8_t>(9 << 4 | (v.bytes[0] & 0x0F));
  CHECK(!rank(kFields, v).has_value());
  v = unrank(kFields, 5);
  v.bytes[31] = 1;
  CHECK(!rank(kFields, v).has_value());
}

TEST_CASE("ports take turns, and every port meets every value of the first field") {
  const PortTurn turn(0b1'0001'1110, kFields);  // five ports: 1, 2, 3, 4, 8
  std::map<uint8_t, int> n;
  for (uint64_t k = 0; k < 400; ++k) ++n[turn.port(k)];
  CHECK_EQ(n.size(), 5u);
  for (const auto& [port, count] : n) CHECK_EQ(count, 80);

  const PortTurn eight(0x1FE, kFields);
  std::map<uint8_t, std::set<uint64_t>> first;
  for (uint64_t k = 0; k < 128; ++k) first[eight.port(k)].insert(k % 8);
  for (const auto& [port, values] : first) CHECK_EQ(values.size(), 8u);
  CHECK(PortTurn(1, kFields).empty());  // bit 0 is no port
}

TEST_CASE("invented tags keep off the low source ports and have an upper half only when asked") {
  Rng rng(4);
  for (int i = 0; i < 10'000; ++i) {
    const uint32_t narrow = invent_tag(false, rng);
    CHECK(narrow >= 1024 && narrow <= 0xFFFF);
    const uint32_t wide = invent_tag(true, rng);
    CHECK((wide & 0xFFFF) >= 1024 && wide >> 16 != 0);
  }
}
