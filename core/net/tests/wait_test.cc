// How the loop waits where there is one plane: it looks by reading, and still hears of everything else.
#include <atomic>
#include <thread>

#include "net/tests/driver_pair.h"

using namespace mrc;       // NOLINT(google-build-using-namespace)
using namespace mrc::net;  // NOLINT(google-build-using-namespace)

namespace {

constexpr size_t kBytes = 1 << 20;
const std::vector<std::string> kOneA{"::1"}, kOneB{"::1"};

std::pair<End, End> one_plane(Progress progress, base::Duration spin) {
  EndOptions o;
  o.bytes = kBytes;
  o.progress = progress;
  o.spin = spin;
  o.seed = 61;
  End a = open_end(kOneA, o);
  o.seed = 62;
  End b = open_end(kOneB, o);
  connect(a, b);
  connect(b, a);
  return {std::move(a), std::move(b)};
}

// Runs the loop of a driver without a thread until told to stop.
class Runner {
 public:
  explicit Runner(Driver& driver)
      : thread_([&driver, this] {
          while (!stop_.load()) driver.progress(base::Duration::millis(5));
        }) {}
  ~Runner() {
    stop_ = true;
    thread_.join();
  }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

void exchange(End& a, End& b) {
  for (int i = 0; i < 2; ++i) {
    CHECK(transfer(a, b));
    for (uint32_t k = 0; k < 50; ++k) {  // short messages, each alone
      a.memory[7] = static_cast<uint8_t>(k);
      REQUIRE(write(a, 0, b, 64, 8));
    }
    CHECK_EQ(b.memory[71], 49u);
    CHECK(transfer(b, a));
  }
}

}  // namespace

TEST_CASE("one plane: long and short messages both ways, with a thread, and however long it looks") {
  for (const auto spin : {base::Duration{}, base::Duration::micros(50), base::Duration::millis(20)}) {
    auto [a, b] = one_plane(Progress::thread, spin);
    exchange(a, b);
    CHECK_EQ(a.driver->stats().tx_errors + b.driver->stats().tx_errors, 0u);
  }
}

TEST_CASE("one plane: a loop that looks by reading takes commands of other threads, and ends when closed") {
  auto [a, b] = one_plane(Progress::caller, base::Duration::seconds(30));
  {
    const Runner left(*a.driver), right(*b.driver);
    exchange(a, b);
  }
  // Both would look for 30 s more.
  const base::Instant began = monotonic_now();
  std::thread closer([&d = *a.driver] { d.close(); });
  a.driver->progress(base::Duration::seconds(25));
  closer.join();
  b.driver->close();
  CHECK(monotonic_now() - began < base::Duration::seconds(20));
}
