// Planes behind a gateway: what the switch gets is a whole packet, what it sends is taken apart, and what it
// says about the link counts.
#include "net/gateway_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>

#include "net/rx_batch.h"
#include "net/tx_batch.h"
#include "net/udp_linux.h"
#include "testing/check.h"
#include "wire/gateway.h"

using namespace mrc;       // NOLINT(google-build-using-namespace)
using namespace mrc::net;  // NOLINT(google-build-using-namespace)
using wire::GatewayMessage;
using wire::GatewayVerb;

namespace {

// Far more than a busy machine takes.
constexpr int kPatienceMs = 20'000;

// A switch's socket, and who talks to it.
class Switch {
 public:
  Switch() : s_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    const SockAddr any = to_sockaddr(base::IpAddr::v4(127, 0, 0, 1), 0, 0);
    REQUIRE(bind(s_.get(), any.get(), any.length) == 0);
    sockaddr_storage at{};
    socklen_t n = sizeof at;
    getsockname(s_.get(), reinterpret_cast<sockaddr*>(&at), &n);
    port_ = port_of(at);
  }
  [[nodiscard]] std::string where() const { return "127.0.0.1:" + std::to_string(port_); }
  std::vector<uint8_t> receive() {
    pollfd p{s_.get(), POLLIN, 0};
    std::vector<uint8_t> b(70'000);
    if (poll(&p, 1, kPatienceMs) != 1) return {};
    socklen_t n = sizeof from_;
    const ssize_t got = recvfrom(s_.get(), b.data(), b.size(), 0, reinterpret_cast<sockaddr*>(&from_), &n);
    b.resize(got > 0 ? static_cast<size_t>(got) : 0);
    return b;
  }
  void send(base::ByteView b) const {
    sendto(s_.get(), b.data(), b.size(), 0, reinterpret_cast<const sockaddr*>(&from_), sizeof(sockaddr_in));
  }
  void say(const GatewayMessage& m) const {
    std::array<uint8_t, wire::kGatewayMessageBytes> b{};
    wire::emit_gateway_message(m, b.data());
    send(b);
  }
  // Answers the next bind with what `change` makes of it, after some noise.
  std::thread answering(const std::function<void(GatewayMessage&)>& change) {
    return std::thread([this, change] {
      GatewayMessage m;
      if (!wire::parse_gateway_message(receive(), m)) return;
      const uint8_t noise = 0;
      send({&noise, 1});
      GatewayMessage other = m;
      other.cookie ^= 1;
      say(other);
      m.verb = GatewayVerb::bound;
      m.udp_port = m.udp_port != 0 ? m.udp_port : uint16_t{50'000};
      m.mtu = 9000;
      change(m);
      say(m);
    });
  }

 private:
  Fd s_;
  uint16_t port_ = 0;
  sockaddr_storage from_{};
};

PlaneOptions options(const std::string& gateway) {
  PlaneOptions o;
  std::string why;
  o.address = *parse_address("fc00:1:8000::", why);
  o.evs = 4;
  o.gateway = gateway;
  return o;
}

struct Opened {
  UdpPlane plane;
  int error = 0;
  std::string why;
};
Opened open_at(Switch& s, const std::function<void(GatewayMessage&)>& change = [](GatewayMessage&) {}) {
  Opened o;
  base::Rng rng(1);
  std::set<uint32_t> taken;
  std::thread answer = s.answering(change);
  o.error = o.plane.open(options(s.where()), rng, taken, o.why);
  answer.join();
  return o;
}

wire::DatagramMeta to_peer(const UdpPlane& p) {
  wire::DatagramMeta m;
  std::string why;
  m.src = p.address().ip;
  m.dst = parse_address("fc00:1:8001::", why)->ip;
  m.src_port = p.udp_port();
  m.dst_port = 4791;
  m.flow_label = p.tags()[0] >> 16;
  m.dscp = 4;
  m.ecn = wire::kEcnEct0;
  return m;
}

}  // namespace

TEST_CASE("gateway: the port is bound there, and packets carry their own headers both ways") {
  Switch s;
  Opened o = open_at(s);
  REQUIRE(o.error == 0);
  CHECK_EQ(o.plane.udp_port(), 50'000);
  CHECK_EQ(o.plane.gateway()->mtu(), 9000u);
  CHECK(o.plane.flow_labels());
  CHECK_EQ(o.plane.tags().size(), 4u);
  std::string why;
  const base::IpAddr via = parse_address("fc00:1:1000:2001:1001:8001::", why)->ip;
  const auto meta = to_peer(o.plane);
  const std::array<uint8_t, 5> bytes{1, 2, 3, 4, 5};
  int error = 0;
  REQUIRE(o.plane.send(meta, via, bytes, error) == SendOutcome::sent);
  auto packet = s.receive();
  wire::DatagramMeta got;
  base::ByteView payload;
  REQUIRE(wire::parse_outer(packet, got, payload) == wire::OuterFault::none);
  CHECK(got.dst == via);
  CHECK(got.src == meta.src);
  CHECK_EQ(got.flow_label, meta.flow_label);
  CHECK_EQ(got.dscp, 4);
  CHECK(std::equal(payload.begin(), payload.end(), bytes.begin(), bytes.end()));
  CHECK_EQ(packet[7], 64);

  // The way back, with noise that is no packet.
  wire::DatagramMeta back = meta;
  std::swap(back.src, back.dst);
  std::swap(back.src_port, back.dst_port);
  back.ecn = wire::kEcnCe;
  wire::emit_outer(back, back.dst, 61, bytes.size(), packet.data());
  s.send(packet);
  s.send(std::vector<uint8_t>(60, 0x60));
  s.send({packet.data(), 20});
  RxBatch room;
  std::vector<engine::Datagram> in;
  uint64_t dropped = 0;
  pollfd p{o.plane.fd(), POLLIN, 0};
  REQUIRE(poll(&p, 1, kPatienceMs) == 1);
  while (o.plane.receive(room, in, dropped)) {
  }
  REQUIRE(in.size() == 1);
  CHECK(in[0].meta.src == back.src);
  CHECK(in[0].meta.dst == back.dst);
  CHECK_EQ(in[0].meta.src_port, 4791);
  CHECK_EQ(in[0].meta.ecn, wire::kEcnCe);
  CHECK_EQ(in[0].bytes.size(), bytes.size());
}

TEST_CASE("gateway: a run leaves in one call and arrives as packets, each with headers of its own length") {
  Switch s;
  Opened o = open_at(s);
  REQUIRE(o.error == 0);
  const std::vector<uint8_t> payload(1000, 7);
  TxBatch batch;
  for (const uint32_t size : {1000u, 1000u, 1000u, 400u}) {
    TxBatch::Slot& slot = batch.next();
    slot.t = {};
    slot.t.meta = to_peer(o.plane);
    slot.t.via = slot.t.meta.dst;
    slot.t.head_len = 32;
    slot.t.payload = payload.data();
    slot.t.payload_len = size;
    batch.keep(o.plane);
  }
  batch.send();
  for (const TxBatch::Slot& slot : batch.slots()) CHECK_EQ(slot.error, 0);
  for (const uint32_t size : {1000u, 1000u, 1000u, 400u}) {
    const auto packet = s.receive();
    wire::DatagramMeta got;
    base::ByteView inside;
    CHECK(wire::parse_outer(packet, got, inside) == wire::OuterFault::none);
    CHECK_EQ(inside.size(), 32u + size + 4);
  }
}

TEST_CASE("gateway: links go and return, a busy one holds packets back, lies do nothing") {
  Switch s;
  Opened o = open_at(s, [](GatewayMessage& m) { m.up = false; });
  REQUIRE(o.error == 0);
  CHECK(!o.plane.gateway()->up());
  GatewayLink link = *o.plane.gateway();
  const auto say = [&](GatewayVerb verb, bool up, uint32_t value) {
    std::array<uint8_t, wire::kGatewayMessageBytes> b{};
    wire::emit_gateway_message({verb, up, 0, 0, {}, value, 0, 0}, b.data());
    link.message(b, base::Instant{1000});
  };
  say(GatewayVerb::link, true, 0);
  CHECK(link.up());
  link.message({}, {});
  CHECK(link.up());
  say(GatewayVerb::pause, true, 500);
  CHECK(link.paused(base::Instant{1400}));
  CHECK(!link.paused(base::Instant{1500}));
  say(GatewayVerb::pause, true, UINT32_MAX);
  CHECK(!link.paused(base::Instant{60'000'000}));
  s.say({GatewayVerb::pause, true, 0, 0, {}, 50'000'000, 0, 0});
  RxBatch room;
  std::vector<engine::Datagram> in;
  uint64_t dropped = 0;
  pollfd p{o.plane.fd(), POLLIN, 0};
  REQUIRE(poll(&p, 1, kPatienceMs) == 1);
  o.plane.receive(room, in, dropped);
  CHECK(in.empty());
  int error = 0;
  const std::array<uint8_t, 3> bytes{};
  const auto meta = to_peer(o.plane);
  CHECK(o.plane.send(meta, meta.dst, bytes, error) == SendOutcome::would_block);
}

TEST_CASE("gateway: what cannot be bound says why and what to do") {
  Switch s;
  const Opened taken = open_at(s, [](GatewayMessage& m) {
    m.verb = GatewayVerb::refused;
    m.value = EADDRINUSE;
  });
  CHECK_EQ(taken.error, EADDRINUSE);
  CHECK(taken.why.find("another process") != std::string::npos);
  base::Rng rng(1);
  std::set<uint32_t> none;
  for (const char* where : {"", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000", "::1:5", "here:5"}) {
    UdpPlane p;
    std::string why;
    PlaneOptions o = options(where);
    if (o.gateway.empty()) continue;
    CHECK_EQ(p.open(o, rng, none, why), EINVAL);
  }
  std::string gone;
  {
    const Switch closed;
    gone = closed.where();
  }
  UdpPlane p;
  std::string why;
  CHECK_EQ(p.open(options(gone), rng, none, why), ENETUNREACH);
  CHECK(why.find("lab") != std::string::npos);
}
