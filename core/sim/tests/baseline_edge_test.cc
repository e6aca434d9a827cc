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
