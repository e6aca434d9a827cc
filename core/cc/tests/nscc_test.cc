// NSCC: the reference vectors V077 to V083 and one story for each branch.
#include "cc/nscc.h"

#include <cerrno>
#include <cmath>
#include <cstring>

#include "testing/check.h"

using namespace mrc::cc;  // NOLINT(google-build-using-namespace)
using mrc::base::Duration;
using mrc::base::Instant;

namespace {

bool near(double a, double b, double tolerance) { return std::fabs(a - b) <= tolerance; }

LinkParams link400(bool trimming) {
  LinkParams l;
  l.bytes_per_second = 50'000'000'000;
  l.base_rtt = Duration::micros(12);
  l.mtu = 4096;
  l.trimming = trimming;
  return l;
}

uint64_t branch(const Controller& c, const char* name) {
  for (const auto& n : c.counters()) {
    if (std::strcmp(n.name, name) == 0) return n.value;
  }
  return UINT64_MAX;
}

AckEvent ack(int64_t us, int64_t newly, int64_t rtt_us, bool ecn = false) {
  AckEvent e;
  e.now = Instant{us * 1000};
  e.newly_bytes = newly;
  e.rtt = Duration::micros(rtt_us);
  e.ecn = ecn;
  return e;
}

}  // namespace

TEST_CASE("V077: parameters of 400 Gb/s, 12 us, MTU 4096 with trimming") {
  const NsccParams p = derive_params({}, link400(true));
  CHECK(near(p.bdp, 600'000, 0.1));
  CHECK(near(p.scaling_a, 4, 1e-9));
  CHECK_EQ(p.target_qdelay.ns, 9000);
  CHECK(near(p.scaling_b, 0.75, 1e-9));
  CHECK(near(p.alpha * 1000, 5461.333, 0.001));  // per us
  CHECK(near(p.fi, 81'920, 1e-6));
  CHECK(near(p.fi_scale, 1.0, 1e-9));
  CHECK(near(p.eta, 2457.6, 1e-6));
  CHECK(near(p.max_wnd, 900'000, 0.1));
  CHECK_EQ(p.adjust_bytes, 32'768);
  CHECK_EQ(p.adjust_period.ns, 12'000);
  CHECK(p.qa_threshold == kInfiniteDelay);
}

TEST_CASE("V078 to V080: the decrease, its limit and its spacing") {
  NsccParams p = derive_params({}, link400(true));
  CHECK(near(decreased(600'000, p, Duration{18'000}, Duration{20'000}, Duration{12'000}), 360'000, 1));
  CHECK(near(decreased(600'000, p, Duration{90'000}, Duration{20'000}, Duration{12'000}), 300'000, 1));
  CHECK(near(decreased(600'000, p, Duration{18'000}, Duration{12'000}, Duration{12'000}), 600'000, 0));
}

TEST_CASE("V081 to V083: penalty, fair and proportional fulfil") {
  CHECK(near(penalised(500'000, 400'000, 64, 4096, 4096), 397'952, 0));
  CHECK(near(fulfilled(100'000, 81'920.0 * 36'864, 900'000), 130'198, 1));
  CHECK(near(fulfilled(100'000, 5461.333 * 36'864 * 6, 900'000), 112'079, 2));
}

TEST_CASE("each quadrant takes its branch") {
  Nscc c({}, link400(false), Instant{});
  c.on_send(Instant{}, 400'000);
  c.on_ack(ack(30, 4096, 40));  // no ecn, delay 28 us >= 12: fair
  CHECK_EQ(branch(c, "fair"), 1u);
  c.on_ack(ack(31, 4096, 15));  // no ecn, delay 3 us: proportional
  CHECK_EQ(branch(c, "proportional"), 1u);
  c.on_ack(ack(32, 4096, 15, true));  // ecn, low delay: nothing
  CHECK_EQ(branch(c, "hold"), 1u);
  const auto before = c.snapshot().cwnd;
  c.on_ack(ack(80, 4096, 60, true));  // ecn, high delay: decrease
  CHECK_EQ(branch(c, "decrease"), 1u);
  CHECK(c.snapshot().cwnd < before);
  c.on_ack(ack(81, 4096, 60, true));  // not twice in one RTT
  CHECK_EQ(branch(c, "decrease"), 1u);
  CHECK_EQ(branch(c, "decrease_early"), 1u);
}

TEST_CASE("a delay of exactly the target counts as high, a late ACK without a sample moves inflight only") {
  Nscc c({}, link400(false), Instant{});
  c.on_send(Instant{}, 100'000);
  c.on_ack(ack(30, 4096, 24));
  CHECK_EQ(branch(c, "fair"), 1u);
  AckEvent e = ack(31, 4096, 0);
  e.rtt.reset();
  c.on_ack(e);
  CHECK_EQ(branch(c, "no_rtt"), 1u);
  CHECK_EQ(c.snapshot().inflight, 100'000 - 8192);
  CHECK_EQ(c.snapshot().base_rtt.ns, 12'000);
}

TEST_CASE("the increase is granted after adjust_bytes, and eta after each period") {
  Nscc c({}, link400(false), Instant{});
  c.on_loss({Instant{}, 800'000, false});
  const int64_t start = c.snapshot().cwnd;  // 100,000
  CHECK_EQ(start, 100'000);
  for (int i = 0; i < 8; ++i) c.on_ack(ack(1, 4096, 40));
  CHECK_EQ(branch(c, "fulfil"), 0u);  // 32,768 received: not more than adjust_bytes
  CHECK_EQ(c.snapshot().cwnd, start);
  c.on_ack(ack(1, 4096, 40));
  CHECK_EQ(branch(c, "fulfil"), 1u);
  CHECK_EQ(branch(c, "period"), 0u);
  CHECK_EQ(c.snapshot().cwnd, 130'198);  // V082 through the whole path
  c.on_ack(ack(13, 0, 40));
  CHECK_EQ(branch(c, "period"), 1u);
  CHECK_EQ(c.snapshot().cwnd, 130'199 + 2457);  // 130,198.53 + 2457.6
}

TEST_CASE(
    "fast increase needs a window of clear ACKs first, then adds fi_scale of each until one is not clear") {
  Nscc c({}, link400(true), Instant{});
  c.on_loss({Instant{}, 860'000, false});  // cwnd 40,000
  for (int i = 0; i < 2; ++i) c.on_ack(ack(1, 16'384, 12));
  CHECK_EQ(branch(c, "fast"), 0u);
  CHECK_EQ(branch(c, "proportional"), 2u);
  c.on_ack(ack(1, 16'384, 12));  // 49,152 clear bytes: more than the window
  CHECK_EQ(branch(c, "fast"), 1u);
  const int64_t first = c.snapshot().cwnd;
  c.on_ack(ack(1, 16'384, 12));
  CHECK(c.snapshot().cwnd >= first + 16'384);  // fi_scale is 1
  CHECK_EQ(branch(c, "fast"), 2u);
  c.on_ack(ack(1, 4096, 14));  // 2 us of delay: not clear
  c.on_ack(ack(1, 4096, 12));
  CHECK_EQ(branch(c, "fast"), 2u);
  for (int i = 0; i < 200; ++i) c.on_ack(ack(2, 16'384, 12));
  CHECK_EQ(c.snapshot().cwnd, c.snapshot().max_wnd);  // and never beyond
}

TEST_CASE("a software host widens what counts as clear") {
  CcConfig config;
  config.base_rtt = Duration::micros(100);
  config.clear_delay_fraction = 0.1;
  const NsccParams p = derive_params(config, link400(false));
  CHECK_EQ(p.clear_delay.ns, 10'000);
  config.clear_delay_fraction = 0.001;
  CHECK_EQ(derive_params(config, link400(false)).clear_delay.ns, 1000);
}

TEST_CASE("quick adapt fires once a window and ignores the rest of it") {
  Nscc c({}, link400(true), Instant{});
  c.on_send(Instant{}, 800'000);
  c.on_nack({Instant{1000}, 4184, NackKind::trimmed, {}});  // starts the first interval
  CHECK_EQ(branch(c, "trim"), 1u);
  c.on_nack({Instant{40'000}, 4184, NackKind::trimmed, {}});  // almost nothing achieved in it
  CHECK_EQ(branch(c, "qa_fired"), 1u);
  CHECK_EQ(c.snapshot().cwnd, 4096);
  const int64_t to_ignore = c.snapshot().inflight;
  CHECK_EQ(to_ignore, 800'000 - 2 * 4184);
  c.on_nack({Instant{41'000}, 4184, NackKind::trimmed_lasthop, {}});
  CHECK_EQ(branch(c, "qa_ignored"), 1u);
  CHECK_EQ(c.snapshot().cwnd, 4096);
  // The window that was cut has been reported in full: feedback counts again.
  for (int64_t done = 4184; done < to_ignore; done += 4096) c.on_ack(ack(42, 4096, 30));
  const uint64_t ignored = branch(c, "qa_ignored");
  c.on_ack(ack(43, 4096, 14, true));
  CHECK_EQ(branch(c, "qa_ignored"), ignored);
  CHECK_EQ(branch(c, "hold"), 1u);
}

TEST_CASE("quick adapt needs a slow interval, and can be switched off") {
  CcConfig config;
  Nscc c(config, link400(false), Instant{});  // threshold 4 x 12 us
  c.on_ack(ack(1, 4096, 12));                 // interval until 25 us
  for (int i = 0; i < 50; ++i) c.on_ack(ack(10, 4096, 12));
  c.on_ack(ack(26, 4096, 12 + 49));  // over the threshold, but 200 kB got through
  CHECK_EQ(branch(c, "qa_fired"), 0u);
  c.on_ack(ack(51, 4096, 12 + 49));  // and now almost nothing
  CHECK_EQ(branch(c, "qa_fired"), 1u);
  CHECK_EQ(c.snapshot().cwnd, 4096);

  config.disable_qa = true;
  Nscc off(config, link400(false), Instant{});
  for (int i = 1; i < 20; ++i) off.on_ack(ack(30 * i, 4096, 70));
  CHECK_EQ(branch(off, "qa_fired") + branch(off, "qa_quiet") + branch(off, "qa_ignored"), 0u);
}

TEST_CASE("a penalty shrinks the window and saves it once; restore brings it back once") {
  Nscc c({}, link400(true), Instant{});
  c.on_send(Instant{}, 500'000);
  AckEvent e = ack(1, 4096, 13);
  e.rcv_cwnd_pen = 64;
  c.on_ack(e);
  // The window falls to what is in flight, then by half of what arrived; no increase from this ACK.
  CHECK_EQ(c.snapshot().cwnd, 500'000 - 4096 - 2048);
  CHECK_EQ(branch(c, "limited"), 1u);
  c.on_ack(e);
  CHECK_EQ(branch(c, "penalty"), 2u);
  CHECK(c.snapshot().cwnd < 500'000 - 4096 - 2048);
  AckEvent back = ack(2, 0, 13);
  back.restore_cwnd = true;
  c.on_ack(back);
  CHECK_EQ(branch(c, "restore"), 1u);
  CHECK_EQ(c.snapshot().cwnd, c.snapshot().max_wnd);  // the saved one
  c.on_ack(back);
  CHECK_EQ(branch(c, "restore"), 1u);
}

TEST_CASE("a penalty in every SACK pushes the window towards one packet and not below") {
  Nscc c({}, link400(true), Instant{});
  c.on_send(Instant{}, 800'000);
  AckEvent e = ack(1, 4096, 13);
  e.rcv_cwnd_pen = 127;
  for (int i = 0; i < 300; ++i) {
    c.on_ack(e);
    while (c.can_send()) c.on_send(Instant{}, 4096);
  }
  CHECK_EQ(c.snapshot().cwnd, 4096);
  CHECK(c.snapshot().inflight <= 8192);
}

TEST_CASE("what was taken out of inflight already changes nothing when it is reported again") {
  Nscc c({}, link400(true), Instant{});
  c.on_send(Instant{}, 100'000);
  c.on_loss({Instant{1000}, 4184, false});
  const Snapshot before = c.snapshot();
  c.on_nack({Instant{2000}, 0, NackKind::trimmed, {}});
  c.on_loss({Instant{2000}, 0, true});
  CHECK_EQ(c.snapshot().cwnd, before.cwnd);
  CHECK_EQ(c.snapshot().inflight, 100'000 - 4184);
  CHECK_EQ(c.snapshot().avg_delay.ns, before.avg_delay.ns);
  CHECK_EQ(branch(c, "late_nack"), 1u);
  CHECK_EQ(branch(c, "late_loss"), 1u);
  CHECK_EQ(branch(c, "timeout"), 0u);
}

TEST_CASE("refusals that say nothing about the network leave the window alone") {
  Nscc c({}, link400(true), Instant{});
  c.on_send(Instant{}, 100'000);
  const int64_t before = c.snapshot().cwnd;
  c.on_nack({Instant{1000}, 4184, NackKind::other, Duration::micros(13)});
  CHECK_EQ(c.snapshot().cwnd, before);
  CHECK_EQ(c.snapshot().inflight, 100'000 - 4184);
  CHECK_EQ(branch(c, "other_nack"), 1u);
}

TEST_CASE("a NACK with a record RTT still counts its trim in the average delay") {
  Nscc c({}, link400(true), Instant{});
  c.on_send(Instant{}, 100'000);
  c.on_nack({Instant{6000}, 4184, NackKind::trimmed, Duration::micros(10)});
  CHECK_EQ(c.snapshot().base_rtt.ns, 10'000);
  CHECK_EQ(c.snapshot().avg_delay.ns, 7'200);  // 6/10 of the configured 12 us
  CHECK_EQ(c.snapshot().max_wnd, 750'000);
}

TEST_CASE("losses never push the window below one packet") {
  Nscc c({}, link400(true), Instant{});
  for (int i = 0; i < 10; ++i) c.on_loss({Instant{}, 400'000, true});
  CHECK_EQ(c.snapshot().cwnd, 4096);
  c.on_outstanding(0);
  CHECK(c.can_send());
  CHECK_EQ(branch(c, "timeout"), 10u);
}

TEST_CASE("inflight is signed, capped by what is outstanding, and zero without packets") {
  Nscc c({}, link400(true), Instant{});
  c.on_send(Instant{}, 4184);
  c.on_ack(ack(13, 4352, 13));  // 17 units of 256 B
  CHECK_EQ(c.snapshot().inflight, 4184 - 4352);
  c.on_outstanding(0);
  CHECK_EQ(c.snapshot().inflight, 0);
  c.on_send(Instant{}, 10'000);
  c.on_outstanding(4000);
  CHECK_EQ(c.snapshot().inflight, 4000);
  c.on_outstanding(5000);
  CHECK_EQ(c.snapshot().inflight, 4000);
  CHECK_EQ(branch(c, "repair"), 2u);
}

TEST_CASE("a lost plane lowers the maximum, its return raises it") {
  Nscc c({}, link400(true), Instant{});
  LinkParams half = link400(true);
  half.bytes_per_second /= 2;
  c.on_link(Instant{}, half);
  CHECK_EQ(c.snapshot().max_wnd, 450'000);
  CHECK_EQ(c.snapshot().cwnd, 450'000);
  c.on_link(Instant{}, link400(true));
  CHECK_EQ(c.snapshot().max_wnd, 900'000);
  CHECK_EQ(c.snapshot().cwnd, 450'000);  // grows back by its own rules
}

TEST_CASE("a new base RTT from the driver counts, but never above what was measured") {
  Nscc c({}, link400(true), Instant{});
  LinkParams slow = link400(true);
  slow.base_rtt = Duration::micros(100);
  c.on_link(Instant{}, slow);
  CHECK_EQ(c.snapshot().base_rtt.ns, 100'000);
  CHECK_EQ(c.snapshot().target_qdelay.ns, 75'000);
  CHECK_EQ(c.snapshot().max_wnd, 7'500'000);
  c.on_ack(ack(200, 4096, 60));
  slow.base_rtt = Duration::micros(150);
  c.on_link(Instant{}, slow);
  CHECK_EQ(c.snapshot().base_rtt.ns, 60'000);
}

TEST_CASE("max_cwnd caps the initial window and the growth") {
  CcConfig config;
  config.max_cwnd = 50'000;
  Nscc c(config, link400(true), Instant{});
  CHECK_EQ(c.snapshot().cwnd, 50'000);
  for (int i = 0; i < 100; ++i) c.on_ack(ack(13 * i, 16'384, 12));
  CHECK_EQ(c.snapshot().cwnd, 50'000);
}

TEST_CASE("a bad clock cannot collapse base_rtt below its floor") {
  CcConfig config;
  config.min_base_rtt = Duration::micros(10);
  Nscc c(config, link400(true), Instant{});
  c.on_ack(ack(13, 4096, 0));
  CHECK_EQ(c.snapshot().base_rtt.ns, 10'000);
}

TEST_CASE("many small steps of the average add up") {
  Nscc c({}, link400(false), Instant{});
  AckEvent e = ack(0, 0, 14);
  for (int i = 1; i <= 12'000; ++i) {  // one sample each 10 ns, ten base RTTs in all
    e.now = Instant{i * 10};
    c.on_ack(e);
  }
  CHECK(near(static_cast<double>(c.snapshot().avg_delay.ns), 2000, 2));
}

TEST_CASE("an ACK is asked for when the window is nearly full or smaller than the peer's threshold") {
  Nscc c({}, link400(true), Instant{});  // 900,000
  c.on_send(Instant{}, 890'000);
  CHECK(!c.wants_ack(5'904, 16'384));  // 4,096 left after it
  CHECK(c.wants_ack(5'905, 16'384));
  CHECK(c.wants_ack(1, 900'001));
}
