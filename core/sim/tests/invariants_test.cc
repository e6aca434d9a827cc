// Random fabrics, queues, faults and transports: books balance, queues keep order, runs end. Made to run
// under sanitizers, too.
#include <algorithm>
#include <map>

#include "sim/mrc_stack.h"
#include "sim/roce_stack.h"
#include "sim/tcp_stack.h"
#include "sim/tests/raw_stack.h"

using namespace mrc::sim;          // NOLINT(google-build-using-namespace)
using namespace mrc::sim::shapes;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kPacket = 4096 + 160;

template <size_t N>
uint64_t pick(mrc::base::Rng& rng, const uint64_t (&of)[N]) {
  return of[rng.below(N)];
}

Shape random_shape(mrc::base::Rng& rng) {
  Shape s =
      shape(1 + rng.below(3), 1 + rng.below(3), 1 + rng.below(3), static_cast<uint8_t>(1 + rng.below(3)));
  if (rng.below(3) == 0) {
    s.pods = 1 + rng.below(2);
    s.t2 = s.t1 * (1 + rng.below(2));
  }
  if (s.hosts() < 2) s.hosts_per_t0 = 2;
  for (double& bps : s.bps) bps = static_cast<double>(pick(rng, {10, 100, 333, 400})) * 1e9;
  for (int64_t& d : s.delay_ns) d = static_cast<int64_t>(pick(rng, {0, 1, 500, 40'000}));
  QueueRules& r = s.rules;
  r.data_bytes = static_cast<uint32_t>(pick(rng, {kPacket, 4 * kPacket, 1'000'000}));
  r.control_bytes = static_cast<uint32_t>(pick(rng, {500, 1'000'000}));
  r.ecn_min = static_cast<uint32_t>(pick(rng, {0, kPacket, 20'000}));
  r.ecn_max = r.ecn_min == 0 ? 0 : r.ecn_min + static_cast<uint32_t>(pick(rng, {0, 50'000}));
  r.trim_bytes = static_cast<uint32_t>(pick(rng, {0, kPacket, 30'000}));
  r.trim_last_hop = static_cast<uint32_t>(pick(rng, {0, kPacket}));
  r.weighted = rng.below(2) == 0;
  return s;
}

RunSpec random_run(mrc::base::Rng& rng) {
  const Shape s = random_shape(rng);
  RunSpec spec;
  spec.fabric = spec_of(s);
  spec.fabric.pfc = rng.below(4) == 0;
  spec.fabric.pfc_xoff = 3 * kPacket;
  spec.fabric.pfc_xon = kPacket;
  if (rng.below(4) == 0) spec.fabric.shared_buffer = 100'000;
  spec.routing = static_cast<Routing>(rng.below(3));
  spec.seed = rng.next();
  spec.check = true;
  spec.until_ns = 50'000'000;
  spec.watch.task_bytes = true;
  if (rng.below(2) == 0) spec.watch.sample_ns = static_cast<int64_t>(pick(rng, {700, 1'000'000}));
  Workload& w = spec.workload;
  w.dep_ptr.push_back(0);
  for (uint32_t n = 1 + rng.below(8), i = 0; i < n; ++i) {
    const uint32_t src = rng.below(s.hosts()), dst = (src + 1 + rng.below(s.hosts() - 1)) % s.hosts();
    w.kind.push_back(0);
    w.node.push_back(static_cast<int32_t>(src));
    w.peer.push_back(static_cast<int32_t>(dst));
    w.qp.push_back(static_cast<int32_t>(rng.below(3)) - 1);
    w.group.push_back(0);
    w.size.push_back(static_cast<int64_t>(pick(rng, {0, 1, 4096, 50'000, 200'000})));
    w.start.push_back(static_cast<int64_t>(pick(rng, {0, 333, 20'000})));
    w.delay.push_back(0);
    if (i > 0 && rng.below(3) == 0) w.dep_idx.push_back(static_cast<int32_t>(rng.below(i)));
    w.dep_ptr.push_back(static_cast<int64_t>(w.dep_idx.size()));
  }
  for (uint32_t n = rng.below(5); n > 0; --n) {
    FaultSpec f;
    f.at_ns = static_cast<int64_t>(pick(rng, {0, 1'000, 9'999, 100'000}));
    f.kind = static_cast<FaultKind>(rng.below(9));
    const bool of_switch = f.kind == FaultKind::switch_down || f.kind == FaultKind::switch_up;
    f.target = of_switch ? s.hosts() + rng.below(static_cast<uint32_t>(spec.fabric.switches.size()))
                         : rng.below(static_cast<uint32_t>(spec.fabric.links.size()));
    f.directions = static_cast<uint8_t>(1 + rng.below(3));
    f.value = 0.01 + 0.3 * rng.below(4);
    spec.faults.push_back(f);
  }
  return spec;
}

// Runs to its end and checks what holds in every run. True: it was run.
bool balanced(const RunSpec& spec, const Simulation::MakeHosts& make) {
  Simulation sim;
  const std::string bad = sim.build(spec, make);
  if (!bad.empty()) return false;
  Simulation::State state{};
  for (int steps = 0; (state = sim.run(20'000)) == Simulation::State::running; ++steps)
    REQUIRE(steps < 10'000);
  sim.finish();
  const Totals& t = sim.totals();
  CHECK_EQ(sim.violations(), uint64_t{0});
  CHECK_EQ(t.timer_stalls, uint64_t{0});
  CHECK_EQ(t.frames_sent, t.frames_delivered + t.frames_queued + t.drops_queue + t.drops_link + t.drops_loss +
                              t.drops_corrupt + t.drops_no_route + t.drops_switch);
  const TaskTimes& times = sim.tasks().times();
  for (TaskId i = 0; i < sim.tasks().count(); ++i) {
    if (times.status[i] != TaskStatus::done) continue;
    CHECK(times.posted[i] >= times.ready[i] && times.delivered[i] > times.posted[i]);
    CHECK(times.acked[i] >= times.delivered[i]);
    CHECK(sim.watch().task_bytes[i] >= sim.tasks().spec().size[i]);
  }
  for (PortId p = 0; p < sim.fabric().port_count(); ++p) {
    const Port& port = sim.fabric().port(p);
    // Never above its rate: all that it sent fits into the time it had, but for a picosecond of rounding
    // each.
    CHECK(serialization(port.full_per_byte, static_cast<uint32_t>(port.n.tx_bytes)) <=
          port.free_at + static_cast<Ps>(port.n.tx_packets));
  }
  return true;
}

}  // namespace

TEST_CASE("invariants: MRC") {
  int ran = 0;
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    mrc::base::Rng rng(seed);
    const RunSpec spec = random_run(rng);
    MrcConfig c;
    c.evs = 1 + rng.below(20);
    c.backups = rng.below(6);
    c.mtu = static_cast<uint32_t>(pick(rng, {256, 1024, 4096}));
    c.cc = rng.below(3) == 0 ? "null" : "uet-1.0-nscc";
    c.policy = rng.below(3) == 0 ? "oblivious" : "bitmap";
    c.trimming = rng.below(3) != 0;
    c.denylist = rng.below(3) == 0;
    ran += balanced(spec, [&](Env& env) { return std::make_unique<HostsOf<MrcStack>>(env, c); }) ? 1 : 0;
  }
  CHECK(ran > 120);
}

TEST_CASE("invariants: RoCEv2") {
  int ran = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    mrc::base::Rng rng(seed ^ 0xA0CE);
    RunSpec spec = random_run(rng);
    spec.routing = Routing::ecmp;
    RoceConfig c;
    c.dcqcn.enabled = rng.below(2) == 0;
    ran += balanced(spec, [&](Env& env) { return std::make_unique<HostsOf<RoceStack>>(env, c); }) ? 1 : 0;
  }
  CHECK(ran > 90);
}

TEST_CASE("invariants: TCP") {
  int ran = 0;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    mrc::base::Rng rng(seed ^ 0x7C9);
    RunSpec spec = random_run(rng);
    spec.routing = Routing::ecmp;
    TcpConfig c;
    c.cc = rng.below(2) == 0 ? TcpCc::cubic : TcpCc::dctcp;
    ran += balanced(spec, [&](Env& env) { return std::make_unique<HostsOf<TcpStack>>(env, c); }) ? 1 : 0;
  }
  CHECK(ran > 90);
}

TEST_CASE("invariants: nothing overtakes on a path, whatever else goes on") {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    mrc::base::Rng rng(seed * 77);
    Shape s = random_shape(rng);
    s.rules.trim_bytes = s.rules.trim_last_hop = 0;  // headers may pass data, data may not
    raw::Bench b(spec_of(s));
    if (rng.below(2) == 0) b.spec.fabric.shared_buffer = 60'000;
    b.spec.until_ns = 5'000'000;
    b.spec.seed = seed;
    for (uint32_t i = 0; i < 12; ++i) {
      const uint32_t src = rng.below(s.hosts()), dst = (src + 1 + rng.below(s.hosts() - 1)) % s.hosts();
      b.send(static_cast<int32_t>(src), static_cast<int32_t>(dst), 40'000, rng.below(5'000),
             static_cast<int32_t>(rng.below(4)), static_cast<int32_t>(1 + rng.below(s.planes)));
    }
    b.fault(FaultKind::link_loss, rng.below(static_cast<uint32_t>(b.spec.fabric.links.size())), 0, 0.2);
    b.run();
    std::map<TaskId, std::pair<Ps, uint32_t>> last;
    for (const raw::Got& g : b.log) {
      const auto it = last.find(g.task);
      if (it != last.end()) CHECK(g.at > it->second.first && g.number > it->second.second);
      last[g.task] = {g.at, g.number};
    }
    CHECK(!last.empty());
  }
}
