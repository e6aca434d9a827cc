// Two drivers in one process over loopback, clean and impaired.
#include "net/driver.h"

#include <sys/resource.h>

#include <filesystem>
#include <thread>

#include "net/fd.h"
#include "net/tests/driver_pair.h"

using namespace mrc;       // NOLINT(google-build-using-namespace)
using namespace mrc::net;  // NOLINT(google-build-using-namespace)

namespace {

uint64_t drops(Driver& d, wire::DropReason r) {
  uint64_t n = 0;
  d.with([&](engine::Endpoint& ep, base::Instant) { n = ep.stats().drops[static_cast<size_t>(r)]; });
  return n;
}

}  // namespace

TEST_CASE("eight megabytes cross four planes of both families, and all of them carry data") {
  auto [a, b] = connected(1, 8 << 20);
  CHECK(transfer(a, b));
  a.driver->with([&](engine::Endpoint& ep, base::Instant) {
    for (uint8_t port = 1; port <= 4; ++port) CHECK(ep.stats().port_tx_bytes[port] > (1 << 20));
  });
  for (const PlaneInfo& p : a.driver->planes()) {
    CHECK(p.up);
    CHECK(p.mtu >= 4200);
    CHECK(a.driver->last_data_tx(p.port, 0, true).ns > 0);
    bool one_ev = false;
    for (const uint32_t tag : p.tags) one_ev = one_ev || a.driver->last_data_tx(p.port, tag, false).ns > 0;
    CHECK(one_ev);
    CHECK_EQ(a.driver->last_data_tx(p.port, 1, false).ns, 0);
  }
  const DriverStats s = a.driver->stats();
  CHECK(s.tx_datagrams >= 2048);
  CHECK(s.tx_bytes > (8 << 20));
  CHECK_EQ(s.tx_errors, 0u);
}

TEST_CASE("loss, duplication, reordering and corruption on every plane change nothing but the time") {
  auto [a, b] = connected(3, 4 << 20);
  impair::Rule r;
  r.drop_ppm = 10'000;
  r.dup_ppm = 20'000;
  r.corrupt_ppm = 10'000;
  r.reorder_ppm = 50'000;
  r.reorder_delay = base::Duration::micros(500);
  a.driver->add_rule(r);
  b.driver->add_rule(r);
  CHECK(transfer(a, b));
  CHECK(drops(*b.driver, wire::DropReason::bad_icrc) > 0);
}

TEST_CASE("trimmed packets are asked for again") {
  auto [a, b] = connected(13, 4 << 20, true);
  impair::Rule r;
  r.dir = impair::Dir::tx;
  r.trim_ppm = 20'000;
  a.driver->add_rule(r);
  CHECK(transfer(a, b));
  a.driver->with(
      [&](engine::Endpoint& ep, base::Instant) { CHECK(ep.qp_stats(a.qpn).value().nacks_rx > 0); });
  CHECK_EQ(drops(*b.driver, wire::DropReason::bad_icrc), 0u);
}

TEST_CASE("a plane that is down at its own end or at the peer's does not stop the transfer") {
  for (const bool at_receiver : {false, true}) {
    auto [a, b] = connected(at_receiver ? 5 : 6, 2 << 20);
    impair::Rule r;
    r.port = 2;
    r.down = true;
    r.dir = at_receiver ? impair::Dir::rx : impair::Dir::tx;
    (at_receiver ? b : a).driver->add_rule(r);
    CHECK(transfer(a, b));
  }
}

TEST_CASE("a delayed and rate-limited plane holds packets back and lets every one go") {
  auto [a, b] = connected(8, 1 << 20);
  impair::Rule r;
  r.port = 1;
  r.delay = base::Duration::millis(2);
  r.jitter = base::Duration::micros(300);
  r.rate_bps = 200'000'000;
  r.queue_bytes = 1 << 20;
  a.driver->add_rule(r);
  CHECK(transfer(a, b));
  CHECK_EQ(a.driver->stats().impaired_lost, 0u);
  a.driver->clear_rules();
  CHECK(transfer(b, a));
}

TEST_CASE("B66: any alignment of source and target, any tail") {
  auto [a, b] = connected(9, 64 << 10);
  for (size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<uint8_t>(i * 31 + (i >> 8));
  for (size_t k = 1; k < 64; ++k) {
    const size_t from = k, to = 64 - k, bytes = 8192 + k % 8;
    REQUIRE(write(a, from, b, to, bytes));
    b.driver->with([&](engine::Endpoint&, base::Instant) {
      CHECK(std::memcmp(a.memory.data() + from, b.memory.data() + to, bytes) == 0);
      CHECK_EQ(b.memory[to - 1], 0);
      CHECK_EQ(b.memory[to + bytes], 0);
      std::memset(b.memory.data(), 0, b.memory.size());
    });
  }
}

TEST_CASE("callers on several threads get in while both directions are busy") {
  auto [a, b] = connected(10, 4 << 20);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> calls{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&, d = (i % 2 == 0 ? a : b).driver.get()] {
      while (!stop.load()) {
        d->with([&](engine::Endpoint& ep, base::Instant) { calls.fetch_add(ep.qp_count()); });
        (void)d->stats();
        (void)d->planes();
        (void)d->failure();
      }
    });
  }
  CHECK(transfer(a, b));
  CHECK(transfer(b, a));
  stop = true;
  for (std::thread& t : callers) t.join();
  CHECK(calls.load() > 10);
}

TEST_CASE("an EV given by the user uses its source port; a port that is taken makes only that EV bad") {
  auto [a, b] = connected(11, 256 << 10);
  const PlaneInfo plane = a.driver->planes()[0];
  const uint32_t free_port = b.driver->planes()[1].udp_port;  // taken on another address only
  const Fd occupant(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  std::string why;
  SockAddr at = to_sockaddr(parse_address(plane.address, why)->ip, 0, 0);
  REQUIRE(bind(occupant.get(), at.get(), at.length) == 0);
  REQUIRE(getsockname(occupant.get(), at.get(), &at.length) == 0);
  const uint32_t occupied = port_of(at.storage);
  a.driver->with([&](engine::Endpoint& ep, base::Instant now) {
    CHECK_EQ(ep.replace_ev(now, a.qpn, plane.tags[0], ev::PathId{free_port, 1}), 0);
    CHECK_EQ(ep.replace_ev(now, a.qpn, plane.tags[1], ev::PathId{plane.udp_port, 1}), 0);
    CHECK_EQ(ep.replace_ev(now, a.qpn, plane.tags[2], ev::PathId{occupied, 1}), 0);
  });
  CHECK(transfer(a, b));
  CHECK(a.driver->last_data_tx(1, free_port, false).ns > 0);
  CHECK(a.driver->last_data_tx(1, plane.udp_port, false).ns > 0);
  CHECK(a.driver->stats().bad_source > 0);
  a.driver->with([&](engine::Endpoint& ep, base::Instant) {
    for (const engine::PathStats& p : ep.path_stats(a.qpn)) {
      if (p.port == 1 && p.tag == occupied) CHECK(p.state == ev::State::assumed_bad);
    }
  });
}

TEST_CASE("errors name the plane, the address and the remedy; closing twice is harmless") {
  DriverConfig c;
  std::string why;
  CHECK(!Driver::open(c, why).ok());
  c.planes.push_back({});
  c.planes[0].address = "192.0.2.77";
  CHECK_EQ(Driver::open(c, why).error(), EADDRNOTAVAIL);
  CHECK(why.find("plane 1") != std::string::npos);
  CHECK(why.find("192.0.2.77") != std::string::npos);
  c.planes[0].address = "127.0.0.1";
  c.planes[0].evs = 0;
  CHECK_EQ(Driver::open(c, why).error(), EINVAL);
  c.planes[0].evs = 4;
  auto d = Driver::open(c, why);
  REQUIRE(d.ok());
  c.planes[0].udp_port = d.value()->planes()[0].udp_port;
  CHECK_EQ(Driver::open(c, why).error(), EADDRINUSE);  // B34
  CHECK(why.find("plane 1") != std::string::npos);
  CHECK(why.find(std::to_string(c.planes[0].udp_port)) != std::string::npos);
  d.value()->close();
  d.value()->close();
  CHECK(d.value()->failure().empty());
  CHECK(d.value()->planes().empty());
  d.value()->with([](engine::Endpoint& ep, base::Instant) { CHECK_EQ(ep.qp_count(), 0u); });
  CHECK(Driver::open(c, why).ok());  // the port is free at once
}

TEST_CASE("running out of descriptors is a clear error and leaks none") {
  const auto open_now = [] {
    size_t n = 0;
    for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator("/proc/self/fd")) ++n;
    return n;
  };
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const size_t start = open_now();
  DriverConfig c;
  c.planes.push_back({});
  c.planes[0].address = "127.0.0.1";
  for (size_t room = 1; room < 16; room += 3) {
    rlimit low = before;
    low.rlim_cur = start + room;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &low) == 0);
    std::string why;
    const int e = Driver::open(c, why).error();
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK_EQ(e, EMFILE);
    CHECK(why.find("ulimit -n") != std::string::npos);
    CHECK_EQ(open_now(), start);
  }
}
