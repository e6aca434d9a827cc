// Virtual time as the engine sees it: integer nanoseconds, always handed in by the driver.
// Decides the two time types and their arithmetic; leaves every clock to net/ and sim/.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>

namespace mrc::base {

// A span of time in nanoseconds. May be negative as an intermediate result.
struct Duration {
  int64_t ns = 0;

  static constexpr Duration micros(int64_t us) { return {us * 1'000}; }
  static constexpr Duration millis(int64_t ms) { return {ms * 1'000'000}; }
  static constexpr Duration seconds(int64_t s) { return {s * 1'000'000'000}; }
  // A bound no timer reaches; safe to add to any Instant.
  static constexpr Duration forever() { return {std::numeric_limits<int64_t>::max()}; }

  constexpr auto operator<=>(const Duration&) const = default;
  constexpr Duration operator-() const { return {-ns}; }
  constexpr Duration operator*(int64_t k) const { return {ns * k}; }
  constexpr Duration operator/(int64_t k) const { return {ns / k}; }
  constexpr Duration operator+(Duration o) const { return {ns + o.ns}; }
  constexpr Duration operator-(Duration o) const { return {ns - o.ns}; }
  // Scales by a real factor; only for knobs that are given as fractions.
  [[nodiscard]] constexpr Duration scaled(double k) const {
    return {static_cast<int64_t>(static_cast<double>(ns) * k)};
  }
};

// A point on the driver's monotonic clock. Instant::never() is later than every other one.
struct Instant {
  int64_t ns = 0;

  static constexpr Instant never() { return {std::numeric_limits<int64_t>::max()}; }
  [[nodiscard]] constexpr bool is_never() const { return *this == never(); }

  constexpr auto operator<=>(const Instant&) const = default;
  // Saturates at never(), so that "no deadline" stays "no deadline".
  constexpr Instant operator+(Duration d) const {
    if (is_never() || (d.ns > 0 && ns > std::numeric_limits<int64_t>::max() - d.ns)) return never();
    return {ns + d.ns};
  }
  constexpr Instant operator-(Duration d) const { return is_never() ? never() : Instant{ns - d.ns}; }
  constexpr Duration operator-(Instant o) const { return {ns - o.ns}; }
};

// The 16-bit TSETH clock: 128 ns ticks, wraps every 8.388608 ms (reference 2.5).
constexpr uint16_t timestamp16(Instant t) { return static_cast<uint16_t>(t.ns >> 7); }

}  // namespace mrc::base
