// Threads and loopback sockets: processes bind, send, receive, are told of links, and lie.
#include "softswitch/runner.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "rig.h"
#include "softswitch/host_port.h"
#include "testing/check.h"

using namespace mrc;              // NOLINT(google-build-using-namespace)
using namespace mrc::softswitch;  // NOLINT(google-build-using-namespace)
using wire::GatewayMessage;
using wire::GatewayVerb;

namespace {

std::unique_ptr<Runner> start(const Rig& rig, uint32_t fabrics = 1, uint32_t threads = 1) {
  RunnerSpec spec;
  spec.threads = threads;
  for (uint32_t i = 0; i < fabrics; ++i) spec.fabrics.push_back(rig.spec());
  std::string why;
  auto r = Runner::open(spec, why);
  if (r == nullptr) std::fprintf(stderr, "%s\n", why.c_str());
  REQUIRE(r != nullptr);
  return r;
}

// A process: one loopback socket connected to a host's port.
class Process {
 public:
  explicit Process(uint16_t gateway) : s_(::socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    a.sin_port = htons(gateway);
    REQUIRE(connect(s_.get(), reinterpret_cast<sockaddr*>(&a), sizeof a) == 0);
  }
  void send(base::ByteView b) const { REQUIRE(::send(s_.get(), b.data(), b.size(), 0) >= 0); }
  // Empty after `ms` of silence.
  [[nodiscard]] std::vector<uint8_t> receive(int ms = 20'000) const {
    pollfd p{s_.get(), POLLIN, 0};
    std::vector<uint8_t> b(70'000);
    if (poll(&p, 1, ms) != 1) return {};
    const ssize_t n = recv(s_.get(), b.data(), b.size(), 0);
    b.resize(n > 0 ? static_cast<size_t>(n) : 0);
    return b;
  }
  [[nodiscard]] GatewayMessage ask(GatewayVerb verb, uint16_t port, const base::IpAddr& address) const {
    GatewayMessage m{verb, true, port, 77, address, 0, 0, 0};
    std::array<uint8_t, wire::kGatewayMessageBytes> b{};
    wire::emit_gateway_message(m, b.data());
    send(b);
    GatewayMessage got;
    for (;;) {  // what says nothing is a question whether we live
      const auto bytes = receive();
      if (bytes.empty() || wire::parse_gateway_message(bytes, got)) return got;
    }
  }
  [[nodiscard]] GatewayMessage bind(uint16_t host, uint16_t port = 4791) const {
    return ask(GatewayVerb::bind, port, address({H(host)}));
  }

 private:
  Socket s_;
};

uint64_t drops(const Runner& r, uint32_t node, Drop d) {
  return r.node_counters(0)[node].drops[static_cast<size_t>(d)];
}

}  // namespace

TEST_CASE("two processes: bind, send along a list, receive; the answer says what the link is like") {
  Rig rig;
  const auto r = start(rig, 2, 2);
  for (size_t plane = 0; plane < 2; ++plane) {
    const Process a(r->socket_port(plane, rig.host(0))), b(r->socket_port(plane, rig.host(1)));
    const GatewayMessage bound = a.bind(0, 0);
    CHECK(bound.verb == GatewayVerb::bound);
    CHECK_EQ(bound.cookie, 77u);
    CHECK(bound.udp_port >= 49'152);
    CHECK(bound.up);
    CHECK_EQ(bound.mtu, 9000u);
    CHECK_EQ(bound.rate_bps, rig.rate_bps);
    CHECK(b.bind(1).verb == GatewayVerb::bound);
    const auto p = rig.packet(0, {T0(0), T1(1), T0(1), H(1)}, 500);
    a.send(p);
    const auto got = b.receive();
    REQUIRE(got.size() == p.size());
    CHECK(destination(got).ip == address({H(1)}));
    CHECK_EQ(r->node_counters(plane)[rig.t1(1)].sid_packets, 1u);
  }
  CHECK_EQ(r->socket_port(0, rig.t0(0)), 0);
  CHECK_EQ(r->socket_port(9, 0), 0);
  CHECK_EQ(r->stats().frames, 0u);
}

TEST_CASE("ports: one owner, freed when released or when its process is gone") {
  Rig rig;
  const auto r = start(rig);
  const uint16_t gateway = r->socket_port(0, rig.host(0));
  const Process other(gateway);
  {
    const Process first(gateway);
    CHECK(first.bind(0).verb == GatewayVerb::bound);
    CHECK(first.bind(0).verb == GatewayVerb::bound);  // the answer was lost, say
    const GatewayMessage no = other.bind(0);
    CHECK(no.verb == GatewayVerb::refused);
    CHECK_EQ(no.value, static_cast<uint32_t>(EADDRINUSE));
  }
  CHECK(other.bind(0).verb == GatewayVerb::bound);
  GatewayMessage release{GatewayVerb::release, true, 4791, 0, address({H(0)}), 0, 0, 0};
  std::array<uint8_t, wire::kGatewayMessageBytes> b{};
  wire::emit_gateway_message(release, b.data());
  const Process stranger(gateway);
  stranger.send(b);  // not its to release
  CHECK(stranger.bind(0).verb == GatewayVerb::refused);
  other.send(b);
  CHECK(stranger.bind(0).verb == GatewayVerb::bound);
  CHECK_EQ(other.bind(1).value, static_cast<uint32_t>(EADDRNOTAVAIL));
}

TEST_CASE("hostile bytes: strangers, lies and noise are counted by reason and go nowhere") {
  Rig rig;
  const auto r = start(rig);
  const uint16_t gateway = r->socket_port(0, rig.host(0));
  const Process a(gateway), b(r->socket_port(0, rig.host(1))), stranger(gateway);
  CHECK(a.bind(0, 1).verb == GatewayVerb::bound);
  CHECK(b.bind(1).verb == GatewayVerb::bound);
  stranger.send(rig.packet(0, {T0(0), T1(0), T0(1), H(1)}, 10));
  a.send(rig.packet(1, {T0(0), T1(0), T0(1), H(1)}, 10));
  a.send({});
  a.send(std::vector<uint8_t>{'M', 'R', 'C', 'G', 1, 9});
  a.send(std::vector<uint8_t>(30, 0x60));
  auto wrong_port = rig.packet(0, {T0(0), T1(0), T0(1), H(1)}, 10);
  wrong_port[43] ^= 1;
  a.send(wrong_port);
  a.send(rig.packet(0, {T0(0), T1(0), T0(1), H(1)}, 10));
  CHECK_EQ(b.receive().size(), 58u);
  CHECK(b.receive(50).empty());
  CHECK_EQ(drops(*r, rig.host(0), Drop::unknown_sender), 1u);
  CHECK_EQ(drops(*r, rig.host(0), Drop::bad_source), 1u);
  CHECK_EQ(drops(*r, rig.host(0), Drop::bad_message), 2u);
  CHECK_EQ(drops(*r, rig.host(0), Drop::truncated), 1u);
  CHECK_EQ(drops(*r, rig.host(1), Drop::no_listener), 1u);
  base::Rng rng(5);
  for (int i = 0; i < 2000; ++i) {
    std::vector<uint8_t> junk(rng.below(300));
    for (uint8_t& x : junk) x = static_cast<uint8_t>(rng.next());
    if (!junk.empty() && rng.chance_ppm(500'000)) junk[0] = 0x60;
    a.send(junk);
  }
  // A switch that a busy machine lets wait has its buffer full of junk, and no room for a packet.
  size_t arrived = 0;
  for (int i = 0; i < 100 && arrived == 0; ++i) {
    a.send(rig.packet(0, {T0(0), T1(0), T0(1), H(1)}, 10));
    arrived = b.receive(200).size();
  }
  CHECK_EQ(arrived, 58u);
  CHECK_EQ(r->failure(), std::string());
}

TEST_CASE("links: processes hear that theirs is gone and that it is back; a slow one asks for patience") {
  Rig rig;
  rig.rate_bps = 1'000'000;
  const auto r = start(rig);
  const Process a(r->socket_port(0, rig.host(0)));
  CHECK(a.bind(0).verb == GatewayVerb::bound);
  PortFault down;
  down.down = true;
  CHECK(r->set_fault(0, rig.host_up(0), down));
  GatewayMessage m;
  REQUIRE(wire::parse_gateway_message(a.receive(), m));
  CHECK(m.verb == GatewayVerb::link);
  CHECK(!m.up);
  CHECK(!a.bind(0).up);
  CHECK(r->set_fault(0, rig.host_up(0), {}));
  while (m.verb != GatewayVerb::link || !m.up) REQUIRE(wire::parse_gateway_message(a.receive(), m));
  for (int i = 0; i < 20; ++i) a.send(rig.packet(0, {T0(0), T1(0), T0(1), H(1)}, 1000));
  while (m.verb != GatewayVerb::pause) REQUIRE(wire::parse_gateway_message(a.receive(), m));
  CHECK(m.value > 1'000'000);
  CHECK(!r->set_fault(0, 999, {}));
}

TEST_CASE("processes that died are nobody's trouble: the living are told and served, the dead forgotten") {
  Rig rig;
  const auto r = start(rig);
  const uint16_t gateway = r->socket_port(0, rig.host(0));
  const Process live(gateway), b(r->socket_port(0, rig.host(1)));
  {
    std::vector<std::unique_ptr<Process>> dying;
    for (uint16_t port = 1; port <= 6; ++port) {
      dying.push_back(std::make_unique<Process>(gateway));
      CHECK(dying.back()->bind(0, port).verb == GatewayVerb::bound);
    }
    CHECK(live.bind(0, 4791).verb == GatewayVerb::bound);
    CHECK(b.bind(1, 7).verb == GatewayVerb::bound);
    CHECK_EQ(r->stats().clients, 8u);
  }
  PortFault down;
  down.down = true;
  CHECK(r->set_fault(0, rig.host_up(0), down));
  GatewayMessage m;
  REQUIRE(wire::parse_gateway_message(live.receive(50), m));  // at once, not when it is repeated
  CHECK(!m.up);
  CHECK(r->set_fault(0, rig.host_up(0), {}));
  while (!m.up) REQUIRE(wire::parse_gateway_message(live.receive(), m));
  b.send(rig.packet(1, {T0(1), T1(0), T0(0), H(0)}, 10));
  while (live.receive().size() != 58) {
  }
  CHECK_EQ(r->stats().clients, 2u);
}

TEST_CASE("a capture holds what entered the chosen lines, readable as pcap") {
  Rig rig;
  const auto r = start(rig);
  const Process a(r->socket_port(0, rig.host(0))), b(r->socket_port(0, rig.host(1)));
  CHECK(a.bind(0, 1).verb == GatewayVerb::bound);
  CHECK(b.bind(1).verb == GatewayVerb::bound);
  std::string file = "/tmp/softswitch-test-XXXXXX";
  const Socket made(mkstemp(file.data()));
  CHECK_EQ(r->capture(0, {rig.t0_up(0, 0)}, file), 0);
  CHECK_EQ(r->capture(0, {rig.t0_up(0, 1)}, file + "2"), 0);  // beside it
  a.send(rig.packet(0, {T0(0), T1(0), T0(1), H(1)}, 100));
  a.send(rig.packet(0, {T0(0), T1(1), T0(1), H(1)}, 200));
  CHECK(!b.receive().empty());
  CHECK(!b.receive().empty());
  CHECK_EQ(r->capture(0, {}, file), 0);
  std::array<uint8_t, 1000> got{};
  CHECK_EQ(read(made.get(), got.data(), got.size()), 24 + 16 + 148);
  CHECK_EQ(r->capture(0, {0}, "/nonexistent/x"), ENOENT);
  unlink(file.c_str());
  unlink((file + "2").c_str());
}
