// What the host does to a driver: forks, crashes, links that go, foreign label leases. Namespaces of its own
// where the host lets us have them; without, those cases say so and check nothing.
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <cerrno>
#include <fstream>
#include <stdexcept>

#include "net/rx_batch.h"
#include "net/tests/driver_pair.h"
#include "net/udp_linux.h"

#include <linux/in6.h>

using namespace mrc;       // NOLINT(google-build-using-namespace)
using namespace mrc::net;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int kNoNamespaces = 77;

// A child with the parent's memory; its exit status is what `body` says, or 1 after a failed CHECK.
pid_t in_child(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  alarm(60);  // nothing stays behind
  testing::failures() = 0;
  int status = 1;
  try {
    status = body();
  } catch (const testing::Abort&) {
  }
  _exit(testing::failures() != 0 ? 1 : status);
}
int status_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void set_loopback(bool up) {
  const int s = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  ifreq r{};
  std::strcpy(r.ifr_name, "lo");  // NOLINT: two letters
  REQUIRE(ioctl(s, SIOCGIFFLAGS, &r) == 0);
  r.ifr_flags = static_cast<short>(up ? r.ifr_flags | IFF_UP : r.ifr_flags & ~IFF_UP);
  CHECK_EQ(ioctl(s, SIOCSIFFLAGS, &r), 0);
  close(s);
}

void in_namespace(const char* what, const std::function<void()>& body) {
  const int status = status_of(in_child([&] {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return kNoNamespaces;
    set_loopback(true);
    body();
    return 0;
  }));
  if (status == kNoNamespaces) {
    std::printf("not checked (no network namespaces here): %s\n", what);
  } else {
    CHECK_EQ(status, 0);
  }
}

// Layout of struct in6_flowlabel_req.
int take_exclusive_label(uint16_t label) {
  const int s = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  in6_flowlabel_req r{};
  r.flr_dst.s6_addr[15] = 1;
  r.flr_label = htonl(label);
  r.flr_action = IPV6_FL_A_GET;
  r.flr_share = IPV6_FL_S_EXCL;
  r.flr_flags = IPV6_FL_F_CREATE;
  if (setsockopt(s, IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &r, sizeof r) == 0) return s;
  close(s);
  return -1;
}

bool plane_up(const Driver& d, size_t i) { return d.planes()[i].up; }

}  // namespace

TEST_CASE("B36: a forked child cannot use the driver and does not disturb its parent") {
  End a = open_end({"127.0.0.51"}, {.seed = 1, .bytes = 1 << 20});
  End b = open_end({"127.0.0.52"}, {.seed = 2, .bytes = 1 << 20});
  connect(a, b);
  connect(b, a);
  const int status = status_of(in_child([&] {
    CHECK(a.driver->failure().find("fork") != std::string::npos);
    bool refused = false;
    try {
      a.driver->with([](engine::Endpoint&, base::Instant) { CHECK(false); });
    } catch (const std::logic_error&) {
      refused = true;
    }
    CHECK(refused);
    CHECK(a.driver->planes().empty());
    CHECK_EQ(fcntl(a.driver->event_fd(), F_GETFD), -1);
    a.driver->drain_event_fd();
    a.driver->close();
    a.driver.reset();
// The sanitizers' allocators do not survive a fork while another thread allocates: threads of the child may
// hang.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
    const auto own = open_driver({"127.0.0.53"}, {});  // a driver of its own works
    own->with([](engine::Endpoint& ep, base::Instant) { CHECK(ep.alloc_pd() > 0); });
#endif
    return 0;
  }));
  CHECK_EQ(status, 0);
  CHECK(transfer(a, b));
}

TEST_CASE("B37: a port is free again at once, after a crash, and while a child of the dead owner lives on") {
  int pipes[2];
  REQUIRE(pipe2(pipes, O_CLOEXEC) == 0);
  uint16_t port = 0;
  for (int round = 0; round < 5; ++round) {
    const pid_t victim = in_child([&]() -> int {
      const auto d = open_driver({"127.0.0.54"}, {.seed = 3, .udp_port = port});
      const uint16_t bound = d->planes()[0].udp_port;
      const pid_t orphan = fork();
      alarm(30);
      // The orphan speaks: by then its copies of the sockets are closed.
      const pid_t self = getpid();
      if (orphan == 0 &&
          (::write(pipes[1], &bound, 2) != 2 || ::write(pipes[1], &self, sizeof self) != sizeof self))
        _exit(1);
      pause();
      _exit(1);
    });
    uint16_t bound = 0;
    pid_t orphan = 0;
    REQUIRE(read(pipes[0], &bound, 2) == 2);
    REQUIRE(read(pipes[0], &orphan, sizeof orphan) == sizeof orphan);
    CHECK(port == 0 || port == bound);
    port = bound;
    kill(victim, SIGKILL);
    CHECK_EQ(status_of(victim), 128 + SIGKILL);
    open_driver({"127.0.0.54"}, {.seed = 4, .udp_port = port})->close();
    kill(orphan, SIGKILL);
  }
  close(pipes[0]);
  close(pipes[1]);
}

TEST_CASE("B31: while somebody holds an exclusive flow label, planes use source ports and say so") {
  in_namespace("exclusive flow labels", [] {
    std::set<uint32_t> taken;
    std::string why;
    PlaneOptions o;
    o.address = *parse_address("::1", why);
    o.evs = 2;
    base::Rng rng(1);
    UdpPlane before;
    REQUIRE(before.open(o, rng, taken, why) == 0);
    CHECK(before.flow_labels());
    const int lease = take_exclusive_label(0x1234);
    if (lease < 0) {
      std::printf("not checked (no label leases here)\n");
      return;
    }
    UdpPlane after;
    REQUIRE(after.open(o, rng, taken, why) == 0);
    CHECK(!after.flow_labels());
    CHECK_EQ(after.tags().size(), 2u);
    CHECK(after.note().find("source ports") != std::string::npos);
    const std::array<uint8_t, 3> bytes{};
    for (UdpPlane* p : {&before, &after}) {
      wire::DatagramMeta m;
      m.src = m.dst = o.address.ip;
      m.src_port = static_cast<uint16_t>(p->tags()[1]);
      m.flow_label = p->tags()[1] >> 16;
      m.dst_port = before.udp_port();
      int error = 0;
      CHECK(p->send(m, m.dst, bytes, error) == SendOutcome::sent);  // arrives, if need be without its label
      RxBatch room;
      std::vector<engine::Datagram> got;
      uint64_t dropped = 0;
      before.receive(room, got, dropped);
      REQUIRE(got.size() == 1);
      CHECK_EQ(got[0].meta.flow_label, 0u);
      CHECK_EQ(got[0].meta.src_port, m.src_port);
    }
    CHECK(!before.flow_labels());
    CHECK(before.note().find("without labels") != std::string::npos);
    close(lease);
  });
}

TEST_CASE(
    "B13: a link that goes and returns takes its planes along, addresses and all; the sockets work again") {
  in_namespace("links", [] {
    End a = open_end({"127.0.0.1", "::1"}, {.seed = 5, .bytes = 1 << 20});
    End b = open_end({"127.0.0.2", "::1"}, {.seed = 6, .bytes = 1 << 20});
    connect(a, b);
    connect(b, a);
    CHECK(transfer(a, b));
    set_loopback(false);
    REQUIRE(wait_until(*a.driver, [&] { return !plane_up(*a.driver, 0) && !plane_up(*a.driver, 1); }));
    REQUIRE(wait_until(*b.driver, [&] { return !plane_up(*b.driver, 0) && !plane_up(*b.driver, 1); }));
    size_t local_events = 0;
    a.driver->with([&](engine::Endpoint& ep, base::Instant) {
      CHECK_EQ(ep.ports_up(), 0u);
      engine::Event e;
      while (ep.poll_event(e)) local_events += e.kind == engine::EventKind::port_local && !e.up ? 1 : 0;
    });
    CHECK_EQ(local_events, 2u);
    set_loopback(true);
    REQUIRE(wait_until(*a.driver, [&] { return plane_up(*a.driver, 0) && plane_up(*a.driver, 1); }));
    std::fill(b.memory.begin(), b.memory.end(), uint8_t{0});
    CHECK(transfer(a, b));
    CHECK(a.driver->failure().empty());
  });
}

TEST_CASE("B12: a peer without a route costs its QP, not the others, and not the processor") {
  in_namespace("no route", [] {
    End lost;  // first, so that its memory outlives the driver that reads it
    End a = open_end({"127.0.0.1"}, {.seed = 9, .bytes = 1 << 20});
    End b = open_end({"127.0.0.2"}, {.seed = 10, .bytes = 1 << 20});
    connect(a, b);
    connect(b, a);
    // A second QP of the same endpoint, to where nothing leads.
    lost.memory.resize(1 << 20);  // of its own: the other transfers write theirs anew
    a.driver->with([&](engine::Endpoint& ep, base::Instant now) {
      engine::QpInit init;
      init.pd = a.pd;
      lost.cq = init.send_cq = init.recv_cq = ep.create_cq(16).value();
      lost.qpn = ep.create_qp(init).value();
      engine::QpAttr q;
      q.state = engine::QpState::init;
      REQUIRE(ep.modify_qp(now, lost.qpn, q) == 0);
      q = {};
      q.state = engine::QpState::rtr;
      q.dest_qpn = 77;
      q.rq_psn = 1;
      q.path_mtu = 4096;
      q.peer_ports = {{1, base::IpAddr::v4(10, 9, 9, 9), 4791, 1}};
      REQUIRE(ep.modify_qp(now, lost.qpn, q) == 0);
      q = {};
      q.state = engine::QpState::rts;
      q.sq_psn = 1;
      q.timeout = 8;
      q.hold_time = base::Duration::millis(300);
      REQUIRE(ep.modify_qp(now, lost.qpn, q) == 0);
      engine::SendWr wr;
      wr.addr = lost.base();
      wr.length = 1 << 20;
      wr.lkey = ep.reg_mr(a.pd, lost.base(), lost.memory.size(), engine::Access::local_write, lost.base())
                    .value()
                    .lkey;
      REQUIRE(ep.req_notify_cq(lost.cq, false) == 0);
      REQUIRE(ep.post_send(now, lost.qpn, wr) == 0);
    });
    CHECK(transfer(a, b));
    engine::Completion c;
    size_t n = 0;
    CHECK(wait_until(*a.driver, [&] {
      a.driver->with([&](engine::Endpoint& ep, base::Instant) { n = ep.poll_completion(lost.cq, {&c, 1}); });
      return n == 1;
    }));
    CHECK(c.status != engine::Status::success);
    const DriverStats s = a.driver->stats();
    CHECK(s.tx_errors > 0);
    CHECK(s.tx_errors < 20'000);  // in 300 ms: retried at a pace, not in a loop
    CHECK(transfer(a, b));
  });
}

TEST_CASE("B29: with IPv6 switched off IPv4 planes work, and an IPv6 plane is refused with the reason") {
  in_namespace("IPv6 off", [] {
    std::ofstream("/proc/sys/net/ipv6/conf/all/disable_ipv6") << "1\n";
    std::string state;
    std::getline(std::ifstream("/proc/sys/net/ipv6/conf/all/disable_ipv6"), state);
    if (state != "1") {
      std::printf("not checked (sysctls are read-only here)\n");
      return;
    }
    DriverConfig c;
    c.planes.push_back({});
    c.planes[0].address = "::1";
    std::string why;
    CHECK(!Driver::open(c, why).ok());
    CHECK(why.find("disable_ipv6") != std::string::npos);
    End a = open_end({"127.0.0.1"}, {.seed = 7, .bytes = 1 << 16});
    End b = open_end({"127.0.0.2"}, {.seed = 8, .bytes = 1 << 16});
    connect(a, b);
    connect(b, a);
    CHECK(transfer(a, b));
  });
}
