// The registry of path policies: names, an application's own, refusals.
#include "ev/policy.h"

#include <algorithm>
#include <cerrno>

#include "ev/table.h"
#include "testing/check.h"

using namespace mrc::ev;  // NOLINT(google-build-using-namespace)
using mrc::base::Instant;

namespace {

// Takes the first GOOD slot of an allowed port; counts how often it was asked.
class First final : public PathPolicy {
 public:
  explicit First(int* asked) : asked_(asked) {}
  void reset(const SlotView& slots, mrc::base::Rng& rng) override {
    (void)slots;
    (void)rng;
  }
  std::optional<size_t> next(SlotView& slots, uint32_t ports, std::optional<uint32_t> avoid,
                             mrc::base::Rng& rng) override {
    (void)avoid;
    (void)rng;
    ++*asked_;
    for (size_t s = 0; s < slots.size(); ++s) {
      if (slots.good(s) && (ports & (1u << slots.path(s).port)) != 0) return s;
    }
    return std::nullopt;
  }

 private:
  int* asked_;
};

}  // namespace

TEST_CASE("policies: the built-in ones are known by name, others are not") {
  for (const char* name : {"bitmap", "bitmap-flat", "oblivious", "rr"}) {
    CHECK(known_policy(name));
    CHECK(make_policy(name).ok());
  }
  CHECK(!known_policy("none such"));
  CHECK_EQ(make_policy("none such").error(), EINVAL);
  CHECK(!known_policy(""));
}

TEST_CASE("policies: a factory may carry state, and names are taken once") {
  int asked = 0;
  CHECK_EQ(register_policy("first", [&asked] { return std::make_unique<First>(&asked); }), 0);
  CHECK_EQ(register_policy("first", [&asked] { return std::make_unique<First>(&asked); }), EEXIST);
  CHECK_EQ(register_policy("bitmap", [&asked] { return std::make_unique<First>(&asked); }), EEXIST);
  CHECK_EQ(register_policy("", [&asked] { return std::make_unique<First>(&asked); }), EINVAL);
  CHECK_EQ(register_policy("empty", PolicyFactory{}), EINVAL);
  const auto names = policies();
  CHECK(std::find(names.begin(), names.end(), "first") != names.end());
  EvTable t({{5, 1}, {6, 2}}, {}, {}, std::move(make_policy("first").value()), mrc::base::Rng(1));
  CHECK_EQ(t.choose(Instant{0}, UINT32_MAX, std::nullopt)->tag, 5u);
  CHECK_EQ(t.choose(Instant{0}, 1u << 2, std::nullopt)->tag, 6u);
  CHECK_EQ(asked, 2);
}
