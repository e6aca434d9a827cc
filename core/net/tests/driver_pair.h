// Two connected drivers in one process, and a write between them. Waits are poll() on event_fd with a
// deadline.
#pragma once

#include <poll.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/address.h"
#include "net/clock.h"
#include "net/driver.h"
#include "testing/check.h"

namespace mrc::net {

struct End {
  std::vector<uint8_t> memory;
  std::unique_ptr<Driver> driver;  // gone before the memory it writes into
  uint32_t pd = 0, cq = 0, qpn = 0, psn = 0;
  engine::MrInfo mr;
  [[nodiscard]] uint64_t base() { return reinterpret_cast<uint64_t>(memory.data()); }
};

struct EndOptions {
  uint64_t seed = 1;
  size_t bytes = 1 << 20;
  uint32_t evs = 4;
  uint16_t udp_port = 0;
  Progress progress = Progress::thread;
  base::Duration spin = DriverConfig{}.spin;
};

inline std::unique_ptr<Driver> open_driver(const std::vector<std::string>& planes, const EndOptions& o) {
  DriverConfig c;
  c.engine.seed = o.seed;
  c.progress = o.progress;
  c.spin = o.spin;
  for (const auto& p : planes) {
    PlaneConfig plane;
    plane.address = p;
    plane.evs = o.evs;
    plane.udp_port = o.udp_port;
    c.planes.push_back(plane);
  }
  std::string why;
  auto d = Driver::open(c, why);
  if (!d.ok()) std::fprintf(stderr, "%s\n", why.c_str());
  REQUIRE(d.ok());
  return std::move(d.value());
}

inline End open_end(const std::vector<std::string>& planes, const EndOptions& o) {
  End e;
  e.driver = open_driver(planes, o);
  e.memory.resize(o.bytes);
  e.driver->with([&](engine::Endpoint& ep, base::Instant) {
    e.pd = ep.alloc_pd();
    e.cq = ep.create_cq(1024).value();
    e.mr = ep.reg_mr(e.pd, e.base(), o.bytes, engine::Access::local_write | engine::Access::remote_write,
                     e.base())
               .value();
    engine::QpInit init;
    init.pd = e.pd;
    init.send_cq = init.recv_cq = e.cq;
    e.qpn = ep.create_qp(init).value();
    e.psn = ep.random_psn();
  });
  return e;
}

inline void connect(End& a, const End& b, bool trimming = false) {
  std::vector<engine::PeerPort> peers;
  std::string why;
  for (const PlaneInfo& p : b.driver->planes())
    peers.push_back({p.port, parse_address(p.address, why)->ip, p.udp_port, p.port});
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
    r.trimming = trimming;
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

// Looks at `done` again whenever the driver has something to say, and every 20 ms for what it does not
// announce.
inline bool wait_until(Driver& d, const std::function<bool()>& done,
                       base::Duration limit = base::Duration::seconds(30)) {
  const base::Instant deadline = monotonic_now() + limit;
  while (!done()) {
    if (monotonic_now() >= deadline) return false;
    pollfd p{d.event_fd(), POLLIN, 0};
    poll(&p, 1, 20);
    d.drain_event_fd();
  }
  return true;
}

// Writes part of a's memory into b's and waits for the completion.
inline bool write(End& a, size_t from, End& b, size_t to, size_t bytes) {
  a.driver->with([&](engine::Endpoint& ep, base::Instant now) {
    REQUIRE(ep.req_notify_cq(a.cq, false) == 0);
    engine::SendWr wr;
    wr.addr = a.base() + from;
    wr.length = static_cast<uint32_t>(bytes);
    wr.lkey = a.mr.lkey;
    wr.remote_addr = b.base() + to;
    wr.rkey = b.mr.rkey;
    REQUIRE(ep.post_send(now, a.qpn, wr) == 0);
  });
  engine::Completion c;
  size_t n = 0;
  const bool came = wait_until(*a.driver, [&] {
    a.driver->with([&](engine::Endpoint& ep, base::Instant) { n = ep.poll_completion(a.cq, {&c, 1}); });
    return n == 1;
  });
  return came && c.status == engine::Status::success;
}

inline bool transfer(End& a, End& b) {
  for (size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<uint8_t>(i * 7 + (i >> 12));
  // The lock of b's driver orders its thread's stores before our look at the memory.
  const bool ok = write(a, 0, b, 0, a.memory.size());
  bool same = false;
  b.driver->with([&](engine::Endpoint&, base::Instant) {
    same = std::memcmp(a.memory.data(), b.memory.data(), a.memory.size()) == 0;
  });
  return ok && same;
}

inline const std::vector<std::string> kPlanesA{"127.0.0.21", "127.0.0.22", "::1", "127.0.0.23"};
inline const std::vector<std::string> kPlanesB{"127.0.0.31", "127.0.0.32", "::1", "127.0.0.33"};

inline std::pair<End, End> connected(uint64_t seed, size_t bytes, bool trimming = false) {
  EndOptions o{seed, bytes};
  End a = open_end(kPlanesA, o);
  o.seed += 1000;
  End b = open_end(kPlanesB, o);
  connect(a, b, trimming);
  connect(b, a, trimming);
  return {std::move(a), std::move(b)};
}

}  // namespace mrc::net
