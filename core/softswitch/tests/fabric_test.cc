// Forwarding, queues and faults in virtual time.
#include "softswitch/fabric.h"

#include "rig.h"
#include "testing/check.h"
#include "wire/packet.h"

using namespace mrc;              // NOLINT(google-build-using-namespace)
using namespace mrc::softswitch;  // NOLINT(google-build-using-namespace)
using base::Duration;
using base::Instant;

namespace {

size_t reason(Drop d) { return static_cast<size_t>(d); }

// Sends one packet and returns what arrived, as (host node, packet).
std::vector<std::pair<uint32_t, std::vector<uint8_t>>> carry(Fabric& f, uint32_t host,
                                                             const std::vector<uint8_t>& p) {
  f.ingest(f.now(), host, p);
  return drain(f, f.now() + Duration::seconds(1));
}

}  // namespace

TEST_CASE("a list is followed switch by switch; each shifts its own uSID out and takes a hop") {
  Rig r;
  Fabric f = r.fabric();
  for (uint16_t t1 = 0; t1 < 2; ++t1) {
    const auto got = carry(f, r.host(0), r.packet(0, {T0(0), T1(t1), T0(1), H(1)}, 100));
    REQUIRE(got.size() == 1);
    CHECK_EQ(got[0].first, r.host(1));
    CHECK(destination(got[0].second).ip == address({H(1)}));
    CHECK_EQ(got[0].second[7], 64 - 3);
    CHECK_EQ(f.counters(r.t1(t1)).sid_packets, 1u);
    CHECK_EQ(f.counters(r.t1(1 - t1)).sid_packets, t1);
  }
  CHECK_EQ(f.counters(r.t0(0)).sid_packets, 2u);
  CHECK_EQ(f.counters(r.t0(1)).sid_packets, 2u);
  CHECK_EQ(f.frames().in_use(), 0u);
}

TEST_CASE("bits behind the host's uSID survive; a plain address goes by flow and always the same way") {
  Rig r;
  Fabric f = r.fabric();
  const auto got = carry(f, r.host(0), r.packet(0, {T0(0), T1(1), T0(1), H(1), 0xBEEF, 0xCAFE}, 1));
  REQUIRE(got.size() == 1);
  CHECK(destination(got[0].second).ip == address({H(1), 0xBEEF, 0xCAFE}));
  for (int i = 0; i < 10; ++i) CHECK_EQ(carry(f, r.host(0), r.packet(0, {H(1)}, 10)).size(), 1u);
  const uint64_t first = f.counters(r.t1(0)).forwarded, second = f.counters(r.t1(1)).forwarded - 1;
  CHECK_EQ(first + second, 10u);
  CHECK(first == 0 || second == 0);
}

TEST_CASE("whatever cannot go on is dropped where it stands, with its reason") {
  Rig r;
  Fabric f = r.fabric();
  const auto why = [&](const std::vector<uint8_t>& p, uint32_t node, Drop d) {
    const uint64_t before = f.counters(node).drops[reason(d)];
    CHECK(carry(f, r.host(0), p).empty());
    if (f.counters(node).drops[reason(d)] != before + 1) std::fprintf(stderr, "not %s\n", name(d));
    CHECK_EQ(f.counters(node).drops[reason(d)], before + 1);
  };
  why(r.packet(0, {T0(0), T1(7), H(1)}, 1), r.t0(0), Drop::no_route);
  why(r.packet(0, {T0(0)}, 1), r.t0(0), Drop::list_ended);
  why(r.packet(0, {T0(0), T1(0), T0(1), 0x8009}, 1), r.t0(1), Drop::no_route);
  why(r.packet(1, {T0(0), H(0)}, 1), r.host(0), Drop::bad_source);
  auto p = r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 1);
  p[7] = 2;
  why(p, r.t1(0), Drop::hop_limit);
  p = r.packet(0, {T0(0), H(0)}, 1);
  p[27] = 9;  // another plane's block
  why(p, r.t0(0), Drop::no_route);
  why({}, r.host(0), Drop::truncated);
  why(std::vector<uint8_t>(39, 0x60), r.host(0), Drop::truncated);
  p = r.packet(0, {T0(0), H(0)}, 5);
  p.pop_back();
  why(p, r.host(0), Drop::bad_length);
  p[0] = 0x45;
  why(p, r.host(0), Drop::not_ipv6);
  why(r.packet(0, {T0(0), H(0)}, 9001), r.host(0), Drop::too_big);
  CHECK_EQ(f.frames().in_use(), 0u);
}

TEST_CASE("random bytes at a host's port: nothing arrives that was not a packet, nothing is kept") {
  Rig r;
  Fabric f = r.fabric();
  base::Rng rng(3);
  const auto good = r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 60);
  for (int i = 0; i < 20'000; ++i) {
    std::vector<uint8_t> p = good;
    for (uint32_t k = 0; k <= rng.below(4); ++k)
      p[rng.below(static_cast<uint32_t>(p.size()))] = static_cast<uint8_t>(rng.next());
    if (rng.chance_ppm(100'000)) p.resize(rng.below(200));
    f.ingest(f.now(), r.host(0), p);
    if (i % 100 == 0) drain(f, f.now() + Duration::seconds(1));
  }
  drain(f, f.now() + Duration::seconds(1));
  CHECK_EQ(f.frames().in_use(), 0u);
}

TEST_CASE("the line: a packet leaves when its last bit is out, whoever looks late sees the same times") {
  Rig r;
  r.rate_bps = 1'000'000'000;
  r.delay = Duration::micros(5);
  for (const Duration step : {Duration{100}, Duration::millis(50)}) {
    Fabric f = r.fabric();
    const Instant t0{1'000'000};
    std::vector<Delivery> out;
    f.advance(t0, out);
    for (int i = 0; i < 10; ++i) f.ingest(t0, r.host(0), r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 1000));
    // 1000 + 48 + 14 bytes a line, four lines, and 9 more packets on the slowest.
    const int64_t one = (1000 + 48 + 14) * 8, last = t0.ns + 4 * (one + 5000) + 9 * one;
    Instant at = t0;
    while (out.size() < 10) {
      at = at + step;
      f.advance(at, out);
      if (at < Instant{last}) CHECK(out.size() < 10);
    }
    CHECK(at.ns >= last && at.ns < last + step.ns + 1);
    for (const Delivery& d : out) f.frames().give_back(d.frame);
  }
}

TEST_CASE("a rate that does not divide evenly is held over a thousand packets") {
  Rig r;
  r.rate_bps = 7'000'000'003;
  Fabric f = r.fabric();
  std::vector<Delivery> out;
  for (int i = 0; i < 1000; ++i) f.ingest({}, r.host(0), r.packet(0, {T0(0), H(0)}, 86));
  const double ideal = 1000.0 * (86 + 62) * 8e9 / 7'000'000'003.0;
  f.advance(Instant{static_cast<int64_t>(ideal) - 200}, out);
  CHECK(out.size() < 1000);
  f.advance(Instant{static_cast<int64_t>(ideal) + 600}, out);
  CHECK_EQ(out.size(), 1000u);
}

TEST_CASE("trimming: headers overtake, with the class of the hop; the last hop has its own") {
  Rig r;
  r.rate_bps = 100'000'000;
  r.rules.trim_bytes = 5'000;
  r.host_rate_bps = 10'000'000'000;
  Fabric f = r.fabric();
  // Two senders at once: it is the last hop that fills.
  for (int i = 0; i < 20; ++i) f.ingest({}, r.host(0), r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 1000, 4));
  const auto fabric_trimmed = drain(f, Instant{} + Duration::seconds(1));
  size_t cut = 0;
  for (const auto& [host, p] : fabric_trimmed) {
    if (dscp_of(p) != 12) continue;
    ++cut;
    CHECK_EQ(p.size(), 48u + wire::trimmed_bytes(false));
    CHECK_EQ(base::load_be16(p.data() + 4), p.size() - 40);
    CHECK_EQ(base::load_be16(p.data() + 44), p.size() - 40);
    CHECK_EQ(ecn_of(p), wire::kEcnEct0);
  }
  CHECK_EQ(fabric_trimmed.size(), 20u);
  CHECK(cut >= 10);
  CHECK_EQ(f.port_counters(r.t0_up(0, 0)).trimmed, cut);
  // Before data that waited longer: the first trimmed header is not the last to arrive.
  CHECK(dscp_of(fabric_trimmed.back().second) == 4);

  Rig last = r;
  last.fabric_rate_bps = 10'000'000'000;
  Fabric g = last.fabric();
  for (int i = 0; i < 20; ++i)
    g.ingest({}, last.host(0), last.packet(0, {T0(0), T1(0), T0(1), H(1)}, 1000, 4));
  for (const auto& [host, p] : drain(g, Instant{} + Duration::seconds(1)))
    CHECK(dscp_of(p) == 4 || dscp_of(p) == 16);
  CHECK(g.port_counters(last.t0_down(1)).trimmed >= 10);
}

TEST_CASE("without trimming, or for a class that is not to be trimmed, a full queue drops") {
  Rig r;
  r.rate_bps = 100'000'000;
  r.host_rate_bps = 10'000'000'000;
  r.rules.data_bytes = 5'000;
  for (const uint8_t dscp : {uint8_t{0}, uint8_t{4}}) {
    r.rules.trim_bytes = dscp == 0 ? 3'000 : 0;
    Fabric f = r.fabric();
    for (int i = 0; i < 20; ++i)
      f.ingest({}, r.host(0), r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 1000, dscp));
    const auto got = drain(f, Instant{} + Duration::seconds(1));
    const PortCounters n = f.port_counters(r.t0_up(0, 0));
    CHECK_EQ(n.trimmed, 0u);
    CHECK_EQ(n.dropped + got.size(), 20u);
    CHECK(n.dropped >= 10);
  }
}

TEST_CASE("marks: none below, all above, some between; only capable packets; control goes first") {
  Rig r;
  r.rate_bps = 100'000'000;
  r.host_rate_bps = 10'000'000'000;
  r.rules.ecn_min = 50'000;
  r.rules.ecn_max = 150'000;
  Fabric f = r.fabric();
  for (int i = 0; i < 300; ++i) f.ingest({}, r.host(0), r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 952, 4));
  f.ingest(Instant{3'000'000}, r.host(0), r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 20, 46));
  const auto got = drain(f, Instant{} + Duration::seconds(1));
  REQUIRE(got.size() == 301);
  size_t marked = 0, control_at = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (ecn_of(got[i].second) == wire::kEcnCe) ++marked;
    if (dscp_of(got[i].second) == 46) control_at = i;
  }
  CHECK_EQ(f.port_counters(r.t0_up(0, 0)).marked, marked);
  CHECK(marked > 150 && marked < 250);
  CHECK(control_at < 60);
  r.ecn = 0;
  Fabric g = r.fabric();
  for (int i = 0; i < 300; ++i) g.ingest({}, r.host(0), r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 952, 4));
  drain(g, Instant{} + Duration::seconds(1));
  CHECK_EQ(g.port_counters(r.t0_up(0, 0)).marked, 0u);
}

TEST_CASE("faults: down, hole, loss, corruption, rate, delay; each in its direction, gone when healed") {
  Rig r;
  Fabric f = r.fabric();
  const auto there = [&] { return carry(f, r.host(0), r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 100)); };
  const auto back = [&] { return carry(f, r.host(1), r.packet(1, {T0(1), T1(0), T0(0), H(0)}, 100)); };
  const uint32_t up = r.t0_up(0, 0);
  for (const bool down : {true, false}) {
    PortFault fault;
    (down ? fault.down : fault.hole) = true;
    REQUIRE(f.set_fault(up, fault));
    CHECK_EQ(there().size(), 0u);
    CHECK_EQ(back().size(), 1u);
    f.set_fault(up, {});
    CHECK_EQ(there().size(), 1u);
  }
  CHECK_EQ(f.counters(r.t0(0)).drops[reason(Drop::link_down)], 1u);
  CHECK_EQ(f.port_counters(up).lost, 1u);

  PortFault gray;
  gray.loss_ppm = 200'000;
  f.set_fault(up, gray);
  size_t got = 0;
  for (int i = 0; i < 2000; ++i) got += there().size();
  CHECK(got > 1500 && got < 1700);

  PortFault dirty;
  dirty.corrupt_ppm = 1'000'000;
  f.set_fault(up, dirty);
  const auto bad = there();
  REQUIRE(bad.size() == 1);
  const auto good = r.packet(0, {H(1)}, 100);
  int bits = 0;
  for (size_t i = 48; i < good.size(); ++i)
    bits += __builtin_popcount(static_cast<unsigned>(good[i] ^ bad[0].second[i]));
  CHECK_EQ(bits, 1);

  PortFault slow;
  slow.delay = Duration::millis(3);
  slow.rate_bps = 1'000'000;
  f.set_fault(up, slow);
  f.ingest(f.now(), r.host(0), r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 63));  // 125 bytes: one ms
  CHECK_EQ(drain(f, f.now() + Duration::micros(3'990)).size(), 0u);
  CHECK_EQ(drain(f, f.now() + Duration::micros(60)).size(), 1u);
  CHECK(!f.set_fault(10'000, {}));
}

TEST_CASE("a link that goes down loses what it holds; ECMP avoids it, hosts know") {
  Rig r;
  r.rate_bps = 1'000'000;
  Fabric f = r.fabric();
  for (int i = 0; i < 10; ++i) f.ingest({}, r.host(0), r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 100));
  drain(f, Instant{} + Duration::millis(3));
  CHECK(f.backlog(r.host(0)) > Duration::millis(5));
  PortFault down;
  down.down = true;
  f.set_fault(r.host_up(0), down);
  CHECK(!f.linked(r.host(0)));
  CHECK(f.linked(r.host(1)));
  CHECK(f.port_counters(r.host_up(0)).flushed >= 6);
  f.set_fault(r.host_up(0), {});
  CHECK(f.linked(r.host(0)));
  drain(f, f.now() + Duration::seconds(1));
  f.set_fault(r.t0_up(0, 0), down);
  for (int i = 0; i < 20; ++i)
    f.ingest(f.now(), r.host(0), r.packet(0, {H(1)}, 10, 0, static_cast<uint16_t>(i)));
  CHECK_EQ(drain(f, f.now() + Duration::seconds(2)).size(), 20u);
  CHECK_EQ(f.counters(r.t1(1)).forwarded, 20u);
}

TEST_CASE("equal seeds and calls: equal results") {
  const auto run = [] {
    Rig r;
    r.rate_bps = 50'000'000;
    r.rules.ecn_min = 2'000;
    r.rules.ecn_max = 60'000;
    r.rules.trim_bytes = 30'000;
    r.host_rate_bps = 10'000'000'000;
    Fabric f = r.fabric();
    PortFault gray;
    gray.loss_ppm = 50'000;
    f.set_fault(r.t0_up(0, 0), gray);
    std::vector<uint8_t> all;
    for (int i = 0; i < 200; ++i) {
      f.ingest(Instant{i * 50'000}, r.host(0), r.packet(0, {T0(0), T1(0), T0(1), H(1)}, 1000, 4));
      for (const auto& [host, p] : drain(f, Instant{i * 50'000})) all.insert(all.end(), p.begin(), p.end());
    }
    return all;
  };
  CHECK(run() == run());
}

TEST_CASE("specifications that do not fit are refused in words") {
  Rig r;
  const auto refused = [](FabricSpec s) {
    std::string why;
    const Fabric f(s, why);
    return !why.empty();
  };
  FabricSpec s = r.spec();
  CHECK(!refused(s));
  s.mtu = 100;
  CHECK(refused(s));
  s = r.spec();
  s.ports[0].to = 99;
  CHECK(refused(s));
  s = r.spec();
  s.routes[0].ports = {r.t0_up(1, 0)};
  CHECK(refused(s));
  s = r.spec();
  s.routes.push_back(s.routes[0]);
  CHECK(refused(s));
  s = r.spec();
  s.ports.push_back(s.ports[r.host_up(0)]);
  CHECK(refused(s));
}
