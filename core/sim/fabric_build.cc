// Building a fabric from its description: ports, adjacency, uSID ranges, the ways down. Refuses what is not
// an up/down network of hosts, T0s, T1s and T2s.
#include <algorithm>
#include <utility>

#include "sim/fabric.h"

namespace mrc::sim {

namespace {
constexpr double kMinBps = 1e3, kMaxBps = 1e14;
constexpr int64_t kMaxDelayNs = 10'000'000'000;
}  // namespace

std::string Fabric::check(const FabricSpec& spec) const {
  if (spec.hosts == 0 || spec.planes == 0 || spec.planes > 31)
    return "a fabric has at least one host and 1..31 planes";
  const uint32_t nodes = spec.hosts + static_cast<uint32_t>(spec.switches.size());
  if (spec.links.size() > (size_t{1} << 30)) return "more than 2^30 links";
  for (const SwitchSpec& s : spec.switches) {
    if (s.tier > 2) return "switch tiers are 0, 1 and 2";
    if (s.index > kMaxSidIndex)
      return "more than 16384 switches of one tier in a plane: 16-bit uSIDs cannot name them";
    if (s.plane == 0 || s.plane > spec.planes) return "a switch names a plane that does not exist";
  }
  for (size_t i = 0; i < spec.links.size(); ++i) {
    const LinkSpec& l = spec.links[i];
    const std::string which = "link " + std::to_string(i);
    if (l.a >= nodes || l.b >= nodes || l.b < spec.hosts)
      return which + ": no such node, or no switch at its upper end";
    if (l.plane == 0 || l.plane > spec.planes) return which + ": no such plane";
    if (!(l.bps_up >= kMinBps && l.bps_up <= kMaxBps && l.bps_down >= kMinBps && l.bps_down <= kMaxBps))
      return which + ": rates are 1 kbit/s to 100 Tbit/s";
    if (l.delay_ns < 0 || l.delay_ns > kMaxDelayNs) return which + ": delays are 0 to 10 s";
    if (l.queue_up >= spec.rules.size() || l.queue_down >= spec.rules.size())
      return which + ": no such queue rules";
    const SwitchSpec& high = spec.switches[l.b - spec.hosts];
    if (high.plane != l.plane) return which + ": it joins another plane";
    if (l.a < spec.hosts ? high.tier != 0 : spec.switches[l.a - spec.hosts].tier + 1 != high.tier)
      return which + ": it must lead from a host to a T0, or from one tier to the next";
    if (l.a >= spec.hosts && spec.switches[l.a - spec.hosts].plane != l.plane)
      return which + ": it joins another plane";
  }
  return {};
}

std::string Fabric::build(const FabricSpec& spec, Routing routing, uint64_t seed) {
  if (std::string bad = check(spec); !bad.empty()) return bad;
  hosts_ = spec.hosts;
  planes_ = spec.planes;
  routing_ = routing;
  rules_ = spec.rules;
  shared_buffer_ = spec.shared_buffer;
  if (spec.pfc) {
    pfc_xoff_ = spec.pfc_xoff;
    pfc_xon_ = spec.pfc_xon;
  }
  base::Rng rng(seed ^ 0xFAB);
  switches_.resize(spec.switches.size());
  t0_count_.assign(planes_ + 1u, 0);
  t0_row_.assign(spec.switches.size(), 0);
  for (size_t i = 0; i < switches_.size(); ++i) {
    Switch& s = switches_[i];
    s.spec = spec.switches[i];
    s.sid = make_sid(static_cast<uint16_t>(kSidT0 + s.spec.tier), s.spec.index);
    s.salt = rng.next();
    if (s.spec.tier == 0) t0_row_[i] = t0_count_[s.spec.plane]++;
  }
  make_ports(spec, seed);
  if (std::string bad = make_adjacency(spec); !bad.empty()) return bad;
  make_ranges();
  make_down();
  mark_complete();
  return {};
}

void Fabric::make_ports(const FabricSpec& spec, uint64_t seed) {
  ports_.resize(spec.links.size() * 2);
  for (size_t i = 0; i < spec.links.size(); ++i) {
    const LinkSpec& l = spec.links[i];
    for (uint32_t dir = 0; dir < 2; ++dir) {
      Port& p = ports_[2 * i + dir];
      p.from = dir == 0 ? l.a : l.b;
      p.to = dir == 0 ? l.b : l.a;
      p.per_byte = p.full_per_byte = byte_time(dir == 0 ? l.bps_up : l.bps_down);
      p.delay = from_ns(l.delay_ns);
      p.queue = dir == 0 ? l.queue_up : l.queue_down;
      p.plane = l.plane;
      p.last_hop = dir == 1 && l.a < spec.hosts;
      p.rng = base::Rng(seed * 0x9e3779b97f4a7c15ULL + 2 * i + dir);
    }
  }
}

std::string Fabric::make_adjacency(const FabricSpec& spec) {
  nic_.assign(size_t{hosts_} * planes_, kNoPort);
  host_sid_.assign(size_t{hosts_} * planes_, 0);
  host_t0_.assign(size_t{hosts_} * planes_, UINT32_MAX);
  std::vector<uint32_t> below(switches_.size(), 0);  // hosts of a T0, numbered as their links come
  for (size_t i = 0; i < spec.links.size(); ++i) {
    const LinkSpec& l = spec.links[i];
    ++switches_[l.b - hosts_].count;
    if (l.a >= hosts_) {
      ++switches_[l.a - hosts_].count;
      continue;
    }
    const size_t at = size_t{l.a} * planes_ + l.plane - 1u;
    if (nic_[at] != kNoPort)
      return "host " + std::to_string(l.a) + " has two links in plane " + std::to_string(l.plane);
    nic_[at] = static_cast<PortId>(2 * i);
    host_t0_[at] = l.b;
    const uint32_t number = below[l.b - hosts_]++;
    if (number >= kMaxSidIndex) return "more than 16383 hosts below one T0: 16-bit uSIDs cannot name them";
    host_sid_[at] = make_sid(kSidHost, number + 1);
  }
  uint32_t first = 0;
  for (Switch& s : switches_) {
    s.first = first;
    first += std::exchange(s.count, 0);
  }
  sw_ports_.assign(first, kNoPort);
  for (size_t i = 0; i < spec.links.size(); ++i) {
    const LinkSpec& l = spec.links[i];
    Switch& high = switches_[l.b - hosts_];
    sw_ports_[high.first + high.count++] = static_cast<PortId>(2 * i + 1);
    if (l.a < hosts_) continue;
    Switch& low = switches_[l.a - hosts_];
    sw_ports_[low.first + low.count++] = static_cast<PortId>(2 * i);
  }
  return {};
}

uint16_t Fabric::sid_of(uint32_t node, uint32_t parent) const {
  if (!is_host(node)) return sw(node).sid;
  return host_sid_[node * planes_ + sw(parent).spec.plane - 1u];
}

// One route a neighbour; neighbours whose uSIDs and ports follow one another are one range. Parallel links
// share a uSID: the first one is the route.
void Fabric::make_ranges() {
  sw_sids_.assign(sw_ports_.size(), 0);
  sw_nodes_.assign(sw_ports_.size(), 0);
  for (size_t i = 0; i < switches_.size(); ++i) {
    Switch& s = switches_[i];
    const auto node = static_cast<uint32_t>(hosts_ + i);
    const auto begin = sw_ports_.begin() + s.first, end = begin + s.count;
    std::stable_sort(begin, end, [&](PortId x, PortId y) {
      return sid_of(ports_[x].to, node) < sid_of(ports_[y].to, node);
    });
    s.up_first = s.first + s.count;
    for (uint32_t at = s.first; at < s.first + s.count; ++at) {
      const uint32_t to = ports_[sw_ports_[at]].to;
      const uint16_t sid = sid_of(to, node);
      sw_sids_[at] = sid;
      sw_nodes_[at] = to;
      if (!is_host(to) && sw(to).spec.tier > s.spec.tier) s.up_first = std::min(s.up_first, at);
      if (!s.ranges.empty() && sid == s.ranges.back().hi) continue;
      const bool follows = !s.ranges.empty() && sid == s.ranges.back().hi + 1 &&
                           at == s.ranges.back().first + (sid - s.ranges.back().lo);
      if (follows) {
        s.ranges.back().hi = sid;
      } else {
        s.ranges.push_back({sid, sid, at});
      }
    }
  }
}

// From every T0 upwards: which ports of a higher switch lead down to it.
void Fabric::make_down() {
  uint32_t rows = 0;
  for (Switch& s : switches_) {
    if (s.spec.tier == 0) continue;
    s.down_row = rows;
    rows += t0_count_[s.spec.plane];
  }
  down_.assign(rows, {});
  std::vector<std::pair<uint32_t, PortId>> found;  // row, port
  for (uint8_t tier = 1; tier <= 2; ++tier) {
    for (size_t i = 0; i < switches_.size(); ++i) {
      const Switch& s = switches_[i];
      if (s.spec.tier != tier) continue;
      for (uint32_t at = s.first; at < s.up_first; ++at) {
        const Switch& child = sw(ports_[sw_ports_[at]].to);
        if (tier == 1) {
          found.emplace_back(s.down_row + t0_row_[static_cast<size_t>(&child - switches_.data())],
                             sw_ports_[at]);
          continue;
        }
        for (uint32_t t0 = 0; t0 < t0_count_[s.spec.plane]; ++t0) {
          if (!downs(child, t0).empty()) found.emplace_back(s.down_row + t0, sw_ports_[at]);
        }
      }
    }
    // The tier below must be in place before the next one asks for it.
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& x, const auto& y) { return x.first < y.first; });
    for (const auto& [row, port] : found) {
      Down& d = down_[row];
      if (d.count++ == 0) d.first = static_cast<uint32_t>(down_ports_.size());
      down_ports_.push_back(port);
    }
    found.clear();
  }
}

// Most fabrics are regular: then every path exists, and nobody has to look.
void Fabric::mark_complete() {
  for (Switch& s : switches_) {
    if (s.spec.tier != 1) continue;
    const auto first = down_.begin() + s.down_row;
    s.complete =
        std::none_of(first, first + t0_count_[s.spec.plane], [](const Down& d) { return d.count == 0; });
  }
  for (Switch& s : switches_) {
    if (s.spec.tier != 0) continue;
    s.complete = true;
    for (uint32_t at = s.up_first; at < s.first + s.count; ++at)
      s.complete = s.complete && sw(sw_nodes_[at]).complete;
  }
}

}  // namespace mrc::sim
