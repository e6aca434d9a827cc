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
  CHECK(near(p.alpha * 1000, 5461.333, 0.001));   // per us
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
  c.on_ack(ack(30, 4096, 40));            // no ecn, delay 28 us >= 12: fair
  CHECK_EQ(branch(c, "fair"), 1u);
  c.on_ack(ack(31, 4096, 15));            // no ecn, delay 3 us: proportional
  CHECK_EQ(branch(c, "proportional"), 1u);
  c.on_ack(ack(32, 4096, 15, true));      // ecn, low delay: nothing
  CHECK_EQ(branch(c, "hold"), 1u);
  const auto before = c.snapshot().cwnd;
  c.on_ack(ack(80, 4096, 60, true));      // ecn, high delay: decrease
  CHECK_EQ(branch(c, "decrease"), 1u);
  CHECK(c.snapshot().cwnd < before);
  c.on_ack(ack(81, 4096, 60, true));      // not twice in one RTT
  CHECK_EQ(branch(c, "decrease"), 1u);
  CHECK_EQ(branch(c, "decrease_early"), 1u);
}

TEST_CASE("fast increase needs a clear window first, then grows by fi_scale") {
  CcConfig config;
  config.max_cwnd = 10'000'000;
  LinkParams l = link400(false);
  l.bytes_per_second *= 4;
  Nscc c(config, l, Instant{});
  c.on_loss({Instant{}, 3'000'000, false});
  const int64_t start = c.snapshot().cwnd;
  for (int i = 0; i < 200; ++i) {
    c.on_send(Instant{}, 16'384);
    c.on_ack(ack(100 + i, 16'384, 12));
  }
  CHECK(branch(c, "fast") > 0);
  CHECK(branch(c, "proportional") > 0);
  CHECK(c.snapshot().cwnd > start);
  CHECK(c.snapshot().cwnd <= c.snapshot().max_wnd);
}

TEST_CASE("quick adapt fires once a window and ignores the rest of it") {
  Nscc c({}, link400(true), Instant{});
  c.on_send(Instant{}, 800'000);
  c.on_nack({Instant{1000}, 4184, NackKind::trimmed, {}});     // starts the first interval
  CHECK_EQ(branch(c, "trim"), 1u);
  c.on_nack({Instant{40'000}, 4184, NackKind::trimmed, {}});   // almost nothing achieved in it
  CHECK_EQ(branch(c, "qa_fired"), 1u);
  CHECK_EQ(c.snapshot().cwnd, 4096);
  c.on_nack({Instant{41'000}, 4184, NackKind::trimmed_lasthop, {}});
  CHECK_EQ(branch(c, "qa_ignored"), 1u);
  CHECK_EQ(c.snapshot().cwnd, 4096);
}

TEST_CASE("penalty holds the window down, restore brings the saved one back") {
  Nscc c({}, link400(true), Instant{});
  c.on_send(Instant{}, 500'000);
  const int64_t before = c.snapshot().cwnd;
  AckEvent e = ack(13, 4096, 13);
  e.rcv_cwnd_pen = 64;
  c.on_ack(e);
  CHECK(c.snapshot().cwnd < 500'000);
  e = ack(14, 0, 13);
  e.restore_cwnd = true;
  c.on_ack(e);
  CHECK_EQ(branch(c, "restore"), 1u);
  CHECK(c.snapshot().cwnd >= before);
}

TEST_CASE("inflight is signed, capped by what is outstanding, and zero without packets") {
  Nscc c({}, link400(true), Instant{});
  c.on_send(Instant{}, 4184);
  c.on_ack(ack(13, 4352, 13));            // 17 units of 256 B
  CHECK_EQ(c.snapshot().inflight, 4184 - 4352);
  c.on_outstanding(0);
  CHECK_EQ(c.snapshot().inflight, 0);
  c.on_send(Instant{}, 10'000);
  c.on_outstanding(4000);
  CHECK_EQ(c.snapshot().inflight, 4000);
}

TEST_CASE("a lost plane lowers the maximum, its return raises it") {
  Nscc c({}, link400(true), Instant{});
  LinkParams half = link400(true);
  half.bytes_per_second /= 2;
  c.on_link(Instant{}, half);
  CHECK_EQ(c.snapshot().max_wnd, 450'000);
  CHECK(c.snapshot().cwnd <= 450'000);
  c.on_link(Instant{}, link400(true));
  CHECK_EQ(c.snapshot().max_wnd, 900'000);
}

TEST_CASE("a bad clock cannot collapse base_rtt below its floor") {
  CcConfig config;
  config.min_base_rtt = Duration::micros(10);
  Nscc c(config, link400(true), Instant{});
  c.on_ack(ack(13, 4096, 0));
  CHECK_EQ(c.snapshot().base_rtt.ns, 10'000);
}

TEST_CASE("the registry knows its names and refuses nonsense") {
  CHECK(make_controller("uet-1.0-nscc", {}, {}, {}).ok());
  CHECK(make_controller("", {}, {}, {}).ok());
  CHECK_EQ(make_controller("bbr", {}, {}, {}).error(), EINVAL);
  CcConfig bad;
  bad.gamma = 1.5;
  CHECK_EQ(check_config("uet-1.0-nscc", bad), EINVAL);
  CHECK_EQ(register_controller("null", nullptr), EEXIST);
  auto fixed = make_controller("fixed-window", {}, link400(true), {});
  fixed.value()->on_send({}, 900'000);
  CHECK(!fixed.value()->can_send());
  fixed.value()->on_loss({{}, 4096, true});
  CHECK(fixed.value()->can_send());
}
