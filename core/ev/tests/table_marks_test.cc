// EVs that are marked more than their siblings get less, those marked alike get the same.
#include <array>
#include <map>

#include "base/rng.h"
#include "ev/table.h"
#include "testing/check.h"

using namespace mrc::ev;  // NOLINT(google-build-using-namespace)
using mrc::base::Instant;
using mrc::base::Rng;

namespace {

constexpr uint32_t kAll = UINT32_MAX;

// Packets that go out one a microsecond and are answered `kRtt` later; `marked(tag)` in 1/1000.
class Flow {
 public:
  explicit Flow(uint32_t evs, uint32_t planes = 1, const char* policy = "bitmap", TableConfig c = {})
      : table(paths(evs, planes), {}, c, std::move(make_policy(policy).value()), Rng(3)) {}

  template <typename F>
  std::map<uint32_t, int> send(int packets, F marked) {
    std::map<uint32_t, int> each;
    for (int i = 0; i < packets; ++i, ++sent_) {
      const Instant now{int64_t{sent_} * 1000};
      const auto path = table.choose(now, kAll, std::nullopt);
      REQUIRE(path.has_value());
      table.on_sent(now, path->tag);
      ++each[path->tag];
      uint32_t& back = out_[static_cast<size_t>(sent_ % kRtt)];
      if (back != 0) table.on_feedback(now, back, PathFeedback::skip_once);
      back = rng_.below(1000) < static_cast<uint32_t>(marked(path->tag)) ? path->tag : 0;
    }
    return each;
  }

  EvTable table;

 private:
  static std::vector<PathId> paths(uint32_t evs, uint32_t planes) {
    std::vector<PathId> out;
    for (uint32_t p = 1; p <= planes; ++p) {
      for (uint32_t k = 1; k <= evs; ++k) out.push_back({p * 100 + k, static_cast<uint8_t>(p)});
    }
    return out;
  }
  static constexpr int kRtt = 100;
  std::array<uint32_t, kRtt> out_{};
  Rng rng_{7};
  int sent_ = 0;
};

}  // namespace

TEST_CASE("of two EVs the one that is always marked gets a rare packet, until its marks end") {
  Flow f(2);
  const auto busy = [](uint32_t tag) { return tag == 101 ? 1000 : 0; };
  f.send(5'000, busy);
  auto each = f.send(10'000, busy);
  CHECK(each[101] >= 100);  // only its own packets tell that it is free again
  CHECK(each[101] <= 500);
  f.send(5'000, [](uint32_t) { return 0; });
  each = f.send(10'000, [](uint32_t) { return 0; });
  CHECK_EQ(each[101], 5'000);
}

TEST_CASE("half of its packets marked is enough, and both EVs may change places") {
  Flow f(2);
  for (const uint32_t full : {101u, 102u, 101u}) {
    const auto marked = [full](uint32_t tag) { return tag == full ? 500 : 0; };
    f.send(5'000, marked);
    CHECK(f.send(10'000, marked)[full] <= 1'000);
  }
}

TEST_CASE("EVs that are marked alike get the same, few marks or many") {
  for (const int all : {1, 20, 200, 500, 1000}) {
    Flow f(16);
    auto each = f.send(64'000, [all](uint32_t) { return all; });
    for (const auto& [tag, n] : each) {
      CHECK(n > 3'400);
      CHECK(n < 4'600);
    }
  }
}

TEST_CASE("one of sixteen that is marked three times as much gets less, the others share the rest") {
  Flow f(16);
  const auto marked = [](uint32_t tag) { return tag == 105 ? 600 : 200; };
  f.send(64'000, marked);
  auto each = f.send(64'000, marked);
  CHECK(each[105] > 400);
  CHECK(each[105] < 2'600);
  for (const auto& [tag, n] : each) CHECK(tag == 105 || (n > 3'500 && n < 5'200));
}

TEST_CASE("EVs of other planes are not compared: planes stay equal whatever is marked") {
  Flow f(4, 2);
  auto each = f.send(20'000, [](uint32_t tag) { return tag < 200 ? 1000 : 0; });
  int first = 0;
  for (const auto& [tag, n] : each) first += tag < 200 ? n : 0;
  CHECK_EQ(first, 10'000);
  for (const auto& [tag, n] : each) CHECK(n > 2'300 && n < 2'700);
}

TEST_CASE("marks are forgotten with the EV, and an EV alone in its plane is never held") {
  Flow f(2);
  const auto busy = [](uint32_t tag) { return tag == 101 ? 1000 : 0; };
  f.send(5'000, busy);
  CHECK(f.table.rows()[0].marks > 1'000);
  f.table.set_state(Instant{0}, 102, State::denied);
  CHECK_EQ(f.send(1'000, busy)[101], 1'000);
  f.table.set_state(Instant{0}, 101, State::denied);
  CHECK_EQ(f.table.rows()[0].marks, 0u);
}

TEST_CASE("without ECN steering nothing is compared") {
  TableConfig c;
  c.ecn_steering = false;
  Flow f(2, 1, "bitmap", c);
  CHECK_EQ(f.send(10'000, [](uint32_t tag) { return tag == 101 ? 1000 : 0; })[101], 5'000);
}
