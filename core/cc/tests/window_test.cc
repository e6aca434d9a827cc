// The two plain controllers, and the registry with the sanity of settings.
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>

#include "cc/fixed_window.h"
#include "testing/check.h"

using namespace mrc::cc;  // NOLINT(google-build-using-namespace)
using mrc::base::Duration;
using mrc::base::Instant;

namespace {

uint64_t branch(const Controller& c, const char* name) {
  for (const auto& n : c.counters()) {
    if (std::strcmp(n.name, name) == 0) return n.value;
  }
  return UINT64_MAX;
}

LinkParams link100() {
  LinkParams l;
  l.bytes_per_second = 12'500'000'000;
  l.base_rtt = Duration::micros(12);
  l.mtu = 4184;
  return l;
}

AckEvent ack(int64_t newly, int64_t rtt_us) {
  AckEvent e;
  e.newly_bytes = newly;
  e.rtt = Duration::micros(rtt_us);
  return e;
}

std::unique_ptr<Controller> make(const char* name, const CcConfig& config = {}) {
  auto r = make_controller(name, config, link100(), Instant{});
  REQUIRE(r.ok());
  return std::move(r.value());
}

}  // namespace

TEST_CASE("the fixed window is 1.5 BDP by default and does not move with what happens") {
  auto c = make("fixed-window");
  CHECK_EQ(c->snapshot().cwnd, 225'000);
  c->on_send({}, 224'999);
  CHECK(c->can_send());
  c->on_send({}, 1);
  CHECK(!c->can_send());
  c->on_loss({{}, 4184, true});
  c->on_nack({{}, 4184, NackKind::trimmed, {}});
  c->on_ack(ack(4352, 8));
  CHECK_EQ(c->snapshot().inflight, 225'000 - 2 * 4184 - 4352);
  CHECK_EQ(c->snapshot().cwnd, 225'000);
  CHECK_EQ(c->snapshot().base_rtt.ns, 8'000);
  CHECK_EQ(branch(*c, "ack") + branch(*c, "nack") + branch(*c, "loss"), 3u);
  c->on_outstanding(0);
  CHECK_EQ(c->snapshot().inflight, 0);
  CHECK_EQ(branch(*c, "repair"), 1u);
}

TEST_CASE("max_cwnd is the fixed window itself, smaller or larger than the default, at least one packet") {
  CcConfig config;
  config.max_cwnd = 1'000'000;
  CHECK_EQ(make("fixed-window", config)->snapshot().cwnd, 1'000'000);
  config.max_cwnd = 10'000;
  CHECK_EQ(make("fixed-window", config)->snapshot().cwnd, 10'000);
  config.max_cwnd = 1;
  CHECK_EQ(make("fixed-window", config)->snapshot().cwnd, 4184);
}

TEST_CASE("the default fixed window follows the link, a given one does not") {
  CcConfig config;
  auto c = make("fixed-window");
  LinkParams half = link100();
  half.bytes_per_second /= 2;
  c->on_link({}, half);
  CHECK_EQ(c->snapshot().cwnd, 112'500);
  CHECK_EQ(branch(*c, "link"), 1u);
  config.max_cwnd = 50'000;
  c = make("fixed-window", config);
  c->on_link({}, half);
  CHECK_EQ(c->snapshot().cwnd, 50'000);
}

TEST_CASE("the fixed window asks for ACKs near its end") {
  auto c = make("fixed-window");
  CHECK(!c->wants_ack(4184, 16'384));
  c->on_send({}, 220'000);
  CHECK(c->wants_ack(4184, 16'384));
}

TEST_CASE("without congestion control nothing is refused and inflight is still counted") {
  for (const char* name : {"", "null"}) {
    auto c = make(name);
    for (int i = 0; i < 1000; ++i) c->on_send({}, int64_t{1} << 31);
    CHECK(c->can_send());
    CHECK(!c->wants_ack(4184, 16'384));
    c->on_ack(ack(256, 20));
    CHECK_EQ(c->snapshot().inflight, 1000 * (int64_t{1} << 31) - 256);
    c->on_outstanding(4184);
    CHECK_EQ(c->snapshot().inflight, 4184);
  }
}

TEST_CASE("names: the built-in three, others refused, own ones once") {
  CHECK_EQ(make_controller("bbr", {}, link100(), {}).error(), EINVAL);
  CHECK_EQ(check_config("bbr", {}), EINVAL);
  CHECK_EQ(register_controller("null", nullptr), EINVAL);
  const Factory f = [](const CcConfig& c, const LinkParams& l, Instant now) -> std::unique_ptr<Controller> {
    return std::make_unique<FixedWindow>(c, l, now);
  };
  CHECK_EQ(register_controller("", f), EINVAL);
  CHECK_EQ(register_controller("uet-1.0-nscc", f), EEXIST);
  CHECK_EQ(register_controller("mine", f), 0);
  CHECK_EQ(register_controller("mine", f), EEXIST);
  CHECK_EQ(make("mine")->snapshot().cwnd, 225'000);
  CHECK_EQ(algorithms().size(), 4u);
}

TEST_CASE("settings out of range are refused, whatever the algorithm") {
  const auto refused = [](void (*change)(CcConfig&)) {
    CcConfig c;
    change(c);
    return check_config("uet-1.0-nscc", c) == EINVAL && !make_controller("", c, link100(), {}).ok();
  };
  CHECK_EQ(check_config("uet-1.0-nscc", {}), 0);
  CHECK(refused([](CcConfig& c) { c.gamma = 1.01; }));
  CHECK(refused([](CcConfig& c) { c.gamma = -0.1; }));
  CHECK(refused([](CcConfig& c) { c.gamma = std::nan(""); }));
  CHECK(refused([](CcConfig& c) { c.max_md_jump = 2; }));
  CHECK(refused([](CcConfig& c) { c.avg_weight = 1.5; }));
  CHECK(refused([](CcConfig& c) { c.clear_delay_fraction = -1; }));
  CHECK(refused([](CcConfig& c) { c.eta = std::nan(""); }));
  CHECK(refused([](CcConfig& c) { c.fi = std::numeric_limits<double>::infinity(); }));
  CHECK(refused([](CcConfig& c) { c.fi_scale = -1; }));
  CHECK(refused([](CcConfig& c) { c.max_cwnd = -1; }));
  CHECK(refused([](CcConfig& c) { c.max_cwnd = std::numeric_limits<int64_t>::max(); }));
  CHECK(refused([](CcConfig& c) { c.adjust_bytes_threshold = -1; }));
  CHECK(refused([](CcConfig& c) { c.qa_gate = 63; }));
  CHECK(refused([](CcConfig& c) { c.base_rtt = Duration{-1}; }));
  CHECK(refused([](CcConfig& c) { c.target_delay = Duration::forever(); }));
  LinkParams l = link100();
  l.bytes_per_second = 0;
  CHECK_EQ(make_controller("uet-1.0-nscc", {}, l, {}).error(), EINVAL);
  l = link100();
  l.mtu = 0;
  CHECK_EQ(make_controller("uet-1.0-nscc", {}, l, {}).error(), EINVAL);
}
