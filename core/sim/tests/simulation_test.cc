// Whole runs by hand with frames of 1,000 bytes on links of 100 Gbit/s (80,000 ps) and 500 ns: latency,
// queueing, faults to the nanosecond, loss, series.
#include "sim/simulation.h"

#include <algorithm>
#include <cmath>

#include "sim/tests/raw_stack.h"

using namespace mrc::sim;          // NOLINT(google-build-using-namespace)
using namespace mrc::sim::raw;     // NOLINT(google-build-using-namespace)
using namespace mrc::sim::shapes;  // NOLINT(google-build-using-namespace)

namespace {

constexpr Ps kFrame = 80'000, kCable = 500'000;
Ps ns(int64_t n) { return from_ns(n); }

}  // namespace

TEST_CASE("run: one frame over a T0, a T1 and a T2, to the picosecond") {
  for (const Routing routing : {Routing::stev, Routing::srv6, Routing::ecmp}) {
    Shape s = three_tiers(2, 2, 2, 2, 4);
    s.bps[1] = 400e9;  // 20,000 ps
    s.bps[2] = 7e9;    // 1,142,857.14 ps
    s.delay_ns[1] = 0;
    s.delay_ns[2] = 100'000'000;  // 100 ms
    Bench b(spec_of(s), routing);
    b.send(0, 1, 1000, 10);
    b.send(0, 2, 1000, 1'000'000);
    b.send(0, 7, 1000, 2'000'000);
    b.run();
    CHECK(b.state == Simulation::State::done);
    CHECK_EQ(b.delivered(0), ns(10) + 2 * (kFrame + kCable));
    CHECK_EQ(b.delivered(1), ns(1'000'000) + 2 * (kFrame + kCable) + 2 * 20'000);
    CHECK_EQ(b.delivered(2),
             ns(2'000'000) + 2 * (kFrame + kCable) + 2 * 20'000 + 2 * 1'142'857 + 2 * Ps{100'000'000'000});
    CHECK_EQ(b.sim.totals().frames_delivered, uint64_t{3});
    CHECK_EQ(b.sim.totals().frames_queued, uint64_t{0});
  }
}

TEST_CASE("run: frames of a message follow one another at the rate of the slowest line, in order") {
  Shape s = shape(1, 2, 1);
  s.bps[1] = 50e9;  // 160,000 ps a frame
  Bench b(spec_of(s));
  b.send(0, 1, 20'000);
  b.run();
  REQUIRE(b.log.size() == 20);
  // The first one: 80,000 + 160,000 + 160,000 + 80,000 on lines; the others wait at the first T0.
  const Ps first = 2 * kFrame + 2 * 160'000 + 4 * kCable;
  for (uint32_t i = 0; i < 20; ++i) {
    CHECK_EQ(b.log[i].number, i);
    CHECK_EQ(b.log[i].at, first + i * 160'000);
  }
  // 20 came in 80,000 ps apart, one left every 160,000: at most 10 frames waited, the one on the line apart.
  const PortId up = port_between(b.sim.fabric(), s.t0_node(1, 0), s.t1_node(1, 0));
  CHECK_EQ(b.sim.fabric().port(up).n.max_queue, 10'000u);
  CHECK_EQ(b.sim.fabric().port(up).n.tx_bytes, uint64_t{20'000});
}

TEST_CASE("run: two senders share a port in the order of arrival") {
  Bench b(spec_of(shape(3, 1, 0)));
  b.send(0, 2, 4000);
  b.send(1, 2, 4000, 40);  // half a frame later
  b.run();
  REQUIRE(b.log.size() == 8);
  const Ps first = 2 * kFrame + 2 * kCable;
  for (uint32_t i = 0; i < 8; ++i) {
    CHECK_EQ(b.log[i].at, first + i * kFrame);  // the line never rests
    CHECK_EQ(b.log[i].task, i % 2);
    CHECK_EQ(b.log[i].number, i / 2);
  }
}

TEST_CASE("run: a queue of one frame holds one, the line one more") {
  Shape s = shape(4, 1, 0);
  s.rules.data_bytes = 1000;
  Bench b(spec_of(s));
  for (int32_t h = 0; h < 3; ++h) b.send(h, 3, 1000, h);  // 1 ns apart
  b.run();
  CHECK(b.state == Simulation::State::stuck);
  CHECK_EQ(b.log.size(), size_t{2});
  CHECK_EQ(b.sim.totals().drops_queue, uint64_t{1});
  CHECK_EQ(b.delivered(2), Ps{-1});
}

TEST_CASE("run: trimmed headers pass the data they were cut from") {
  Shape s = shape(4, 1, 0);
  s.rules.trim_last_hop = 2000;
  Bench b(spec_of(s));
  b.config.trimmable = true;
  for (int32_t h = 0; h < 3; ++h) b.send(h, 3, 3000, h);
  b.run();
  REQUIRE(b.log.size() == 9);
  // Arrivals at 580, 581, 582 ns: one leaves, two wait. At 660 the line falls free, but the next three have
  // come first or find two waiting: headers, 11,680 ps each. Then data, and of the last three one finds room.
  const std::string order = "DTTTDTTDD";
  Ps at = ns(580) + kFrame + kCable;
  for (size_t i = 0; i < 9; ++i) {
    CHECK_EQ(b.log[i].trim == Trim::trimmed_lasthop, order[i] == 'T');
    if (i > 0) at += order[i] == 'T' ? Ps{146 * 80} : kFrame;
    CHECK_EQ(b.log[i].at, at);
  }
  CHECK_EQ(b.sim.totals().trims_last_hop, uint64_t{5});
  CHECK_EQ(b.sim.totals().drops_queue, uint64_t{0});
}

TEST_CASE("faults: what is on the cable at the cut arrives, what leaves later is lost") {
  // The last bit leaves the NIC at 80 ns, the T0 at 660, the T1 at 1240, the second T0 at 1820 ns.
  const Shape s = shape(1, 2, 1);
  const Ps whole = 4 * (kFrame + kCable);
  for (const int64_t cut : {int64_t{660}, int64_t{900}}) {  // at and after the last bit
    Bench b(spec_of(s));
    b.send(0, 1, 1000);
    b.fault(FaultKind::link_down, b.link(s.t0_node(1, 0), s.t1_node(1, 0)), cut);
    b.run();
    CHECK_EQ(b.delivered(0), whole);
  }
  for (const int64_t cut : {int64_t{0}, int64_t{580}}) {  // the first bit would leave at 580
    Bench b(spec_of(s));
    b.send(0, 1, 1000);
    b.fault(FaultKind::link_down, b.link(s.t0_node(1, 0), s.t1_node(1, 0)), cut);
    b.run();
    CHECK_EQ(b.delivered(0), Ps{-1});
    CHECK_EQ(b.sim.totals().drops_link, uint64_t{1});
    CHECK(b.state == Simulation::State::stuck);
  }
}

TEST_CASE("faults: one direction of a link, and back up at the nanosecond") {
  const Shape s = shape(1, 2, 1);
  Bench b(spec_of(s));
  const uint32_t link = b.link(s.t0_node(1, 0), s.t1_node(1, 0));
  b.send(0, 1, 1000);
  b.send(1, 0, 1000);
  b.send(0, 1, 1000, 1'000);  // reaches the queue at 1,580
  b.send(0, 1, 1000, 1'001);
  b.fault(FaultKind::link_down, link, 0, 0, 1);
  b.fault(FaultKind::link_up, link, 1'580, 0, 1);
  b.run();
  CHECK_EQ(b.delivered(0), Ps{-1});
  CHECK_EQ(b.delivered(1), 4 * (kFrame + kCable));
  CHECK_EQ(b.delivered(2), ns(1'000) + 4 * (kFrame + kCable));
  CHECK_EQ(b.delivered(3), ns(1'080) + 4 * (kFrame + kCable));
  CHECK_EQ(b.sim.totals().drops_link, uint64_t{1});
}

TEST_CASE("faults: what waits for a link that dies is lost with it") {
  const Shape s = shape(3, 2, 1);
  Bench b(spec_of(s));
  for (int32_t h = 0; h < 3; ++h) b.send(h, 3, 4000);
  // From 580 ns on, 12 frames in 320 ns; one leaves every 80 ns. At 900 four have left.
  b.fault(FaultKind::link_down, b.link(s.t0_node(1, 0), s.t1_node(1, 0)), 900);
  b.run();
  CHECK_EQ(b.log.size(), size_t{4});
  CHECK_EQ(b.sim.totals().drops_link, uint64_t{8});
}

TEST_CASE("faults: a NIC's port is noticed after the time that takes, with the state of then") {
  const Shape s = shape(2, 1, 0);
  Bench b(spec_of(s));
  b.spec.port_notice_ns = 300;
  b.send(0, 1, 1000, 5'000);
  b.fault(FaultKind::port_down, 0, 1'000);
  b.fault(FaultKind::port_up, 0, 1'200);
  b.fault(FaultKind::port_down, 1, 2'000);
  b.fault(FaultKind::port_up, 1, 3'000);
  b.run();
  REQUIRE(b.stack->notices.size() == 4);
  CHECK_EQ(b.stack->notices[0].at, ns(1'300));
  CHECK(b.stack->notices[0].up);  // it is back already
  CHECK_EQ(b.stack->notices[2].at, ns(2'300));
  CHECK(!b.stack->notices[2].up && b.stack->notices[2].host == 1);
  CHECK_EQ(b.stack->notices[3].at, ns(3'300));
  CHECK_EQ(b.delivered(0), ns(5'000) + 2 * (kFrame + kCable));
}

TEST_CASE("faults: a switch that drops in silence, and its return") {
  const Shape s = shape(1, 2, 2);
  Bench b(spec_of(s));
  b.send(0, 1, 1000, 0, 0);
  b.send(0, 1, 1000, 0, 1);
  b.send(0, 1, 1000, 10'000, 0);
  b.fault(FaultKind::switch_down, s.t1_node(1, 0), 100);
  b.fault(FaultKind::switch_up, s.t1_node(1, 0), 9'000);
  b.run();
  CHECK_EQ(b.delivered(0), Ps{-1});
  CHECK_EQ(b.delivered(1), 4 * (kFrame + kCable) + kFrame);
  CHECK_EQ(b.delivered(2), ns(10'000) + 4 * (kFrame + kCable));
  CHECK_EQ(b.sim.totals().drops_switch, uint64_t{1});
}

TEST_CASE("faults: a degraded rate makes frames longer, and the full one is restored exactly") {
  const Shape s = shape(1, 2, 1);
  Bench b(spec_of(s));
  const uint32_t link = b.link(s.t0_node(1, 0), s.t1_node(1, 0));
  b.send(0, 1, 1000, 1'000);
  b.send(0, 1, 1000, 50'000);
  b.fault(FaultKind::link_rate, link, 0, 0.25);
  b.fault(FaultKind::link_rate, link, 40'000, 1.0);
  b.run();
  CHECK_EQ(b.delivered(0), ns(1'000) + 4 * (kFrame + kCable) + 3 * kFrame);
  CHECK_EQ(b.delivered(1), ns(50'000) + 4 * (kFrame + kCable));
}

TEST_CASE("faults: loss and corruption strike with their probability, in their direction") {
  for (const double p : {0.001, 0.1, 0.9}) {
    for (const FaultKind kind : {FaultKind::link_loss, FaultKind::link_corrupt}) {
      Bench b(spec_of(shape(2, 1, 0)));
      constexpr uint32_t kFrames = 20'000;
      b.send(0, 1, 1000 * kFrames);
      b.send(1, 0, 1000 * kFrames);
      b.fault(kind, 1, 0, p, 2);  // down, to host 1
      b.run();
      const Totals& t = b.sim.totals();
      const auto lost = static_cast<double>(kind == FaultKind::link_loss ? t.drops_loss : t.drops_corrupt);
      CHECK(std::fabs(lost - p * kFrames) < 5 * std::sqrt(p * (1 - p) * kFrames));
      CHECK_EQ(t.drops_loss + t.drops_corrupt, 2 * kFrames - b.log.size());
      CHECK(b.delivered(1) > 0);  // the other direction loses nothing
    }
  }
}

TEST_CASE("run: a frame whose path does not exist is lost at its NIC, and counted") {
  FabricSpec f = spec_of(shape(1, 2, 2));
  std::erase_if(f.links, [](const LinkSpec& l) { return l.a == 3 && l.b == 5; });  // T0 1 to T1 1
  Bench b(f, Routing::srv6);
  b.send(0, 1, 1000, 0, 0);
  b.send(0, 1, 1000, 0, 1);
  b.run();
  CHECK_EQ(b.delivered(0), 4 * (kFrame + kCable));
  CHECK_EQ(b.delivered(1), Ps{-1});
  CHECK_EQ(b.sim.totals().drops_no_route, uint64_t{1});
  CHECK_EQ(b.sim.totals().frames_sent, uint64_t{2});
}

TEST_CASE("faults: what cannot be is refused") {
  const auto refused = [](FaultKind kind, uint32_t target, double value, int64_t at_ns = 0) {
    Bench b(spec_of(shape(2, 1, 0)));
    b.send(0, 1, 1000);
    b.fault(kind, target, at_ns, value);
    Simulation sim;
    return !sim.build(b.spec, [&](Env& env) { return std::make_unique<HostsOf<Stack>>(env, b.config); })
                .empty();
  };
  CHECK(refused(FaultKind::link_down, 2, 0));
  CHECK(refused(FaultKind::switch_down, 1, 0));  // a host
  CHECK(refused(FaultKind::switch_down, 3, 0));
  CHECK(refused(FaultKind::link_loss, 0, 1.5));
  CHECK(refused(FaultKind::link_loss, 0, -0.1));
  CHECK(refused(FaultKind::link_loss, 0, std::nan("")));
  CHECK(refused(FaultKind::link_rate, 0, 0));
  CHECK(refused(FaultKind::link_down, 0, 0, -1));
  CHECK(!refused(FaultKind::link_loss, 0, 1.0));
}

TEST_CASE("run: the end that was asked for is exact, and the series adds up") {
  Bench b(spec_of(shape(2, 1, 0)));
  b.send(0, 1, 100'000);
  b.spec.until_ns = 4'000;
  b.spec.watch.sample_ns = 500;
  b.spec.watch.links = {0, 3};  // host 0 up, down to host 1
  b.run();
  CHECK(b.state == Simulation::State::until);
  CHECK_EQ(b.sim.now(), ns(4'000));
  const Series& s = b.sim.series();
  REQUIRE(s.time_ns.size() == 8);
  CHECK_EQ(s.time_ns.back(), int64_t{4'000});
  uint64_t up = 0, down = 0;
  for (size_t i = 0; i < 8; ++i) {
    up += s.link_bytes[2 * i];
    down += s.link_bytes[2 * i + 1];
  }
  // Frames begin at 0, 80, ... on the first line; from 580 ns on the second one.
  CHECK_EQ(up, uint64_t{50'000});
  CHECK_EQ(down, uint64_t{43'000});
  // Arrived by 4,000: the last bit on the second line by 3,500, so 36 frames.
  CHECK_EQ(b.log.size(), size_t{36});
  CHECK_EQ(b.sim.totals().frames_queued, uint64_t{50 - 36});
}

TEST_CASE("run: the same in any number of steps, and whatever the number of samples") {
  std::vector<std::vector<Got>> logs;
  for (const int64_t sample : {int64_t{0}, int64_t{7}, int64_t{100'000}}) {
    Shape s = shape(4, 4, 4, 2);
    s.rules.data_bytes = 4'000;
    Bench b(spec_of(s), Routing::ecmp);
    for (int32_t h = 0; h < 16; ++h)
      b.send(h, (h * 7 + 3) % 16 == h ? h ^ 1 : (h * 7 + 3) % 16, 30'000, h, h, 1 + h % 2);
    b.fault(FaultKind::link_loss, 3, 0, 0.1);
    b.spec.watch.sample_ns = sample;
    b.spec.until_ns = 100'000;
    b.run();
    std::stable_sort(b.log.begin(), b.log.end(), [](const Got& x, const Got& y) {
      return std::tie(x.at, x.host) < std::tie(y.at, y.host);
    });
    logs.push_back(b.log);
  }
  for (size_t i = 1; i < logs.size(); ++i) {
    REQUIRE(logs[i].size() == logs[0].size());
    for (size_t k = 0; k < logs[0].size(); ++k) {
      CHECK_EQ(logs[i][k].at, logs[0][k].at);
      CHECK_EQ(logs[i][k].task, logs[0][k].task);
      CHECK_EQ(logs[i][k].number, logs[0][k].number);
    }
  }
}
