// Histogram and timeline against plain lists.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/rng.h"
#include "perf/histogram.h"
#include "perf/timeline.h"
#include "testing/check.h"

using namespace mrc;
using base::Duration;
using base::Instant;
using perf::Histogram;
using perf::Timeline;

namespace {

void check_quantiles(std::vector<int64_t> values) {
  Histogram h;
  for (const int64_t v : values) h.record(v);
  std::sort(values.begin(), values.end());
  CHECK_EQ(h.count(), values.size());
  CHECK_EQ(h.min(), values.front());
  CHECK_EQ(h.max(), values.back());
  for (const double q : {0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank =
        std::max<size_t>(static_cast<size_t>(std::ceil(q * static_cast<double>(values.size()))), 1);
    const auto want = static_cast<double>(values[rank - 1]);
    CHECK(std::abs(static_cast<double>(h.quantile(q)) - want) <= want / 256);
  }
}

}  // namespace

TEST_CASE("histogram: quantiles are within 1/256 of the sorted list") {
  base::Rng rng(7);
  for (const int bits : {3, 8, 9, 16, 27, 41}) {
    std::vector<int64_t> values;
    for (int i = 0; i < 5000; ++i) {
      const auto width = static_cast<int>(rng.next() % static_cast<uint64_t>(bits)) + 1;
      values.push_back(static_cast<int64_t>(rng.next() & ((uint64_t{1} << width) - 1)));
    }
    check_quantiles(std::move(values));
  }
  check_quantiles({255, 256, 257, 258, 511, 512, 513});
}

TEST_CASE("histogram: empty, negative, too large, cleared") {
  Histogram h;
  CHECK_EQ(h.quantile(0.5), 0);
  CHECK_EQ(h.min(), 0);
  h.record(-5);
  CHECK_EQ(h.max(), 0);
  h.record(INT64_MAX);
  CHECK_EQ(h.max(), (int64_t{1} << Histogram::kMaxBits) - 1);
  CHECK_EQ(h.quantile(1.0), h.max());
  h.clear();
  CHECK_EQ(h.count(), 0u);
}

TEST_CASE("timeline: the bins add up and split at their edges") {
  Timeline t(Duration::millis(100));
  CHECK(t.due().is_never());
  t.start(Instant{1000}, 50);
  t.note(Instant{1000} + Duration::millis(50), 150);
  t.note(Instant{1000} + Duration::millis(250), 550);  // 100 in 50 ms, 200 in the next bin, 100 in the third
  REQUIRE(t.bins().size() == 2);
  CHECK_EQ(t.bins()[0], 200u);
  CHECK_EQ(t.bins()[1], 200u);
  CHECK_EQ(t.rest(), 100u);
  CHECK(t.due() == Instant{1000} + Duration::millis(300));
  t.note(Instant{1000} + Duration::millis(200), 600);  // neither time nor count go back
  t.note(Instant{1000} + Duration::millis(300), 500);
  CHECK_EQ(t.bins().size(), 2u);
}

TEST_CASE("timeline: memory stays bounded and no byte is lost") {
  base::Rng rng(11);
  Timeline t(Duration::micros(10), 8);
  Instant now{};
  uint64_t total = 0;
  t.start(now, total);
  for (int i = 0; i < 10'000; ++i) {
    now = now + Duration{static_cast<int64_t>(rng.next() % 30'000)};
    total += rng.next() % 1000;
    t.note(now, total);
    uint64_t sum = t.rest();
    for (const uint64_t b : t.bins()) sum += b;
    REQUIRE(sum == total);
    REQUIRE(t.bins().size() < 8);
    REQUIRE(t.due() > now);
  }
  CHECK(t.width() > Duration::millis(1));
  CHECK((now - t.started_at()).ns / t.width().ns == static_cast<int64_t>(t.bins().size()));
}
