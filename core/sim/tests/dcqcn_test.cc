// DCQCN's steps against numbers worked by hand from the paper's equations.
#include "sim/dcqcn.h"

#include <cmath>

#include "testing/check.h"

using namespace mrc::sim;  // NOLINT(google-build-using-namespace)

namespace {

constexpr double kG = 1e9;
bool near(double a, double b) { return std::fabs(a - b) <= 1e-9 * std::max(1.0, std::fabs(b)); }
Ps us(int64_t n) { return from_ns(n * 1000); }

DcqcnConfig paper() {
  DcqcnConfig c;
  c.decrease_interval_ns = 0;
  return c;
}

}  // namespace

TEST_CASE("dcqcn: the first CNP halves the rate") {
  const DcqcnConfig c = paper();
  DcqcnState s = dcqcn_start(c, 40 * kG);
  CHECK(near(s.current, 40 * kG));
  CHECK_EQ(s.rate_due, kNever);
  dcqcn_on_cnp(c, s, us(10));
  CHECK(near(s.current, 20 * kG));  // alpha 1: 40 (1 - 1/2)
  CHECK(near(s.target, 40 * kG));
  CHECK(near(s.alpha, 1));  // 255/256 + 1/256
  CHECK_EQ(s.rate_due, us(65));
  CHECK_EQ(s.alpha_due, us(65));
}

TEST_CASE("dcqcn: a smaller alpha cuts less") {
  const DcqcnConfig c = paper();
  DcqcnState s = dcqcn_start(c, 100 * kG);
  s.alpha = 0.5;
  dcqcn_on_cnp(c, s, us(1));
  CHECK(near(s.current, 75 * kG));    // 100 (1 - 0.25)
  CHECK(near(s.alpha, 0.501953125));  // (127.5 + 1) / 256
  dcqcn_on_cnp(c, s, us(51));
  CHECK(near(s.target, 75 * kG));
  CHECK(near(s.current, 56.1767578125 * kG));  // 75 (1 - 0.2509765625)
}

TEST_CASE("dcqcn: alpha falls by 1/256 for every quiet 55 us") {
  const DcqcnConfig c = paper();
  DcqcnState s = dcqcn_start(c, 100 * kG);
  dcqcn_on_cnp(c, s, 0);
  dcqcn_advance(c, s, us(54));
  CHECK(near(s.alpha, 1));
  dcqcn_advance(c, s, us(55));
  CHECK(near(s.alpha, 255.0 / 256));
  dcqcn_advance(c, s, us(165));
  CHECK(near(s.alpha, std::pow(255.0 / 256, 3)));
  dcqcn_advance(c, s, us(1'000'000));
  CHECK_EQ(s.alpha_due, kNever);  // its timer ends when no cut can be felt
}

TEST_CASE("dcqcn: fast recovery, additive and hyper increase") {
  const DcqcnConfig c = paper();
  DcqcnState s = dcqcn_start(c, 100 * kG);
  dcqcn_on_cnp(c, s, 0);                                     // 100 -> 50
  dcqcn_on_cnp(c, s, 0);                                     // 50 -> 25, target 50
  const double expected[] = {37.5, 43.75, 46.875, 48.4375};  // half the distance to 50, events 1 to 4
  for (int i = 0; i < 4; ++i) {
    dcqcn_advance(c, s, us(55 * (i + 1)));
    CHECK(near(s.current, expected[i] * kG));
  }
  dcqcn_advance(c, s, us(275));  // the fifth: target + 40 Mb/s
  CHECK(near(s.target, 50.04 * kG));
  CHECK(near(s.current, 49.23875 * kG));
  // Both counters beyond 5: the target climbs by 400 Mb/s.
  s.time_events = 6;
  s.byte_events = 5;
  dcqcn_on_sent(c, s, 10'000'000);
  CHECK_EQ(s.byte_events, 6u);
  CHECK(near(s.target, 50.44 * kG));
  CHECK(near(s.current, 49.839375 * kG));
}

TEST_CASE("dcqcn: the byte counter counts whole steps and keeps the rest") {
  const DcqcnConfig c = paper();
  DcqcnState s = dcqcn_start(c, 100 * kG);
  dcqcn_on_sent(c, s, 50'000'000);  // at line rate nothing counts
  CHECK_EQ(s.byte_events, 0u);
  dcqcn_on_cnp(c, s, 0);
  dcqcn_on_sent(c, s, 25'000'000);
  CHECK_EQ(s.byte_events, 2u);
  CHECK_EQ(s.bytes, int64_t{5'000'000});
  CHECK(near(s.current, 87.5 * kG));  // 50 -> 75 -> 87.5
  dcqcn_on_cnp(c, s, us(1));
  CHECK_EQ(s.bytes, int64_t{0});
}

TEST_CASE("dcqcn: limits of rate and of the time between cuts") {
  DcqcnConfig c = paper();
  c.decrease_interval_ns = 4'000;
  c.min_mbps = 100;
  DcqcnState s = dcqcn_start(c, kG);
  dcqcn_on_cnp(c, s, us(1));
  dcqcn_on_cnp(c, s, us(4));  // too early
  CHECK(near(s.current, 0.5 * kG));
  for (int i = 1; i < 10; ++i) dcqcn_on_cnp(c, s, us(1 + 4 * i));
  CHECK(near(s.current, 0.1 * kG));
  dcqcn_advance(c, s, us(10'000'000));
  CHECK(near(s.current, kG));  // never above the line
  CHECK_EQ(s.rate_due, kNever);
  DcqcnState slow = dcqcn_start(c, 0.05 * kG);  // a line below the least rate keeps its own
  dcqcn_on_cnp(c, slow, us(1));
  CHECK(near(slow.current, 0.05 * kG));
}
