// Two drivers in one process over loopback, clean and impaired. Waits are poll() on event_fd with a deadline.
#include "net/driver.h"

#include <poll.h>

#include <cstring>

#include "net/address.h"
#include "net/clock.h"
#include "testing/check.h"

using namespace mrc;       // NOLINT(google-build-using-namespace)
using namespace mrc::net;  // NOLINT(google-build-using-namespace)

namespace {

struct End {
  std::unique_ptr<Driver> driver;
  std::vector<uint8_t> memory;
  uint32_t pd = 0, cq = 0, qpn = 0, psn = 0;
  engine::MrInfo mr;
};

End open_end(const std::vector<std::string>& planes, uint64_t seed, size_t bytes) {
  End e;
  DriverConfig c;
  c.engine.seed = seed;
  for (const auto& p : planes) {
    PlaneConfig plane;
    plane.address = p;
    plane.evs = 4;
    c.planes.push_back(plane);
  }
  std::string why;
  auto d = Driver::open(c, why);
  if (!d.ok()) std::fprintf(stderr, "%s\n", why.c_str());
  REQUIRE(d.ok());
  e.driver = std::move(d.value());
  e.memory.resize(bytes);
  e.driver->with([&](engine::Endpoint& ep, base::Instant) {
    e.pd = ep.alloc_pd();
    e.cq = ep.create_cq(1024).value();
    const auto addr = reinterpret_cast<uint64_t>(e.memory.data());
    e.mr = ep.reg_mr(e.pd, addr, bytes, engine::Access::local_write | engine::Access::remote_write, addr).value();
    engine::QpInit init;
    init.pd = e.pd;
    init.send_cq = init.recv_cq = e.cq;
    e.qpn = ep.create_qp(init).value();
    e.psn = ep.random_psn();
  });
  return e;
}

void connect(End& a, const End& b) {
  std::vector<engine::PeerPort> peers;
  std::string why;
  for (const PlaneInfo& p : b.driver->planes()) peers.push_back({p.port, parse_address(p.address, why)->ip, p.udp_port, p.port});
  a.driver->with([&](engine::Endpoint& ep, base::Instant now) {
    engine::QpAttr q;
    q.state = engine::QpState::init;
    REQUIRE(ep.modify_qp(now, a.qpn, q) == 0);
    engine::QpAttr r;
    r.state = engine::QpState::rtr;
    r.dest_qpn = b.qpn;
    r.rq_psn = b.psn;
    r.path_mtu = 4096;
    r.peer_ports = peers;
    r.ev_count = 16;
    r.base_rtt = base::Duration::micros(300);
    REQUIRE(ep.modify_qp(now, a.qpn, r) == 0);
    engine::QpAttr s;
    s.state = engine::QpState::rts;
    s.sq_psn = a.psn;
    s.timeout = 12;
    s.min_ack_timeout = base::Duration::millis(4);
    s.reorder_min_time = base::Duration::millis(3);
    s.max_cwnd = 512 * 1024;
    s.hold_time = base::Duration::seconds(20);
    REQUIRE(ep.modify_qp(now, a.qpn, s) == 0);
  });
}

// Writes a's memory into b's and waits for the completion.
bool transfer(End& a, End& b) {
  for (size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<uint8_t>(i * 7 + (i >> 12));
  a.driver->with([&](engine::Endpoint& ep, base::Instant now) {
    ep.req_notify_cq(a.cq, false);
    engine::SendWr wr;
    wr.addr = reinterpret_cast<uint64_t>(a.memory.data());
    wr.length = static_cast<uint32_t>(a.memory.size());
    wr.lkey = a.mr.lkey;
    wr.remote_addr = reinterpret_cast<uint64_t>(b.memory.data());
    wr.rkey = b.mr.rkey;
    REQUIRE(ep.post_send(now, a.qpn, wr) == 0);
  });
  const base::Instant deadline = monotonic_now() + base::Duration::seconds(30);
  while (monotonic_now() < deadline) {
    engine::Completion c;
    size_t n = 0;
    a.driver->with([&](engine::Endpoint& ep, base::Instant) { n = ep.poll_completion(a.cq, {&c, 1}); });
    if (n == 1) return c.status == engine::Status::success && std::memcmp(a.memory.data(), b.memory.data(), a.memory.size()) == 0;
    pollfd p{a.driver->event_fd(), POLLIN, 0};
    poll(&p, 1, 1000);
    a.driver->drain_event_fd();
  }
  return false;
}

const std::vector<std::string> kA{"127.0.0.21", "127.0.0.22", "::1", "127.0.0.23"};
const std::vector<std::string> kB{"127.0.0.31", "127.0.0.32", "::1", "127.0.0.33"};

}  // namespace

TEST_CASE("eight megabytes cross four planes of both families, and all of them carry data") {
  End a = open_end(kA, 1, 8 << 20);
  End b = open_end(kB, 2, 8 << 20);
  connect(a, b);
  connect(b, a);
  CHECK(transfer(a, b));
  a.driver->with([&](engine::Endpoint& ep, base::Instant) {
    for (uint8_t port = 1; port <= 4; ++port) CHECK(ep.stats().port_tx_bytes[port] > (1 << 20));
  });
  for (uint8_t port = 1; port <= 4; ++port) CHECK(a.driver->last_data_tx(port, 0, true).ns > 0);
}

TEST_CASE("loss, duplication, reordering and corruption on every plane change nothing but the time") {
  End a = open_end(kA, 3, 4 << 20);
  End b = open_end(kB, 4, 4 << 20);
  connect(a, b);
  connect(b, a);
  impair::Rule r;
  r.drop_ppm = 10'000;
  r.dup_ppm = 20'000;
  r.corrupt_ppm = 10'000;
  r.reorder_ppm = 50'000;
  r.reorder_delay = base::Duration::micros(500);
  a.driver->add_rule(r);
  b.driver->add_rule(r);
  CHECK(transfer(a, b));
  b.driver->with([&](engine::Endpoint& ep, base::Instant) {
    CHECK(ep.stats().drops[static_cast<size_t>(wire::DropReason::bad_icrc)] > 0);
  });
}

TEST_CASE("a plane that is down from the start does not stop the transfer") {
  End a = open_end(kA, 5, 2 << 20);
  End b = open_end(kB, 6, 2 << 20);
  connect(a, b);
  connect(b, a);
  impair::Rule r;
  r.port = 2;
  r.down = true;
  a.driver->add_rule(r);
  CHECK(transfer(a, b));
}

TEST_CASE("errors name the plane, the address and the remedy; closing twice is harmless") {
  DriverConfig c;
  std::string why;
  CHECK(!Driver::open(c, why).ok());
  c.planes.push_back({});
  c.planes[0].address = "192.0.2.77";
  CHECK(!Driver::open(c, why).ok());
  CHECK(why.find("plane 1") != std::string::npos);
  CHECK(why.find("192.0.2.77") != std::string::npos);
  c.planes[0].address = "127.0.0.1";
  auto d = Driver::open(c, why);
  REQUIRE(d.ok());
  d.value()->close();
  d.value()->close();
  CHECK(d.value()->failure().empty());
}
