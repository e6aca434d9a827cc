#include "engine/timer_heap.h"

#include <map>

#include "base/rng.h"
#include "engine/scheduler.h"
#include "engine/token_bucket.h"
#include "testing/check.h"

using mrc::base::Instant;
using mrc::engine::Scheduler;
using mrc::engine::TimerHeap;

TEST_CASE("timer heap agrees with a sorted map under random moves") {
  TimerHeap heap;
  std::map<uint32_t, int64_t> model;
  mrc::base::Rng rng(3);
  for (int i = 0; i < 20'000; ++i) {
    const uint32_t id = rng.below(200);
    if (rng.below(4) == 0) {
      heap.set(id, Instant::never());
      model.erase(id);
    } else {
      const int64_t at = rng.below(1000);
      heap.set(id, Instant{at});
      model[id] = at;
    }
    REQUIRE(heap.size() == model.size());
    if (model.empty()) {
      CHECK(heap.next().is_never());
      continue;
    }
    auto best = model.begin();
    for (auto it = model.begin(); it != model.end(); ++it) {
      if (it->second < best->second) best = it;  // ties: the lowest id, as the heap promises
    }
    CHECK_EQ(heap.next().ns, best->second);
    CHECK_EQ(heap.front(), best->first);
  }
}

TEST_CASE("scheduler is a fair round robin and lists nobody twice") {
  Scheduler s;
  for (int round = 0; round < 3; ++round) {
    for (uint32_t q = 0; q < 50; ++q) s.ready(q);
  }
  for (uint32_t q = 0; q < 50; ++q) {
    REQUIRE(!s.empty());
    CHECK_EQ(s.pop(), q);
  }
  CHECK(s.empty());
}

TEST_CASE("blocked QPs come back once a port is free") {
  Scheduler s;
  s.blocked(3);
  s.blocked(4);
  s.ready(3);  // an event may have given it something for another port
  CHECK_EQ(s.pop(), 3u);
  s.blocked(3);
  CHECK(s.empty());
  s.unblock();
  CHECK_EQ(s.pop() + s.pop(), 7u);
  CHECK(s.empty());
  s.unblock();
  CHECK(s.empty());
}

TEST_CASE("token bucket holds its rate") {
  mrc::engine::TokenBucket b(1000);
  int got = 0;
  for (int64_t us = 0; us < 2'000'000; us += 100) got += b.take(Instant{us * 1000}) ? 1 : 0;
  CHECK(got >= 1990);
  CHECK(got <= 2110);  // two seconds and one burst of 100
}
