// Who is to blame when nothing comes back: a path, or everything at once (reference 5.7).
#include <algorithm>

#include "harness.h"

using namespace mrc;
using namespace mrc::reliability;
using namespace mrc::reliability::testing;

namespace {

RequesterConfig config() {
  RequesterConfig c;
  c.sq_psn = Psn(0);
  c.timeout = 8;  // 262,144 ns
  c.linear_cnt = 7;
  c.exp_cnt = 8;
  return c;
}
constexpr Duration kWait{262'144};

// Packets of 1 KiB, 100 ns apart, PSN n on EV 100 + n.
void send(Requester& r, Instant from, uint32_t n) {
  REQUIRE(r.post(write_of(1, n * 1024)) == 0);
  for (uint32_t i = 0; i < n; ++i) {
    const Instant at = from + Duration{100} * i;
    const auto p = r.peek(at);
    REQUIRE(p.has_value());
    r.commit(at, *p, 100 + i, 1, 1112);
  }
}

size_t blamed(const Effects& e) {
  return static_cast<size_t>(
      std::count_if(e.losses.begin(), e.losses.end(), [](const Loss& l) { return l.blames_path; }));
}

}  // namespace

TEST_CASE("silence: an expiry blames nothing and asks with eight packets at most") {
  Requester r(config());
  r.set_timing(test_timing());
  send(r, at_us(0), 100);
  Effects e;
  Instant now = r.next_timeout();
  CHECK_EQ(now.ns, kWait.ns);
  now = now + Duration::micros(50);  // every packet is old enough
  for (int expiry = 0; expiry < 4; ++expiry) {
    e.clear();
    r.on_timeout(now, e);
    REQUIRE(!e.fatal);
    CHECK(!e.losses.empty());
    CHECK(e.losses.size() <= 8);
    CHECK_EQ(blamed(e), 0u);
    CHECK_EQ(e.losses[0].psn.value, 0u);
    for (const Loss& l : e.losses) CHECK(l.cause == LossCause::timeout);
    const auto asked = send_all(r, now, 500);
    CHECK_EQ(asked.size(), e.losses.size());
    now = r.next_timeout() + Duration::micros(1);
  }
}

TEST_CASE("silence: the first expiry asks with exactly eight of a hundred") {
  Requester r(config());
  r.set_timing(test_timing());
  send(r, at_us(0), 100);
  Effects e;
  r.on_timeout(r.next_timeout() + Duration::micros(50), e);
  REQUIRE(e.losses.size() == 8);
  for (uint32_t i = 0; i < 8; ++i) CHECK_EQ(e.losses[i].psn.value, i);
  CHECK_EQ(r.outstanding_nominal(), 92 * 1112);
}

TEST_CASE("silence: fewer than eight packets are all asked with") {
  Requester r(config());
  r.set_timing(test_timing());
  send(r, at_us(0), 5);
  Effects e;
  r.on_timeout(r.next_timeout() + Duration::micros(50), e);
  CHECK_EQ(e.losses.size(), 5u);
  CHECK_EQ(blamed(e), 0u);
}

TEST_CASE("silence: what a later answer has passed is blamed, and all of it is resent") {
  Requester r(config());
  Timing t = test_timing();
  t.max_wnd = t.cwnd = 10'000'000;  // no inference by volume
  r.set_timing(t);
  send(r, at_us(0), 40);
  // A packet of another message leaves 100 us later and is answered: 40 packets before it did not come.
  REQUIRE(r.post(write_of(2, 1024)) == 0);
  const auto later = r.peek(at_us(100));
  REQUIRE(later.has_value());
  r.commit(at_us(100), *later, 700, 2, 1112);
  Effects e;
  r.on_sack(at_us(114), simple_sack(Psn(0) - 1, Psn(0), uint64_t{1} << 40, Psn(40)), e);
  // Rule (b) has judged some of them already, or the expiry does: each is lost once and blames its path.
  if (e.losses.empty()) r.on_timeout(r.next_timeout() + Duration::micros(50), e);
  CHECK_EQ(e.losses.size(), 40u);
  CHECK_EQ(blamed(e), 40u);
}

TEST_CASE("silence: an expiry after an answer blames what that answer outlived, not what came after it") {
  RequesterConfig c = config();
  c.reorder_min_time = Duration::millis(3);  // a software host: no inference before 3 ms
  Requester r(c);
  Timing t = test_timing();
  t.max_wnd = t.cwnd = 10'000'000;
  r.set_timing(t);
  send(r, at_us(0), 20);
  REQUIRE(r.post(write_of(2, 21 * 1024)) == 0);
  for (uint32_t i = 0; i < 21; ++i) {
    const Instant at = at_us(4000);
    r.commit(at, *r.peek(at), 300 + i, 2, 1112);
  }
  Effects e;
  // PSN 20, sent at 4 ms, is there: it outlives what left 4 ms before it.
  r.on_sack(at_us(4001), simple_sack(Psn(0) - 1, Psn(0), uint64_t{1} << 20, Psn(20)), e);
  REQUIRE(r.next_timeout() <= at_us(4500));
  r.on_timeout(at_us(4500), e);
  size_t early = 0, late = 0;
  for (const Loss& l : e.losses) {
    (l.tag < 300 ? early : late) += 1;
    CHECK_EQ(l.blames_path, l.tag < 300);
  }
  CHECK_EQ(early, 20u);
  CHECK(late >= 1);
  CHECK(late <= 8);
}

TEST_CASE("silence: a probe that came back shows the peer was there") {
  for (const bool answered : {false, true}) {
    Requester r(config());
    r.set_timing(test_timing());
    send(r, at_us(0), 20);
    // Sent well after the packets; the answer took too long to be a verdict by itself.
    if (answered) {
      r.on_peer_alive(at_us(100));
      Effects none;
      r.on_probe_answer(at_us(200), at_us(100), 1, Duration::micros(100), none);
      CHECK(none.losses.empty());
    }
    Effects e;
    r.on_timeout(r.next_timeout() + Duration::micros(50), e);
    CHECK_EQ(e.losses.size(), answered ? 20u : 8u);
    CHECK_EQ(blamed(e), answered ? 20u : 0u);
  }
}

TEST_CASE("silence: a probe from before the packets proves nothing about them") {
  Requester r(config());
  r.set_timing(test_timing());
  send(r, at_us(100), 20);
  r.on_peer_alive(at_us(90));
  r.on_peer_alive(at_us(110));  // within what reordering explains
  Effects e;
  r.on_timeout(r.next_timeout() + Duration::micros(50), e);
  CHECK_EQ(e.losses.size(), 8u);
  CHECK_EQ(blamed(e), 0u);
}

TEST_CASE("late: a packet the socket held back is timed from when it left") {
  Requester r(config());
  r.set_timing(test_timing());
  send(r, at_us(0), 3);
  const Instant left = at_us(200);
  for (uint32_t i = 0; i < 3; ++i) r.on_sent_late(left, Psn(i), 100 + i);
  CHECK(r.next_timeout() == left + kWait);
  Effects e;
  r.on_timeout(Instant{} + kWait + Duration::micros(1), e);
  CHECK(e.losses.empty());
  CHECK_EQ(r.counters().timeouts, 0u);
  // And its round trip is the one on the wire.
  SackView v = simple_sack(Psn(0), Psn(1), 0, Psn(0));
  v.echo_timestamp = base::timestamp16(left);
  r.on_sack(left + Duration::micros(20), v, e);
  CHECK(!e.rtt || e.rtt->ns == 20'000);
}

TEST_CASE("late: the stamp of the header is not mistaken for a round trip") {
  Requester r(config());
  r.set_timing(test_timing());
  send(r, at_us(1), 1);
  r.on_sent_late(at_us(200), Psn(0), 100);
  // The packet carries the time it was made, 199 us before it left.
  SackView v = simple_sack(Psn(0), Psn(1), 0, Psn(0));
  v.echo_timestamp = base::timestamp16(at_us(1));
  Effects e;
  r.on_sack(at_us(220), v, e);
  CHECK(!e.rtt.has_value());
}

TEST_CASE("late: an inference by time goes by the moment it left, too") {
  const auto lost = [](bool held_back) {
    Requester r(config());
    r.set_timing(test_timing());
    send(r, at_us(0), 1);
    if (held_back) r.on_sent_late(at_us(95), Psn(0), 100);
    REQUIRE(r.post(write_of(2, 1024)) == 0);
    r.commit(at_us(100), *r.peek(at_us(100)), 200, 2, 1112);
    Effects e;
    r.on_sack(at_us(126), simple_sack(Psn(0) - 1, Psn(0), 0b10, Psn(1)), e);
    return e.losses.size();
  };
  CHECK_EQ(lost(false), 1u);
  CHECK_EQ(lost(true), 0u);
}

TEST_CASE("late: only the transmission that waited is meant") {
  Requester r(config());
  r.set_timing(test_timing());
  send(r, at_us(0), 2);
  r.on_sent_late(at_us(200), Psn(0), 999);      // another EV: resent since
  r.on_sent_late(at_us(200), Psn(7), 107);      // never sent
  r.on_sent_late(at_us(200), Psn(0) - 1, 100);  // long acknowledged
  CHECK(r.next_timeout() == Instant{} + kWait);
  Effects e;
  r.on_sack(at_us(20), simple_sack(Psn(0) - 1, Psn(0), 0b10, Psn(1)), e);
  r.on_sent_late(at_us(200), Psn(1), 101);  // acknowledged selectively
  CHECK(r.next_timeout() == Instant{} + kWait);
}

TEST_CASE("spurious: a loss that was none names the bytes it took") {
  Requester r(config());
  Timing t = test_timing();
  t.cwnd = 2000;
  t.base_rtt = Duration::millis(1);
  r.set_timing(t);
  send(r, at_us(0), 20);
  Effects e;
  r.on_sack(at_us(9), simple_sack(Psn(0) - 1, Psn(0), 0b111110, Psn(5)), e);
  REQUIRE(e.losses.size() == 1);
  CHECK_EQ(e.spurious_nominal, 0);
  CHECK_EQ(r.outstanding_nominal(), 14 * 1112);
  e.clear();
  CHECK_EQ(e.spurious_nominal, 0);
  r.on_sack(at_us(10), simple_sack(Psn(5), Psn(6), 0, Psn(0)), e);
  CHECK_EQ(e.spurious, 1u);
  CHECK_EQ(e.spurious_nominal, 1112);
  CHECK_EQ(r.outstanding_nominal(), 14 * 1112);
}
