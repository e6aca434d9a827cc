// Clos fabrics for tests, from a few numbers. Nodes: hosts, then for each plane its T0s, T1s and T2s.
#pragma once

#include "sim/fabric.h"
#include "testing/check.h"

namespace mrc::sim::shapes {

struct Shape {
  uint32_t hosts_per_t0 = 2, t0 = 2, t1 = 2;  // of a plane; with T2s: t0 and t1 of a pod
  uint32_t pods = 1, t2 = 0;                  // t2: multiple of t1
  uint8_t planes = 1;
  double bps[3] = {100e9, 100e9, 100e9};  // host-T0, T0-T1, T1-T2
  int64_t delay_ns[3] = {500, 500, 500};
  QueueRules rules;

  [[nodiscard]] uint32_t hosts() const { return hosts_per_t0 * t0 * pods; }
  [[nodiscard]] uint32_t per_plane() const { return pods * (t0 + t1) + t2; }
  [[nodiscard]] uint32_t first(uint8_t plane) const { return hosts() + (plane - 1u) * per_plane(); }
  [[nodiscard]] uint32_t t0_node(uint8_t plane, uint32_t i) const { return first(plane) + i; }
  [[nodiscard]] uint32_t t1_node(uint8_t plane, uint32_t i) const { return first(plane) + pods * t0 + i; }
  [[nodiscard]] uint32_t t2_node(uint8_t plane, uint32_t i) const {
    return first(plane) + pods * (t0 + t1) + i;
  }
};

inline QueueRules deep_queues() {
  QueueRules r;
  r.data_bytes = 100'000'000;
  r.control_bytes = 1'000'000;
  return r;
}

inline Shape shape(uint32_t hosts_per_t0, uint32_t t0, uint32_t t1, uint8_t planes = 1) {
  Shape s;
  s.hosts_per_t0 = hosts_per_t0;
  s.t0 = t0;
  s.t1 = t1;
  s.planes = planes;
  s.rules = deep_queues();
  return s;
}

inline Shape three_tiers(uint32_t hosts_per_t0, uint32_t t0, uint32_t t1, uint32_t pods, uint32_t t2,
                         uint8_t planes = 1) {
  Shape s = shape(hosts_per_t0, t0, t1, planes);
  s.pods = pods;
  s.t2 = t2;
  return s;
}

// Links of a plane: those of hosts, then those of T0s, then those of T1s.
inline FabricSpec spec_of(const Shape& s) {
  FabricSpec f;
  f.hosts = s.hosts();
  f.planes = s.planes;
  f.rules = {s.rules};
  for (uint8_t p = 1; p <= s.planes; ++p) {
    for (uint32_t i = 0; i < s.pods * s.t0; ++i) f.switches.push_back({0, p, i});
    for (uint32_t i = 0; i < s.pods * s.t1; ++i) f.switches.push_back({1, p, i});
    for (uint32_t i = 0; i < s.t2; ++i) f.switches.push_back({2, p, i});
    const auto link = [&](uint32_t a, uint32_t b, int tier) {
      f.links.push_back({a, b, s.bps[tier], s.bps[tier], s.delay_ns[tier], p, 0, 0});
    };
    for (uint32_t h = 0; h < f.hosts; ++h) link(h, s.t0_node(p, h / s.hosts_per_t0), 0);
    for (uint32_t i = 0; i < s.pods * s.t0; ++i) {
      for (uint32_t k = 0; k < s.t1; ++k) link(s.t0_node(p, i), s.t1_node(p, i / s.t0 * s.t1 + k), 1);
    }
    const uint32_t fan = s.t2 == 0 ? 0 : s.t2 / s.t1;
    for (uint32_t i = 0; i < s.pods * s.t1; ++i) {
      for (uint32_t k = 0; k < fan; ++k) link(s.t1_node(p, i), s.t2_node(p, i % s.t1 * fan + k), 2);
    }
  }
  return f;
}

// The link between two nodes; the fabric's port from `from` to `to`.
inline PortId port_between(const Fabric& f, uint32_t from, uint32_t to) {
  for (PortId p = 0; p < f.port_count(); ++p) {
    if (f.port(p).from == from && f.port(p).to == to) return p;
  }
  return kNoPort;
}

inline Fabric built(const FabricSpec& spec, Routing routing = Routing::srv6, uint64_t seed = 1) {
  Fabric f;
  const std::string bad = f.build(spec, routing, seed);
  if (!bad.empty()) std::fprintf(stderr, "%s\n", bad.c_str());
  REQUIRE(bad.empty());
  return f;
}

}  // namespace mrc::sim::shapes
