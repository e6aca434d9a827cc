// A room that works inside the loop, and callers that run the loop while they wait.
#include <atomic>
#include <cerrno>
#include <thread>

#include "net/tests/driver_pair.h"

using namespace mrc;       // NOLINT(google-build-using-namespace)
using namespace mrc::net;  // NOLINT(google-build-using-namespace)

namespace {

using base::Duration;

constexpr int kRounds = 300;

constexpr Duration kLong = Duration::seconds(30);

// Answers each immediate with an immediate, `rounds` times altogether: both ends together play ping-pong.
class Echo final : public Client {
 public:
  Echo(End& end, const End& peer, uint64_t to, int rounds)
      : end_(end), rkey_(peer.mr.rkey), to_(to), rounds_(rounds) {}

  bool step(engine::Endpoint& e, base::Instant now) override {
    engine::Completion c;
    while (e.poll_completion(end_.cq, {&c, 1}) == 1) {
      if (c.opcode != engine::WcOpcode::recv_rdma_with_imm) continue;
      CHECK_EQ(e.post_recv(now, end_.qpn, 0), 0);
      ++seen;
      if (seen < rounds_) serve(e, now);
    }
    ++steps;
    return false;
  }
  void serve(engine::Endpoint& e, base::Instant now) {
    engine::SendWr wr;
    wr.opcode = reliability::WrOpcode::rdma_write_imm;
    wr.addr = end_.base();
    wr.length = 8;
    wr.lkey = end_.mr.lkey;
    wr.remote_addr = to_;
    wr.rkey = rkey_;
    CHECK_EQ(e.post_send(now, end_.qpn, wr), 0);
  }
  void on_stop(const std::string& why) override {
    CHECK(!why.empty());
    ++stops;
  }

  std::atomic<int> seen{0}, stops{0};
  std::atomic<uint64_t> steps{0};

 private:
  End& end_;
  uint32_t rkey_;
  uint64_t to_;
  int rounds_;
};

struct Game {
  explicit Game(uint64_t seed, int rounds) : ends(connected(seed, 1 << 16)) {
    a = std::make_shared<Echo>(ends.first, ends.second, ends.second.base(), rounds);
    b = std::make_shared<Echo>(ends.second, ends.first, ends.first.base(), rounds);
    for (auto& [end, echo] : {std::pair{&ends.first, a}, std::pair{&ends.second, b}}) {
      end->driver->with([end = end](engine::Endpoint& e, base::Instant now) {
        for (int i = 0; i < 64; ++i) REQUIRE(e.post_recv(now, end->qpn, 0) == 0);
      });
      REQUIRE(end->driver->set_client(echo) == 0);
    }
  }
  void serve() {
    ends.first.driver->with_flush([this](engine::Endpoint& e, base::Instant now) { a->serve(e, now); });
  }
  std::pair<End, End> ends;
  std::shared_ptr<Echo> a, b;
};

base::Instant in(Duration d) { return monotonic_now() + d; }

}  // namespace

TEST_CASE("a client sees completions in the loop, and what it posts leaves at once; nobody wakes anybody") {
  Game g(71, kRounds);
  g.serve();
  CHECK(
      wait_until(*g.ends.first.driver, [&] { return g.a->seen >= kRounds - 1 && g.b->seen >= kRounds - 1; }));
  g.ends.first.driver->close();
  CHECK_EQ(g.a->stops.load(), 1);
  g.ends.first.driver->close();
  CHECK_EQ(g.a->stops.load(), 1);
}

TEST_CASE("there is one client at a time, none after close, and one taken away is called no more") {
  Game g(72, 1);
  Driver& d = *g.ends.first.driver;
  CHECK_EQ(d.set_client(g.b), EBUSY);
  CHECK_EQ(d.set_client(nullptr), 0);
  const uint64_t steps = g.a->steps;
  d.with([](engine::Endpoint&, base::Instant) {});
  CHECK(d.help([] { return false; }, in(Duration::millis(5))));
  CHECK_EQ(g.a->steps.load(), steps);
  CHECK_EQ(d.set_client(g.a), 0);
  d.close();
  CHECK_EQ(g.a->stops.load(), 1);
  CHECK_EQ(d.set_client(g.b), EBADF);
}

TEST_CASE("callers at both ends run the loops; their threads take over and give back, many times") {
  Game g(73, kRounds);
  g.serve();
  // Claims that end early, so that the loop changes hands in mid-play.
  const auto play = [&](Driver& d, const Echo& e) {
    const base::Instant end = in(kLong);
    while (e.seen < kRounds - 1 && monotonic_now() < end)
      CHECK(d.help([&e, at = e.seen.load()] { return e.seen >= at + 7 || e.seen >= kRounds - 1; }, end));
  };
  std::thread other([&] { play(*g.ends.second.driver, *g.b); });
  play(*g.ends.first.driver, *g.a);
  other.join();
  CHECK(g.a->seen >= kRounds - 1);
  CHECK(g.b->seen >= kRounds - 1);
}

TEST_CASE("one helper at a time; a second one is told so at once") {
  Game g(74, 1);
  Driver& d = *g.ends.first.driver;
  std::atomic<bool> enough{false}, inside{false};
  std::thread first([&] { CHECK(d.help([&] { return inside = true, enough.load(); }, in(kLong))); });
  while (!inside) std::this_thread::yield();
  CHECK(!d.help([] { return true; }, in(kLong)));
  enough = true;
  d.with([](engine::Endpoint&, base::Instant) {});  // wakes whoever sleeps in the kernel
  first.join();
  CHECK(d.help([] { return true; }, in(kLong)));
}

TEST_CASE("a helper's time runs out, and close() ends one that waits for ever") {
  Game g(75, 1);
  Driver& d = *g.ends.first.driver;
  const base::Instant begin = monotonic_now();
  CHECK(d.help([] { return false; }, begin + Duration::millis(20)));
  CHECK(monotonic_now() - begin >= Duration::millis(20));
  std::atomic<bool> inside{false};
  std::thread waiter([&] { (void)d.help([&] { return inside = true, false; }, base::Instant::never()); });
  while (!inside) std::this_thread::yield();
  d.close();
  waiter.join();
  CHECK_EQ(g.a->stops.load(), 1);
}

TEST_CASE("after a helper has left, the I/O thread serves the peer again") {
  auto [a, b] = connected(76, 1 << 20);
  for (int i = 0; i < 5; ++i) {
    CHECK(b.driver->help([] { return true; }, in(kLong)));
    CHECK(transfer(a, b));
    CHECK(a.driver->help([] { return true; }, in(kLong)));
  }
}
