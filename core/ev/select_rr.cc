#include "ev/select_rr.h"

namespace mrc::ev {

namespace {

class RoundRobin final : public PathPolicy {
 public:
  void reset(const SlotView& slots, base::Rng& rng) override {
    at_ = rng.below(static_cast<uint32_t>(slots.size()));
  }

  std::optional<size_t> next(SlotView& slots, uint32_t ports, std::optional<uint32_t> avoid,
                             base::Rng& rng) override {
    (void)rng;
    std::optional<size_t> avoided;
    bool cleared = false;
    for (size_t i = 0; i < slots.size(); ++i) {
      at_ = (at_ + 1) % slots.size();
      const PathId path = slots.path(at_);
      if ((ports & (1u << path.port)) == 0) continue;
      if (slots.skip(at_) && !cleared) {
        slots.clear_skip(at_);  // it has been passed once now (D-25)
        cleared = true;
        continue;
      }
      if (!slots.good(at_)) continue;
      if (!avoid || path.tag != *avoid) return at_;
      avoided = at_;
    }
    return avoided;
  }

 private:
  size_t at_ = 0;
};

}  // namespace

std::unique_ptr<PathPolicy> make_rr_policy() { return std::make_unique<RoundRobin>(); }

}  // namespace mrc::ev
