#include "ev/generate.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "ev/expand.h"

namespace mrc::ev {

namespace {

constexpr uint64_t kMaxProduct = uint64_t{1} << 63;

// How many values a field takes; a full 64-bit range counts as the largest product.
uint64_t radix(const Field& f) {
  const uint64_t span = f.max_val - f.min_val;
  return f.mask == 0 ? 1 : span >= kMaxProduct ? kMaxProduct : span + 1;
}

uint64_t random_below(uint64_t n, base::Rng& rng) { return n == 0 ? 0 : rng.next() % n; }

// Digits of `at` in the mixed radix of the fields, each turned by its shift, as bits.
EvValue nth(const Fields& fields, uint64_t at, const std::vector<uint64_t>& shift) {
  EvValue out;
  uint32_t bit_at = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field& f = fields[i];
    const uint64_t r = radix(f);
    const uint64_t v = f.min_val + (at % r + shift[i]) % r;
    at /= r;
    for (auto k = static_cast<uint32_t>(std::popcount(f.mask)); k-- > 0;)
      set_bit(out, bit_at++, ((v >> k) & 1) != 0);
  }
  return out;
}

}  // namespace

uint64_t product(const Fields& fields) {
  uint64_t p = 1;
  for (const Field& f : fields) {
    const uint64_t r = radix(f);
    if (r > kMaxProduct / p) return kMaxProduct;
    p *= r;
  }
  return p;
}

Generator::Generator(const Fields& fields)
    : fields_(fields), product_(product(fields)), shift_(fields.size(), 0) {}

Generator::Generator(const Fields& fields, base::Rng& rng) : Generator(fields) {
  at_ = random_below(product_, rng);
  // Coprime to the product, so that the walk comes back only after all of it.
  do {
    step_ = 1 + random_below(product_, rng);
  } while (std::gcd(step_, product_) != 1);
  step_ %= product_;
  for (size_t i = 0; i < fields.size(); ++i) shift_[i] = random_below(radix(fields[i]), rng);
}

EvValue Generator::next() {
  const EvValue out = nth(fields_, at_, shift_);
  at_ += step_;  // both below 2^63
  if (at_ >= product_) at_ -= product_;
  return out;
}

EvValue unrank(const Fields& fields, uint64_t at) {
  return nth(fields, at, std::vector<uint64_t>(fields.size(), 0));
}

std::optional<uint64_t> rank(const Fields& fields, const EvValue& compact_bits) {
  uint64_t at = 0;
  uint64_t weight = 1;
  uint32_t used = 0;
  for (const Field& f : fields) {
    uint64_t v = 0;
    for (auto k = std::popcount(f.mask); k > 0; --k) v = v << 1 | (bit(compact_bits.bytes, used++) ? 1u : 0u);
    if (f.mask != 0 && (v < f.min_val || v > f.max_val)) return std::nullopt;
    at += (v - f.min_val) * weight;
    weight *= radix(f);
  }
  for (; used < compact_bits.bytes.size() * 8; ++used) {
    if (bit(compact_bits.bytes, used)) return std::nullopt;
  }
  return at;
}

PortTurn::PortTurn(uint32_t mask, const Fields& fields) {
  for (uint8_t p = 1; p < 32; ++p) {
    if ((mask & (1u << p)) != 0) ports_.push_back(p);
  }
  if (ports_.empty()) return;
  uint64_t first = 1;
  for (const Field& f : fields) {
    if (first == 1) first = radix(f);
  }
  // A first field of more values than any profile has EVs never comes round.
  period_ = std::lcm(std::min<uint64_t>(first, uint64_t{1} << 32), uint64_t{ports_.size()});
}

uint32_t invent_tag(bool wide, base::Rng& rng) {
  const uint32_t source_port = 1024 + rng.below(65536 - 1024);
  return wide ? (1 + rng.below(0xFFFF)) << 16 | source_port : source_port;
}

}  // namespace mrc::ev
