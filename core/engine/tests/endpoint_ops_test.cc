// Whom endpoint operations are answered when several endpoints share an address (reference 9).
#include "engine/endpoint_ops.h"

#include <set>

#include "testing/check.h"

using namespace mrc::engine;
namespace wire = mrc::wire;

namespace {

const IpAddr kUs = IpAddr::v4(10, 0, 0, 1), kThem = IpAddr::v4(10, 0, 0, 2);
const IpAddr kUs6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
const IpAddr kThem6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

struct Bench {
  explicit Bench(const IpAddr& us = kUs) : ports(1), ops(config, ports, stats, mrc::base::Rng(7)) {
    ports[0].addr = us;
    ops.set_ports_up(2);
  }

  static wire::DatagramMeta from(const IpAddr& src, uint16_t src_port) {
    wire::DatagramMeta m;
    m.src = src;
    m.dst = src.is_v4() ? kUs : kUs6;
    m.src_port = src_port;
    m.dst_port = 4791;
    m.port = 1;
    return m;
  }

  static wire::Packet request(uint16_t id, uint8_t op = wire::kOpEvProbe) {
    wire::Packet p;
    p.bth.psn = id;
    p.erth.op = op;
    return p;
  }

  // UDP ports of everything that waits to be sent.
  std::multiset<uint16_t> sent_to() {
    std::multiset<uint16_t> out;
    std::array<uint8_t, 256> head{};
    for (Transmit t; ops.transmit(2, head, t);) out.insert(t.meta.dst_port);
    return out;
  }

  EndpointConfig config;
  std::vector<PortConfig> ports;
  EndpointStats stats;
  EndpointOps ops;
};

using Ports = std::multiset<uint16_t>;

TEST_CASE("a source port that is a peer's own names the peer") {
  Bench b(kUs6);
  b.ops.acquire_peer({{1, kThem6, 5001, 1}});
  b.ops.acquire_peer({{1, kThem6, 5002, 1}});
  b.ops.on_request(Instant{}, Bench::from(kThem6, 5002), Bench::request(9));
  CHECK(b.sent_to() == Ports{5002});
  b.ops.on_request(Instant{}, Bench::from(kThem6, 5001), Bench::request(9));
  CHECK(b.sent_to() == Ports{5001});
}

TEST_CASE("a source port that is an EV: every endpoint of that host gets the answer, once") {
  Bench b;
  b.ops.acquire_peer({{1, kThem, 5001, 1}});
  b.ops.acquire_peer({{1, kThem, 5002, 1}});
  b.ops.acquire_peer({{1, kThem, 5002, 2}});  // a second incarnation of the same port
  b.ops.on_request(Instant{}, Bench::from(kThem, 40'000), Bench::request(9));
  CHECK(b.sent_to() == (Ports{5001, 5002}));
  CHECK_EQ(b.stats.endpoint_responses_tx, 2u);
}

TEST_CASE("one request causes four answers at most, and nobody is left out for ever") {
  Bench b;
  for (uint16_t port = 5001; port <= 5010; ++port) b.ops.acquire_peer({{1, kThem, port, 1}});
  std::set<uint16_t> reached;
  for (uint16_t id = 1; id <= 10; ++id) {
    b.ops.on_request(Instant{}, Bench::from(kThem, 40'000), Bench::request(id));
    const Ports now = b.sent_to();
    CHECK_EQ(now.size(), 4u);
    reached.insert(now.begin(), now.end());
  }
  CHECK_EQ(reached.size(), 10u);
}

TEST_CASE("an endpoint that has left gets no answers; a stranger's are dropped") {
  Bench b;
  const uint32_t first = b.ops.acquire_peer({{1, kThem, 5001, 1}});
  const uint32_t second = b.ops.acquire_peer({{1, kThem, 5002, 1}});
  b.ops.release_peer(first);
  b.ops.on_request(Instant{}, Bench::from(kThem, 40'000), Bench::request(1));
  CHECK(b.sent_to() == Ports{5002});
  b.ops.release_peer(second);
  b.ops.on_request(Instant{}, Bench::from(kThem, 40'000), Bench::request(2));
  CHECK(b.sent_to().empty());
  CHECK_EQ(b.stats.drops[static_cast<size_t>(wire::DropReason::bad_peer)], 1u);
}

TEST_CASE("a stranger that may ask is answered at the port it asked") {
  Bench b;
  b.config.accept_only_known_peers = false;
  b.ops.on_request(Instant{}, Bench::from(kThem, 40'000), Bench::request(1));
  CHECK(b.sent_to() == Ports{4791});
}

TEST_CASE("port status counts for the endpoint that sent it; whose it is must be known") {
  Bench b(kUs6);
  b.ops.acquire_peer({{1, kThem6, 5001, 1}});
  b.ops.acquire_peer({{1, kThem6, 5002, 1}});
  OpsOutcome o;
  b.ops.on_request(Instant{}, Bench::from(kThem6, 40'000), Bench::request(9, wire::kOpPortStatus));
  CHECK(!b.ops.take_outcome(o));
  CHECK(b.sent_to() == (Ports{5001, 5002}));
  b.ops.on_request(Instant{}, Bench::from(kThem6, 5002), Bench::request(9, wire::kOpPortStatus));
  REQUIRE(b.ops.take_outcome(o));
  CHECK(o.from == kThem6);
  CHECK_EQ(o.from_udp_port, 5002);
}

TEST_CASE("port status is told to each endpoint of a host until that one confirms") {
  Bench b;
  b.ops.acquire_peer({{1, kThem, 5001, 1}});
  b.ops.acquire_peer({{1, kThem, 5002, 1}});
  b.ops.announce_ports(Instant{}, 2);
  std::array<uint8_t, 256> head{};
  std::vector<std::pair<uint16_t, uint16_t>> sent;  // UDP port, request id
  const auto collect = [&] {
    sent.clear();
    for (Transmit t; b.ops.transmit(2, head, t);) {
      // The id is the low half of the PSN, at the end of the BTH.
      sent.emplace_back(t.meta.dst_port, static_cast<uint16_t>(head[10] << 8 | head[11]));
    }
  };
  collect();
  REQUIRE(sent.size() == 2);
  CHECK(sent[0].first != sent[1].first);
  // The second confirms: only the first is asked again.
  const auto [open, confirmed] = std::pair{sent[0], sent[1]};
  b.ops.on_response(Instant{}, Bench::from(kThem, 40'000), Bench::request(confirmed.second));
  b.ops.on_deadline(b.ops.deadline());
  collect();
  REQUIRE(sent.size() == 1);
  CHECK_EQ(sent[0].first, open.first);
  CHECK_EQ(sent[0].second, open.second);
}

}  // namespace
