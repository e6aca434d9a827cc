// Sockets alone: what is put on the wire is what the other end reads (B28, B30, B31, B34).
#include "net/rx_batch.h"
#include "net/udp_linux.h"

#include <poll.h>

#include <cerrno>

#include "testing/check.h"

using namespace mrc;       // NOLINT(google-build-using-namespace)
using namespace mrc::net;  // NOLINT(google-build-using-namespace)

namespace {

UdpPlane plane(const char* address, std::set<uint32_t>& taken, uint32_t evs = 4, bool pool = false) {
  std::string why;
  PlaneOptions o;
  o.address = *parse_address(address, why);
  o.evs = evs;
  o.force_source_ports = pool;
  base::Rng rng(taken.size() + 1);
  UdpPlane p;
  const int e = p.open(o, rng, taken, why);
  if (e != 0) std::fprintf(stderr, "%s\n", why.c_str());
  REQUIRE(e == 0);
  return p;
}

// One datagram from a to b on `tag`, as b sees it.
wire::DatagramMeta exchange(UdpPlane& a, UdpPlane& b, uint32_t tag, uint8_t dscp, uint8_t ecn) {
  wire::DatagramMeta m;
  m.src = a.address().ip;
  m.dst = b.address().ip;
  m.src_port = static_cast<uint16_t>(tag);
  m.flow_label = tag >> 16;
  m.dst_port = b.udp_port();
  m.dscp = dscp;
  m.ecn = ecn;
  const std::array<uint8_t, 5> bytes{1, 2, 3, 4, 5};
  int error = 0;
  REQUIRE(a.send(m, m.dst, bytes, error) == SendOutcome::sent);
  pollfd p{b.fd(), POLLIN, 0};
  REQUIRE(poll(&p, 1, 20'000) == 1);
  RxBatch room;
  std::vector<engine::Datagram> got;
  uint64_t dropped = 0;
  b.receive(room, got, dropped);
  REQUIRE(got.size() == 1);
  CHECK_EQ(got[0].bytes.size(), 5u);
  CHECK_EQ(dropped, 0u);
  return got[0].meta;
}

}  // namespace

TEST_CASE("IPv4: every EV is a source port, class and marks survive, addresses are exact") {
  std::set<uint32_t> taken;
  UdpPlane a = plane("127.0.0.11", taken);
  UdpPlane b = plane("127.0.0.12", taken);
  CHECK_EQ(a.tags().size(), 4u);
  CHECK_EQ(taken.size(), 8u);
  for (const uint32_t tag : a.tags()) {
    for (uint8_t ecn = 0; ecn < 4; ++ecn) {
      const auto m = exchange(a, b, tag, 46, ecn);
      CHECK_EQ(wire::reflected_entropy(m), tag);
      CHECK_EQ(m.dscp, 46);
      CHECK_EQ(m.ecn, ecn);
      CHECK(m.src == a.address().ip);
      CHECK(m.dst == b.address().ip);
    }
  }
}

TEST_CASE("IPv6: every EV is a flow label on one socket; a pool of ports on request") {
  std::set<uint32_t> taken;
  UdpPlane a = plane("::1", taken);
  UdpPlane b = plane("::1", taken);
  CHECK(a.flow_labels());
  for (const uint32_t tag : a.tags()) {
    const auto m = exchange(a, b, tag, 12, 3);
    CHECK_EQ(wire::reflected_entropy(m), tag);
    CHECK_EQ(m.dscp, 12);
    CHECK_EQ(m.ecn, 3);
  }
  UdpPlane c = plane("::1", taken, 3, true);
  CHECK(!c.flow_labels());
  CHECK_EQ(wire::reflected_entropy(exchange(c, b, c.tags()[1], 0, 2)), c.tags()[1]);
}

TEST_CASE("B31: two sockets use the same flow label at once, and again after reopening") {
  std::set<uint32_t> taken;
  UdpPlane b = plane("::1", taken);
  for (int round = 0; round < 3; ++round) {
    UdpPlane x = plane("::1", taken, 64);
    UdpPlane y = plane("::1", taken, 64);
    CHECK_EQ(exchange(x, b, (0x1234u << 16) | x.udp_port(), 0, 0).flow_label, 0x1234u);
    CHECK_EQ(exchange(y, b, (0x1234u << 16) | y.udp_port(), 0, 0).flow_label, 0x1234u);
  }
}

TEST_CASE("B34: a second bind of the same port fails loudly") {
  std::set<uint32_t> taken;
  UdpPlane a = plane("127.0.0.13", taken);
  PlaneOptions o;
  o.address = a.address();
  o.udp_port = a.udp_port();
  base::Rng rng(1);
  UdpPlane again;
  std::string why;
  CHECK_EQ(again.open(o, rng, taken, why), EADDRINUSE);
  CHECK(why.find(std::to_string(o.udp_port)) != std::string::npos);
}

TEST_CASE("B28: link-local needs a scope, and keeps it in text") {
  std::string why;
  CHECK(!parse_address("fe80::1", why).has_value());
  CHECK(why.find("%") != std::string::npos);
  CHECK(!parse_address("fe80::1%nosuchif0", why).has_value());
  const auto a = parse_address("fe80::1%lo", why);
  REQUIRE(a.has_value());
  CHECK_EQ(to_text(*a), "fe80::1%lo");
  CHECK(!parse_address("localhost", why).has_value());
  CHECK_EQ(to_text(*parse_address("10.1.2.3", why)), "10.1.2.3");
}

TEST_CASE("a refused datagram does not poison the socket for others (B12)") {
  std::set<uint32_t> taken;
  UdpPlane a = plane("127.0.0.14", taken);
  UdpPlane b = plane("127.0.0.15", taken);
  wire::DatagramMeta m;
  m.src = a.address().ip;
  m.dst = b.address().ip;
  m.src_port = static_cast<uint16_t>(a.tags()[0]);
  m.dst_port = 1;  // nobody there: ICMP port unreachable comes back
  const std::array<uint8_t, 1> bytes{0};
  for (int i = 0; i < 5; ++i) {
    int error = 0;
    CHECK(a.send(m, m.dst, bytes, error) == SendOutcome::sent);
    exchange(a, b, a.tags()[0], 0, 0);
  }
}
