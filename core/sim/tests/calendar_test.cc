// The calendar against a sorted list: near and far buckets, jumps over empty time, order inside a bucket.
#include "sim/calendar.h"

#include <algorithm>

#include "base/rng.h"
#include "testing/check.h"

using namespace mrc::sim;  // NOLINT(google-build-using-namespace)

namespace {

Record at(Ps t, uint32_t frame = 0) { return {t, frame, 0}; }

}  // namespace

TEST_CASE("calendar: what lies before the end comes, once, and nothing else") {
  Calendar c(100);
  for (const Ps t : {0, 99, 100, 150, 199, 250}) c.put(at(t));
  std::vector<Record> out;
  c.take(150, out);
  REQUIRE(out.size() == 3);  // 0, 99, 100
  CHECK_EQ(out[2].at, Ps{100});
  CHECK_EQ(c.size(), size_t{3});
  c.take(150, out);
  CHECK(out.empty());
  c.take(251, out);
  CHECK_EQ(out.size(), size_t{3});
  CHECK_EQ(c.next(), kNever);
}

TEST_CASE("calendar: order inside a bucket is the order of putting, also for buckets that were far") {
  Calendar c(100);
  constexpr Ps kFar = 100 * 5000;
  for (uint32_t i = 0; i < 5; ++i) c.put(at(kFar + 7, i));
  c.put(at(90, 77));
  std::vector<Record> out;
  c.take(100 * 4500, out);  // the far bucket is near now
  REQUIRE(out.size() == 1);
  for (uint32_t i = 5; i < 10; ++i) c.put(at(kFar + 3, i));
  c.take(kFar + 100, out);
  REQUIRE(out.size() == 10);
  for (uint32_t i = 0; i < 10; ++i) CHECK_EQ(out[i].frame, i);
}

TEST_CASE("calendar: next is the time of the first record, and skipping loses none") {
  Calendar c(1000);
  c.put(at(123'456'789'900));
  c.put(at(123'456'789'123));  // the same bucket, far away
  CHECK_EQ(c.next(), Ps{123'456'789'123});
  c.skip_to(123'456'000'000);
  c.put(at(123'456'100'700));
  c.put(at(123'456'100'500));
  CHECK_EQ(c.next(), Ps{123'456'100'500});
  std::vector<Record> out;
  c.take(123'456'789'124, out);
  REQUIRE(out.size() == 3);
  CHECK_EQ(out[1].at, Ps{123'456'100'500});
}

TEST_CASE("calendar: a thousand random mixes equal a sorted list") {
  mrc::base::Rng rng(7);
  for (int round = 0; round < 1000; ++round) {
    const Ps width = 1 + rng.below(5000);
    Calendar c(width);
    std::vector<Ps> open;
    Ps now = 0;
    std::vector<Record> out;
    for (int step = 0; step < 60; ++step) {
      for (uint32_t n = rng.below(6); n > 0; --n) {
        // Mostly near; sometimes beyond the ring of 1,024 buckets.
        const Ps t = now + static_cast<Ps>(rng.below(static_cast<uint32_t>(width) * (n == 1 ? 4000u : 3u)));
        c.put(at(t));
        open.push_back(t);
      }
      const Ps first = open.empty() ? kNever : *std::min_element(open.begin(), open.end());
      CHECK(c.next() <= first);
      if (open.empty()) {
        CHECK_EQ(c.next(), kNever);
        now += static_cast<Ps>(rng.below(static_cast<uint32_t>(width) * 3000u));
        c.skip_to(now);
        continue;
      }
      const Ps end = now + static_cast<Ps>(rng.below(static_cast<uint32_t>(width) * 40u));
      c.take(end, out);
      std::vector<Ps> got;
      for (const Record& r : out) got.push_back(r.at);
      std::vector<Ps> want, rest;
      for (const Ps t : open) (t < end ? want : rest).push_back(t);
      std::sort(got.begin(), got.end());
      std::sort(want.begin(), want.end());
      CHECK(got == want);
      open = rest;
      now = end;
      CHECK_EQ(c.size(), open.size());
    }
  }
}
