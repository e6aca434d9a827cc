// Routes of EVs (SRv6 uSID lists): which are taken, and where packets are told to go.
#include <cerrno>
#include <map>

#include "engine/tests/solo.h"

using namespace mrc::engine;           // NOLINT(google-build-using-namespace)
using namespace mrc::engine::testing;  // NOLINT(google-build-using-namespace)

namespace {

using Routes = std::vector<EvRoute>;

IpAddr list_of(uint32_t tag) {
  IpAddr a;
  a.bytes[0] = 0xfc;
  a.bytes[12] = static_cast<uint8_t>(tag >> 8);
  a.bytes[13] = static_cast<uint8_t>(tag);
  a.bytes[15] = 2;
  return a;
}

PeerPort with(const IpAddr& addr, Routes routes) {
  PeerPort p;
  p.local_port = p.remote_port = 1;
  p.addr = addr;
  p.routes = std::make_shared<const Routes>(std::move(routes));
  return p;
}

Errno taken(Routes routes, bool ipv4 = false) {
  Solo s({}, 1, ipv4);
  return s.connect(s.create(), {with(ipv4 ? v4(2, 1) : v6(2, 1), std::move(routes))});
}

}  // namespace

TEST_CASE("routes are sorted by tag, each tag once; none is a list, too") {
  CHECK_EQ(taken({}), 0);
  CHECK_EQ(taken({{1000, list_of(1)}, {1001, list_of(2)}, {1007, list_of(1)}}), 0);
  CHECK_EQ(taken({{1001, list_of(1)}, {1000, list_of(2)}}), EINVAL);
  CHECK_EQ(taken({{1000, list_of(1)}, {1001, list_of(1)}, {1001, list_of(2)}}), EINVAL);
}

TEST_CASE("routes are IPv6 addresses of an IPv6 peer") {
  CHECK_EQ(taken({{1000, list_of(1)}}, true), EINVAL);
  CHECK_EQ(taken({{1000, v4(2, 1)}}), EINVAL);
  CHECK_EQ(taken({{1000, IpAddr{}}}), EINVAL);
}

TEST_CASE("no more routes than a QP may have EVs") {
  Routes many;
  for (uint32_t i = 0; i < 4096; ++i) many.push_back({i + 1, list_of(i)});
  CHECK_EQ(taken(many), 0);
  many.push_back({5000, list_of(1)});
  CHECK_EQ(taken(many), EINVAL);
}

TEST_CASE("a tag finds its own route, all others the peer's address") {
  const PeerPort p = with(v6(2, 1), {{10, list_of(1)}, {20, list_of(2)}, {30, list_of(3)}});
  CHECK(p.via(10) == list_of(1));
  CHECK(p.via(20) == list_of(2));
  CHECK(p.via(30) == list_of(3));
  for (const uint32_t tag : {0u, 9u, 11u, 25u, 31u, UINT32_MAX}) CHECK(p.via(tag) == v6(2, 1));
  PeerPort plain = p;
  plain.routes.reset();
  CHECK(plain.via(10) == v6(2, 1));
}

TEST_CASE("data goes by the route of its EV; the peer's address is what the iCRC covers") {
  Solo s({}, 1);
  Routes routes;  // the last EV of the plane has none
  for (uint32_t k = 0; k + 1 < kEvsPerPlane; ++k) routes.push_back({1000 + k, list_of(k)});
  const uint32_t q = s.create();
  REQUIRE(s.connect(q, {with(v6(2, 1), routes)}) == 0);
  s.post(q, 80 * 1024);
  std::map<uint32_t, int> seen;
  for (const Transmit& t : s.drain()) {
    ++seen[t.tag];
    CHECK(t.meta.dst == v6(2, 1));
    CHECK(t.via == (t.tag == 1007 ? v6(2, 1) : list_of(t.tag - 1000)));
  }
  CHECK_EQ(seen.size(), size_t{kEvsPerPlane});
}

TEST_CASE("an EV probe of the controller goes by the route, too") {
  Solo s({}, 1);
  const PeerPort to = with(v6(2, 1), {{1003, list_of(3)}});
  REQUIRE(s.ep.send_ev_probe(s.now, to, 1003, 0).ok());
  REQUIRE(s.ep.send_ev_probe(s.now, to, 1004, 0).ok());
  const auto sent = s.drain();
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].via == list_of(3));
  CHECK(sent[0].meta.dst == v6(2, 1));
  CHECK(sent[1].via == v6(2, 1));
}

TEST_CASE("a probe of a peer's plane takes the routes of the QPs to it") {
  Solo s({}, 1);
  REQUIRE(s.connect(s.create(), {with(v6(2, 1), {{1003, list_of(3)}})}) == 0);
  PeerPort to;
  to.local_port = to.remote_port = 1;
  to.addr = v6(2, 1);
  REQUIRE(s.ep.send_ev_probe(s.now, to, 1003, 0).ok());
  to.addr = v6(3, 1);
  REQUIRE(s.ep.send_ev_probe(s.now, to, 1003, 0).ok());
  const auto sent = s.drain();
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].via == list_of(3));
  CHECK(sent[1].via == v6(3, 1));
}

TEST_CASE("QPs with equal routes have one peer, which hears of a port once") {
  const auto reports = [](const Routes& of_second) {
    Solo s({}, 1);
    REQUIRE(s.connect(s.create(), {with(v6(2, 1), {{1003, list_of(3)}})}) == 0);
    REQUIRE(s.connect(s.create(), {with(v6(2, 1), of_second)}) == 0);
    (void)s.drain();
    REQUIRE(s.ep.set_port_up(s.now, 1, false) == 0);
    REQUIRE(s.ep.set_port_up(s.now, 1, true) == 0);
    return s.drain().size();
  };
  CHECK_EQ(reports({{1003, list_of(3)}}), size_t{1});
  CHECK_EQ(reports({{1003, list_of(4)}}), size_t{2});
}
