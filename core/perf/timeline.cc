// Cuts the line between two looks at the edges of the bins.
#include "perf/timeline.h"

namespace mrc::perf {

using base::Instant;

void Timeline::start(Instant now, uint64_t total) {
  started_ = true;
  start_ = last_ = now;
  edge_ = now + width_;
  seen_ = binned_ = total;
  bins_.clear();
}

void Timeline::note(Instant now, uint64_t total) {
  if (!started_ || now < last_ || total < seen_) return;
  while (edge_ <= now) {
    const double share = static_cast<double>((edge_ - last_).ns) / static_cast<double>((now - last_).ns);
    const auto at_edge = seen_ + static_cast<uint64_t>(static_cast<double>(total - seen_) * share);
    bins_.push_back(at_edge - binned_);
    binned_ = seen_ = at_edge;
    last_ = edge_;
    edge_ = edge_ + width_;
    if (bins_.size() >= max_bins_) halve();
  }
  seen_ = total;
  last_ = now;
}

void Timeline::halve() {
  const size_t pairs = bins_.size() / 2;
  // A bin without a partner is opened again: it becomes the first half of the next one.
  if (bins_.size() % 2 != 0) binned_ -= bins_.back();
  for (size_t i = 0; i < pairs; ++i) bins_[i] = bins_[2 * i] + bins_[2 * i + 1];
  bins_.resize(pairs);
  width_ = width_ * 2;
  edge_ = start_ + width_ * static_cast<int64_t>(pairs + 1);
}

}  // namespace mrc::perf
