#include "testing/chaos.h"

#include "testing/check.h"

using namespace mrc::testing;  // NOLINT(google-build-using-namespace)

TEST_CASE("chaos: a dozen seeds without a violation, each doing what it says") {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    ChaosOptions o;
    o.seed = seed;
    o.packets = 30'000;
    const ChaosReport r = run_chaos(o);
    CHECK_EQ(r.packets, o.packets);
    CHECK(r.writes > 100);
    CHECK(r.rules > 0);
    for (const auto& v : r.violations)
      std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed), v.c_str());
    CHECK(r.violations.empty());
  }
}

TEST_CASE("chaos: one seed, one digest") {
  ChaosOptions o;
  o.seed = 99;
  o.packets = 20'000;
  CHECK_EQ(run_chaos(o).digest, run_chaos(o).digest);
  ChaosOptions other = o;
  other.seed = 100;
  CHECK(run_chaos(o).digest != run_chaos(other).digest);
}
