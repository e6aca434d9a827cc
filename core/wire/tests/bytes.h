// Hex text to bytes, for tests.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace mrc::wire {

inline std::vector<uint8_t> from_hex(std::string_view s) {
  const auto digit = [](char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::vector<uint8_t> out;
  for (size_t i = 0; i + 1 < s.size(); i += 2) {
    out.push_back(static_cast<uint8_t>(digit(s[i]) << 4 | digit(s[i + 1])));
  }
  return out;
}

}  // namespace mrc::wire
