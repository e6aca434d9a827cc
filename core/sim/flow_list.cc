// Lookup of flows, and what the baselines take from the fabric.
#include "sim/flow_list.h"

namespace mrc::sim {

bool FlowTable::build(std::vector<Pair> pairs) {
  pairs_ = std::move(pairs);
  std::sort(pairs_.begin(), pairs_.end(),
            [](const Pair& x, const Pair& y) { return x.a != y.a ? x.a < y.a : x.b < y.b; });
  first_.clear();
  count_ = 0;
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const Pair& p = pairs_[i];
    if (p.a >= p.b || p.qps == 0 || (i > 0 && pairs_[i - 1].a == p.a && pairs_[i - 1].b == p.b)) return false;
    first_.push_back(count_);
    count_ += 2 * p.qps;
  }
  turn_.assign(2 * pairs_.size(), 0);
  return true;
}

uint32_t FlowTable::pick(uint32_t src, uint32_t dst, int32_t qp) {
  const uint32_t a = std::min(src, dst), b = std::max(src, dst);
  const auto it =
      std::lower_bound(pairs_.begin(), pairs_.end(), Pair{a, b, 0},
                       [](const Pair& x, const Pair& y) { return x.a != y.a ? x.a < y.a : x.b < y.b; });
  if (it == pairs_.end() || it->a != a || it->b != b) return kNoFlow;
  const auto i = static_cast<size_t>(it - pairs_.begin());
  const uint32_t back = src == a ? 0 : 1;
  if (qp >= 0 && static_cast<uint32_t>(qp) >= it->qps) return kNoFlow;
  const uint32_t q = qp >= 0 ? static_cast<uint32_t>(qp) : turn_[2 * i + back]++ % it->qps;
  return first_[i] + 2 * q + back;
}

double port_bps(const Port& p) { return 8e12 * (1 << kByteTimeBits) / static_cast<double>(p.per_byte); }

Ps base_rtt(const Fabric& fabric, uint32_t src, uint32_t dst, uint8_t plane, uint32_t data, uint32_t ack) {
  const Ps there = fabric.one_way(src, dst, plane, data), back = fabric.one_way(dst, src, plane, ack);
  return there == 0 || back == 0 ? 0 : there + back;
}

Route draw_route(const Fabric& fabric, uint64_t seed, const Pair& pair, uint32_t qp) {
  base::Rng rng(seed ^ (static_cast<uint64_t>(pair.a) << 40) ^ (static_cast<uint64_t>(pair.b) << 16) ^ qp);
  base::Rng draw = rng.fork();
  Route r;
  r.port = static_cast<uint16_t>(49152 + draw.below(16384));
  uint8_t planes[32];
  uint32_t n = 0;
  for (uint8_t p = 1; p <= fabric.planes(); ++p) {
    if (fabric.path_count(pair.a, pair.b, p) != 0) planes[n++] = p;
  }
  if (n != 0) r.plane = planes[draw.below(n)];
  return r;
}

}  // namespace mrc::sim
