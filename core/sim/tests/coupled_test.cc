// Switches whose ports depend on each other, by hand: 100 Gb/s (80 ps a byte), 500 ns a link, frames of 1000
// bytes (80 ns).
#include "sim/coupled.h"

#include "sim/tests/rig.h"

using namespace mrc::sim;       // NOLINT(google-build-using-namespace)
using namespace mrc::sim::rig;  // NOLINT(google-build-using-namespace)

namespace {

constexpr PortId kFrom0 = 0, kFrom1 = 2, kTo2 = 5;
constexpr Ps kPauseTime = 84 * 80 + from_ns(500);  // on the line and to the upstream port

// Three hosts around one switch, with its ports driven by hand.
struct Bench {
  Fabric fabric;
  FramePool pool;
  Totals totals;
  uint32_t node = 3;
  std::vector<Hosts::Sent> out;
  std::vector<Pause> pauses;
  explicit Bench(FabricSpec spec) { REQUIRE(fabric.build(spec, Routing::ecmp, 1).empty()); }
  FrameId frame(PortId in, uint32_t size = 1000, Class cls = Class::data) {
    const FrameId id = pool.take();
    Frame& f = pool[id];
    f = {};
    f.size = size;
    f.in_port = in;
    f.cls = cls;
    return id;
  }
};

FabricSpec with_pfc(uint32_t xoff, uint32_t xon) {
  FabricSpec f = star(3);
  f.pfc = true;
  f.pfc_xoff = xoff;
  f.pfc_xon = xon;
  return f;
}

Ps ns(int64_t n) { return from_ns(n); }

}  // namespace

TEST_CASE("coupled: xoff and xon at the bytes of an ingress port, times exact") {
  Bench b(with_pfc(1500, 500));
  Coupled c(b.fabric, b.pool, b.totals);
  c.arrive(b.node, ns(0), kTo2, b.frame(kFrom0));   // leaves at once
  c.arrive(b.node, ns(10), kTo2, b.frame(kFrom0));  // 1000 bytes wait
  c.arrive(b.node, ns(15), kTo2, b.frame(kFrom1));  // another port's account
  c.arrive(b.node, ns(20), kTo2, b.frame(kFrom0));  // 2000: above xoff
  CHECK(!c.idle(b.node));
  c.run(b.node, 0, ns(400), {}, b.out, b.pauses);
  REQUIRE(b.out.size() == 4);
  CHECK_EQ(b.out[3].at, ns(320));
  REQUIRE(b.pauses.size() == 2);
  CHECK(b.pauses[0].on && b.pauses[0].port == kFrom0);
  CHECK_EQ(b.pauses[0].at, ns(20) + kPauseTime);
  // They leave at 80, 160 (the other port's) and 240 ns: then nothing is left of port 0.
  CHECK(!b.pauses[1].on);
  CHECK_EQ(b.pauses[1].at, ns(240) + kPauseTime);
  CHECK_EQ(b.totals.pfc_pauses, uint64_t{1});
  CHECK_EQ(b.totals.pfc_pause_ps, static_cast<uint64_t>(ns(220)));
  CHECK(c.idle(b.node));
  CHECK_EQ(c.ingress_bytes(kFrom0), 0u);
}

TEST_CASE("coupled: a pause frame waits for the frame on its line") {
  Bench b(with_pfc(1500, 500));
  Coupled c(b.fabric, b.pool, b.totals);
  c.arrive(b.node, ns(0), 1,
           b.frame(kFrom1, 5000, Class::control));  // to host 0: its line is busy until 400 ns
  for (int i = 0; i < 3; ++i) c.arrive(b.node, ns(10), kTo2, b.frame(kFrom0));
  c.run(b.node, 0, ns(50), {}, b.out, b.pauses);
  REQUIRE(b.pauses.size() == 1);
  CHECK_EQ(b.pauses[0].at, ns(400) + kPauseTime);
  c.close(ns(1000) + kPauseTime);
  CHECK_EQ(b.totals.pfc_pause_ps, static_cast<uint64_t>(ns(600)));
}

TEST_CASE("coupled: a pause and its resume never arrive at one instant") {
  Bench b(with_pfc(500, 400));
  Coupled c(b.fabric, b.pool, b.totals);
  c.arrive(b.node, ns(0), kTo2, b.frame(kFrom0));  // above xoff, and gone at once
  c.run(b.node, 0, ns(100), {}, b.out, b.pauses);
  REQUIRE(b.pauses.size() == 2);
  CHECK(b.pauses[0].on && !b.pauses[1].on);
  CHECK_EQ(b.pauses[0].at, kPauseTime);
  CHECK_EQ(b.pauses[1].at, kPauseTime + 84 * 80);
}

TEST_CASE("coupled: a paused port holds data and lets control pass") {
  Bench b(with_pfc(100'000, 50'000));
  Coupled c(b.fabric, b.pool, b.totals);
  const FrameId data = b.frame(kFrom0), control = b.frame(kFrom1, 100, Class::control);
  c.arrive(b.node, ns(120), kTo2, data);
  c.arrive(b.node, ns(150), kTo2, control);
  const Pause in[] = {{ns(100), kTo2, true}, {ns(300), kTo2, false}};
  c.run(b.node, 0, ns(250), {in, 1}, b.out, b.pauses);
  REQUIRE(b.out.size() == 1);
  CHECK_EQ(b.out[0].frame, control);
  CHECK_EQ(b.out[0].at, ns(158));
  CHECK(!c.idle(b.node));
  c.run(b.node, ns(250), ns(400), {in + 1, 1}, b.out, b.pauses);
  REQUIRE(b.out.size() == 2);
  CHECK_EQ(b.out[1].frame, data);
  CHECK_EQ(b.out[1].at, ns(380));
}

TEST_CASE("coupled: headroom takes what comes before the pause is felt") {
  Bench b(with_pfc(1500, 500));
  const Coupled c(b.fabric, b.pool, b.totals);
  // A jumbo frame and the pause on the line, two cables: 764.48 + 1000 ns = 22056 bytes; and two frames of
  // 9472.
  CHECK_EQ(c.headroom(kFrom0), 41'000u);
}

TEST_CASE("coupled: ingress room is xoff and headroom, then frames drop") {
  Bench b(with_pfc(1500, 500));
  Coupled c(b.fabric, b.pool, b.totals);
  for (int i = 0; i < 50; ++i) c.arrive(b.node, ns(0), kTo2, b.frame(kFrom0));
  c.run(b.node, 0, 1, {}, b.out, b.pauses);
  // 42 x 1000 fit into 42,500; all come before the line serves the first.
  CHECK_EQ(b.fabric.port(kTo2).n.drops, uint64_t{8});
  CHECK_EQ(c.used(b.node), uint64_t{41'000});
}

TEST_CASE("coupled: a shared buffer is full for all ports at once") {
  FabricSpec spec = star(3);
  spec.shared_buffer = 2500;
  Bench b(spec);
  Coupled c(b.fabric, b.pool, b.totals);
  c.arrive(b.node, ns(0), kTo2, b.frame(kFrom0));
  c.arrive(b.node, ns(10), kTo2, b.frame(kFrom0));
  c.arrive(b.node, ns(20), kTo2, b.frame(kFrom1));
  c.arrive(b.node, ns(30), 1, b.frame(kFrom1));  // to host 0, whose line is idle: still no room
  c.arrive(b.node, ns(90), 1, b.frame(kFrom1));  // one has left at 80 ns
  c.run(b.node, 0, ns(1000), {}, b.out, b.pauses);
  CHECK_EQ(b.fabric.port(kTo2).n.drops, uint64_t{0});
  CHECK_EQ(b.fabric.port(1).n.drops, uint64_t{1});
  CHECK_EQ(b.out.size(), size_t{4});
  CHECK(b.pauses.empty());
  CHECK_EQ(c.used(b.node), uint64_t{0});
}

TEST_CASE("coupled: a dynamic threshold leaves room for others") {
  FabricSpec spec = star(3);
  spec.shared_buffer = 2500;
  Bench b(spec);
  Coupled c(b.fabric, b.pool, b.totals, 0.5);
  c.arrive(b.node, ns(0), kTo2, b.frame(kFrom0));
  c.arrive(b.node, ns(10), kTo2, b.frame(kFrom0));  // 1000 <= 0.5 x 2500
  c.arrive(b.node, ns(20), kTo2, b.frame(kFrom0));  // 2000 > 0.5 x 1500
  c.run(b.node, 0, ns(40), {}, b.out, b.pauses);
  CHECK_EQ(b.fabric.port(kTo2).n.drops, uint64_t{1});
}

TEST_CASE("coupled: what has no room is trimmed if the switch trims") {
  FabricSpec spec = star(3);
  spec.shared_buffer = 1500;
  spec.rules[0].trim_last_hop = 1'000'000;
  Bench b(spec);
  Coupled c(b.fabric, b.pool, b.totals);
  c.arrive(b.node, ns(0), kTo2, b.frame(kFrom0));
  c.arrive(b.node, ns(10), kTo2, b.frame(kFrom0));
  const FrameId cut = b.frame(kFrom0);
  b.pool[cut].trimmable = true;
  b.pool[cut].trim_len = 40;
  c.arrive(b.node, ns(20), kTo2, cut);
  c.run(b.node, 0, ns(1000), {}, b.out, b.pauses);
  REQUIRE(b.out.size() == 3);
  CHECK_EQ(b.out[1].frame, cut);  // in the control class: before the data that came first
  CHECK(b.pool[cut].trim == Trim::trimmed_lasthop);
  CHECK_EQ(b.fabric.port(kTo2).n.drops, uint64_t{0});
}

TEST_CASE("coupled: what waits for a dead link is lost, and its sender may go on") {
  Bench b(with_pfc(1500, 500));
  Coupled c(b.fabric, b.pool, b.totals);
  for (int i = 0; i < 3; ++i) c.arrive(b.node, ns(10 * i), kTo2, b.frame(kFrom0));
  c.run(b.node, 0, ns(50), {}, b.out, b.pauses);
  REQUIRE(b.pauses.size() == 1);
  b.fabric.port(kTo2).up = false;
  c.run(b.node, ns(50), ns(100), {}, b.out, b.pauses);
  CHECK_EQ(b.totals.drops_link, uint64_t{2});
  REQUIRE(b.pauses.size() == 2);
  CHECK(!b.pauses[1].on);
  CHECK_EQ(b.pauses[1].at, ns(80) + kPauseTime);
  CHECK(c.idle(b.node));
  CHECK_EQ(b.pool.in_use(), size_t{1});  // the frame that left before
}

TEST_CASE("coupled: with room for all, ports serve frames as uncoupled ones do") {
  Workload w;
  for (int32_t h = 0; h < 8; ++h) {
    send(w, h, (h + 5) % 8, 300'000, 13 * h);
    send(w, h, (h + 3) % 8, 50'000, 2'000 + 17 * h);
  }
  FabricSpec alone = leaf_spine(4, 2, 2);
  // Rates that let no two frames come at one instant: there the order is each one's own.
  for (size_t i = 0; i < alone.links.size(); ++i) {
    alone.links[i].bps_up = kGbps100 - 37e6 * static_cast<double>(i);
    alone.links[i].bps_down = kGbps100 - 53e6 * static_cast<double>(i);
  }
  FabricSpec joined = alone;
  joined.shared_buffer = 1'000'000'000;
  const RoceRun x(run_spec(alone, w), plain_roce()), y(run_spec(joined, w), plain_roce());
  REQUIRE(x.done() && y.done());
  CHECK(x.sim.tasks().times().delivered == y.sim.tasks().times().delivered);
  CHECK(x.sim.tasks().times().acked == y.sim.tasks().times().acked);
}

TEST_CASE("coupled: PFC loses nothing in an incast that overflows without it") {
  Workload w;
  for (int32_t h = 1; h < 8; ++h) send(w, h, 0, 400'000);
  QueueRules shallow = deep();
  shallow.data_bytes = 60'000;
  FabricSpec lossy = star(8, shallow), lossless = lossy;
  lossless.pfc = true;
  lossless.pfc_xoff = 20'000;
  lossless.pfc_xon = 10'000;
  RoceConfig c = plain_roce();
  c.window_bytes = 200'000;
  const RoceRun x(run_spec(lossy, w), c), y(run_spec(lossless, w), c);
  REQUIRE(x.done() && y.done());
  CHECK(x.sim.totals().drops_queue > 0);
  CHECK_EQ(y.sim.totals().drops_queue, uint64_t{0});
  CHECK_EQ(y.sim.totals().data_packets_rtx, uint64_t{0});
  CHECK(y.sim.totals().pfc_pauses > 0);
  CHECK(y.sim.totals().pfc_pause_ps > 0);
  // 7 x 98 packets of 4198 wire bytes (the first of a message 4214) leave by one line without a gap.
  const Ps busy = (7 * 98 * 4198 - 7 * (4096 * 98 - 400'000) + 7 * 16) * 80;
  Ps last = 0;
  for (TaskId t = 0; t < 7; ++t) last = std::max(last, y.delivered(t));
  CHECK(last >= busy && last <= busy + ns(1500));
}
