// How wide an EV is on the wire and how the controller describes its bits (reference 4.1, 4.4, 12.1).
// Decides names and limits; leaves the expansion to expand.h and the life of profiles to profile.h.
#pragma once

#include <cstdint>
#include <vector>

namespace mrc::ev {

// Values of the API; it has one SRv6 mode, the variant with a segment routing header is told apart here.
enum class FormatMode : uint8_t { stev = 1, srv6 = 2, udp = 4, srv6_srh = 8 };

// Bits of an EV in the API. 0: no such mode.
constexpr uint32_t max_width(FormatMode mode) {
  switch (mode) {
    case FormatMode::udp:
      return 16;
    case FormatMode::stev:
      return 32;
    case FormatMode::srv6:
      return 128;
    case FormatMode::srv6_srh:
      return 256;
  }
  return 0;
}

// One field of an EV profile. `mask` marks the bits that EV bits fill, `init_val` gives the others;
// min_val..max_val bound what GENERATED mode puts into them. mask = 0: a fixed part.
struct Field {
  uint16_t width = 0;
  uint64_t init_val = 0, min_val = 0, max_val = 0, mask = 0;
  bool operator==(const Field&) const = default;
};

using FormatWidths = std::vector<uint16_t>;
using Fields = std::vector<Field>;

}  // namespace mrc::ev
