// Settings that have broken other simulators, for RoCEv2, TCP and coupled switches: every run ends, accounts
// for its frames, and nothing is delivered twice.
#include <cmath>

#include "sim/tests/rig.h"

using namespace mrc::sim;       // NOLINT(google-build-using-namespace)
using namespace mrc::sim::rig;  // NOLINT(google-build-using-namespace)

namespace {

// Runs the workload over both transports for at most `until_ms`; true if both finished it.
bool both_finish(const RunSpec& spec, int64_t until_ms) {
  RunSpec s = spec;
  s.until_ns = until_ms * 1'000'000;
  s.watch.task_bytes = true;
  const RoceRun roce(s, RoceConfig{});
  const TcpRun cubic(s, TcpConfig{});
  CHECK(roce.bad.empty() && cubic.bad.empty());
  const auto whole = [](const auto& run) {
    bool ok = run.done();
    for (TaskId t = 0; t < run.sim.tasks().count(); ++t) {
      const int64_t size = run.sim.tasks().spec().size[t], got = run.sim.watch().task_bytes[t];
      CHECK(got <= size);
      CHECK(run.status(t) != TaskStatus::done || got == size);
      ok = ok && run.status(t) == TaskStatus::done;
    }
    return ok;
  };
  const bool a = whole(roce), b = whole(cubic);
  return a && b;
}

Workload ring(int32_t hosts, int64_t size) {
  Workload w;
  for (int32_t h = 0; h < hosts; ++h) send(w, h, (h + 1) % hosts, size);
  return w;
}

}  // namespace

TEST_CASE("edge: links without delay, and links of 100 ms") {
  FabricSpec none = star(3), slow = star(3);
  for (LinkSpec& l : none.links) l.delay_ns = 0;
  slow.links[1].delay_ns = 100'000'000;
  CHECK(both_finish(run_spec(none, ring(3, 1'000'000)), 100));
  // Timers below the round trip repeat everything, yet it arrives: RoCE's seven doublings reach past 400 ms.
  RunSpec s = run_spec(slow, ring(3, 10'000));
  s.until_ns = 3'000'000'000;
  RoceConfig patient = plain_roce();
  patient.rto_ns = 10'000'000;
  CHECK(RoceRun(s, patient).done());
  CHECK(TcpRun(s, TcpConfig{}).done());
}

TEST_CASE("edge: buffers of one packet, with and without PFC") {
  QueueRules one = deep();
  one.data_bytes = 4214;
  Workload w;
  for (int32_t h = 1; h < 4; ++h) send(w, h, 0, 200'000);
  FabricSpec lossy = star(4, one), paused = lossy, shared = lossy;
  paused.pfc = true;
  paused.pfc_xoff = 1;
  paused.pfc_xon = 0;
  shared.shared_buffer = 4214;
  CHECK(both_finish(run_spec(lossy, w), 2'000));
  CHECK(both_finish(run_spec(paused, w), 2'000));
  CHECK(both_finish(run_spec(shared, w), 2'000));
}

TEST_CASE("edge: five thousand flows on a host") {
  Workload w;
  for (int i = 0; i < 5000; ++i) send(w, 0, 1 + i % 2, i % 7 == 0 ? 0 : 5000, 0, i / 2 % 1000);
  RunSpec s = run_spec(star(3), w);
  s.qps_per_pair = 1000;
  CHECK(both_finish(s, 1'000));
}

TEST_CASE("edge: loss from one in a million to nine in ten") {
  for (const double loss : {1e-6, 0.1, 0.9}) {
    RunSpec s = run_spec(star(3), ring(3, 100'000));
    s.faults = {fault(FaultKind::link_loss, 0, loss), fault(FaultKind::link_loss, 1, loss)};
    const bool all = both_finish(s, 500);
    CHECK(all || loss > 0.05);
  }
}

TEST_CASE("edge: a link that flaps while switches pause") {
  FabricSpec f = leaf_spine(2, 4, 2);
  f.pfc = true;
  f.pfc_xoff = 30'000;
  f.pfc_xon = 20'000;
  Workload w;
  for (int32_t h = 1; h < 8; ++h) send(w, h, 0, 500'000);
  RunSpec s = run_spec(f, w);
  for (int i = 0; i < 6; ++i) {
    s.faults.push_back(fault(FaultKind::link_down, 10, 0, 20'000 + 100'000 * i));
    s.faults.push_back(fault(FaultKind::link_up, 10, 0, 60'000 + 100'000 * i));
  }
  CHECK(both_finish(s, 2'000));
}

TEST_CASE("edge: a slow link behind a fast one pauses its way back to the sender") {
  FabricSpec f = leaf_spine(2, 1, 1);
  f.links[1].bps_up = f.links[1].bps_down = 1e9;  // the receiver's
  f.pfc = true;
  f.pfc_xoff = 20'000;
  f.pfc_xon = 10'000;
  Workload w;
  send(w, 0, 1, 2'000'000);
  const RoceRun r(run_spec(f, w), plain_roce());
  REQUIRE(r.done());
  CHECK_EQ(r.sim.totals().drops_queue, uint64_t{0});
  CHECK_EQ(r.sim.totals().data_packets_rtx, uint64_t{0});
  // 489 packets at 8 ns a byte, and what three fast links take.
  const Ps line = (Ps{489} * 4198 - (489 * 4096 - 2'000'000) + 16) * 8'000;
  CHECK(r.delivered(0) >= line && r.delivered(0) < line + from_ns(10'000));
}

TEST_CASE("edge: a host whose own port is down fails after its timeouts, and goes on when the port returns") {
  for (const int64_t cut_ns : {0, 20'000}) {
    for (const uint8_t ways : {uint8_t{3}, uint8_t{1}}) {  // seen by the NIC, or in silence
      Workload w;
      send(w, 0, 1, 2'000'000);
      send(w, 0, 2, 2'000'000);
      RunSpec s = run_spec(star(3), w);
      s.faults = {fault(FaultKind::link_down, 0, 0, cut_ns, ways)};
      const RoceRun roce(s, RoceConfig{});
      const TcpRun tcp(s, TcpConfig{});
      REQUIRE(roce.done() && tcp.done());
      for (TaskId t = 0; t < 2; ++t)
        CHECK(roce.status(t) == TaskStatus::failed && tcp.status(t) == TaskStatus::failed);
      CHECK_EQ(roce.sim.totals().qp_errors, uint64_t{2});
      CHECK_EQ(roce.sim.totals().timeouts, uint64_t{2 * 8});
      // 1 + 2 + ... + 128 ms from the last progress; TCP 1 + ... + 32,768 ms.
      CHECK(roce.sim.now() >= from_ns(255'000'000) && roce.sim.now() < from_ns(256'000'000));
      CHECK_EQ(tcp.sim.totals().timeouts, uint64_t{2 * 16});
      CHECK(tcp.sim.now() >= from_ns(65'535'000'000) && tcp.sim.now() < from_ns(65'600'000'000));

      s.faults.push_back(fault(FaultKind::link_up, 0, 0, 5'000'000, ways));
      const RoceRun back(s, RoceConfig{});
      REQUIRE(back.done());
      CHECK(back.status(0) == TaskStatus::done && back.status(1) == TaskStatus::done);
      // At once, not at the end of a back-off: 4 MB are 0.34 ms. Whoever knew nothing waits for its timer: 1
      // + 2 + 4 ms.
      const int64_t last_us = ways == 3 ? 5'500 : 7'800;
      CHECK(back.sim.now() < from_ns(last_us * 1000));
      CHECK(TcpRun(s, TcpConfig{}).status(1) == TaskStatus::done);
    }
  }
}

TEST_CASE("edge: a slow line behind links without delay is waited for in one step") {
  FabricSpec f = star(2);
  for (LinkSpec& l : f.links) l.delay_ns = 0;
  f.links[1].bps_up = f.links[1].bps_down = 1e6;  // 8 us a byte: 34 ms a packet
  Workload w;
  send(w, 0, 1, 100'000);
  RoceConfig patient = plain_roce();
  patient.rto_ns = 10'000'000'000;
  const RoceRun r(run_spec(f, w), patient);
  REQUIRE(r.done());
  CHECK_EQ(r.delivered(0) / from_ns(1'000'000), int64_t{820});  // 100,000 + 25 x 102 + 16 bytes
  CHECK(r.sim.windows() < 20'000);
}
