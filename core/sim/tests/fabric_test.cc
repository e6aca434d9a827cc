// Units, delays and forwarding by hand: serialization, one way over two and three tiers, uSID lists, EV bits,
// salted hashes, and paths of every number on small fabrics.
#include "sim/fabric.h"

#include <map>
#include <set>

#include "sim/tests/shapes.h"

using namespace mrc::sim;          // NOLINT(google-build-using-namespace)
using namespace mrc::sim::shapes;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kFull = 4096 + 52 + kWireOverhead;  // 4,234 bytes on the wire

// Ports that a frame takes from its NIC on, as the switches decide; empty: it does not arrive.
std::vector<PortId> travel(const Fabric& fabric, const Frame& sent) {
  Frame f = sent;
  std::vector<PortId> out = {fabric.nic_port(f.src, f.plane)};
  for (int hops = 0; hops < 10; ++hops) {
    const Hop h = fabric.next(out.back(), f);
    if (h.kind == Hop::Kind::host) return h.id == f.dst ? out : std::vector<PortId>{};
    if (h.kind == Hop::Kind::drop) return {};
    out.push_back(h.id);
  }
  return {};
}

Frame frame_of(uint32_t src, uint32_t dst, uint8_t plane, uint32_t tag) {
  Frame f;
  f.src = src;
  f.dst = dst;
  f.plane = plane;
  f.tag = tag;
  return f;
}

// For every pair and path: walk, uSID list and EV bits lead over the same ports. Returns how many there are.
uint64_t all_paths_agree(const FabricSpec& spec) {
  const Fabric srv6 = built(spec, Routing::srv6), stev = built(spec, Routing::stev);
  uint64_t paths = 0;
  std::vector<PortId> ports;
  for (uint32_t src = 0; src < spec.hosts; ++src) {
    for (uint32_t dst = 0; dst < spec.hosts; ++dst) {
      for (uint8_t plane = 1; plane <= spec.planes && src != dst; ++plane) {
        const uint32_t n = srv6.path_count(src, dst, plane);
        std::set<std::vector<PortId>> different;
        for (uint32_t k = 0; k < n; ++k) {
          Frame f = frame_of(src, dst, plane, (static_cast<uint32_t>(plane) << 24) | k);
          const bool there = srv6.walk(src, dst, plane, k, ports);
          CHECK_EQ(there, srv6.path_exists(src, dst, plane, k));
          CHECK_EQ(srv6.address(f), there);
          if (!there) continue;
          CHECK(travel(srv6, f) == ports);
          CHECK(travel(stev, f) == ports);
          CHECK_EQ(size_t{f.sid_count}, ports.size());  // a uSID for every node that the list passes
          different.insert(ports);
          ++paths;
        }
        CHECK(different.size() <= n);
      }
    }
  }
  return paths;
}

}  // namespace

TEST_CASE("serialization: picoseconds a byte at 400, 100 and 1 Gbit/s, and rates that do not divide") {
  CHECK_EQ(serialization(byte_time(400e9), 4096), Ps{81'920});
  CHECK_EQ(serialization(byte_time(400e9), kFull), Ps{84'680});
  CHECK_EQ(serialization(byte_time(100e9), kFull), Ps{338'720});
  CHECK_EQ(serialization(byte_time(800e9), 84), Ps{840});
  CHECK_EQ(serialization(byte_time(1e9), 1), Ps{8'000});
  CHECK_EQ(serialization(byte_time(1e3), 9000), Ps{72'000'000'000'000});  // 72 s
  // 7 Gbit/s: 1142.857142... ps a byte.
  CHECK_EQ(serialization(byte_time(7e9), 1000), Ps{1'142'857});
  CHECK_EQ(serialization(byte_time(7e9), 4234), Ps{4'838'857});
  for (const double bps : {3e9, 9.6e9, 25.78125e9, 106.25e9, 333e6, 777e9}) {
    for (const uint32_t bytes : {1u, 84u, 1500u, 4234u, 9300u}) {
      const double exact = 8e12 / bps * bytes;
      const auto got = static_cast<double>(serialization(byte_time(bps), bytes));
      CHECK(got <= exact + 0.01 && got > exact - 1.01);
    }
  }
  // A frame is never shorter than the sum of what it is made of: 16 MB in packets are as long as in one.
  CHECK_EQ(serialization(byte_time(400e9), 16 << 20), Ps{4096} * serialization(byte_time(400e9), 4096));
}

TEST_CASE("units: times beyond 2^31 and 2^32 ns keep every picosecond") {
  CHECK_EQ(from_ns(5'000'000'000), Ps{5'000'000'000'000});
  CHECK_EQ(from_ns(std::numeric_limits<int64_t>::max()), kNever);
  CHECK_EQ(to_instant(5'000'000'000'999).ns, int64_t{5'000'000'000});
}

TEST_CASE("fabric: one way over one, two and three tiers, store and forward") {
  Shape s = three_tiers(2, 2, 2, 2, 4);
  s.bps[0] = 400e9;
  s.bps[1] = 100e9;
  s.bps[2] = 200e9;
  s.delay_ns[0] = 800;
  s.delay_ns[1] = 1'300;
  s.delay_ns[2] = 10'300;
  const Fabric f = built(spec_of(s));
  // 4,234 bytes: 84,680 ps at 400 G, 338,720 at 100 G, 169,360 at 200 G.
  CHECK_EQ(f.one_way(0, 1, 1, kFull), Ps{2 * 84'680 + 2 * 800'000});
  CHECK_EQ(f.one_way(0, 2, 1, kFull), Ps{2 * 84'680 + 2 * 338'720 + 2 * 800'000 + 2 * 1'300'000});
  CHECK_EQ(f.one_way(0, 7, 1, kFull),
           Ps{2 * (84'680 + 338'720 + 169'360) + 2 * (800'000 + 1'300'000 + 10'300'000)});
  CHECK_EQ(f.one_way(7, 0, 1, kFull), f.one_way(0, 7, 1, kFull));
  CHECK_EQ(f.one_way(0, 1, 1, 84), Ps{2 * 1'680 + 2 * 800'000});
}

TEST_CASE("fabric: the lookahead is the shortest link with the shortest frame") {
  Shape s = shape(2, 2, 2);
  s.delay_ns[0] = 700;
  s.delay_ns[1] = 0;
  s.bps[1] = 400e9;
  CHECK_EQ(built(spec_of(s)).lookahead(), Ps{84 * 20});
  s.delay_ns[1] = 100'000'000;
  CHECK_EQ(built(spec_of(s)).lookahead(), Ps{700'000 + 84 * 80});
}

TEST_CASE("fabric: every path of small Clos fabrics, by walk, uSID list and EV bits") {
  // 12 pairs below one T0 each have 1 path; 24 ordered pairs across have 3.
  CHECK_EQ(all_paths_agree(spec_of(shape(3, 2, 3))), uint64_t{12 * 1 + 18 * 3});
  CHECK_EQ(all_paths_agree(spec_of(shape(2, 3, 4, 2))), uint64_t{2 * (6 * 1 + 24 * 4)});
  CHECK_EQ(all_paths_agree(spec_of(shape(1, 2, 1))), uint64_t{2});
  // Two pods of two T0s with two T1s each, four T2s: 1 below a T0, 2 in a pod, 2 x 2 between pods.
  CHECK_EQ(all_paths_agree(spec_of(three_tiers(2, 2, 2, 2, 4))), uint64_t{8 * 1 + 16 * 2 + 32 * 4});
  CHECK_EQ(all_paths_agree(spec_of(three_tiers(1, 2, 3, 3, 6, 2))), uint64_t{2 * (6 * 3 + 24 * 6)});
}

TEST_CASE("fabric: hand-made fabrics with holes have the paths that their links make") {
  // T1 1 does not reach T0 1, T1 2 has no link to T0 0.
  FabricSpec f = spec_of(shape(2, 2, 3));
  std::erase_if(f.links, [](const LinkSpec& l) {
    return (l.a == 5 && l.b == 7) || (l.a == 4 && l.b == 8);  // nodes: hosts 0..3, T0s 4 5, T1s 6 7 8
  });
  const Fabric fabric = built(f);
  CHECK_EQ(fabric.path_count(0, 2, 1), 2u);  // uplinks of T0 0
  CHECK(fabric.path_exists(0, 2, 1, 0));
  CHECK(!fabric.path_exists(0, 2, 1, 1));
  // Below one T0 4 + 4 ordered pairs... of one path each, across 8 ordered pairs of one.
  CHECK_EQ(all_paths_agree(f), uint64_t{4 + 8});
  // Three tiers, T1s with different numbers of T2s.
  FabricSpec g = spec_of(three_tiers(1, 1, 2, 2, 4));
  std::erase_if(g.links, [](const LinkSpec& l) { return l.a == 4 && l.b == 9; });
  CHECK(all_paths_agree(g) > 0);
}

TEST_CASE("fabric: a uSID list that does not begin with the switch's own is dropped; each hop shifts") {
  const Shape s = shape(2, 2, 2);
  const Fabric fabric = built(spec_of(s));
  Frame f = frame_of(0, 3, 1, 1);
  REQUIRE(fabric.address(f));
  // Host 0 is below T0 0, host 3 the second one below T0 1 (0 ends a list); path 1 leads over T1 1.
  CHECK_EQ(int{f.sid_count}, 4);
  CHECK_EQ(f.sids[0], make_sid(kSidT0, 0));
  CHECK_EQ(f.sids[1], make_sid(kSidT1, 1));
  CHECK_EQ(f.sids[2], make_sid(kSidT0, 1));
  CHECK_EQ(f.sids[3], make_sid(kSidHost, 2));
  Frame wrong = f;
  wrong.sids[0] = make_sid(kSidT0, 1);
  CHECK(fabric.next(fabric.nic_port(0, 1), wrong).kind == Hop::Kind::drop);
  Frame no_neighbour = f;
  no_neighbour.sids[1] = make_sid(kSidT1, 2);
  CHECK(fabric.next(fabric.nic_port(0, 1), no_neighbour).kind == Hop::Kind::drop);
  Frame ends = f;
  ends.sid_count = 1;  // nothing left behind the switch's own
  CHECK(fabric.next(fabric.nic_port(0, 1), ends).kind == Hop::Kind::drop);
  PortId at = fabric.nic_port(0, 1);
  for (uint8_t hop = 1; hop <= 3; ++hop) {
    at = fabric.next(at, f).id;
    CHECK_EQ(f.hop, hop);
  }
  CHECK(fabric.next(at, f).kind == Hop::Kind::host);
  // At a host that is not its destination a frame is dropped.
  Frame astray = f;
  astray.dst = 2;
  CHECK(fabric.next(at, astray).kind == Hop::Kind::drop);
}

TEST_CASE("fabric: a host without a port in a plane has no path there") {
  FabricSpec f = spec_of(shape(2, 2, 2, 2));
  std::erase_if(f.links, [](const LinkSpec& l) { return l.a == 3 && l.plane == 2; });
  const Fabric fabric = built(f);
  CHECK_EQ(fabric.nic_port(3, 2), kNoPort);
  CHECK_EQ(fabric.path_count(0, 3, 2), 0u);
  CHECK_EQ(fabric.path_count(3, 0, 2), 0u);
  CHECK_EQ(fabric.path_count(0, 3, 1), 2u);
  Frame lost = frame_of(0, 3, 2, 0);
  CHECK(!fabric.address(lost));
  CHECK_EQ(fabric.one_way(0, 3, 2, 100), Ps{0});
}

TEST_CASE("fabric: ECMP keeps a flow on its path, spreads flows, and every switch has a salt of its own") {
  const Shape s = three_tiers(2, 2, 4, 2, 16);
  const Fabric fabric = built(spec_of(s), Routing::ecmp);
  std::map<PortId, uint32_t> t0_up, t1_up;
  uint32_t same = 0;
  constexpr uint32_t kFlows = 8000;
  for (uint32_t tag = 0; tag < kFlows; ++tag) {
    const std::vector<PortId> way = travel(fabric, frame_of(0, 7, 1, tag));
    REQUIRE(way.size() == 6);
    CHECK(travel(fabric, frame_of(0, 7, 1, tag)) == way);
    ++t0_up[way[1]];
    ++t1_up[way[2]];
    // Without a salt the second choice would follow from the first.
    if (way[1] % 8 / 2 == way[2] % 8 / 2) ++same;
  }
  CHECK_EQ(t0_up.size(), size_t{4});
  CHECK_EQ(t1_up.size(), size_t{16});
  for (const auto& [port, n] : t0_up) CHECK(n > kFlows / 4 * 9 / 10 && n < kFlows / 4 * 11 / 10);
  for (const auto& [port, n] : t1_up) CHECK(n > kFlows / 16 * 8 / 10 && n < kFlows / 16 * 12 / 10);
  CHECK(same > kFlows / 5 && same < kFlows * 3 / 10);
  const Fabric other = built(spec_of(s), Routing::ecmp, 2);
  uint32_t differ = 0;
  for (uint32_t tag = 0; tag < 100; ++tag)
    differ += travel(fabric, frame_of(0, 7, 1, tag)) != travel(other, frame_of(0, 7, 1, tag)) ? 1u : 0u;
  CHECK(differ > 60);
}

TEST_CASE("fabric: ECMP leaves out uplinks that are down") {
  const Shape s = shape(2, 2, 4);
  Fabric fabric = built(spec_of(s), Routing::ecmp);
  const PortId dead = port_between(fabric, s.t0_node(1, 0), s.t1_node(1, 2));
  fabric.port(dead).up = false;
  std::map<PortId, uint32_t> used;
  for (uint32_t tag = 0; tag < 3000; ++tag) ++used[travel(fabric, frame_of(0, 3, 1, tag))[1]];
  CHECK_EQ(used.size(), size_t{3});
  CHECK_EQ(used.count(dead), size_t{0});
  for (uint32_t t1 = 0; t1 < 4; ++t1)
    fabric.port(port_between(fabric, s.t0_node(1, 0), s.t1_node(1, t1))).up = false;
  CHECK(travel(fabric, frame_of(0, 3, 1, 7)).empty());
}

TEST_CASE("fabric: what is no up/down network is refused in words") {
  const FabricSpec good = spec_of(shape(2, 2, 2));
  const auto refused = [&](auto change, const char* word) {
    FabricSpec f = good;
    change(f);
    Fabric fabric;
    const std::string bad = fabric.build(f, Routing::srv6, 1);
    if (bad.find(word) == std::string::npos) std::fprintf(stderr, "'%s' lacks '%s'\n", bad.c_str(), word);
    CHECK(bad.find(word) != std::string::npos);
  };
  refused([](FabricSpec& f) { f.hosts = 0; }, "one host");
  refused([](FabricSpec& f) { f.planes = 32; }, "planes");
  refused([](FabricSpec& f) { f.links[0].b = 99; }, "no such node");
  refused([](FabricSpec& f) { f.links[0].b = 1; }, "no switch at its upper end");
  refused([](FabricSpec& f) { f.links[0].b = 6; }, "host to a T0");
  refused([](FabricSpec& f) { f.links.push_back(f.links[0]); }, "two links");
  refused([](FabricSpec& f) { f.links[0].bps_up = 0; }, "rates");
  refused([](FabricSpec& f) { f.links[0].bps_down = 1e15; }, "rates");
  refused([](FabricSpec& f) { f.links[0].delay_ns = -1; }, "delays");
  refused([](FabricSpec& f) { f.links[0].queue_up = 1; }, "queue");
  refused([](FabricSpec& f) { f.switches[0].tier = 3; }, "tiers");
  refused([](FabricSpec& f) { f.switches[0].index = 1 << 14; }, "uSIDs");
}
