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
    Walk w{slots, ports, avoid, rng, std::nullopt, std::nullopt};
    for (size_t i = 0; i < rings_.size(); ++i) {
      const size_t at = (turn_ + i) % rings_.size();
      Ring& ring = rings_[at];
      if (!kFlat && (ports & (1u << ring.port)) == 0) continue;  // 5.4 step 2: no state change
      pass_over(ring, w);
      auto slot = seek<Kind::good>(ring, w);
      if (!slot) slot = seek<Kind::passed>(ring, w);
      if (!slot) slot = seek<Kind::skip>(ring, w);
      if (!slot) slot = seek<Kind::held>(ring, w);
      if (!slot) continue;
      turn_ = (at + 1) % rings_.size();
      return slot;
    }
    return avoid ? alone(slots, ports, *avoid) : std::nullopt;
  }

  [[nodiscard]] bool equal_planes() const override { return !kFlat; }

 private:
  static constexpr uint8_t kNone = 0xFF;
  struct Ring {
    uint8_t port = 0;
    uint16_t at = 0;
    std::vector<uint16_t> slots;
  };
  struct Walk {
    SlotView& slots;
    uint32_t ports;
    std::optional<uint32_t> avoid;
    base::Rng& rng;
    std::optional<size_t> passed;  // the SKIP this send was the turn of
    std::optional<size_t> turn;    // whose turn it is now
  };
  enum class Kind : uint8_t { good, passed, skip, held };

  static void shuffle(Ring& r, base::Rng& rng) {
    for (size_t i = r.slots.size(); i > 1; --i)
      std::swap(r.slots[i - 1], r.slots[rng.below(static_cast<uint32_t>(i))]);
    r.at = 0;
  }

  // Whose turn is passed over: a SKIP ends when it was passed once, at most one a send (D-25); by time only,
  // all of an EV's load comes and goes together, and fully loaded planes lose a fifth of their rate to it
  // (`softmrc paper --only R13`). One that is marked more than its siblings stays GOOD and waits for longer.
  static void pass_over(Ring& ring, Walk& w) {
    for (size_t i = 0; i < ring.slots.size(); ++i) {
      const uint16_t slot = ring.slots[ring.at];
      if (kFlat && (w.ports & (1u << w.slots.path(slot).port)) == 0) return;
      if (w.slots.skip(slot)) {
        if (w.passed) return;
        w.slots.clear_skip(slot);
        w.passed = slot;
      } else if (!w.slots.good(slot) || !w.slots.pass_held(slot)) {
        w.turn = slot;
        return;
      }
      if (++ring.at == ring.slots.size()) shuffle(ring, w.rng);
    }
  }

  // The next GOOD slot of the plane whose turn it is; without one, the one just passed over, its next SKIP
  // slot, then one that is held: planes stay equal (5.4).
  template <Kind kKind>
  static std::optional<size_t> seek(Ring& ring, const Walk& w) {
    if (kKind == Kind::passed && !w.passed) return std::nullopt;
    const auto fits = [&](uint16_t slot) {
      if (kKind == Kind::good && (!w.slots.good(slot) || slot == w.passed)) return false;
      if (kKind == Kind::good && slot != w.turn && w.slots.held(slot)) return false;
      if (kKind == Kind::held && !w.slots.good(slot)) return false;
      if (kKind == Kind::passed && slot != w.passed) return false;
      if (kKind == Kind::skip && !w.slots.skip(slot)) return false;
      if (kFlat && (w.ports & (1u << w.slots.path(slot).port)) == 0) return false;
      return !w.avoid || w.slots.path(slot).tag != *w.avoid;
    };
    const auto here = ring.slots.begin() + ring.at;
    auto it = std::find_if(here, ring.slots.end(), fits);
    if (it == ring.slots.end()) {
      if (std::none_of(ring.slots.begin(), here, fits)) return std::nullopt;
      shuffle(ring, w.rng);
      it = std::find_if(ring.slots.begin(), ring.slots.end(), fits);
    }
    const size_t slot = *it;
    ring.at = static_cast<uint16_t>(it - ring.slots.begin() + 1);
    if (ring.at == ring.slots.size()) shuffle(ring, w.rng);
    w.slots.expect(ring.slots[ring.at]);
    return slot;
  }

  static std::optional<size_t> alone(const SlotView& slots, uint32_t ports, uint32_t tag) {
    for (size_t s = 0; s < slots.size(); ++s) {
      const PathId path = slots.path(s);
      const bool usable = slots.good(s) || slots.skip(s);
      if (path.tag == tag && usable && (ports & (1u << path.port)) != 0) return s;
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
