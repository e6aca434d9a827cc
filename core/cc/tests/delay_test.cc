// Delay where the fabric sets no marks, and losses that turn out to be none.
#include <cstring>

#include "cc/nscc.h"
#include "testing/check.h"

using namespace mrc::cc;  // NOLINT(google-build-using-namespace)
using mrc::base::Duration;
using mrc::base::Instant;

namespace {

// 10 Gb/s and 300 us: a window of 562,500 bytes.
LinkParams host_link() {
  LinkParams l;
  l.bytes_per_second = 1'250'000'000;
  l.base_rtt = Duration::micros(300);
  l.mtu = 4096;
  return l;
}
constexpr int64_t kWindow = 562'500;
constexpr int64_t kBase = 100;  // us: what the tests measure first

uint64_t branch(const Controller& c, const char* name) {
  for (const auto& n : c.counters()) {
    if (std::strcmp(n.name, name) == 0) return n.value;
  }
  return UINT64_MAX;
}

AckEvent ack(int64_t us, int64_t rtt_us, bool delayed, bool ecn = false) {
  AckEvent e;
  e.now = Instant{us * 1000};
  e.newly_bytes = 4096;
  e.rtt = Duration::micros(rtt_us);
  e.delayed = delayed;
  e.ecn = ecn;
  return e;
}

// No quick adapt: it is another story.
CcConfig plain() {
  CcConfig c;
  c.disable_qa = true;
  return c;
}

}  // namespace

TEST_CASE("delay takes one step in a round trip as it is now, however many ACKs say so") {
  Nscc c(plain(), host_link(), Instant{});
  c.on_ack(ack(1000, 300, false));
  const int64_t start = c.snapshot().cwnd;
  // A queue of 2.7 ms: round trips of 3 ms. Nothing of 10 ms is worth more than four steps.
  int64_t at = 2000;
  for (; at < 12'000; at += 20) c.on_ack(ack(at, 3000, true));
  CHECK(branch(c, "delay") >= 3);
  CHECK(branch(c, "delay") <= 5);
  CHECK_EQ(branch(c, "delay") + branch(c, "delay_early"), 500u);
  CHECK(c.snapshot().cwnd < start);
}

TEST_CASE("a step takes half at most, and an eighth of the maximum stays") {
  Nscc c(plain(), host_link(), Instant{});
  c.on_ack(ack(1000, 300, false));
  int64_t before = c.snapshot().cwnd;
  const int64_t floor = c.snapshot().max_wnd / 8;
  uint64_t steps = 0;
  for (int64_t at = 10'000; at < 2'000'000; at += 10'000) {
    c.on_ack(ack(at, 5000, true));
    const int64_t now = c.snapshot().cwnd;
    if (branch(c, "delay") == ++steps) {
      CHECK(now >= floor);
      CHECK(2 * now >= before - 2 * static_cast<int64_t>(c.params().eta) - 2);
    }
    before = now;
  }
  CHECK(steps > 100);
  // Only the period's grant is above the floor.
  CHECK(c.snapshot().cwnd <= floor + static_cast<int64_t>(c.params().eta) + 1);
}

TEST_CASE("a window that losses took below the floor is left where it is") {
  Nscc c(plain(), host_link(), Instant{});
  c.on_ack(ack(1000, 300, false));
  c.on_loss({Instant{1'000'000}, kWindow - 8192, false});
  const int64_t small = c.snapshot().cwnd;
  CHECK(small < c.snapshot().max_wnd / 8);
  c.on_ack(ack(1100, 5000, true));
  c.on_ack(ack(8000, 5000, true));
  CHECK(branch(c, "delay") >= 1);
  CHECK(c.snapshot().cwnd >= small);
}

TEST_CASE("an ACK with a mark goes the way of marks, whatever its delay") {
  Nscc c(plain(), host_link(), Instant{});
  c.on_ack(ack(1000, 300, false));
  c.on_ack(ack(5000, 3000, true, true));
  CHECK_EQ(branch(c, "delay") + branch(c, "delay_early"), 0u);
  CHECK_EQ(branch(c, "decrease") + branch(c, "decrease_early"), 1u);
}

TEST_CASE("delay that nobody calls too long adds to the window as before") {
  Nscc c(plain(), host_link(), Instant{});
  c.on_ack(ack(1000, 300, false));
  c.on_ack(ack(5000, 3000, false));
  CHECK_EQ(branch(c, "fair"), 1u);
  CHECK_EQ(branch(c, "delay"), 0u);
}

TEST_CASE("a wrong loss gives its bytes back before its arrival is counted") {
  Nscc c(plain(), host_link(), Instant{});
  c.on_send(Instant{}, 100'000);
  int64_t outstanding = 100'000;
  for (int i = 0; i < 5; ++i) c.on_loss({Instant{1'000'000}, 4096, false});
  outstanding -= 5 * 4096;
  CHECK_EQ(c.snapshot().inflight, outstanding);
  // All five arrive after all: the receiver counts them, the sender no longer did.
  AckEvent e = ack(1100, kBase, false);
  e.newly_bytes = 5 * 4096;
  e.spurious_bytes = 5 * 4096;
  c.on_ack(e);
  c.on_outstanding(outstanding);
  CHECK_EQ(c.snapshot().inflight, outstanding);
  CHECK_EQ(branch(c, "repair"), 0u);
}

TEST_CASE("without its bytes back a wrong loss would leave the window too wide") {
  Nscc told(plain(), host_link(), Instant{});
  Nscc untold(plain(), host_link(), Instant{});
  for (Nscc* c : {&told, &untold}) {
    c->on_send(Instant{}, 100'000);
    c->on_loss({Instant{1'000'000}, 8192, false});
    AckEvent e = ack(1100, kBase, false);
    e.newly_bytes = 8192;
    e.spurious_bytes = c == &told ? 8192 : 0;
    c->on_ack(e);
    c->on_outstanding(100'000 - 8192);
  }
  CHECK_EQ(told.snapshot().inflight, 100'000 - 8192);
  CHECK_EQ(untold.snapshot().inflight, 100'000 - 2 * 8192);
}
