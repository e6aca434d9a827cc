// EVs that the device makes itself: GENERATED from the fields of a profile, AUTO out of thin air
// (reference 4.4, 4.6). Decides values and ports; leaves which of them are active to profile_set.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "ev/format.h"
#include "ev/value.h"

namespace mrc::ev {

// How many different values the fields allow; saturates at 2^63.
uint64_t product(const Fields& fields);

// Walks the mixed-radix product of the fields, the first variable field fastest. Offset, step and the
// starting digit of every field are pseudo-random, so two QPs walk differently; no value comes twice within
// product() steps.
class Generator {
 public:
  Generator(const Fields& fields, base::Rng& rng);
  // Offset 0, step 1: the order of the array that a query shows.
  explicit Generator(const Fields& fields);
  // The next value, as compact EV bits (left aligned).
  EvValue next();

 private:
  const Fields& fields_;
  uint64_t product_, at_ = 0, step_ = 1;
  std::vector<uint64_t> shift_;
};

// Position of compact bits in the product, first field fastest; nullopt: a field outside min..max, or bits
// behind them.
std::optional<uint64_t> rank(const Fields& fields, const EvValue& compact_bits);

// The compact bits at a position; the way back of rank().
EvValue unrank(const Fields& fields, uint64_t at);

// Ports of `mask` in turn. The turn slips by one after each common period with the first variable field, or a
// port would only ever see one of its values.
class PortTurn {
 public:
  PortTurn(uint32_t mask, const Fields& fields);
  [[nodiscard]] uint8_t port(uint64_t k) const { return ports_[(k + k / period_) % ports_.size()]; }
  [[nodiscard]] bool empty() const { return ports_.empty(); }

 private:
  std::vector<uint8_t> ports_;
  uint64_t period_ = 1;
};

// AUTO: a random tag of 16 or 32 bits. Source ports below 1024 are left to the services that own them (4.1).
uint32_t invent_tag(bool wide, base::Rng& rng);

}  // namespace mrc::ev
