// B02: a link goes and comes back with another address, under a transfer.
#include <cerrno>

#include "story.h"

using namespace mrc;           // NOLINT(google-build-using-namespace): a test file
using namespace mrc::testing;  // NOLINT(google-build-using-namespace)

namespace {

StoryConfig ipv6() {
  StoryConfig c;
  c.min_ack_timeout = Duration::millis(1);
  return c;
}

base::IpAddr elsewhere(const base::IpAddr& a) {
  base::IpAddr b = a;
  b.bytes[15] = 0x77;
  return b;
}

// Keeps writing 64 kB for so long; everything must succeed.
void write_for(Story& s, Duration d) {
  const Instant end = s.pair.now() + d;
  while (s.pair.now() < end) {
    s.end[0].sent.clear();
    for (uint64_t i = 0; i < 8; ++i) REQUIRE(s.post(0, i, 0, 0, 65'536) == 0);
    REQUIRE(s.run_until_sent(0, 8));
    CHECK(s.all_in_order(0, 8));
  }
}

uint64_t sent_over(Story& s, int side, uint8_t plane) {
  uint64_t n = 0;
  for (const engine::PathStats& p : s.paths(side))
    if (p.port == plane) n += p.counters.sent;
  return n;
}

}  // namespace

TEST_CASE("B02: a plane that moved to another address is used again once the peer was told") {
  Story s(ipv6());
  write_for(s, Duration::millis(1));
  const base::IpAddr to = elsewhere(s.pair.peer_ports(1)[0].addr);
  bool moved = false;
  uint64_t from_new = 0, to_new = 0;
  s.pair.on_transmit = [&](int side, const engine::Transmit& t, base::ByteView) {
    if (t.meta.port != 1 || !moved) return;
    if (side == 0) {
      CHECK(t.meta.src == to);
      ++from_new;
    }
    if (side == 1 && t.meta.dst == to) ++to_new;
  };

  REQUIRE(s.pair.side(0).set_port_up(s.pair.now(), 1, false) == 0);
  s.pair.flush();
  write_for(s, Duration::millis(1));
  REQUIRE(s.pair.side(0).set_port_address(s.pair.now(), 1, to, 4791) == 0);
  moved = true;
  REQUIRE(s.pair.side(0).set_port_up(s.pair.now(), 1, true) == 0);
  s.pair.flush();
  write_for(s, Duration::millis(1));  // the peer takes nothing from there yet: the other planes go on
  CHECK(to_new == 0);
  engine::PeerPort told = s.pair.peer_ports(1)[0];
  told.addr = to;
  REQUIRE(s.pair.side(1).move_peer(s.pair.now(), s.end[1].qpn, told) == 0);
  write_for(s, Duration::millis(20));  // probes bring the paths back
  const uint64_t before = sent_over(s, 0, 1);
  write_for(s, Duration::millis(5));
  CHECK(sent_over(s, 0, 1) > before);
  CHECK(from_new > 0);
  CHECK(to_new > 0);  // answers go there, too
  CHECK(s.equal(0, 0, 65'536));
  s.events(0);
  size_t events = 0;
  for (const engine::Event& e : s.end[0].events) events += e.kind == engine::EventKind::port_moved;
  CHECK_EQ(events, size_t{1});
}

TEST_CASE("B02: moves that cannot be are refused and change nothing") {
  Story s(ipv6());
  engine::Endpoint& e = s.pair.side(0);
  const Instant now = s.pair.now();
  const base::IpAddr v4 = base::IpAddr::v4(10, 0, 0, 1);
  const base::IpAddr v6 = elsewhere(s.pair.peer_ports(0)[0].addr);
  CHECK_EQ(e.set_port_address(now, 0, v6, 4791), EINVAL);
  CHECK_EQ(e.set_port_address(now, 31, v6, 4791), EINVAL);
  CHECK_EQ(e.set_port_address(now, 1, v4, 4791), EINVAL);
  CHECK_EQ(e.set_port_address(now, 1, base::IpAddr{}, 4791), EINVAL);
  engine::PeerPort to = s.pair.peer_ports(0)[0];
  to.addr = base::IpAddr{};
  CHECK_EQ(e.move_peer(now, s.end[0].qpn, to), EINVAL);
  to.addr = v4;
  CHECK_EQ(e.move_peer(now, s.end[0].qpn, to), EINVAL);
  to.addr = v6;
  to.local_port = 31;
  CHECK_EQ(e.move_peer(now, s.end[0].qpn, to), EINVAL);
  CHECK_EQ(e.move_peer(now, 0xABCDEF, s.pair.peer_ports(0)[0]), EINVAL);
  write_for(s, Duration::millis(1));
}
