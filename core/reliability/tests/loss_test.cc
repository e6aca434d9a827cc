// Stories of loss: inference by volume and time, late originals, timers, hold time, probes
// (reference 5.7, 17.7).
#include "harness.h"
#include "reliability/rto.h"

using namespace mrc;
using namespace mrc::reliability;
using namespace mrc::reliability::testing;

namespace {

RequesterConfig config(uint32_t first_psn = 0) {
  RequesterConfig c;
  c.sq_psn = Psn(first_psn);
  c.timeout = 8;
  c.linear_cnt = 3;
  c.exp_cnt = 4;
  return c;
}

// Sends `n` packets `gap` apart; tag = 100 + index.
void send_spaced(Requester& r, Instant from, int n, Duration gap) {
  for (int i = 0; i < n; ++i) {
    const auto p = r.peek(from + gap * i);
    REQUIRE(p.has_value());
    r.commit(from + gap * i, *p, 100 + static_cast<uint32_t>(i), 3, 1112);
  }
}

SackView hole_at(uint32_t first, uint64_t bits, uint32_t trigger) {
  return simple_sack(Psn(first) - 1, Psn(first), bits, Psn(trigger));
}

int64_t timer_story(Requester& r, Instant start, int expiries, Effects& e) {
  Instant last = start;
  for (int i = 0; i < expiries; ++i) {
    last = r.next_timeout();
    e.clear();
    r.on_timeout(last, e);
    if (e.fatal) break;
    send_all(r, last, 500);
  }
  return (last - start).ns;
}

}  // namespace

TEST_CASE("loss: one packet overtaken by volume (17.7)") {
  Requester r(config(100));
  Timing t = test_timing();
  t.cwnd = 2000;                     // R = 5 full packets
  t.base_rtt = Duration::millis(1);  // keeps rule (b) out
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 20 * 1024)) == 0);
  send_spaced(r, at_us(1), 20, Duration{100});
  Effects e;
  r.on_sack(at_us(9), hole_at(100, 0b011110, 104), e);
  CHECK(e.losses.empty());  // 4 packets overtook
  r.on_sack(at_us(9), hole_at(100, 0b111110, 105), e);
  REQUIRE(e.losses.size() == 1);
  CHECK_EQ(e.losses[0].psn.value, 100u);
  CHECK_EQ(e.losses[0].tag, 100u);
  CHECK_EQ(e.losses[0].port, 3);
  CHECK_EQ(e.losses[0].nominal, 1112);
  CHECK(e.losses[0].cause == LossCause::inferred);
  CHECK(e.losses[0].sent_at == at_us(1));
  CHECK_EQ(r.outstanding_nominal(), 14 * 1112);
  const auto p = r.peek(at_us(10));
  REQUIRE(p.has_value());
  CHECK(p->rtx && p->psn == Psn(100) && p->avoid_tag.value_or(0) == 100);
  r.commit(at_us(10), *p, 777, 1, 1112);
  CHECK_EQ(r.counters().rtx_inferred, 1u);
  // The resend is the newest transmission: what was sent before it says nothing about it.
  e.clear();
  r.on_sack(at_us(11), hole_at(100, 0xFFFFE, 119), e);
  CHECK(e.losses.empty());
  r.on_sack(at_us(12), simple_sack(Psn(119), Psn(120), 0, Psn(100)), e);
  CHECK(e.losses.empty() && e.spurious == 1);  // no rtx echo, no timestamp: taken for the original
}

TEST_CASE("loss: overtaken in time, tolerant of reordering below it") {
  Requester r(config());
  Timing t = test_timing();
  t.cwnd = t.max_wnd = 1'000'000;  // keeps rule (a) out
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 64 * 1024)) == 0);
  send_spaced(r, at_us(0), 40, Duration::micros(1));
  Effects e;
  // Window 21 us: PSN 21 was sent exactly that much later, PSN 22 more.
  r.on_sack(at_us(60), hole_at(0, 0x1FFFFE | (uint64_t{1} << 21), 21), e);
  CHECK(e.losses.empty());
  r.on_sack(at_us(61), hole_at(0, 0x3FFFFE | (uint64_t{1} << 22), 22), e);
  REQUIRE(e.losses.size() == 1);
  CHECK_EQ(e.losses[0].psn.value, 0u);
}

TEST_CASE("loss: a young packet is not lost by time, and the floor guards both rules") {
  RequesterConfig c = config();
  c.reorder_min_time = Duration::millis(2);
  Requester r(c);
  Timing t = test_timing();
  t.cwnd = 1000;
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 64 * 1024)) == 0);
  send_spaced(r, at_us(0), 60, Duration::micros(30));
  Effects e;
  r.on_sack(at_us(1990), hole_at(0, (uint64_t{1} << 60) - 2, 59), e);
  CHECK(e.losses.empty());  // overtaken by 58 packets and 1.8 ms, but a scheduler may do that
  r.on_sack(at_us(2001), hole_at(0, (uint64_t{1} << 60) - 2, 59), e);
  CHECK_EQ(e.losses.size(), 1u);
}

TEST_CASE("loss: without any RTT knowledge only volume counts") {
  Requester r(config());
  Timing t;
  t.cwnd = 1'000'000;
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 20 * 1024)) == 0);
  send_spaced(r, at_us(0), 20, Duration::micros(50));
  Effects e;
  r.on_sack(at_us(1100), hole_at(0, 0xFFFFE, 19), e);
  CHECK(e.losses.empty());
}

TEST_CASE("loss: a window that was just cut does not make what was sent before it overtaken") {
  Requester r(config());
  Timing t = test_timing();
  t.cwnd = 40'000;                   // R = 60'000, 53 packets
  t.base_rtt = Duration::millis(1);  // keeps rule (b) out; the loss window is 1009 us
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 60 * 1024)) == 0);
  send_spaced(r, at_us(1), 60, Duration{100});
  Effects e;
  r.on_sack(at_us(20), hole_at(0, 0x3FFFFFFE, 29), e);
  t.cwnd = 2000;  // R = 5 packets
  r.set_timing(t);
  r.on_sack(at_us(21), hole_at(0, 0x7FFFFFFE, 30), e);
  r.on_sack(at_us(1028), hole_at(0, 0xFFFFFFFE, 31), e);
  CHECK(e.losses.empty());
  r.on_sack(at_us(1031), hole_at(0, 0x1FFFFFFFE, 32), e);  // a loss window after the cut
  REQUIRE(e.losses.size() == 1);
  CHECK_EQ(e.losses[0].psn.value, 0u);
}

TEST_CASE("loss: a larger window counts at once") {
  Requester r(config());
  Timing t = test_timing();
  t.cwnd = 2000;
  t.base_rtt = Duration::millis(1);
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 60 * 1024)) == 0);
  send_spaced(r, at_us(1), 60, Duration{100});
  Effects e;
  r.on_sack(at_us(20), hole_at(0, 0x1E, 4), e);
  t.cwnd = 40'000;
  r.set_timing(t);
  r.on_sack(at_us(21), hole_at(0, 0xFFFFFFFFFFFFE, 51), e);  // overtaken by 51
  CHECK(e.losses.empty());
  r.on_sack(at_us(22), hole_at(0, 0x7FFFFFFFFFFFFE, 54), e);
  CHECK_EQ(e.losses.size(), 1u);
}

TEST_CASE("loss: where queues are seen, rule (b) waits for the longest of late") {
  for (const bool seen : {false, true}) {
    RequesterConfig c = config();
    c.queues_seen = seen;
    Requester r(c);
    Timing t = test_timing();
    t.cwnd = t.max_wnd = 1'000'000;     // keeps rule (a) out
    t.rtt_peak = Duration::micros(50);  // 54.5 us with half of the target
    r.set_timing(t);
    REQUIRE(r.post(write_of(1, 64 * 1024)) == 0);
    send_spaced(r, at_us(0), 64, Duration::micros(1));
    Effects e;
    r.on_sack(at_us(90), hole_at(0, (uint64_t{1} << 55) - 2, 54), e);
    CHECK_EQ(e.losses.size(), seen ? 0u : 1u);
    r.on_sack(at_us(91), hole_at(0, (uint64_t{1} << 56) - 2, 55), e);
    CHECK_EQ(e.losses.size(), 1u);
    // In a quiet fabric the base decides, as without trimming.
    t.rtt_peak = Duration::micros(13);
    Requester quiet(c);
    quiet.set_timing(t);
    REQUIRE(quiet.post(write_of(1, 64 * 1024)) == 0);
    send_spaced(quiet, at_us(0), 40, Duration::micros(1));
    e.clear();
    quiet.on_sack(at_us(60), hole_at(0, 0x3FFFFE, 21), e);
    CHECK(e.losses.empty());
    quiet.on_sack(at_us(61), hole_at(0, 0x7FFFFE, 22), e);
    CHECK_EQ(e.losses.size(), 1u);
  }
}

TEST_CASE("loss: where queues are seen, being overtaken by volume says nothing") {
  for (const bool seen : {false, true}) {
    RequesterConfig c = config();
    c.queues_seen = seen;
    Requester r(c);
    Timing t = test_timing();
    t.cwnd = 2000;  // rule (a): five packets
    r.set_timing(t);
    REQUIRE(r.post(write_of(1, 16 * 1024)) == 0);
    send_spaced(r, at_us(0), 16, Duration::micros(1));
    Effects e;
    r.on_sack(at_us(20), hole_at(0, 0xFE, 7), e);
    CHECK_EQ(e.losses.size(), seen ? 0u : 1u);
  }
}

TEST_CASE("loss: a SACK judges only the packets of its own window") {
  Requester r(config());
  Timing t = test_timing();
  t.cwnd = t.max_wnd = 1'000'000;
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 128 * 1024)) == 0);
  send_spaced(r, at_us(0), 128, Duration::micros(1));
  Effects e;
  // The window above says a lot about its own packets, and nothing about packet 0.
  r.on_sack(at_us(140), simple_sack(Psn(0) - 1, Psn(64), ~uint64_t{0}, Psn(127)), e);
  CHECK(e.losses.empty());
  r.on_sack(at_us(141), hole_at(0, ~uint64_t{1}, 63), e);
  REQUIRE(e.losses.size() == 1);
  CHECK_EQ(e.losses[0].psn.value, 0u);
}

TEST_CASE("RTT: the peak is that of the last 32 to 64 samples") {
  RttEstimator r;
  CHECK_EQ(r.peak().ns, 0);
  r.sample(Duration::micros(100));
  CHECK_EQ(r.peak().ns, 100'000);
  for (int i = 0; i < 62; ++i) r.sample(Duration::micros(10));
  CHECK_EQ(r.peak().ns, 100'000);
  r.sample(Duration::micros(10));
  CHECK_EQ(r.peak().ns, 10'000);
  r.sample(Duration::micros(30));
  CHECK_EQ(r.peak().ns, 30'000);
}

TEST_CASE("loss: late original before the resend left (B17)") {
  Requester r(config());
  Timing t = test_timing();
  t.cwnd = 2000;
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 10 * 1024)) == 0);
  send_spaced(r, at_us(0), 10, Duration::micros(1));
  Effects e;
  r.on_sack(at_us(30), hole_at(0, 0x3FE, 9), e);
  REQUIRE(e.losses.size() == 1);
  e.clear();
  r.on_sack(at_us(36), simple_sack(Psn(9), Psn(10), 0, Psn(0)), e);
  CHECK_EQ(e.spurious, 1u);
  CHECK((e.spurious_tags == std::vector<uint32_t>{100}));  // the EV it was sent on is known here
  CHECK(!e.late_original);
  CHECK(e.losses.empty());
  CHECK(!r.peek(at_us(36)).has_value());  // the resend is off the queue
  r.on_sack(at_us(37), simple_sack(Psn(9), Psn(10), 0, Psn(0)), e);
  CHECK_EQ(e.spurious, 1u);  // once
  CHECK_EQ(r.counters().spurious, 1u);
}

TEST_CASE("loss: late original after the resend, one completion (B17)") {
  Requester r(config());
  Timing t = test_timing();
  t.cwnd = 2000;
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 10 * 1024)) == 0);
  send_spaced(r, at_us(0), 10, Duration::micros(1));
  Effects e;
  r.on_sack(at_us(30), hole_at(0, 0x3FE, 9), e);
  REQUIRE(e.losses.size() == 1);
  send_all(r, at_us(31));
  e.clear();
  SackView s = simple_sack(Psn(9), Psn(10), 0, Psn(0));
  s.rtx_echo = true;
  s.echo_timestamp = base::timestamp16(at_us(31));
  r.on_sack(at_us(44), s, e);  // the resend arrived
  CHECK_EQ(e.spurious, 0u);
  CHECK(!e.late_original);
  CHECK_EQ(e.rtt.value_or(Duration{}).ns, 13'000);
  s.rtx_echo = false;
  s.echo_timestamp = base::timestamp16(at_us(0) + Duration{128 * 3});
  r.on_sack(at_us(50), s, e);  // and then the original
  CHECK_EQ(e.spurious, 1u);
  CHECK(e.late_original);  // the SACK names its EV; our record names that of the resend
  CHECK(e.spurious_tags.empty());
  e.clear();
  r.on_sack(at_us(51), s, e);
  CHECK(!e.late_original);  // said once
  r.on_transport_ack(at_us(51), Psn(9), wire::kAethAck, e);
  r.on_transport_ack(at_us(52), Psn(9), wire::kAethAck, e);
  SendCompletion c;
  CHECK(r.pop_completion(c));
  CHECK(!r.pop_completion(c));
}

TEST_CASE("loss: a false alarm widens the tolerance") {
  Requester r(config());
  Timing t = test_timing();
  t.cwnd = 2000;
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 40 * 1024)) == 0);
  send_spaced(r, at_us(0), 10, Duration::micros(1));
  Effects e;
  r.on_sack(at_us(30), hole_at(0, 0x3E, 5), e);
  REQUIRE(e.losses.size() == 1);
  r.on_sack(at_us(31), simple_sack(Psn(5), Psn(6), 0, Psn(0)), e);
  CHECK_EQ(e.spurious, 1u);
  e.clear();
  send_spaced(r, at_us(32), 12, Duration::micros(1));  // PSNs 10..21
  r.on_sack(at_us(60), simple_sack(Psn(9), Psn(10), 0x3E, Psn(15)), e);
  CHECK(e.losses.empty());  // 5 packets no longer suffice
  r.on_sack(at_us(60), simple_sack(Psn(9), Psn(10), 0x7FE, Psn(20)), e);
  CHECK_EQ(e.losses.size(), 1u);
}

TEST_CASE("loss: both packets at the PSN wrap (B15)") {
  Requester r(config(0xFFFFF0));
  Timing t = test_timing();
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 64 * 1024)) == 0);
  send_spaced(r, at_us(0), 64, Duration::micros(1));
  Effects e;
  const uint64_t all_but = ~((uint64_t{1} << 15) | (uint64_t{1} << 16));  // FFFFFF and 000000
  r.on_sack(at_us(100), simple_sack(Psn(0xFFFFFE), Psn(0xFFFFF0), all_but, Psn(47)), e);
  REQUIRE(e.losses.size() == 2);
  CHECK_EQ(e.losses[0].psn.value, 0xFFFFFFu);
  CHECK_EQ(e.losses[1].psn.value, 0u);
  const auto p = send_all(r, at_us(101));
  REQUIRE(p.size() == 2);  // oldest gap first
  CHECK_EQ(p[0].psn.value, 0xFFFFFFu);
  CHECK_EQ(p[1].psn.value, 0u);
  CHECK_EQ(p[0].va, 0x10000 + 15 * 1024u);
  r.on_sack(at_us(120), simple_sack(Psn(47), Psn(48), 0, Psn(0)), e);
  CHECK_EQ(r.outstanding_nominal(), 0);
}

TEST_CASE("timer: waits of V076 and the fatal eighth expiry") {
  Requester r(config());
  REQUIRE(r.post(write_of(1, 100)) == 0);
  REQUIRE(r.post(write_of(2, 100)) == 0);
  send_all(r, at_us(0));
  Effects e;
  CHECK_EQ(timer_story(r, at_us(0), 7, e), 262'144 * (1 + 1 + 1 + 1 + 2 + 4 + 8));
  CHECK(!e.fatal);
  CHECK_EQ(r.retry_used(), 7u);
  e.clear();
  const Instant last = r.next_timeout();
  CHECK_EQ(last.ns, 262'144 * 34);
  r.on_timeout(last - Duration{1}, e);
  CHECK(!e.fatal);
  r.on_timeout(last, e);
  CHECK(e.fatal);
  SendCompletion c;
  REQUIRE(r.pop_completion(c));
  CHECK(c.status == Status::retry_exceeded && c.wr_id == 1);
  REQUIRE(r.pop_completion(c));
  CHECK(c.status == Status::flush_error && c.wr_id == 2);
}

TEST_CASE("timer: only what is old enough is lost, progress refunds") {
  Requester r(config());
  REQUIRE(r.post(write_of(1, 3 * 1024)) == 0);
  send_spaced(r, at_us(0), 3, Duration::micros(100));
  Effects e;
  const Instant first = r.next_timeout();
  CHECK_EQ(first.ns, 262'144);
  r.on_timeout(first, e);
  REQUIRE(e.losses.size() == 1);
  CHECK(e.losses[0].cause == LossCause::timeout);
  CHECK_EQ(r.retry_used(), 1u);
  send_all(r, first, 300);
  r.on_sack(first + Duration::micros(20), simple_sack(Psn(0), Psn(1), 0, Psn(0)), e);
  CHECK(e.progress);
  CHECK_EQ(r.retry_used(), 0u);
  CHECK_EQ(r.next_timeout().ns, 100'000 + 262'144);  // the next packet's own transmission
}

TEST_CASE("timer: nothing sendable does not stop the budget") {
  Requester r(config());
  REQUIRE(r.post(write_of(1, 100)) == 0);
  send_all(r, at_us(0));
  Effects e;
  for (int i = 0; i < 20 && !e.fatal; ++i) {
    REQUIRE(!r.next_timeout().is_never());
    r.on_timeout(r.next_timeout(), e);  // never resent
  }
  CHECK(e.fatal);
  CHECK_EQ(r.counters().timeouts, 8u);
}

TEST_CASE("timer: hold time replaces the budget, a returning port retries at once") {
  RequesterConfig c = config();
  c.hold_time = Duration::seconds(2);
  c.hold_retry_cap = Duration::millis(50);
  Requester r(c);
  REQUIRE(r.post(write_of(1, 100)) == 0);
  send_all(r, at_us(0));
  Effects e;
  Instant now{};
  while (now < Instant{} + Duration::millis(1900)) {
    const Instant next = r.next_timeout();
    CHECK(next - now <= Duration::millis(50));
    now = next;
    r.on_timeout(now, e);
    REQUIRE(!e.fatal);
    send_all(r, now, 500);
  }
  r.retry_now(now);
  CHECK(r.next_timeout() <= now);
  e.clear();
  r.on_timeout(now + Duration::millis(1), e);
  CHECK_EQ(e.losses.size(), 1u);
  const uint32_t used = r.retry_used();
  CHECK(used > 20);
  CHECK(r.next_timeout() <= Instant{} + Duration::seconds(2));
  r.on_timeout(Instant{} + Duration::seconds(2), e);
  CHECK(e.fatal);
}

TEST_CASE("timer: a missing Transport ACK is asked for with the last packet") {
  Requester r(config(50));
  REQUIRE(r.post(write_of(1, 2500)) == 0);
  send_all(r, at_us(0));
  Effects e;
  r.on_sack(at_us(20), simple_sack(Psn(52), Psn(53), 0, Psn(52)), e);
  CHECK_EQ(r.outstanding_nominal(), 0);
  CHECK(!r.idle());
  const Instant due = r.next_timeout();
  CHECK_EQ(due.ns, 20'000 + 262'144);
  e.clear();
  r.on_timeout(due, e);
  CHECK(e.losses.empty());
  const auto p = r.peek(due);
  REQUIRE(p.has_value());
  CHECK(p->rtx && p->last_of_message && p->psn == Psn(52) && p->length == 2500 - 2048);
  r.commit(due, *p, 5, 1, 600);
  CHECK_EQ(r.outstanding_nominal(), 0);
  CHECK_EQ(r.counters().rtx_ack_solicit, 1u);
  CHECK(!r.peek(due).has_value());
  for (int i = 0; i < 20 && !e.fatal; ++i) {
    r.on_timeout(r.next_timeout(), e);
    send_all(r, r.next_timeout());
  }
  CHECK(e.fatal);  // a peer that only SACKs does not hold the request for ever
}

TEST_CASE("timer: trims alone do not end the QP before silence would") {
  Requester r(config());
  r.set_timing(test_timing());
  REQUIRE(r.post(write_of(1, 100)) == 0);
  send_all(r, at_us(0));
  Effects e;
  Instant now = at_us(0);
  uint32_t tag = 100;
  int trims = 0;
  while (!e.fatal && trims < 2000) {
    now = now + Duration::micros(14);
    r.on_nack(now, NackView{wire::NackReason::trimmed_lasthop, Psn(0), tag, 0}, e);
    ++trims;
    ++tag;
    send_all(r, now, tag);
  }
  CHECK(e.fatal);
  CHECK(now.ns >= 262'144 * 34);
  CHECK(trims > 100);
}

TEST_CASE("probe: the tail is repaired by an answer with low delay") {
  Requester r(config());
  Timing t = test_timing();
  r.set_timing(t);
  REQUIRE(r.post(write_of(1, 3 * 1024)) == 0);
  send_spaced(r, at_us(0), 3, Duration{100});
  Effects e;
  r.on_sack(at_us(14), simple_sack(Psn(0), Psn(1), 0, Psn(0)), e);
  const Instant due = r.next_probe_at();
  CHECK(due == at_us(14 + 21));  // base_rtt + target after the last acknowledgement
  r.on_probe_sent(due);
  CHECK(r.next_probe_at() == due + Duration::micros(60));
  e.clear();
  r.on_probe_answer(due + Duration::micros(30), due, 3, Duration::micros(30), e);
  CHECK(e.losses.empty());  // queues on the way: no verdict
  r.on_probe_answer(due + Duration::micros(13), due, 2, Duration::micros(13), e);
  CHECK(e.losses.empty());  // another plane than theirs: its low delay is no proof
  r.on_probe_answer(due + Duration::micros(13), due, 3, Duration::micros(13), e);
  REQUIRE(e.losses.size() == 2);
  CHECK(e.losses[0].cause == LossCause::probe);
  send_all(r, due + Duration::micros(13), 200);
  e.clear();
  r.on_probe_answer(due + Duration::micros(14), due, 3, Duration::micros(13), e);
  CHECK(e.losses.empty());  // resent after the probe
}

TEST_CASE("probe: silence backs off and idleness ends it") {
  Requester r(config());
  r.set_timing(test_timing());
  CHECK(r.next_probe_at().is_never());
  REQUIRE(r.post(write_of(1, 100)) == 0);
  CHECK(r.next_probe_at().is_never());
  send_all(r, at_us(0));
  Instant now = r.next_probe_at();
  int probes = 0;
  for (; now < at_us(10'000); ++probes) {
    r.on_probe_sent(now);
    REQUIRE(r.next_probe_at() > now);
    now = r.next_probe_at();
  }
  CHECK(probes < 60);
  Effects e;
  r.on_transport_ack(at_us(10'001), Psn(0), wire::kAethAck, e);
  CHECK(r.next_probe_at().is_never());
}

TEST_CASE("loss: without fast loss detection only the probe and the timer find a hole") {
  RequesterConfig c = config(100);
  c.fast_loss = false;
  Requester r(c);
  r.set_timing(test_timing());
  REQUIRE(r.post(write_of(1, 20 * 1024)) == 0);
  send_spaced(r, at_us(1), 20, Duration{100});
  Effects e;
  r.on_sack(at_us(60), hole_at(100, 0xFFFFE, 119), e);  // overtaken by volume and by time
  CHECK(e.losses.empty());
  const Instant probe = r.next_probe_at();
  REQUIRE(!probe.is_never());
  r.on_probe_sent(probe);
  e.clear();
  r.on_probe_answer(probe + Duration::micros(13), probe, 3, Duration::micros(13), e);
  REQUIRE(e.losses.size() == 1);
  CHECK_EQ(e.losses[0].psn.value, 100u);
  CHECK(e.losses[0].cause == LossCause::probe);

  Requester silent(c);
  silent.set_timing(test_timing());
  REQUIRE(silent.post(write_of(1, 20 * 1024)) == 0);
  send_spaced(silent, at_us(1), 20, Duration{100});
  e.clear();
  silent.on_sack(at_us(60), hole_at(100, 0xFFFFE, 119), e);
  REQUIRE(e.losses.empty());
  const Instant due = silent.next_timeout();
  silent.on_timeout(due, e);
  REQUIRE(e.losses.size() == 1);
  CHECK(e.losses[0].cause == LossCause::timeout);
}

TEST_CASE(
    "probe: after an answer that settled nothing the next one waits, and another plane's proves in time") {
  Requester r(config());
  r.set_timing(test_timing());
  REQUIRE(r.post(write_of(1, 2 * 1024)) == 0);
  send_spaced(r, at_us(0), 2, Duration{100});
  const Instant due = r.next_probe_at();
  REQUIRE(r.longest_out().has_value());
  r.on_probe_sent(due);
  Effects e;
  r.on_peer_alive(due);
  r.on_probe_answer(due + Duration::micros(30), due, 9, Duration::micros(30),
                    e);  // no low delay, another plane
  CHECK(e.losses.empty());
  CHECK(r.next_probe_at() == due + Duration::micros(21));
  // Its SACK: nothing has arrived, and the probe left more than base RTT + target after the packets.
  const Instant later = due + Duration::micros(21);
  r.on_peer_alive(later);
  SackView answer = simple_sack(Psn(0) - 1, Psn(0), 0, Psn(0));
  answer.trigger.reset();
  r.on_sack(later + Duration::micros(14), answer, e);
  CHECK_EQ(e.losses.size(), 2u);
  CHECK(!r.longest_out().has_value());
}

TEST_CASE(
    "probe: a missing Transport ACK is asked for as early as a missing packet, at no cost to the budget") {
  Requester r(config());
  r.set_timing(test_timing());
  REQUIRE(r.post(write_of(1, 1024)) == 0);
  send_all(r, at_us(0));
  Effects e;
  r.on_sack(at_us(14), simple_sack(Psn(0), Psn(1), 0, Psn(0)), e);
  CHECK(!r.longest_out().has_value());
  CHECK(r.next_probe_at() == at_us(14 + 21));
  CHECK(r.next_timeout() > at_us(200));
  r.on_probe_sent(at_us(35));
  CHECK(r.next_probe_at() > at_us(35));
  r.on_transport_ack(at_us(48), Psn(0), wire::kAethAck, e);
  CHECK(r.next_probe_at().is_never());
  CHECK_EQ(r.counters().timeouts, 0u);
  SendCompletion done;
  CHECK(r.pop_completion(done));
}
