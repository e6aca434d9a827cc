// Latencies in fixed memory: buckets whose width grows with the value, so that every quantile is right to 0.4
// %.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mrc::perf {

class Histogram {
 public:
  // Values below 2^(kSubBits + 1) have a bucket each; above, an octave has 2^kSubBits buckets.
  static constexpr int kSubBits = 7, kMaxBits = 42;  // 2^42 ns: more than an hour

  // Negative values count as 0, those of kMaxBits bits and more as the largest there is.
  void record(int64_t value);
  void clear() { *this = Histogram(); }

  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] int64_t min() const { return count_ == 0 ? 0 : min_; }
  [[nodiscard]] int64_t max() const { return max_; }
  [[nodiscard]] double mean() const;
  // The smallest value that at least `q` (0..1) of all values do not exceed; 0 when there is none. Off by
  // 1/256 of itself at most; q = 0 and q = 1 are exact.
  [[nodiscard]] int64_t quantile(double q) const;

 private:
  static constexpr size_t kBuckets = (size_t{kMaxBits - kSubBits} + 1) << kSubBits;
  static size_t bucket_of(uint64_t value);
  static int64_t middle_of(size_t bucket);

  std::array<uint64_t, kBuckets> buckets_{};
  uint64_t count_ = 0;
  int64_t min_ = 0, max_ = 0;
  double sum_ = 0;
};

}  // namespace mrc::perf
