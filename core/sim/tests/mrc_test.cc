// MRC hosts on small fabrics: sizes and times by hand, paths that die, trims, ports, what is sent again and
// on which planes.
#include "sim/mrc_stack.h"

#include <algorithm>
#include <set>

#include "sim/simulation.h"
#include "sim/tests/shapes.h"

using namespace mrc::sim;          // NOLINT(google-build-using-namespace)
using namespace mrc::sim::shapes;  // NOLINT(google-build-using-namespace)

namespace {

constexpr Ps kCable = 500'000;
// BTH, TSETH, METH and RETH as packed below, iCRC 4; the last packet of a message has 4 bytes of immediate.
constexpr uint32_t kHead = mrc::wire::kBthBytes + mrc::wire::kTsethBytes + mrc::wire::kMethBytes + 16;
constexpr uint32_t kLast = kWireOverhead + kHead + 4 + 4;

struct Bench {
  RunSpec spec;
  MrcConfig config;
  Simulation sim;
  Simulation::State state{};
  std::string bad;
  explicit Bench(const Shape& s, Routing routing = Routing::srv6) {
    spec.fabric = spec_of(s);
    spec.routing = routing;
    spec.workload.dep_ptr.push_back(0);
    spec.check = true;
    spec.watch.task_bytes = true;
    config.evs = 16;
    config.backups = 0;
    config.timestamps = true;
  }
  void send(int32_t src, int32_t dst, int64_t size, int64_t start_ns = 0) {
    Workload& w = spec.workload;
    w.kind.push_back(0);
    w.node.push_back(src);
    w.peer.push_back(dst);
    w.qp.push_back(-1);
    w.group.push_back(0);
    w.size.push_back(size);
    w.start.push_back(start_ns);
    w.delay.push_back(0);
    w.dep_ptr.push_back(0);
  }
  void fault(FaultKind kind, uint32_t target, int64_t at_ns, double value = 0, uint8_t directions = 3) {
    FaultSpec f;
    f.at_ns = at_ns;
    f.kind = kind;
    f.target = target;
    f.value = value;
    f.directions = directions;
    spec.faults.push_back(f);
  }
  // Link number between two nodes.
  [[nodiscard]] uint32_t link(uint32_t a, uint32_t b) const {
    for (uint32_t i = 0; i < spec.fabric.links.size(); ++i) {
      if (spec.fabric.links[i].a == a && spec.fabric.links[i].b == b) return i;
    }
    REQUIRE(false);
    return 0;
  }
  void run() {
    bad = sim.build(spec, [&](Env& env) { return std::make_unique<HostsOf<MrcStack>>(env, config); });
    if (!bad.empty()) return;
    while ((state = sim.run(10'000)) == Simulation::State::running) {
    }
    sim.finish();
    CHECK_EQ(sim.violations(), uint64_t{0});
    CHECK_EQ(sim.totals().timer_stalls, uint64_t{0});
  }
  [[nodiscard]] bool all_done() const {
    const auto& status = sim.tasks().times().status;
    return state == Simulation::State::done &&
           std::all_of(status.begin(), status.end(), [](TaskStatus s) { return s == TaskStatus::done; });
  }
  [[nodiscard]] Ps delivered(TaskId t) const { return sim.tasks().times().delivered[t]; }
  [[nodiscard]] const Port& nic(uint32_t host, uint8_t plane) const {
    return sim.fabric().port(sim.fabric().nic_port(host, plane));
  }
  [[nodiscard]] std::set<uint8_t> planes_with_bad() const {
    std::set<uint8_t> out;
    for (const EvChange& c : sim.watch().ev_changes) {
      if (c.state == static_cast<uint8_t>(mrc::ev::State::assumed_bad)) out.insert(c.plane);
    }
    return out;
  }
};

}  // namespace

TEST_CASE("mrc: one packet takes four lines and four cables, to the picosecond") {
  for (const Routing routing : {Routing::srv6, Routing::stev, Routing::ecmp}) {
    Bench b(shape(1, 2, 2), routing);
    b.send(0, 1, 4096, 1'000);
    b.send(0, 1, 1, 50'000);
    b.run();
    REQUIRE(b.all_done());
    CHECK_EQ(b.delivered(0), from_ns(1'000) + 4 * (Ps{4096 + kLast} * 80 + kCable));
    CHECK_EQ(b.delivered(1), from_ns(50'000) + 4 * (Ps{4 + kLast} * 80 + kCable));  // 3 bytes of pad
    CHECK_EQ(b.sim.totals().data_packets, uint64_t{2});
    CHECK_EQ(b.sim.totals().data_packets_rtx, uint64_t{0});
  }
}

TEST_CASE("mrc: packets, bytes and planes of a message are counted exactly") {
  Bench b(shape(1, 2, 4, 4));
  b.send(0, 1, 1'000'000);
  b.run();
  REQUIRE(b.all_done());
  const Totals& t = b.sim.totals();
  CHECK_EQ(t.data_packets, uint64_t{245});  // 244.14
  CHECK_EQ(t.data_bytes, uint64_t{1'000'000});
  CHECK_EQ(b.sim.watch().task_bytes[0], int64_t{1'000'000});
  for (uint8_t p = 1; p <= 4; ++p) {
    const auto bytes = b.sim.watch().plane_bytes[p - 1u];
    CHECK(bytes >= 60u * 4096 && bytes <= 63u * 4096);
  }
}

TEST_CASE("mrc: uSID lists and EV bits name the same paths, so the runs are the same") {
  std::vector<std::vector<Ps>> times;
  for (const Routing routing : {Routing::srv6, Routing::stev}) {
    Bench b(three_tiers(2, 2, 2, 2, 4, 2), routing);
    for (int32_t h = 0; h < 8; ++h) b.send(h, (h + 3) % 8, 100'000);
    b.run();
    REQUIRE(b.all_done());
    times.push_back(b.sim.tasks().times().acked);
  }
  CHECK(times[0] == times[1]);
}

TEST_CASE("mrc: every trimmed packet is sent again, and for no other reason") {
  Shape s = shape(4, 2, 4);
  s.rules.data_bytes = 1'000'000;
  s.rules.trim_bytes = s.rules.trim_last_hop = 30'000;
  Bench b(s);
  b.config.cc = "null";  // nothing holds senders back
  for (int32_t h = 1; h < 8; ++h) b.send(h, 0, 200'000);
  b.run();
  REQUIRE(b.all_done());
  const Totals& t = b.sim.totals();
  CHECK(t.trims_last_hop > 100);
  CHECK_EQ(t.drops_queue, uint64_t{0});
  CHECK_EQ(t.rtx_trimmed, t.trims + t.trims_last_hop);
  CHECK_EQ(t.data_packets_rtx, t.rtx_trimmed);
  CHECK(b.planes_with_bad().empty());
}

TEST_CASE("mrc: a T1 that drops in silence costs packets once; its EVs are left") {
  const Shape s = shape(1, 2, 4, 2);
  Bench b(s);
  b.send(0, 1, 4'000'000);
  b.fault(FaultKind::switch_down, s.t1_node(2, 1), 20'000);
  b.run();
  REQUIRE(b.all_done());
  CHECK(b.planes_with_bad() == std::set<uint8_t>{2});
  CHECK(b.sim.totals().rtx_inferred > 0);
  // One round trip of packets on an eighth of the paths.
  CHECK(b.sim.totals().data_packets_rtx < 30);
}

TEST_CASE("mrc: no data leaves on a plane whose EVs are all out of use while others are only busy") {
  const Shape s = shape(1, 2, 4, 4);
  Bench b(s);
  b.send(0, 1, 20'000'000);
  b.fault(FaultKind::switch_down, s.t0_node(3, 1), 50'000);  // the receiver's, in silence
  b.run();
  REQUIRE(b.all_done());
  CHECK(b.planes_with_bad() == std::set<uint8_t>{3});
  // 4,883 packets; what was on the way at the cut is lost, then nothing but probes.
  CHECK(b.sim.totals().data_packets_rtx < 100);
  const uint64_t alive = b.nic(0, 1).n.tx_packets;
  CHECK(b.nic(0, 3).n.tx_packets < alive / 3);
  CHECK(b.nic(0, 2).n.tx_packets > alive * 9 / 10 && b.nic(0, 2).n.tx_packets < alive * 11 / 10);
}

TEST_CASE("mrc: a NIC's port goes and comes; it is left and taken back without a probe") {
  const Shape s = shape(1, 2, 2, 2);
  Bench b(s);
  b.config.evs = 4;
  b.send(0, 1, 30'000'000);
  b.fault(FaultKind::port_down, b.link(0, s.t0_node(2, 0)), 200'000);
  b.fault(FaultKind::port_up, b.link(0, s.t0_node(2, 0)), 600'000);
  b.run();
  REQUIRE(b.all_done());
  // 1.2 ms at 2 x 100 Gbit/s; 0.4 ms of it on one plane only.
  const Ps took = b.delivered(0);
  CHECK(took > from_ns(1'400'000) && took < from_ns(1'520'000));
  CHECK(b.sim.totals().data_packets_rtx < 200);
  int64_t back = 0;
  for (const EvChange& c : b.sim.watch().ev_changes) {
    if (c.host == 0 && c.plane == 2 && c.state == static_cast<uint8_t>(mrc::ev::State::good))
      back = back == 0 ? c.at_ns : std::min(back, c.at_ns);
  }
  CHECK_EQ(back, int64_t{600'000});
}

TEST_CASE("mrc: a denylist keeps EVs off what is dead from the start") {
  const Shape s = shape(1, 2, 4);
  for (const bool told : {false, true}) {
    Bench b(s);
    b.config.denylist = told;
    b.send(0, 1, 400'000);
    b.fault(FaultKind::link_down, b.link(s.t0_node(1, 0), s.t1_node(1, 2)), 0);
    b.run();
    REQUIRE(b.all_done());
    CHECK_EQ(b.sim.totals().drops_link > 0, !told);
    CHECK_EQ(b.sim.totals().data_packets_rtx > 0, !told);
  }
}

TEST_CASE("mrc: a peer that is gone ends the task as failed, within the retry budget") {
  const Shape s = shape(1, 2, 2, 2);
  Bench b(s);
  b.send(0, 1, 100'000'000);
  b.fault(FaultKind::switch_down, s.t0_node(1, 1), 100'000);
  b.fault(FaultKind::switch_down, s.t0_node(2, 1), 100'000);
  b.run();
  CHECK(b.state == Simulation::State::done);
  CHECK(b.sim.tasks().times().status[0] == TaskStatus::failed);
  // 7 intervals of the loss timer, then 7 that double: 7 + 2 + 4 + ... + 128 = 261 of 200 us, 52.2 ms.
  CHECK(b.sim.now() > from_ns(20'000'000) && b.sim.now() < from_ns(80'000'000));
  CHECK(b.sim.totals().qp_errors >= 1);
}

TEST_CASE("mrc: a NIC does not see that its line is dead in its own direction; it learns from losses") {
  const Shape s = shape(1, 2, 2, 2);
  Bench one(s), both(s);
  for (Bench* b : {&one, &both}) {
    b->send(0, 1, 20'000'000);
    b->fault(FaultKind::link_down, b->link(0, s.t0_node(1, 0)), 100'000, 0, 1);
  }
  both.fault(FaultKind::link_down, both.link(0, s.t0_node(2, 0)), 100'000, 0, 1);
  one.run();
  CHECK(one.all_done());
  CHECK(one.sim.totals().drops_link > 0);
  CHECK(one.planes_with_bad() == std::set<uint8_t>({1}));
  both.run();
  CHECK(both.state == Simulation::State::done);
  CHECK(both.sim.tasks().times().status[0] == TaskStatus::failed);
}

TEST_CASE(
    "mrc: a host without a port from the start fails within the same budget, or goes on with the first that "
    "comes") {
  const Shape s = shape(1, 2, 2, 2);
  for (const bool comes : {false, true}) {
    Bench b(s);
    b.send(0, 1, 1'000'000);
    b.send(0, 1, 1'000'000, 3'000'000);
    for (uint8_t plane = 1; plane <= 2; ++plane)
      b.fault(FaultKind::port_down, b.link(0, s.t0_node(plane, 0)), 0);
    if (comes) b.fault(FaultKind::port_up, b.link(0, s.t0_node(2, 0)), 10'000'000);
    b.run();
    CHECK(b.state == Simulation::State::done);
    CHECK(b.all_done() == comes);
    CHECK_EQ(b.sim.totals().qp_errors, uint64_t{comes ? 0u : 1u});
    // 52.2 ms as above; or 2 MB over one port at once, not at the end of a back-off.
    const Ps end = b.sim.now();
    CHECK(comes ? end < from_ns(11'000'000) : end > from_ns(52'000'000) && end < from_ns(53'000'000));
  }
}

TEST_CASE("mrc: what cannot be opened is refused in words") {
  const auto refusal = [](auto change) {
    Bench b(shape(1, 2, 2));
    b.send(0, 1, 1000);
    change(b);
    b.run();
    return b.bad;
  };
  CHECK(refusal([](Bench& b) { b.config.cc = "nobody"; }).find("congestion control") != std::string::npos);
  CHECK(refusal([](Bench& b) { b.config.policy = "nobody"; }).find("path policy") != std::string::npos);
  CHECK(refusal([](Bench& b) { b.config.mtu = 100; }).find("refuses") != std::string::npos);
  CHECK(refusal([](Bench& b) {
          std::erase_if(b.spec.fabric.links, [](const LinkSpec& l) { return l.a == 1; });
        }).find("host 0 to host 1") != std::string::npos);
  CHECK(refusal([](Bench& b) { b.spec.qps_per_pair = 1u << 23; }).find("64 GiB") != std::string::npos);
  CHECK(refusal([](Bench&) {}).empty());
}
