// Go-back-N at both ends by hand, and RoCEv2 runs on small fabrics.
#include "sim/roce_stack.h"

#include "sim/tests/rig.h"

using namespace mrc::sim;       // NOLINT(google-build-using-namespace)
using namespace mrc::sim::rig;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kMtu = 1000;
const auto kNobody = [](TaskId) {};

}  // namespace

TEST_CASE("roce: messages become packets, first and last are known") {
  MessagePool pool;
  RoceRequester q(kMtu, 100'000);
  q.post(pool, 7, 2500);
  q.post(pool, 8, 0);
  RocePacket p = q.send(pool);
  CHECK(p.psn == 0 && p.task == 7 && p.first && !p.last && p.payload == 1000);
  CHECK_EQ(q.send(pool).payload, 1000u);
  p = q.send(pool);
  CHECK(p.last && p.payload == 500);
  p = q.send(pool);
  CHECK(p.psn == 3 && p.task == 8 && p.first && p.last && p.payload == 0);
  CHECK(!q.can_send(pool));
  CHECK_EQ(q.in_flight(), int64_t{2500});
  std::vector<TaskId> done;
  CHECK(q.ack(pool, 2, [&](TaskId t) { done.push_back(t); }));
  CHECK(done.empty());
  CHECK_EQ(q.in_flight(), int64_t{500});
  CHECK(!q.ack(pool, 2, kNobody));   // nothing new
  CHECK(!q.ack(pool, 99, kNobody));  // never sent
  CHECK(q.ack(pool, 4, [&](TaskId t) { done.push_back(t); }));
  CHECK(done == std::vector<TaskId>({7, 8}));
  CHECK_EQ(q.in_flight(), int64_t{0});
}

TEST_CASE("roce: the window is closed in bytes, and never below one packet") {
  MessagePool pool;
  RoceRequester q(kMtu, 2500), tiny(kMtu, 10);
  q.post(pool, 1, 10'000);
  tiny.post(pool, 2, 10'000);
  for (int i = 0; i < 2; ++i) (void)q.send(pool);
  CHECK(!q.can_send(pool));  // 3000 > 2500
  CHECK(q.window_full());
  CHECK(q.ack(pool, 1, kNobody));
  CHECK(q.can_send(pool));
  CHECK(tiny.can_send(pool));
  (void)tiny.send(pool);
  CHECK(!tiny.can_send(pool));
}

TEST_CASE("roce: going back repeats from the gap, and late ACKs skip what arrived") {
  MessagePool pool;
  RoceRequester q(kMtu, 100'000);
  q.post(pool, 1, 4000);
  q.post(pool, 2, 2000);
  for (int i = 0; i < 6; ++i) CHECK(!q.send(pool).again);
  CHECK(q.ack(pool, 3, kNobody));
  q.rewind();
  CHECK_EQ(q.in_flight(), int64_t{0});
  RocePacket p = q.send(pool);
  CHECK(p.psn == 3 && p.again && p.last && p.task == 1);
  std::vector<TaskId> done;
  CHECK(q.ack(pool, 5,
              [&](TaskId t) { done.push_back(t); }));  // of the first copies: beyond what was sent again
  CHECK(done == std::vector<TaskId>({1}));
  CHECK_EQ(q.in_flight(), int64_t{0});
  p = q.send(pool);
  CHECK(p.psn == 5 && p.again && p.task == 2 && p.last);
  CHECK(!q.can_send(pool));
  CHECK(q.ack(pool, 6, kNobody));
  q.post(pool, 3, 1);
  p = q.send(pool);
  CHECK(p.psn == 6 && !p.again && p.payload == 1);
}

TEST_CASE("roce: sizes beyond 2^31 and flows without end") {
  MessagePool pool;
  RoceRequester q(4096, int64_t{1} << 40);
  q.post(pool, 1, (int64_t{1} << 33) + 1);
  q.post(pool, 2, kGreedy);
  (void)q.send(pool);
  std::vector<TaskId> done;
  CHECK(!q.ack(pool, (uint64_t{1} << 21) + 1, [&](TaskId t) { done.push_back(t); }));  // not sent yet
  for (uint64_t i = 1; i < 5; ++i) CHECK_EQ(q.send(pool).psn, i);
  CHECK(q.ack(pool, 5, kNobody));
  CHECK(q.can_send(pool));
}

TEST_CASE("roce: the responder names a gap once") {
  using V = RoceResponder::Verdict;
  RoceResponder r;
  CHECK(r.data(0) == V::in_order);
  CHECK(r.data(2) == V::gap);
  CHECK(r.data(3) == V::known_gap);
  CHECK(r.data(0) == V::duplicate);
  CHECK(r.data(1) == V::in_order);
  CHECK(r.data(3) == V::gap);  // the next gap is a new one
  CHECK_EQ(r.expected, uint64_t{2});
}

TEST_CASE("roce: one packet there and its ACK back, to the picosecond") {
  Workload w;
  send(w, 0, 1, 4096);
  const RoceRun r(run_spec(star(2), w), plain_roce());
  REQUIRE(r.done());
  // 4096 + BTH 12 + RETH 16 + iCRC 4 + 86 of Ethernet, IPv6 and UDP = 4214 bytes = 337.12 ns on each of two
  // links.
  CHECK_EQ(r.delivered(0), Ps{2 * 337'120 + 1'000'000});
  // BTH, AETH, iCRC and 86 = 106 bytes = 8.48 ns.
  CHECK_EQ(r.acked(0), r.delivered(0) + 2 * 8'480 + 1'000'000);
  CHECK_EQ(r.sim.totals().data_packets, uint64_t{1});
  CHECK_EQ(r.sim.totals().control_packets, uint64_t{1});
}

TEST_CASE("roce: line rate, a full window and few ACKs") {
  Workload w;
  send(w, 0, 1, 4'096'000);
  RoceConfig windowed = plain_roce();
  windowed.window_factor = 1.5;
  const RoceRun r(run_spec(star(2), w), plain_roce()), tight(run_spec(star(2), w), windowed);
  REQUIRE(r.done() && tight.done());
  // The first packet, 16 bytes longer, crosses two links; 999 of 4198 bytes follow without a gap on the
  // second.
  CHECK_EQ(r.delivered(0), Ps{(2 * 4214 + 999 * 4198) * 80 + 1'000'000});
  CHECK_EQ(r.sim.totals().control_packets, uint64_t{63});  // every 16 packets, and the last
  // A window of 1.5 x 100 Gb/s x 2.69 us = 50 kB or 12 packets hides nothing: an ACK every 3.
  CHECK_EQ(tight.sim.totals().control_packets, uint64_t{334});
  CHECK_EQ(tight.delivered(0), r.delivered(0));
}

TEST_CASE("roce: QPs of a host take turns") {
  Workload w;
  send(w, 0, 1, 1'000'000);
  send(w, 0, 2, 1'000'000);
  const RoceRun r(run_spec(star(3), w), plain_roce());
  REQUIRE(r.done());
  CHECK(std::abs(r.delivered(0) - r.delivered(1)) <= 2 * 4214 * 80);
}

TEST_CASE("roce: loss is repaired by NAK and by timer, and every message arrives once") {
  Workload w;
  for (int i = 0; i < 50; ++i) send(w, 0, 1, 100'000);
  RunSpec s = run_spec(star(2), w);
  s.faults = {fault(FaultKind::link_loss, 1, 0.01)};
  RoceConfig c = plain_roce();
  const RoceRun r(s, c);
  REQUIRE(r.done());
  for (TaskId t = 0; t < 50; ++t) CHECK(r.status(t) == TaskStatus::done);
  const Totals& n = r.sim.totals();
  CHECK_EQ(n.data_packets, uint64_t{50 * 25});
  CHECK_EQ(n.data_bytes, uint64_t{5'000'000});
  CHECK(n.nacks > 0 && n.rtx_inferred > 0);
  CHECK_EQ(n.data_packets_rtx, n.rtx_inferred + n.rtx_timeout);
  CHECK_EQ(n.qp_errors, uint64_t{0});
}

TEST_CASE("roce: without heeding NAKs only the timer repairs") {
  Workload w;
  for (int i = 0; i < 10; ++i) send(w, 0, 1, 100'000);
  RunSpec s = run_spec(star(2), w);
  s.faults = {fault(FaultKind::link_loss, 1, 0.01, 0, 2)};
  RoceConfig deaf = plain_roce();
  deaf.heed_naks = false;
  const RoceRun quick(s, plain_roce()), slow(s, deaf);
  REQUIRE(quick.done() && slow.done());
  CHECK(slow.sim.totals().nacks > 0);
  CHECK_EQ(slow.sim.totals().rtx_inferred, uint64_t{0});
  CHECK(slow.acked(9) >= from_ns(1'000'000) && quick.acked(9) < slow.acked(9));
}

TEST_CASE("roce: a lost last packet waits for the timer") {
  Workload w;
  send(w, 0, 1, 4096);
  RunSpec s = run_spec(star(2), w);
  // The link is down when the packet comes, and up again before the timer fires.
  s.faults = {fault(FaultKind::link_down, 1), fault(FaultKind::link_up, 1, 0, 100'000)};
  const RoceRun r(s, plain_roce());
  REQUIRE(r.done());
  CHECK_EQ(r.sim.totals().timeouts, uint64_t{1});
  CHECK_EQ(r.sim.totals().rtx_timeout, uint64_t{1});
  CHECK_EQ(r.delivered(0), from_ns(1'000'000) + 2 * 337'120 + 1'000'000);
}

TEST_CASE("roce: a QP whose path is gone fails with its messages") {
  Workload w;
  send(w, 0, 1, 100'000);
  send(w, 0, 1, 100'000);
  send(w, 0, 1, 100'000, 20'000'000);  // posted after the failure
  RunSpec s = run_spec(star(2), w);
  s.faults = {fault(FaultKind::link_down, 1)};
  RoceConfig c = plain_roce();
  c.retry_limit = 2;
  const RoceRun r(s, c);
  REQUIRE(r.bad.empty());
  CHECK(r.state == Simulation::State::done);
  for (TaskId t = 0; t < 3; ++t) CHECK(r.status(t) == TaskStatus::failed);
  CHECK_EQ(r.sim.totals().timeouts, uint64_t{3});  // after 1, 3 and 7 ms
  CHECK_EQ(r.sim.totals().qp_errors, uint64_t{1});
  CHECK(r.sim.now() >= from_ns(20'000'000));
}

TEST_CASE("roce: DCQCN holds an incast below the buffer's end, and shares it") {
  Workload w;
  for (int32_t h = 1; h < 5; ++h) send(w, h, 0, 8'000'000);
  QueueRules red = deep();
  red.ecn_min = 20'000;
  red.ecn_max = 200'000;
  red.ecn_last_hop = true;
  RoceConfig on;
  on.window_bytes = 1'000'000;
  RoceConfig off = on;
  off.dcqcn.enabled = false;
  const RoceRun x(run_spec(star(5, red), w), on), y(run_spec(star(5, red), w), off);
  REQUIRE(x.done() && y.done());
  CHECK(x.sim.totals().ecn_marks > 0);
  CHECK(x.sim.totals().cnps > 0);
  CHECK_EQ(y.sim.totals().ecn_marks, uint64_t{0});  // not ECN-capable
  CHECK_EQ(y.sim.totals().cnps, uint64_t{0});
  CHECK(x.sim.fabric().port(1).n.max_queue < y.sim.fabric().port(1).n.max_queue);
}

TEST_CASE("roce: QPs of a pair take different spines") {
  Workload w;
  for (int i = 0; i < 16; ++i) send(w, 0, 4, 100'000, 0, i);
  RunSpec s = run_spec(leaf_spine(2, 4, 4), w);
  s.qps_per_pair = 16;
  const RoceRun r(s, plain_roce());
  REQUIRE(r.done());
  int used = 0;
  for (uint32_t spine = 0; spine < 4; ++spine)
    used += r.sim.fabric().port(2 * (8 + spine)).n.tx_packets > 0 ? 1 : 0;
  CHECK(used >= 3);
}

TEST_CASE("roce: one seed, one result") {
  Workload w;
  for (int32_t h = 0; h < 8; ++h) send(w, h, (h + 3) % 8, 300'000);
  RunSpec s = run_spec(leaf_spine(4, 2, 2), w);
  s.faults = {fault(FaultKind::link_loss, 3, 0.02)};
  const RoceRun a(s, RoceConfig{}), b(s, RoceConfig{});
  s.seed = 2;
  const RoceRun c(s, RoceConfig{});
  REQUIRE(a.done() && b.done() && c.done());
  CHECK(a.sim.tasks().times().acked == b.sim.tasks().times().acked);
  CHECK(a.sim.tasks().times().acked != c.sim.tasks().times().acked);
}

TEST_CASE("roce: settings that make no sense are refused") {
  const auto refuses = [](auto change) {
    Workload w;
    send(w, 0, 1, 1);
    RoceConfig c;
    change(c);
    return !RoceRun(run_spec(star(2), w), c).bad.empty();
  };
  CHECK(!refuses([](RoceConfig&) {}));
  CHECK(refuses([](RoceConfig& c) { c.mtu = 100; }));
  CHECK(refuses([](RoceConfig& c) { c.ack_every = 0; }));
  CHECK(refuses([](RoceConfig& c) { c.rto_ns = 0; }));
  CHECK(refuses([](RoceConfig& c) { c.window_factor = -1; }));
  CHECK(refuses([](RoceConfig& c) { c.window_bytes = -1; }));
  CHECK(refuses([](RoceConfig& c) { c.dcqcn.g = 1; }));
  CHECK(refuses([](RoceConfig& c) { c.dcqcn.rate_timer_ns = 0; }));
  CHECK(refuses([](RoceConfig& c) { c.dcqcn.min_mbps = 0; }));
  Workload w;
  send(w, 0, 1, 1);
  RunSpec s = run_spec(star(2), w);
  s.routing = Routing::srv6;
  CHECK(!RoceRun(s, RoceConfig{}).bad.empty());
}
