#include "engine/cq.h"

#include <array>

#include "testing/check.h"

using mrc::engine::Completion;
using mrc::engine::Cq;

namespace {
Completion numbered(uint64_t id) {
  Completion c;
  c.wr_id = id;
  return c;
}
}  // namespace

TEST_CASE("completions come out in order across growth and wrap") {
  Cq cq(100);
  uint64_t in = 0;
  uint64_t out = 0;
  std::array<Completion, 7> got;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 5; ++i) REQUIRE(cq.push(numbered(in++), false));
    const size_t n = cq.poll(got);
    for (size_t i = 0; i < n; ++i) CHECK_EQ(got[i].wr_id, out++);
  }
  CHECK_EQ(in, out + 0);
}

TEST_CASE("a full queue overruns and says so") {
  Cq cq(2);
  CHECK(cq.push(numbered(1), false));
  CHECK(cq.push(numbered(2), false));
  CHECK(!cq.push(numbered(3), false));
  CHECK(cq.overrun());
}

TEST_CASE("notification is one shot and obeys solicited-only") {
  Cq cq(10);
  cq.push(numbered(1), true);
  CHECK(!cq.take_fired());
  cq.arm(true);
  cq.push(numbered(2), false);
  CHECK(!cq.take_fired());
  cq.push(numbered(3), true);
  CHECK(cq.take_fired());
  cq.push(numbered(4), true);
  CHECK(!cq.take_fired());
  cq.arm(true);
  Completion bad = numbered(5);
  bad.status = mrc::engine::Status::flush_error;
  cq.push(bad, false);  // errors count as solicited
  CHECK(cq.take_fired());
}
