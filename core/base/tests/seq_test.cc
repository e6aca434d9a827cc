#include "base/seq.h"

#include "base/rng.h"
#include "base/time.h"
#include "testing/check.h"

using mrc::base::Duration;
using mrc::base::Instant;
using mrc::base::Msn;
using mrc::base::Psn;

TEST_CASE("psn distance wraps at 24 bits and keeps the impossible half apart") {
  CHECK_EQ(Psn(0).minus(Psn(0xFFFFFF)), 1);
  CHECK_EQ(Psn(0xFFFFFF).minus(Psn(0)), -1);
  CHECK_EQ(Psn(0x800000).minus(Psn(0)), -0x800000);
  CHECK_EQ(Psn(0x7FFFFF).minus(Psn(0)), 0x7FFFFF);
  CHECK(Psn(0xFFFFF0).before(Psn(5)));
  CHECK(!Psn(5).before(Psn(0xFFFFF0)));
  CHECK_EQ((Psn(3) - 5).value, 0xFFFFFEu);
  CHECK_EQ(Msn(0).minus(Msn(0xFFFF)), 1);
  CHECK_EQ(Msn(0x8000).minus(Msn(0)), -0x8000);
}

TEST_CASE("never stays never") {
  CHECK((Instant::never() + Duration::seconds(1)).is_never());
  CHECK((Instant{5} + Duration::forever()).is_never());
  CHECK(Instant{5} < Instant::never());
}

TEST_CASE("rng is reproducible and in range") {
  mrc::base::Rng a(7);
  mrc::base::Rng b(7);
  for (int i = 0; i < 1000; ++i) {
    const uint32_t x = a.below(10);
    CHECK(x < 10);
    CHECK_EQ(x, b.below(10));
  }
  CHECK(!a.chance_ppm(0));
  CHECK(a.chance_ppm(1'000'000));
}
