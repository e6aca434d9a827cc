// One IP address, IPv6 or IPv4 in its v4-mapped form (::ffff:a.b.c.d), as RoCE GIDs hold it.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>

namespace mrc::base {

struct IpAddr {
  std::array<uint8_t, 16> bytes{};

  static constexpr IpAddr v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d) {
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d}};
  }
  [[nodiscard]] constexpr bool is_v4() const {
    return std::all_of(bytes.begin(), bytes.begin() + 10, [](uint8_t b) { return b == 0; }) &&
           bytes[10] == 0xff && bytes[11] == 0xff;
  }
  [[nodiscard]] constexpr bool is_unspecified() const {
    return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
  }
  constexpr auto operator<=>(const IpAddr&) const = default;
};

}  // namespace mrc::base
