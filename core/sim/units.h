// Fabric time and wire sizes: integer picoseconds, so that 4 KiB at 400 Gbit/s has an exact length.
// Decides conversions; the engine sees whole nanoseconds, rounded down.
#pragma once

#include <cstdint>
#include <limits>

#include "base/time.h"

namespace mrc::sim {

using Ps = int64_t;  // picoseconds since the start; 106 days fit
inline constexpr Ps kNever = std::numeric_limits<Ps>::max();
inline constexpr Ps kPsPerNs = 1000;

constexpr Ps from_ns(int64_t ns) { return ns > kNever / kPsPerNs ? kNever : ns * kPsPerNs; }
constexpr Ps from_instant(base::Instant t) { return t.is_never() ? kNever : from_ns(t.ns); }
constexpr base::Instant to_instant(Ps t) { return base::Instant{t / kPsPerNs}; }

// Picoseconds a byte as 40.24 fixed point: exact for every rate that divides 8e12 bit/s, off by less than one
// ps in 16 MB otherwise.
using ByteTime = uint64_t;
inline constexpr int kByteTimeBits = 24;
constexpr ByteTime byte_time(double bits_per_second) {
  const double exact = 8e12 / bits_per_second * (1 << kByteTimeBits);
  const auto whole = static_cast<ByteTime>(exact);
  return whole + (exact - static_cast<double>(whole) >= 0.5 ? 1 : 0);
}
constexpr Ps serialization(ByteTime per_byte, uint32_t bytes) {
  // Whole and fractional part apart: no product passes 64 bits.
  const uint64_t fraction = per_byte & ((uint64_t{1} << kByteTimeBits) - 1);
  return static_cast<Ps>((per_byte >> kByteTimeBits) * bytes + ((fraction * bytes) >> kByteTimeBits));
}

// What a UDP payload costs on an Ethernet link besides itself: preamble 8, MAC 14, FCS 4, gap 12, IPv6 40,
// UDP 8. An SRv6 uSID list in the destination address costs nothing; encapsulation another 40.
inline constexpr uint32_t kWireOverhead = 8 + 14 + 4 + 12 + 40 + 8;
inline constexpr uint32_t kMinWireBytes = 84;  // the shortest Ethernet frame with preamble and gap

}  // namespace mrc::sim
