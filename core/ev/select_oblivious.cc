#include "ev/select_oblivious.h"

namespace mrc::ev {

namespace {

class Oblivious final : public PathPolicy {
 public:
  void reset(const SlotView& slots, base::Rng& rng) override {
    (void)slots;
    (void)rng;
  }

  std::optional<size_t> next(SlotView& slots, uint32_t ports, std::optional<uint32_t> avoid,
                             base::Rng& rng) override {
    (void)avoid;
    const auto n = static_cast<uint32_t>(slots.size());
    const auto fits = [&](size_t s) {
      return (ports & (1u << slots.path(s).port)) != 0 && (slots.good(s) || slots.skip(s));
    };
    for (int tries = 0; tries < kTries; ++tries) {
      if (const size_t s = rng.below(n); fits(s)) return s;
    }
    // Few are left. Counting first keeps the choice even.
    uint32_t left = 0;
    for (size_t s = 0; s < n; ++s) left += fits(s) ? 1u : 0u;
    if (left == 0) return std::nullopt;
    uint32_t nth = rng.below(left);
    for (size_t s = 0;; ++s) {
      if (fits(s) && nth-- == 0) return s;
    }
  }

 private:
  static constexpr int kTries = 8;
};

}  // namespace

std::unique_ptr<PathPolicy> make_oblivious_policy() { return std::make_unique<Oblivious>(); }

}  // namespace mrc::ev
