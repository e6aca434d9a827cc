// Whom endpoint operations are answered when several endpoints share an address (reference 9).
#include "engine/endpoint_ops.h"

#include <array>
#include <optional>
#include <set>
#include <vector>

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

struct Report {
  uint16_t id;
  uint32_t mask;
  uint16_t stamp;
};
// The reports among what waits to be sent.
std::vector<Report> reports(Bench& b) {
  std::vector<Report> out;
  std::array<uint8_t, 256> head{};
  for (Transmit t; b.ops.transmit(2, head, t);) {
    if (head[0] != static_cast<uint8_t>(wire::Opcode::endpoint_request)) continue;
    wire::Erth e;
    REQUIRE(wire::parse_erth(mrc::base::ByteView(head).subspan(wire::kBthBytes), e));
    out.push_back({static_cast<uint16_t>(head[10] << 8 | head[11]), e.port_status_mask, e.tx_timestamp});
  }
  return out;
}

bool later(uint16_t stamp, uint16_t than) { return static_cast<int16_t>(stamp - than) > 0; }

TEST_CASE("every state of the ports is a report of its own, with a later stamp, also at the same instant") {
  Bench b;
  b.ops.acquire_peer({{1, kThem, 5001, 1}});
  std::vector<Report> sent;
  // Instants around the wrap of the stamp after 8.4 ms, and one twice.
  for (const int64_t at : {100'000, 100'000, 8'388'500, 8'388'700, 60'000'000, 60'000'000}) {
    b.ops.announce_ports(Instant{at}, sent.size() % 2 == 0 ? 2u : 6u);
    const auto now = reports(b);
    REQUIRE(now.size() == 1);
    CHECK_EQ(now[0].mask, sent.size() % 2 == 0 ? 2u : 6u);
    if (!sent.empty()) CHECK(later(now[0].stamp, sent.back().stamp));
    sent.push_back(now[0]);
  }
  std::set<uint16_t> ids;
  for (const Report& r : sent) ids.insert(r.id);
  CHECK_EQ(ids.size(), sent.size());
}

TEST_CASE("an answer to an older report does not end the newest; copies of older ones leave no more") {
  Bench b;
  b.ops.acquire_peer({{1, kThem, 5001, 1}});
  b.ops.announce_ports(Instant{}, 2);
  const uint16_t old = reports(b).at(0).id;
  b.ops.on_deadline(b.ops.deadline());  // twice more, while no port takes a packet
  b.ops.on_deadline(b.ops.deadline());
  b.ops.announce_ports(Instant{} + Duration::millis(5), 6);
  const auto now = reports(b);
  REQUIRE(now.size() == 1);
  CHECK_EQ(now[0].mask, 6u);
  b.ops.on_response(Instant{} + Duration::millis(6), Bench::from(kThem, 40'000), Bench::request(old));
  b.ops.on_deadline(b.ops.deadline());
  const auto again = reports(b);
  REQUIRE(again.size() == 1);
  CHECK_EQ(again[0].id, now[0].id);
  CHECK(later(again[0].stamp, now[0].stamp));
  b.ops.on_response(Instant{} + Duration::millis(7), Bench::from(kThem, 40'000), Bench::request(now[0].id));
  const Instant next = b.ops.deadline();
  if (!next.is_never()) b.ops.on_deadline(next - Duration{1});
  CHECK(reports(b).empty());
}

TEST_CASE("an answer that waits is not taken for an older report, even with its id") {
  Bench b;
  b.ops.acquire_peer({{1, kThem, 5001, 1}});
  b.ops.announce_ports(Instant{}, 2);
  const uint16_t id = reports(b).at(0).id;
  b.ops.on_request(Instant{}, Bench::from(kThem, 5001), Bench::request(id, wire::kOpPortStatus));
  b.ops.announce_ports(Instant{}, 6);
  CHECK_EQ(b.sent_to().size(), 2u);  // the answer and the new report
}

TEST_CASE("reports that were overtaken are answered and otherwise ignored, for as long as stamps can tell") {
  Bench b;
  b.ops.acquire_peer({{1, kThem, 5001, 1}});
  const auto hear = [&](Instant now, uint32_t mask, uint16_t stamp) -> std::optional<uint32_t> {
    wire::Packet p = Bench::request(9, wire::kOpPortStatus);
    p.erth.port_status_mask = mask;
    p.erth.tx_timestamp = stamp;
    b.ops.on_request(now, Bench::from(kThem, 5001), p);
    CHECK_EQ(b.sent_to().size(), 1u);
    OpsOutcome o;
    return b.ops.take_outcome(o) ? std::optional(o.port_mask) : std::nullopt;
  };
  const Instant start = Instant{} + Duration::seconds(1);
  CHECK_EQ(hear(start, 2, 65'000).value_or(0), 2u);
  CHECK_EQ(hear(start + Duration::micros(10), 6, 100).value_or(0), 6u);  // wrapped: newer
  CHECK(!hear(start + Duration::micros(20), 4, 65'500).has_value());
  CHECK(!hear(start + Duration::micros(3'999), 4, 99).has_value());
  CHECK_EQ(hear(start + Duration::micros(4'000), 6, 100).value_or(0), 6u);  // once more: no harm
  CHECK_EQ(hear(start + Duration::micros(8'000), 2, 90).value_or(0), 2u);   // may well be newer
}

TEST_CASE("whose report is older is a matter of each peer") {
  Bench b(kUs6);
  b.ops.acquire_peer({{1, kThem6, 5001, 1}});
  b.ops.acquire_peer({{1, kThem6, 5002, 1}});
  OpsOutcome o;
  for (const uint16_t from : {uint16_t{5001}, uint16_t{5002}}) {
    wire::Packet p = Bench::request(9, wire::kOpPortStatus);
    p.erth.tx_timestamp = from == 5001 ? 1000 : 900;
    b.ops.on_request(Instant{}, Bench::from(kThem6, from), p);
    REQUIRE(b.ops.take_outcome(o));
    CHECK_EQ(o.from_udp_port, from);
  }
}

}  // namespace

TEST_CASE("an EV probe is answered on the EV that a QP to its sender would use, else on any") {
  Bench b(kUs6);
  b.ops.acquire_peer({{1, kThem6, 5001, 1}}, 3);
  b.ops.acquire_peer({{1, kThem6, 5001, 1}}, 7);
  uint32_t asked = 0;
  bool knows = true;
  b.ops.set_guide([&](uint32_t slot, const IpAddr& peer, uint8_t port) {
    asked = slot;
    return knows && peer == kThem6 && port == 1 ? std::optional<uint32_t>(0x00021234) : std::nullopt;
  });
  std::array<uint8_t, 256> head{};
  Transmit t;
  b.ops.on_request(Instant{0}, Bench::from(kThem6, 5001), Bench::request(1));
  REQUIRE(b.ops.transmit(2, head, t));
  CHECK_EQ(asked, 7u);  // the one that came last
  CHECK_EQ(t.tag, 0x00021234u);
  knows = false;
  b.ops.on_request(Instant{0}, Bench::from(kThem6, 5001), Bench::request(2));
  REQUIRE(b.ops.transmit(2, head, t));
  CHECK_EQ(t.tag & 0xFFFF, 5001u);  // the asker's own
}
