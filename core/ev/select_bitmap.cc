#include "ev/select_bitmap.h"

#include <algorithm>
#include <array>

namespace mrc::ev {

namespace {

constexpr uint8_t kPorts = 32;

template <bool kFlat>
class BitmapPolicy final : public PathPolicy {
 public:
  void reset(const SlotView& slots, base::Rng& rng) override {
    rings_.clear();
    ring_of_.fill(kNone);
    for (size_t s = 0; s < slots.size(); ++s) {
      const uint8_t port = kFlat ? 0 : slots.path(s).port;
      if (ring_of_[port] == kNone) {
        ring_of_[port] = static_cast<uint8_t>(rings_.size());
        rings_.push_back(Ring{port, 0, {}});
      }
      rings_[ring_of_[port]].slots.push_back(static_cast<uint16_t>(s));
    }
    for (Ring& r : rings_) shuffle(r, rng);
    // Senders do not start in step: neither on the same plane nor on the same EV (4.6).
    turn_ = rings_.empty() ? 0 : rng.below(static_cast<uint32_t>(rings_.size()));
  }

  std::optional<size_t> next(SlotView& slots, uint32_t ports, std::optional<uint32_t> avoid,
                             base::Rng& rng) override {
    std::optional<size_t> cleared;  // the SKIP this send was the turn of
    std::optional<size_t> avoided;
    for (size_t i = 0; i < rings_.size(); ++i) {
      const size_t at = (turn_ + i) % rings_.size();
      Ring& ring = rings_[at];
      if (!kFlat && (ports & (1u << ring.port)) == 0) continue;  // 5.4 step 2: no state change
      const auto slot = walk(ring, slots, ports, avoid, rng, cleared, avoided);
      if (!slot) continue;
      turn_ = (at + 1) % rings_.size();
      return slot;
    }
    return avoided;
  }

 private:
  static constexpr uint8_t kNone = 0xFF;
  struct Ring {
    uint8_t port = 0;
    uint16_t at = 0;
    std::vector<uint16_t> slots;
  };

  static void shuffle(Ring& r, base::Rng& rng) {
    for (size_t i = r.slots.size(); i > 1; --i)
      std::swap(r.slots[i - 1], r.slots[rng.below(static_cast<uint32_t>(i))]);
    r.at = 0;
  }

  std::optional<size_t> walk(Ring& ring, SlotView& slots, uint32_t ports, std::optional<uint32_t> avoid,
                             base::Rng& rng, std::optional<size_t>& cleared, std::optional<size_t>& avoided) {
    // The rest of this pass, then one whole reshuffled pass: every slot is seen at least once.
    for (size_t steps = 2 * ring.slots.size() - ring.at; steps > 0; --steps) {
      const size_t slot = ring.slots[ring.at];
      if (++ring.at == ring.slots.size()) shuffle(ring, rng);
      if (kFlat && (ports & (1u << slots.path(slot).port)) == 0) continue;
      if (slots.good(slot)) {
        const bool last_resort = slot == cleared || (avoid && slots.path(slot).tag == *avoid);
        if (!last_resort) {
          slots.expect(ring.slots[ring.at]);
          return slot;
        }
        if (!avoided || slot == cleared) avoided = slot;
      } else if (slots.skip(slot) && !cleared) {
        slots.clear_skip(slot);  // it has been skipped once now; at most one a send (D-25)
        cleared = slot;
      }
    }
    return std::nullopt;
  }

  std::vector<Ring> rings_;
  std::array<uint8_t, kPorts> ring_of_{};
  size_t turn_ = 0;
};

}  // namespace

std::unique_ptr<PathPolicy> make_bitmap_policy() { return std::make_unique<BitmapPolicy<false>>(); }
std::unique_ptr<PathPolicy> make_flat_bitmap_policy() { return std::make_unique<BitmapPolicy<true>>(); }

}  // namespace mrc::ev
