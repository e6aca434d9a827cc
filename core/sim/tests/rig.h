// Small fabrics and workloads for tests of the transports: a star of hosts around one switch, or leaves and
// spines.
#pragma once

#include "sim/roce_stack.h"
#include "sim/simulation.h"
#include "sim/tcp_stack.h"
#include "testing/check.h"

namespace mrc::sim::rig {

inline constexpr double kGbps100 = 100e9;  // 80 ps a byte
inline constexpr int64_t kDelayNs = 500;   // of every link

inline QueueRules deep() {
  QueueRules r;
  r.data_bytes = 100'000'000;
  r.control_bytes = 1'000'000;
  return r;
}

// Host i has link i; its NIC is port 2i, the switch's port to it 2i + 1.
inline FabricSpec star(uint32_t hosts, QueueRules rules = deep(), double bps = kGbps100) {
  FabricSpec f;
  f.hosts = hosts;
  f.switches = {{0, 1, 0}};
  f.rules = {rules};
  for (uint32_t h = 0; h < hosts; ++h) f.links.push_back({h, hosts, bps, bps, kDelayNs, 1, 0, 0});
  return f;
}

inline FabricSpec leaf_spine(uint32_t leaves, uint32_t hosts_each, uint32_t spines,
                             QueueRules rules = deep()) {
  FabricSpec f;
  f.hosts = leaves * hosts_each;
  f.rules = {rules};
  for (uint32_t l = 0; l < leaves; ++l) f.switches.push_back({0, 1, l});
  for (uint32_t s = 0; s < spines; ++s) f.switches.push_back({1, 1, s});
  for (uint32_t h = 0; h < f.hosts; ++h) {
    f.links.push_back({h, f.hosts + h / hosts_each, kGbps100, kGbps100, kDelayNs, 1, 0, 0});
  }
  for (uint32_t l = 0; l < leaves; ++l) {
    for (uint32_t s = 0; s < spines; ++s) {
      f.links.push_back({f.hosts + l, f.hosts + leaves + s, kGbps100, kGbps100, kDelayNs, 1, 0, 0});
    }
  }
  return f;
}

inline void send(Workload& w, int32_t src, int32_t dst, int64_t size, int64_t start_ns = 0, int32_t qp = -1) {
  if (w.dep_ptr.empty()) w.dep_ptr.push_back(0);
  w.kind.push_back(0);
  w.node.push_back(src);
  w.peer.push_back(dst);
  w.qp.push_back(qp);
  w.group.push_back(0);
  w.size.push_back(size);
  w.start.push_back(start_ns);
  w.delay.push_back(0);
  w.dep_ptr.push_back(0);
}

inline RunSpec run_spec(FabricSpec fabric, Workload w) {
  RunSpec r;
  r.fabric = std::move(fabric);
  r.routing = Routing::ecmp;
  r.workload = std::move(w);
  r.check = true;
  return r;
}

inline FaultSpec fault(FaultKind kind, uint32_t link, double value = 0, int64_t at_ns = 0,
                       uint8_t directions = 3) {
  FaultSpec f;
  f.at_ns = at_ns;
  f.kind = kind;
  f.target = link;
  f.directions = directions;
  f.value = value;
  return f;
}

// A run to its end; the checks of every run are made here.
template <typename Stack, typename Config>
struct Run {
  Simulation sim;
  Simulation::State state{};
  std::string bad;
  Run(RunSpec spec, Config config) {
    bad = sim.build(std::move(spec), [&](Env& env) { return std::make_unique<HostsOf<Stack>>(env, config); });
    if (!bad.empty()) return;
    while ((state = sim.run(100'000)) == Simulation::State::running) {
    }
    sim.finish();
    CHECK_EQ(sim.violations(), uint64_t{0});
  }
  [[nodiscard]] bool done() const { return bad.empty() && state == Simulation::State::done; }
  [[nodiscard]] Ps delivered(TaskId t) const { return sim.tasks().times().delivered[t]; }
  [[nodiscard]] Ps acked(TaskId t) const { return sim.tasks().times().acked[t]; }
  [[nodiscard]] TaskStatus status(TaskId t) const { return sim.tasks().times().status[t]; }
};
using RoceRun = Run<RoceStack, RoceConfig>;
using TcpRun = Run<TcpStack, TcpConfig>;

inline RoceConfig plain_roce() {
  RoceConfig c;
  c.dcqcn.enabled = false;
  return c;
}

}  // namespace mrc::sim::rig
