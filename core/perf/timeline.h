// How much had happened by when: a cumulative count, looked at now and then, as bins of equal width.
// What lies between two looks is taken as even. Memory is bounded: when the bins run out, two become one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace mrc::perf {

class Timeline {
 public:
  explicit Timeline(base::Duration width, size_t max_bins = 4096) : width_(width), max_bins_(max_bins) {}

  // Bins start at `now`, where the count is `total`.
  void start(base::Instant now, uint64_t total);
  // Neither time nor count go back.
  void note(base::Instant now, uint64_t total);
  // When the bin that is being filled ends: the best moment for the next look.
  [[nodiscard]] base::Instant due() const { return started_ ? edge_ : base::Instant::never(); }

  [[nodiscard]] base::Instant started_at() const { return start_; }
  [[nodiscard]] base::Duration width() const { return width_; }
  // Whole bins; what came after the last of them is in rest().
  [[nodiscard]] const std::vector<uint64_t>& bins() const { return bins_; }
  [[nodiscard]] uint64_t rest() const { return seen_ - binned_; }

 private:
  void halve();

  base::Duration width_;
  size_t max_bins_;
  bool started_ = false;
  base::Instant start_, last_, edge_;
  uint64_t seen_ = 0, binned_ = 0;  // counts at the last look, and at the end of the last whole bin
  std::vector<uint64_t> bins_;
};

}  // namespace mrc::perf
