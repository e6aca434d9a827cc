#include "ev/expand.h"

#include <bit>
#include <cerrno>

namespace mrc::ev {

namespace {

constexpr uint32_t kValueBits = 256;

bool fits(uint64_t v, uint32_t bits) { return bits >= 64 || v >> bits == 0; }

template <typename List, typename Width>
uint64_t sum(const List& list, Width width) {
  uint64_t total = 0;
  for (const auto& item : list) total += width(item);
  return total;
}

}  // namespace

base::Errno check_format(const FormatWidths& format, uint32_t limit) {
  if (sum(format, [](uint16_t w) { return w; }) > limit) return E2BIG;
  if (format.empty()) return EINVAL;
  for (const uint16_t w : format) {
    if (w == 0) return EINVAL;
  }
  return 0;
}

base::Errno check_fields(const FormatWidths& format, const Fields& fields, uint32_t limit) {
  if (fields.size() > format.size()) return E2BIG;
  const uint64_t format_bits = sum(format, [](uint16_t w) { return w; });
  if (sum(fields, [](const Field& f) { return f.width; }) > format_bits || format_bits > limit) return E2BIG;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].width > format[i]) return E2BIG;
  }
  for (const Field& f : fields) {
    if (f.width == 0 || !fits(f.init_val, f.width) || !fits(f.mask, f.width)) return EINVAL;
    if (!fits(f.max_val, static_cast<uint32_t>(std::popcount(f.mask)))) return EINVAL;
    if (f.min_val > f.max_val) return EINVAL;
  }
  return 0;
}

uint32_t compact_width(const Fields& fields) {
  return static_cast<uint32_t>(
      sum(fields, [](const Field& f) { return static_cast<uint64_t>(std::popcount(f.mask)); }));
}

base::Result<Expansion> expand(const FormatWidths& format, const Fields& fields, base::ByteView ev_bits,
                               uint32_t nbits, uint32_t limit) {
  using R = base::Result<Expansion>;
  if (const base::Errno e = check_fields(format, fields, limit < kValueBits ? limit : kValueBits))
    return R::error(e);
  if (nbits > ev_bits.size() * 8 || compact_width(fields) > nbits) return R::error(EINVAL);
  Expansion x;
  for (size_t i = 0; i < format.size(); ++i) {
    const uint32_t end = x.width + format[i];
    x.width = end;
    if (i >= fields.size()) continue;  // a format field without a profile field is zero
    uint64_t v = fields[i].init_val;
    for (uint64_t left = fields[i].mask; left != 0;) {
      const uint64_t top = std::bit_floor(left);
      left ^= top;
      v = bit(ev_bits, x.consumed++) ? v | top : v & ~top;
    }
    x.field_values.push_back(v);
    // Right aligned in its format field.
    for (uint32_t k = 0; k < 64 && k < format[i]; ++k) set_bit(x.value, end - 1 - k, ((v >> k) & 1) != 0);
  }
  return x;
}

std::optional<EvValue> compact(const FormatWidths& format, const Fields& fields, const EvValue& value) {
  EvValue out;
  uint32_t used = 0;
  uint32_t at = 0;
  for (size_t i = 0; i < format.size(); ++i) {
    const uint32_t width = format[i];
    const Field f = i < fields.size() ? fields[i] : Field{};
    for (uint32_t k = width; k-- > 0; ++at) {  // k: weight of the bit in its field
      const bool on = bit(value.bytes, at);
      if (k < 64 && ((f.mask >> k) & 1) != 0) {
        set_bit(out, used++, on);
      } else if (on != (k < 64 && ((f.init_val >> k) & 1) != 0)) {
        return std::nullopt;
      }
    }
  }
  for (; at < kValueBits; ++at) {
    if (bit(value.bytes, at)) return std::nullopt;
  }
  return out;
}

}  // namespace mrc::ev
