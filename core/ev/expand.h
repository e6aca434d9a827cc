// Compact EV bits -> the bits of the packet, by format and profile fields, and back (reference 4.4).
// Pure functions; leaves where the result travels to value.h.
#pragma once

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ev/format.h"
#include "ev/value.h"

namespace mrc::ev {

struct Expansion {
  EvValue value;                       // left aligned: the first format field starts at the first bit
  std::vector<uint64_t> field_values;  // one a profile field
  uint32_t consumed = 0;               // EV bits used
  uint32_t width = 0;                  // sum of the format widths
};

// The rules of 4.4 in the order of its table; `limit` = bits the mode allows. E2BIG, EINVAL.
base::Errno check_fields(const FormatWidths& format, const Fields& fields, uint32_t limit);
// Format widths alone: E2BIG above `limit` bits, EINVAL for an empty list or a field without bits.
base::Errno check_format(const FormatWidths& format, uint32_t limit);

// Sum of the mask bits: what ev_max_width bounds and what one EV consumes.
uint32_t compact_width(const Fields& fields);

// Reads EV bits from the most significant bit of `ev_bits`, `nbits` of them. Errors of check_fields; EINVAL
// when the masks ask for more bits than there are.
base::Result<Expansion> expand(const FormatWidths& format, const Fields& fields, base::ByteView ev_bits,
                               uint32_t nbits, uint32_t limit = 256);

// The compact bits, left aligned, that expand to `value`; nullopt when its fixed bits differ. Fields must be
// valid.
std::optional<EvValue> compact(const FormatWidths& format, const Fields& fields, const EvValue& value);

// Bit `at` of a left-aligned bit string.
constexpr bool bit(base::ByteView b, uint32_t at) { return ((b[at / 8] >> (7 - at % 8)) & 1) != 0; }
constexpr void set_bit(EvValue& v, uint32_t at, bool on) {
  const auto m = static_cast<uint8_t>(0x80u >> (at % 8));
  v.bytes[at / 8] = static_cast<uint8_t>(on ? v.bytes[at / 8] | m : v.bytes[at / 8] & ~m);
}

}  // namespace mrc::ev
