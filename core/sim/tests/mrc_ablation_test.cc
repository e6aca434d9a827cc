// Experiments of the MRC hosts: one fixed EV a QP, spares of any plane, no fast loss detection.
#include <set>

#include "rig.h"
#include "sim/mrc_stack.h"

using namespace mrc::sim;       // NOLINT(google-build-using-namespace)
using namespace mrc::sim::rig;  // NOLINT(google-build-using-namespace)

namespace {

using MrcRun = Run<MrcStack, MrcConfig>;
constexpr uint8_t kPlanes = 4;

// `hosts` hosts with a port in each plane, one switch a plane.
FabricSpec planes(uint32_t hosts) {
  FabricSpec f;
  f.hosts = hosts;
  f.planes = kPlanes;
  f.rules = {deep()};
  for (uint8_t p = 1; p <= kPlanes; ++p) {
    f.switches.push_back({0, p, 0});
    for (uint32_t h = 0; h < hosts; ++h)
      f.links.push_back({h, hosts + p - 1u, kGbps100, kGbps100, kDelayNs, p, 0, 0});
  }
  return f;
}

std::set<uint8_t> planes_of(const MrcRun& r, uint32_t host) {
  std::set<uint8_t> used;
  for (uint8_t p = 1; p <= kPlanes; ++p) {
    if (r.sim.fabric().port(r.sim.fabric().nic_port(host, p)).n.tx_packets > 0) used.insert(p);
  }
  return used;
}

RunSpec run_over(FabricSpec f, Workload w, uint64_t seed) {
  RunSpec s = run_spec(std::move(f), std::move(w));
  s.routing = Routing::srv6;
  s.seed = seed;
  return s;
}

}  // namespace

TEST_CASE("mrc, fixed EV: both ends of a QP use one plane and the same; pairs spread over all") {
  std::set<uint8_t> seen;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    Workload w;
    send(w, 0, 1, 1'000'000);
    MrcConfig c;
    c.fixed_ev = true;
    const MrcRun r(run_over(planes(2), w, seed), c);
    REQUIRE(r.done());
    const auto mine = planes_of(r, 0);
    CHECK_EQ(mine.size(), size_t{1});
    CHECK(mine == planes_of(r, 1));
    seen.insert(mine.begin(), mine.end());
  }
  CHECK_EQ(seen.size(), size_t{kPlanes});
}

TEST_CASE("mrc, fixed EV: a quarter of the line, and a QP whose path is dead fails") {
  Workload w;
  send(w, 0, 1, 4'000'000);
  MrcConfig c;
  const MrcRun all(run_over(planes(2), w, 1), c);
  c.fixed_ev = true;
  const MrcRun one(run_over(planes(2), w, 1), c);
  REQUIRE(all.done() && one.done());
  CHECK_EQ(planes_of(all, 0).size(), size_t{kPlanes});
  const double ratio = static_cast<double>(one.delivered(0)) / static_cast<double>(all.delivered(0));
  CHECK(ratio > 3.5 && ratio < 4.5);
  // The switch of that plane drops everything, silently: nothing takes the EV's place.
  RunSpec s = run_over(planes(2), w, 1);
  FaultSpec f;
  f.kind = FaultKind::switch_down;
  f.target = 2 + *planes_of(one, 0).begin() - 1u;
  s.faults = {f};
  c.hold_time_ns = 20'000'000;
  const MrcRun cut(s, c);
  CHECK(cut.status(0) == TaskStatus::failed);
  c.fixed_ev = false;
  const MrcRun around(s, c);
  CHECK(around.status(0) == TaskStatus::done);
}

TEST_CASE("mrc, no fast loss detection: a lossy link is mended by probes and timers only") {
  for (const bool fast : {true, false}) {
    Workload w;
    send(w, 0, 1, 4'000'000);
    RunSpec s = run_over(planes(2), w, 3);
    s.faults = {fault(FaultKind::link_loss, 0, 0.02)};
    MrcConfig c;
    c.fast_loss = fast;
    c.table.demotion = false;  // or the first loss would be the last
    const MrcRun r(s, c);
    REQUIRE(r.done());
    CHECK(r.sim.totals().data_packets_rtx > 0);
    CHECK_EQ(r.sim.totals().rtx_inferred > 0, fast);
  }
}

TEST_CASE("mrc, fixed reverse EV: runs end, and the same seed gives the same run") {
  Workload w;
  send(w, 0, 1, 2'000'000);
  MrcConfig c;
  c.fixed_reverse_ev = true;
  const MrcRun a(run_over(planes(2), w, 5), c);
  const MrcRun b(run_over(planes(2), w, 5), c);
  REQUIRE(a.done() && b.done());
  CHECK_EQ(a.acked(0), b.acked(0));
}
