#include "engine/ev_set.h"

#include <algorithm>
#include <set>

namespace mrc::engine {

namespace {

// A value no router mistakes for a well-known service, unique inside the plane (reference 4.1).
uint32_t random_tag(bool v4, base::Rng& rng) {
  const uint32_t source_port = 1024 + rng.below(65536 - 1024);
  return v4 ? source_port : ((1 + rng.below(0xFFFF)) << 16) | source_port;
}

std::vector<uint32_t> plane_tags(const PortConfig& port, uint32_t want, std::set<uint32_t>& used,
                                 base::Rng& rng) {
  std::vector<uint32_t> tags = port.auto_tags;
  if (tags.empty()) {
    // Tags are unique over the QP, so that a reflected EV names one plane.
    while (tags.size() < want) {
      const uint32_t t = random_tag(port.addr.is_v4(), rng);
      if (used.insert(t).second) tags.push_back(t);
    }
    return tags;
  }
  for (size_t i = tags.size(); i > 1; --i) std::swap(tags[i - 1], tags[rng.below(static_cast<uint32_t>(i))]);
  std::erase_if(tags, [&](uint32_t t) { return !used.insert(t).second; });
  if (tags.size() > want) tags.resize(want);
  return tags;
}

}  // namespace

EvSetSpec auto_ev_set(const std::vector<PortConfig>& ports, const std::vector<PeerPort>& peers,
                      uint32_t count, base::Rng& rng) {
  EvSetSpec set;
  if (peers.empty()) return set;
  const auto planes = static_cast<uint32_t>(peers.size());
  const uint32_t share = std::max<uint32_t>((count + planes - 1) / planes, 1);
  const uint32_t spare = (share + 3) / 4;
  std::set<uint32_t> used;
  std::vector<std::vector<uint32_t>> tags;
  size_t active = share;
  for (const PeerPort& p : peers) {
    tags.push_back(plane_tags(ports[p.local_port - 1u], share + spare, used, rng));
    // The equal split of 4.6: the plane with the fewest EVs sets the share of all.
    active = std::min(active, tags.back().size());
  }
  for (size_t i = 0; i < planes; ++i) {
    for (size_t k = 0; k < tags[i].size(); ++k) {
      (k < active ? set.active : set.backup).push_back(ev::PathId{tags[i][k], peers[i].local_port});
    }
  }
  return set;
}

}  // namespace mrc::engine
