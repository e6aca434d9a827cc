// CUBIC, DCTCP and the scoreboard by hand, and TCP runs on small fabrics.
#include "sim/tcp_stack.h"

#include <array>
#include <cmath>

#include "sim/tests/rig.h"

using namespace mrc::sim;       // NOLINT(google-build-using-namespace)
using namespace mrc::sim::rig;  // NOLINT(google-build-using-namespace)

namespace {

bool near(double a, double b, double tolerance = 1e-9) {
  return std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
}
Ps us(int64_t n) { return from_ns(n * 1000); }
const auto kNobody = [](TaskId) {};

TcpConfig config(TcpCc cc = TcpCc::cubic) {
  TcpConfig c;
  c.mss = 1000;
  c.cc = cc;
  return c;
}

// A sender with one endless message and its pool.
struct Bench {
  TcpConfig c;
  MessagePool pool;
  TcpSender s;
  uint32_t ce = 0;
  explicit Bench(TcpConfig config) : c(config), s(config, us(10)) { s.post(c, pool, 1, kGreedy); }
  int fill(Ps now) {
    int n = 0;
    for (; s.can_send(); ++n) (void)s.send(c, pool, now);
    return n;
  }
  bool ack(Ps now, uint64_t expected, std::vector<SackBlock> sack = {}) {
    return s.ack(c, pool, now, {expected, sack, ce}, kNobody);
  }
};

}  // namespace

TEST_CASE("cubic: the equations of RFC 9438") {
  // W_max 100, beta 0.7: K = cbrt(30 / 0.4) = 4.217163327 s.
  CHECK(near(cubic_k(100, 70, 0.4), 4.217163326508746));
  CHECK_EQ(cubic_k(70, 70, 0.4), 0.0);
  CHECK(near(cubic_window(0.4, 0, 4.217163326508746, 100), 70));
  CHECK(near(cubic_window(0.4, 4.217163326508746, 4.217163326508746, 100), 100));
  CHECK(near(cubic_window(0.4, 6.217163326508746, 4.217163326508746, 100), 103.2));  // + 0.4 x 2^3
  CubicState s;
  // 3 x 0.3 / 1.7 of a segment a window, 1 beyond the window at the last cut.
  s.prior = 100;
  s.w_est = 50;
  CHECK(near(cubic_reno_gain(s, 50, 2, 0.7), 0.9 / 1.7 * 2 / 50));
  s.w_est = 100;
  CHECK(near(cubic_reno_gain(s, 50, 2, 0.7), 0.04));
}

TEST_CASE("cubic: a loss leaves 0.7, and a window below the last one gives up more") {
  const TcpConfig c = config();
  CubicState s;
  CHECK(near(cubic_on_loss(c, s, 100), 70));
  CHECK(near(s.w_max, 100));
  CHECK(near(cubic_on_loss(c, s, 80), 56));
  CHECK(near(s.w_max, 68));  // 80 x 1.7 / 2
  CHECK(near(cubic_on_loss(c, s, 2), 2));
}

TEST_CASE("cubic: an ACK moves the window towards the curve one round trip ahead") {
  TcpConfig c = config();
  c.cubic_friendly = false;
  CubicState s;
  const double cwnd = cubic_on_loss(c, s, 100);
  const Ps second = from_ns(1'000'000'000);
  double w = cubic_on_ack(c, s, cwnd, 1, 0, second);
  // W(1 s) = 0.4 (1 - 4.2172)^3 + 100 = 86.680: (86.680 - 70) / 70 of a segment.
  const double ahead = 0.4 * std::pow(1 - 4.217163326508746, 3) + 100;
  CHECK(near(w, 70 + (ahead - 70) / 70));
  // Far ahead the curve is cut off at 1.5 windows.
  w = cubic_on_ack(c, s, 70, 1, 20 * second, second);
  CHECK(near(w, 70 + 35.0 / 70));
  // Short round trips: Reno's window is larger.
  c.cubic_friendly = true;
  CubicState r;
  w = cubic_on_ack(c, r, cubic_on_loss(c, r, 100), 70, us(10), us(10));
  CHECK(near(w, 70 + 0.9 / 1.7));
}

TEST_CASE("dctcp: alpha once a window of data, cuts by half of it") {
  CHECK(near(dctcp_alpha(1, 1.0 / 16, 0), 0.9375));
  CHECK(near(dctcp_alpha(0.5, 1.0 / 16, 0.25), 0.484375));
  CHECK(near(dctcp_cut(100, 0.5), 75));
  CHECK(near(dctcp_cut(100, 1), 50));
  CHECK(near(dctcp_cut(3, 1), 2));
  TcpConfig c = config(TcpCc::dctcp);
  DctcpState s;
  dctcp_count(c, s, 2, 0, 2, 10);  // the first window ends with the first ACK
  CHECK(near(s.alpha, 0.9375));
  CHECK_EQ(s.window_end, uint64_t{10});
  dctcp_count(c, s, 4, 1, 6, 14);
  CHECK(near(s.alpha, 0.9375));
  dctcp_count(c, s, 4, 3, 10, 18);  // 4 of 8
  CHECK(near(s.alpha, 0.9375 * 15 / 16 + 0.5 / 16));
}

TEST_CASE("tcp: the receiver's ranges and its three blocks") {
  using V = TcpReceiver::Verdict;
  TcpReceiver r;
  std::array<SackBlock, kSackBlocks> b;
  std::vector<TaskId> done;
  const auto note = [&](TaskId t) { done.push_back(t); };
  CHECK(r.data(0, true, 1, note) == V::in_order);
  for (const uint64_t seq : {2u, 4u, 6u, 8u}) CHECK(r.data(seq, seq == 4, 2, note) == V::early);
  CHECK(r.data(4, true, 2, note) == V::duplicate);
  CHECK_EQ(r.blocks(b), size_t{3});
  CHECK(b[0].begin == 8 && b[1].begin == 6 && b[2].begin == 4);
  CHECK(r.data(5, false, 0, note) == V::early);  // joins two ranges
  CHECK_EQ(r.blocks(b), size_t{3});
  CHECK(b[0].begin == 4 && b[0].end == 7 && b[1].begin == 8 && b[2].begin == 2);
  CHECK(r.data(3, false, 0, note) == V::early);
  CHECK(r.data(7, false, 0, note) == V::early);
  CHECK_EQ(r.blocks(b), size_t{1});
  CHECK(b[0].begin == 2 && b[0].end == 9);
  CHECK(done == std::vector<TaskId>({1}));
  CHECK(r.data(1, false, 0, note) == V::filled);
  CHECK(done == std::vector<TaskId>({1, 2}));
  CHECK_EQ(r.expected(), uint64_t{9});
  CHECK_EQ(r.blocks(b), size_t{0});
}

TEST_CASE("tcp: slow start doubles, unused windows do not grow") {
  Bench b(config());
  CHECK_EQ(b.fill(0), 10);
  CHECK(b.ack(us(10), 10));
  CHECK(near(b.s.cwnd(), 20));
  CHECK_EQ(b.fill(us(10)), 20);
  CHECK(b.ack(us(20), 12));
  CHECK(near(b.s.cwnd(), 22));
  // Nothing was sent since: 18 in flight are enough, then too few.
  CHECK(b.ack(us(21), 20));
  CHECK(near(b.s.cwnd(), 30));
  CHECK(b.ack(us(22), 30));
  CHECK(near(b.s.cwnd(), 30));
}

TEST_CASE("tcp: three segments behind a gap are a loss, one waits a quarter of a round trip") {
  Bench b(config());
  CHECK_EQ(b.fill(0), 10);
  CHECK(!b.ack(us(10), 0, {{1, 2}}));
  CHECK(b.s.state() == TcpSender::State::open);
  CHECK_EQ(b.s.reorder_at(), us(10) + us(10) / 4);
  CHECK(!b.ack(us(11), 0, {{1, 4}}));
  CHECK(b.s.state() == TcpSender::State::recovery);
  CHECK(near(b.s.cwnd(), 7));  // 10 x 0.7
  CHECK_EQ(b.s.pipe(), uint64_t{6});
  const TcpSegment again = b.s.send(b.c, b.pool, us(11));
  CHECK(again.again && again.seq == 0);
  CHECK(!b.s.can_send());
  CHECK(b.ack(us(21), 10));
  CHECK(b.s.state() == TcpSender::State::open);
  CHECK(near(b.s.cwnd(), 7));  // the ACK that ends recovery does not count
}

TEST_CASE("tcp: the reordering timer finds the loss that few ACKs betray") {
  Bench b(config());
  (void)b.fill(0);
  CHECK(!b.ack(us(10), 0, {{1, 2}}));
  b.s.reorder_timer(b.c, us(12));  // too early
  CHECK(b.s.state() == TcpSender::State::open);
  b.s.reorder_timer(b.c, b.s.reorder_at());
  CHECK(b.s.state() == TcpSender::State::recovery);
  CHECK(b.s.send(b.c, b.pool, us(13)).again);
}

TEST_CASE("tcp: a segment that is lost twice is found again") {
  Bench b(config());
  (void)b.fill(0);
  CHECK(!b.ack(us(10), 0, {{1, 5}}));
  CHECK(b.s.send(b.c, b.pool, us(10)).again);
  CHECK(b.s.send(b.c, b.pool, us(11)).seq == 10);
  CHECK(!b.ack(us(20), 0, {{1, 10}}));  // sent before the second copy: says nothing of it
  CHECK_EQ(b.s.pipe(), uint64_t{2});
  CHECK(!b.ack(us(21), 0, {{1, 11}}));  // sent after it
  CHECK(b.s.can_send());
  const TcpSegment third = b.s.send(b.c, b.pool, us(21));
  CHECK(third.again && third.seq == 0);
}

TEST_CASE("tcp: a timeout starts from one segment and doubles the timer") {
  Bench b(config());
  CHECK_EQ(b.s.rto(b.c), from_ns(1'000'000));  // 10 + 4 x 5 us is below the least
  (void)b.fill(0);
  b.s.timeout(b.c);
  CHECK(near(b.s.cwnd(), 1));
  CHECK(near(b.s.ssthresh(), 7));
  CHECK_EQ(b.s.rto(b.c), from_ns(2'000'000));
  CHECK_EQ(b.fill(us(1000)), 1);
  b.s.timeout(b.c);
  CHECK(near(b.s.ssthresh(), 7));  // one event
  CHECK_EQ(b.s.rto(b.c), from_ns(4'000'000));
  CHECK_EQ(b.fill(us(3000)), 1);
  CHECK(b.ack(us(3010), 1));
  CHECK(near(b.s.cwnd(), 2));
  CHECK_EQ(b.s.rto(b.c), from_ns(1'000'000));
  CHECK_EQ(b.fill(us(3010)), 2);
}

TEST_CASE("tcp: the round trip as RFC 6298 averages it") {
  TcpConfig c = config();
  c.rto_min_ns = 1;
  c.delayed_ack_ns = 0;
  Bench b(c);
  CHECK_EQ(b.s.rto(b.c), us(30));  // 10 + 4 x 5
  (void)b.s.send(b.c, b.pool, 0);
  CHECK(b.ack(us(18), 1));
  CHECK_EQ(b.s.srtt(), us(11));                    // 10 + 8/8
  CHECK_EQ(b.s.rto(b.c), us(11) + 4 * 5'750'000);  // 5 + (8 - 5)/4 us
}

TEST_CASE("tcp: what waited behind a gap measures no round trip") {
  Bench b(config());
  CHECK_EQ(b.fill(0), 10);
  b.s.timeout(b.c);
  CHECK_EQ(b.fill(us(50'000)), 1);
  // All ten have arrived; segments 1 to 9 were sent 50 ms ago, and their ACKs were lost. The echo is segment
  // 0's.
  CHECK(b.ack(us(50'018), 10));
  CHECK_EQ(b.s.srtt(), us(11));  // 10 + (18 - 10) / 8
  CHECK_EQ(b.s.rto(b.c), from_ns(1'000'000));
  // A gap whose filler came back too soon to be the second copy measures nothing, and keeps the back-off.
  (void)b.fill(us(50'018));
  b.s.timeout(b.c);
  CHECK(b.s.send(b.c, b.pool, us(60'000)).again);
  CHECK(b.ack(us(60'009), 12));
  CHECK_EQ(b.s.srtt(), us(11));
  CHECK_EQ(b.s.rto(b.c), from_ns(2'000'000));
}

TEST_CASE("tcp: a round trip measured by SACK ends the back-off") {
  Bench b(config());
  CHECK_EQ(b.fill(0), 10);
  b.s.timeout(b.c);
  b.s.timeout(b.c);
  CHECK_EQ(b.s.rto(b.c), from_ns(4'000'000));
  CHECK(!b.ack(us(10), 0, {{5, 6}}));  // the first copy of segment 5
  CHECK_EQ(b.s.rto(b.c), from_ns(1'000'000));
  CHECK_EQ(b.s.timeouts(), 2u);  // in a row still: nothing was delivered in order
}

TEST_CASE("tcp: DCTCP cuts once a window") {
  Bench b(config(TcpCc::dctcp));
  CHECK_EQ(b.fill(0), 10);
  b.ce = 1;
  CHECK(b.ack(us(10), 2));
  CHECK(b.s.cwnd() < 10);
  const double cut = b.s.cwnd();
  b.ce = 3;
  CHECK(b.ack(us(11), 4));
  CHECK(near(b.s.cwnd(), cut));  // neither a second cut nor growth before the window is through
  CHECK(b.s.state() == TcpSender::State::open);
  (void)b.fill(us(11));
  CHECK(b.ack(us(21), 10));
  CHECK(b.s.cwnd() > cut);
}

TEST_CASE("tcp: one segment and its delayed ACK, to the picosecond") {
  Workload w;
  send(w, 0, 1, 4096);
  const TcpRun r(run_spec(star(2), w), TcpConfig{});
  REQUIRE(r.done());
  // 4096 + TCP 32 + Ethernet and IPv6 78 = 4206 bytes = 336.48 ns on each of two links.
  CHECK_EQ(r.delivered(0), Ps{2 * 336'480 + 1'000'000});
  // Alone, it is acknowledged 0.5 ms later: 110 bytes = 8.8 ns.
  CHECK_EQ(r.acked(0), r.delivered(0) + from_ns(500'000) + 2 * 8'800 + 1'000'000);
  CHECK_EQ(r.sim.totals().timeouts, uint64_t{0});
}

TEST_CASE("tcp: loss is repaired, and every message arrives once") {
  for (const TcpCc cc : {TcpCc::cubic, TcpCc::dctcp}) {
    Workload w;
    for (int i = 0; i < 50; ++i) send(w, 0, 1, 100'000);
    RunSpec s = run_spec(star(2), w);
    s.faults = {fault(FaultKind::link_loss, 1, 0.01)};
    TcpConfig c;
    c.cc = cc;
    const TcpRun r(s, c);
    REQUIRE(r.done());
    for (TaskId t = 0; t < 50; ++t) CHECK(r.status(t) == TaskStatus::done);
    CHECK_EQ(r.sim.totals().data_packets, uint64_t{50 * 25});
    CHECK_EQ(r.sim.totals().data_bytes, uint64_t{5'000'000});
    CHECK(r.sim.totals().rtx_inferred > 0);
    // Selective: about what was lost is sent again, not whole windows.
    CHECK(r.sim.totals().data_packets_rtx < 60);
  }
}

TEST_CASE("tcp: a connection whose path is gone fails") {
  Workload w;
  send(w, 0, 1, 100'000);
  RunSpec s = run_spec(star(2), w);
  s.faults = {fault(FaultKind::link_down, 1)};
  TcpConfig c;
  c.retry_limit = 2;
  const TcpRun r(s, c);
  REQUIRE(r.bad.empty());
  CHECK(r.status(0) == TaskStatus::failed);
  CHECK_EQ(r.sim.totals().timeouts, uint64_t{3});
  CHECK_EQ(r.sim.totals().qp_errors, uint64_t{1});
}

TEST_CASE("tcp: heavy loss both ways slows a transfer to milliseconds a segment, not to minutes") {
  for (const uint64_t seed : {uint64_t{1}, uint64_t{2}, uint64_t{3}}) {
    Workload w;
    send(w, 0, 1, 2 << 20);
    RunSpec s = run_spec(star(2), w);
    s.seed = seed;
    s.faults = {fault(FaultKind::link_loss, 0, 0.1), fault(FaultKind::link_loss, 1, 0.1)};
    const TcpRun r(s, TcpConfig{});
    REQUIRE(r.done());
    CHECK(r.status(0) == TaskStatus::done);
    CHECK(r.acked(0) < us(2'000'000));
  }
}

TEST_CASE("tcp: DCTCP keeps the queue near the threshold, CUBIC fills the buffer") {
  Workload w;
  for (int32_t h = 1; h < 5; ++h) send(w, h, 0, 10'000'000);
  QueueRules q = deep();
  q.data_bytes = 1'000'000;
  q.ecn_min = q.ecn_max = 100'000;
  q.ecn_last_hop = true;
  TcpConfig cubic, dctcp;
  dctcp.cc = TcpCc::dctcp;
  const TcpRun x(run_spec(star(5, q), w), cubic), y(run_spec(star(5, q), w), dctcp);
  REQUIRE(x.done() && y.done());
  CHECK(x.sim.totals().drops_queue > 0);
  CHECK_EQ(x.sim.totals().ecn_marks, uint64_t{0});
  CHECK_EQ(y.sim.totals().drops_queue, uint64_t{0});
  CHECK(y.sim.totals().ecn_marks > 0);
  CHECK(y.sim.fabric().port(1).n.max_queue < 600'000);
  // 40 MB take 3.29 ms of the line with headers; the bottleneck hardly rests.
  Ps last = 0;
  for (TaskId t = 0; t < 4; ++t) last = std::max(last, y.delivered(t));
  CHECK(last < us(3600));
}

TEST_CASE("tcp: settings that make no sense are refused") {
  const auto refuses = [](auto change) {
    Workload w;
    send(w, 0, 1, 1);
    TcpConfig c;
    change(c);
    return !TcpRun(run_spec(star(2), w), c).bad.empty();
  };
  CHECK(!refuses([](TcpConfig&) {}));
  CHECK(refuses([](TcpConfig& c) { c.mss = 100; }));
  CHECK(refuses([](TcpConfig& c) { c.delayed_ack_ns = c.rto_min_ns; }));
  CHECK(refuses([](TcpConfig& c) { c.max_window_bytes = c.mss; }));
  CHECK(refuses([](TcpConfig& c) { c.dctcp_g = 0; }));
  CHECK(refuses([](TcpConfig& c) { c.cubic_beta = 1; }));
  CHECK(refuses([](TcpConfig& c) { c.dupthresh = 0; }));
}
