// Which bucket a value falls into, and which value a bucket stands for.
#include "perf/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace mrc::perf {

size_t Histogram::bucket_of(uint64_t value) {
  const int octave = static_cast<int>(std::bit_width(value)) - (kSubBits + 1);
  if (octave <= 0) return static_cast<size_t>(value);
  return (static_cast<size_t>(octave) << kSubBits) + static_cast<size_t>(value >> octave);
}

int64_t Histogram::middle_of(size_t bucket) {
  const int octave = static_cast<int>(bucket >> kSubBits) - 1;
  if (octave <= 0) return static_cast<int64_t>(bucket);
  const uint64_t low = (bucket - (static_cast<size_t>(octave) << kSubBits)) << octave;
  return static_cast<int64_t>(low + (uint64_t{1} << (octave - 1)));
}

void Histogram::record(int64_t value) {
  constexpr int64_t kLargest = (int64_t{1} << kMaxBits) - 1;
  const int64_t v = std::clamp<int64_t>(value, 0, kLargest);
  ++buckets_[bucket_of(static_cast<uint64_t>(v))];
  min_ = count_ == 0 ? v : std::min(min_, v);
  max_ = std::max(max_, v);
  sum_ += static_cast<double>(v);
  ++count_;
}

double Histogram::mean() const { return count_ == 0 ? 0.0 : sum_ / static_cast<double>(count_); }

int64_t Histogram::quantile(double q) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_));
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(wanted), 1, count_);
  if (rank == 1) return min_;
  if (rank == count_) return max_;
  uint64_t seen = 0;
  for (size_t b = 0; b < kBuckets; ++b) {
    seen += buckets_[b];
    if (seen >= rank) return std::clamp(middle_of(b), min_, max_);
  }
  return max_;
}

}  // namespace mrc::perf
