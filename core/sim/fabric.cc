// Forwarding, path walks and delays. Building is in fabric_build.cc.
#include "sim/fabric.h"

#include <algorithm>

namespace mrc::sim {

namespace {

uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

}  // namespace

PortId Fabric::lookup(const Switch& s, uint16_t sid) const {
  for (const Range& r : s.ranges) {
    if (sid >= r.lo && sid <= r.hi) return sw_ports_[r.first + (sid - r.lo)];
  }
  return kNoPort;
}

std::span<const PortId> Fabric::downs(const Switch& s, uint32_t t0) const {
  if (s.down_row == UINT32_MAX) return {};
  const Down& d = down_[s.down_row + t0];
  return {down_ports_.data() + d.first, d.count};
}

// Static /48 routes: the list's first uSID must be this switch's own; shift it out; the next one names a
// neighbour.
PortId Fabric::forward_usid(const Switch& s, Frame& f) const {
  if (f.hop >= f.sid_count || f.sids[f.hop] != s.sid) return kNoPort;
  ++f.hop;
  return f.hop < f.sid_count ? lookup(s, f.sids[f.hop]) : kNoPort;
}

// EV bits name the uplink of each tier on the way up; down there is one way (reference 4.1; paper-results
// E.1).
PortId Fabric::forward_stev(const Switch& s, const Frame& f) const {
  const uint32_t dst = f.dst * planes_ + f.plane - 1u;
  const uint32_t t0 = host_t0_[dst];
  if (t0 == UINT32_MAX) return kNoPort;
  const uint32_t path = f.tag & 0xFFFFFF;
  if (s.spec.tier == 0) {
    if (s.spec.index == sw(t0).spec.index) return lookup(s, host_sid_[dst]);
    const auto up = ups(s);
    return up.empty() ? kNoPort : up[path % up.size()];
  }
  const auto down = downs(s, t0_row_[t0 - hosts_]);
  if (!down.empty()) return down[0];
  const auto up = ups(s);
  const uint32_t below = sw(*t0_of(f.src, f.plane)).ups();
  return up.empty() || below == 0 ? kNoPort : up[path / below % up.size()];
}

PortId Fabric::pick(std::span<const PortId> group, const Switch& s, const Frame& f) const {
  uint32_t alive = 0;
  for (const PortId p : group) alive += ports_[p].up ? 1u : 0u;
  if (alive == 0) return kNoPort;
  const uint64_t tuple = (static_cast<uint64_t>(f.src) << 32) ^ f.dst ^ (static_cast<uint64_t>(f.tag) << 17);
  auto n = static_cast<uint32_t>(((mix(tuple ^ s.salt) >> 32) * alive) >> 32);
  for (const PortId p : group) {
    if (ports_[p].up && n-- == 0) return p;
  }
  return kNoPort;
}

// ECMP over the next hops whose link is up: the routing protocol of the baselines reconverges at once.
PortId Fabric::forward_ecmp(const Switch& s, const Frame& f) const {
  const uint32_t dst = f.dst * planes_ + f.plane - 1u;
  const uint32_t t0 = host_t0_[dst];
  if (t0 == UINT32_MAX) return kNoPort;
  if (s.spec.tier == 0) {
    if (s.spec.index == sw(t0).spec.index) return lookup(s, host_sid_[dst]);
    return pick(ups(s), s, f);
  }
  const auto down = downs(s, t0_row_[t0 - hosts_]);
  return pick(down.empty() ? ups(s) : down, s, f);
}

Hop Fabric::next(PortId from, Frame& f) const {
  const Port& p = ports_[from];
  f.in_port = from;
  if (is_host(p.to)) return p.to == f.dst ? Hop{Hop::Kind::host, p.to} : Hop{};
  const Switch& s = sw(p.to);
  PortId out = kNoPort;
  switch (routing_) {
    case Routing::srv6:
      out = forward_usid(s, f);
      break;
    case Routing::stev:
      out = forward_stev(s, f);
      break;
    case Routing::ecmp:
      out = forward_ecmp(s, f);
      break;
  }
  return out == kNoPort ? Hop{} : Hop{Hop::Kind::port, out};
}

std::optional<uint32_t> Fabric::t0_of(uint32_t host, uint8_t plane) const {
  const uint32_t t0 = host_t0_[host * planes_ + plane - 1u];
  if (t0 == UINT32_MAX) return std::nullopt;
  return t0;
}

uint32_t Fabric::path_count(uint32_t src, uint32_t dst, uint8_t plane) const {
  const auto a = t0_of(src, plane), b = t0_of(dst, plane);
  if (!a || !b) return 0;
  if (*a == *b) return 1;
  const Switch& s = sw(*a);
  if (s.complete) return s.ups();
  const uint32_t row = t0_row_[*b - hosts_];
  uint32_t higher = 0;
  bool near = true;
  for (uint32_t at = s.up_first; at < s.first + s.count; ++at) {
    const Switch& t1 = sw(sw_nodes_[at]);
    if (!downs(t1, row).empty()) continue;
    near = false;
    higher = std::max(higher, t1.ups());
  }
  return near ? s.ups() : s.ups() * std::max(higher, 1u);
}

bool Fabric::walk(uint32_t src, uint32_t dst, uint8_t plane, uint32_t k, std::vector<PortId>& out) const {
  const auto a = t0_of(src, plane), b = t0_of(dst, plane);
  out.clear();
  if (!a || !b) return false;
  out.push_back(nic_port(src, plane));
  const PortId last = reverse_of(nic_port(dst, plane));
  if (*a != *b) {
    const Switch& s = sw(*a);
    if (s.ups() == 0) return false;
    const uint32_t row = t0_row_[*b - hosts_];
    out.push_back(ups(s)[k % s.ups()]);
    const Switch* top = &sw(ports_[out.back()].to);
    auto down = downs(*top, row);
    if (down.empty()) {
      if (top->ups() == 0) return false;
      out.push_back(ups(*top)[k / s.ups() % top->ups()]);
      top = &sw(ports_[out.back()].to);
      down = downs(*top, row);
    }
    while (top != &sw(*b)) {
      if (down.empty()) return false;
      out.push_back(down[0]);
      top = &sw(ports_[out.back()].to);
      down = downs(*top, row);
    }
  }
  out.push_back(last);
  return true;
}

bool Fabric::path_exists(uint32_t src, uint32_t dst, uint8_t plane, uint32_t k) const {
  const auto a = t0_of(src, plane), b = t0_of(dst, plane);
  if (!a || !b) return false;
  const Switch& s = sw(*a);
  if (*a == *b || (s.complete && s.ups() > 0)) return true;
  if (s.ups() == 0) return false;
  const uint32_t row = t0_row_[*b - hosts_];
  const Switch& t1 = sw(sw_nodes_[s.up_first + k % s.ups()]);
  if (!downs(t1, row).empty()) return true;
  return t1.ups() > 0 && !downs(sw(sw_nodes_[t1.up_first + k / s.ups() % t1.ups()]), row).empty();
}

bool Fabric::address(Frame& f) const {
  const uint32_t src = f.src * planes_ + f.plane - 1u, dst = f.dst * planes_ + f.plane - 1u;
  const uint32_t a = host_t0_[src], b = host_t0_[dst];
  if (a == UINT32_MAX || b == UINT32_MAX) return false;
  uint8_t n = 0;
  f.sids[n++] = sw(a).sid;
  if (a != b) {
    const Switch& s = sw(a);
    if (s.ups() == 0) return false;
    const uint32_t path = f.tag & 0xFFFFFF;
    const uint32_t row = t0_row_[b - hosts_];
    const uint32_t at = s.up_first + path % s.ups();
    f.sids[n++] = sw_sids_[at];
    const Switch* top = &sw(sw_nodes_[at]);
    auto down = downs(*top, row);
    if (down.empty()) {
      if (top->ups() == 0) return false;
      const uint32_t higher = top->up_first + path / s.ups() % top->ups();
      f.sids[n++] = sw_sids_[higher];
      top = &sw(sw_nodes_[higher]);
      down = downs(*top, row);
    }
    if (down.empty()) return false;
    if (top->spec.tier == 2) f.sids[n++] = sw(ports_[down[0]].to).sid;
    f.sids[n++] = sw(b).sid;
  }
  f.sids[n++] = host_sid_[dst];
  f.sid_count = n;
  f.hop = 0;
  return true;
}

Ps Fabric::one_way(uint32_t src, uint32_t dst, uint8_t plane, uint32_t bytes) const {
  std::vector<PortId> ports;
  const uint32_t n = path_count(src, dst, plane);
  for (uint32_t k = 0; k < n; ++k) {
    if (!walk(src, dst, plane, k, ports)) continue;
    Ps sum = 0;
    for (const PortId p : ports) sum += ports_[p].delay + serialization(ports_[p].per_byte, bytes);
    return sum;
  }
  return 0;
}

Ps Fabric::lookahead() const {
  Ps least = kNever;
  for (const Port& p : ports_) least = std::min(least, p.delay + serialization(p.per_byte, kMinWireBytes));
  return least;
}

}  // namespace mrc::sim
