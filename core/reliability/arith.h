// Pure arithmetic of the acknowledgement fields: byte counter, timestamp, ACK timer waits.
// Decides nothing about packets; reference 2.10, 5.6, 5.7, 7.4. Used by the room itself and by the vector
// checker.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/seq.h"
#include "base/time.h"

namespace mrc::reliability {

inline constexpr uint32_t kRcvdBytesUnit = 256;
inline constexpr base::Duration kTimestampTick{128};
inline constexpr base::Duration kAckTimeoutUnit{1024};                // 1.024 us
inline constexpr base::Duration kAckTimeoutCap{int64_t{1024} << 24};  // 17.18 s
inline constexpr uint8_t kMaxAckTimeoutExponent = 24;
inline constexpr uint8_t kRetryForever = 25;  // exp_cnt without an end

// Bytes newly received between two values of the 24-bit counter; 0 when `cur` is not newer.
constexpr int64_t newly_rcvd_bytes(uint32_t prev, uint32_t cur) {
  const int32_t d = base::Serial<24>(cur).minus(base::Serial<24>(prev));
  return d > 0 ? int64_t{d} * kRcvdBytesUnit : 0;
}

// CC_STATE.rcvd_bytes for a total of accepted nominal bytes.
constexpr uint32_t rcvd_bytes_field(uint64_t total) {
  return static_cast<uint32_t>(((total + kRcvdBytesUnit - 1) / kRcvdBytesUnit) & 0xFFFFFF);
}

// Round trip from two 16-bit clocks of 128 ns; right only below 8.388608 ms.
constexpr base::Duration rtt_from_ticks(uint16_t now, uint16_t echo) {
  return kTimestampTick * static_cast<uint16_t>(now - echo);
}

// Base interval T of the ACK timer.
constexpr base::Duration ack_base_interval(uint8_t timeout) {
  return {kAckTimeoutUnit.ns << std::min(timeout, kMaxAckTimeoutExponent)};
}

// Wait number `n` (from 0) when the base interval is `base`: fixed for the first transmission and
// `linear_cnt` retries, doubling afterwards, never above `cap`.
constexpr base::Duration ack_wait(base::Duration base, uint8_t linear_cnt, uint32_t n,
                                  base::Duration cap = kAckTimeoutCap) {
  const uint32_t doublings = n <= linear_cnt ? 0 : std::min<uint32_t>(n - linear_cnt, 40);
  if (doublings > 0 && base.ns > (cap.ns >> doublings)) return std::max(base, cap);
  return {base.ns << doublings};
}

// The number of the expiry that ends the QP, or none when retries go on for ever.
constexpr std::optional<uint32_t> fatal_expiry(uint8_t linear_cnt, uint8_t exp_cnt) {
  if (exp_cnt >= kRetryForever) return std::nullopt;
  return 1u + linear_cnt + exp_cnt;
}

// All waits in order; the expiry of the last one is fatal. With exp_cnt 25 the list stops at exp_cnt
// doublings and the last wait repeats without an end.
inline std::vector<base::Duration> ack_timeout_sequence(uint8_t timeout, uint8_t linear_cnt,
                                                        uint8_t exp_cnt) {
  std::vector<base::Duration> waits;
  const uint32_t n = 1u + linear_cnt + std::min(exp_cnt, kRetryForever);
  for (uint32_t i = 0; i < n; ++i) waits.push_back(ack_wait(ack_base_interval(timeout), linear_cnt, i));
  return waits;
}

}  // namespace mrc::reliability
