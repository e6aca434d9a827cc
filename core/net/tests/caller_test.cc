// Drivers without a thread of their own: the caller runs the loop.
#include <atomic>
#include <stdexcept>
#include <thread>

#include "net/tests/driver_pair.h"

using namespace mrc;       // NOLINT(google-build-using-namespace)
using namespace mrc::net;  // NOLINT(google-build-using-namespace)

namespace {

using base::Duration;

// Far more than any scheduler takes; far less than the waits that must not happen.
constexpr Duration kSoon = Duration::seconds(5), kLong = Duration::seconds(60);

EndOptions by_caller(uint64_t seed, size_t bytes = 1 << 20) {
  EndOptions o;
  o.seed = seed;
  o.bytes = bytes;
  o.progress = Progress::caller;
  return o;
}

std::pair<End, End> two_callers(size_t bytes) {
  End a = open_end(kPlanesA, by_caller(21, bytes));
  End b = open_end(kPlanesB, by_caller(22, bytes));
  connect(a, b);
  connect(b, a);
  return {std::move(a), std::move(b)};
}

void post(End& a, End& b, size_t bytes) {
  a.driver->with([&](engine::Endpoint& ep, base::Instant now) {
    engine::SendWr wr;
    wr.addr = a.base();
    wr.length = static_cast<uint32_t>(bytes);
    wr.lkey = a.mr.lkey;
    wr.remote_addr = b.base();
    wr.rkey = b.mr.rkey;
    REQUIRE(ep.post_send(now, a.qpn, wr) == 0);
  });
}

bool completed(End& a) {
  engine::Completion c;
  size_t n = 0;
  a.driver->with([&](engine::Endpoint& ep, base::Instant) { n = ep.poll_completion(a.cq, {&c, 1}); });
  if (n == 1) CHECK(c.status == engine::Status::success);
  return n == 1;
}

template <typename F>
Duration time_of(F f) {
  const base::Instant began = monotonic_now();
  f();
  return monotonic_now() - began;
}

template <typename F>
bool refuses(F f) {
  try {
    f();
  } catch (const std::logic_error&) {
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("one thread drives both ends, in both directions") {
  auto [a, b] = two_callers(4 << 20);
  for (size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<uint8_t>(i * 7 + (i >> 12));
  const base::Instant deadline = monotonic_now() + kLong;
  for (const bool back : {false, true}) {
    End& from = back ? b : a;
    End& to = back ? a : b;
    if (back) std::fill(a.memory.begin(), a.memory.end(), uint8_t{0});
    post(from, to, from.memory.size());
    bool done = false;
    while (!done && monotonic_now() < deadline) {
      from.driver->progress({});
      to.driver->progress({});
      done = completed(from);
    }
    REQUIRE(done);
    CHECK(a.memory == b.memory);
  }
  CHECK(a.memory[12345] == static_cast<uint8_t>(12345 * 7 + (12345 >> 12)));
}

TEST_CASE("nothing moves unless somebody calls progress") {
  auto [a, b] = two_callers(64 << 10);
  post(a, b, 1000);
  CHECK_EQ(a.driver->stats().tx_datagrams, 0u);
  CHECK(!completed(a));
  a.driver->progress({});
  CHECK(a.driver->stats().tx_datagrams > 0);
  CHECK_EQ(b.driver->stats().rx_datagrams, 0u);
}

TEST_CASE("an idle progress sleeps, and no longer than it may") {
  End a = open_end(kPlanesA, by_caller(23));
  CHECK(time_of([&] { a.driver->progress({}); }) < kSoon);
  const Duration wait = Duration::millis(30);
  // The first calls may find something of the start to do.
  Duration longest{};
  for (int i = 0; i < 10; ++i) {
    const Duration took = time_of([&] { a.driver->progress(wait); });
    CHECK(took < kSoon);
    longest = std::max(longest, took);
  }
  CHECK(longest >= wait);
}

TEST_CASE("a driver with a thread runs its own loop and refuses to be run") {
  End a = open_end(kPlanesA, {});
  CHECK(refuses([&] { a.driver->progress({}); }));
  CHECK(a.driver->failure().empty());
}

TEST_CASE("a command of another thread wakes a caller that sleeps") {
  End a = open_end(kPlanesA, by_caller(24, 256 << 10));
  EndOptions threaded;
  threaded.seed = 25;
  threaded.bytes = 256 << 10;
  End b = open_end(kPlanesB, threaded);
  connect(a, b);
  connect(b, a);
  for (size_t i = 0; i < a.memory.size(); ++i) a.memory[i] = static_cast<uint8_t>(i * 5);
  std::atomic<bool> stop{false};
  std::thread loop([&] {
    while (!stop.load()) a.driver->progress(kLong);
  });
  // Each write finds the loop asleep or about to sleep; without a wake-up it would start a minute later.
  const Duration took = time_of([&] {
    for (int i = 0; i < 20; ++i) CHECK(write(a, 0, b, 0, a.memory.size()));
  });
  CHECK(took < Duration::seconds(20));
  bool same = false;
  b.driver->with([&](engine::Endpoint&, base::Instant) { same = a.memory == b.memory; });
  CHECK(same);
  stop = true;
  CHECK(time_of([&] {
          a.driver->with([](engine::Endpoint&, base::Instant) {});
          loop.join();
        }) < kSoon);
}

TEST_CASE("what arrives wakes a caller that sleeps") {
  auto [a, b] = two_callers(64 << 10);
  std::atomic<bool> stop{false};
  std::thread loop([&d = *b.driver, &stop] {
    while (!stop.load()) d.progress(kLong);
  });
  post(a, b, 64 << 10);
  const base::Instant deadline = monotonic_now() + kSoon;
  bool done = false;
  while (!done && monotonic_now() < deadline) {
    a.driver->progress(Duration::millis(1));
    done = completed(a);
  }
  CHECK(done);
  stop = true;
  b.driver->with([](engine::Endpoint&, base::Instant) {});
  loop.join();
}

TEST_CASE("a closed driver has no more turns") {
  End a = open_end(kPlanesA, by_caller(26));
  a.driver->close();
  CHECK(time_of([&] { a.driver->progress(kLong); }) < kSoon);
  CHECK(time_of([&] { a.driver->progress({-1}); }) < kSoon);
}
