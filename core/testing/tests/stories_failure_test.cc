// Stories of planes, receivers and whole sides that fail; field cases B11, B31 and B33 by name.
#include <map>

#include "story.h"

using namespace mrc;           // NOLINT(google-build-using-namespace): a test file
using namespace mrc::testing;  // NOLINT(google-build-using-namespace)

namespace {

using engine::EventKind;
using engine::Status;

// Keeps `depth` writes of `length` bytes open on side 0 until `end`; counts data packets by port.
class Load {
 public:
  Load(Story& s, uint32_t length, uint32_t depth) : s_(s), length_(length), depth_(depth) {
    s_.pair.on_transmit = [this](int side, const engine::Transmit& t, base::ByteView) {
      if (side != 0 || !t.is_data) return;
      ++packets[t.meta.port];
      last_sent[t.meta.port] = s_.pair.now();
    };
  }
  void run(Duration d) {
    const Instant end = s_.pair.now() + d;
    s_.pair.run_until([this] { return refill(); }, end);
  }
  std::map<int, uint64_t> packets;
  std::map<int, Instant> last_sent;
  uint64_t next_id = 0, bad = 0;

 private:
  bool refill() {
    s_.collect(0);
    s_.collect(1);
    auto& sent = s_.end[0].sent;
    for (const auto& c : sent) bad += c.status != Status::success;
    done_ += sent.size();
    sent.clear();
    while (bad == 0 && next_id - done_ < depth_) {
      if (s_.post(0, next_id, 0, 0, length_) != 0) return true;
      ++next_id;
    }
    return false;
  }
  Story& s_;
  uint32_t length_, depth_;
  uint64_t done_ = 0;
};

impair::Rule cut(uint8_t port) {
  impair::Rule r;
  r.port = port;
  r.down = true;
  return r;
}

size_t events_of(const Story& s, int side, EventKind kind) {
  const auto& v = s.end[static_cast<size_t>(side)].events;
  return static_cast<size_t>(
      std::count_if(v.begin(), v.end(), [kind](const auto& e) { return e.kind == kind; }));
}

void all_ports(Story& s, int side, bool up) {
  for (uint8_t p = 1; p <= s.config.pair.planes; ++p)
    REQUIRE(s.pair.side(side).set_port_up(s.pair.now(), p, up) == 0);
  s.pair.flush();
}

engine::Errno post_raw(Story& s, uint64_t id, uint64_t remote, uint32_t rkey, uint32_t length) {
  engine::SendWr wr;
  wr.wr_id = id;
  wr.addr = s.base_of(0);
  wr.length = length;
  wr.lkey = s.end[0].mr.lkey;
  wr.remote_addr = remote;
  wr.rkey = rkey;
  const engine::Errno e = s.pair.side(0).post_send(s.pair.now(), s.end[0].qpn, wr);
  s.pair.flush();
  return e;
}

// Completions of side 0: `good` successes, then one with `why`, then flushes, all in posting order.
void check_failed_at(const Story& s, size_t good, Status why, size_t total) {
  const auto& sent = s.end[0].sent;
  REQUIRE(sent.size() == total);
  for (size_t i = 0; i < total; ++i) {
    CHECK_EQ(sent[i].wr_id, i);
    const Status want = i < good ? Status::success : i == good ? why : Status::flush_error;
    CHECK_EQ(static_cast<int>(sent[i].status), static_cast<int>(want));
  }
}

}  // namespace

TEST_CASE("a plane that is cut is left within a few round trips and has its share back after healing") {
  StoryConfig c;
  c.pair.one_way = Duration::micros(50);
  c.mpr = 1;
  Story s(c);
  Load load(s, 60'000, 4);
  load.run(Duration::millis(10));
  const Instant at = s.pair.now();
  const uint64_t id = s.pair.line().add_rule(cut(2));
  load.run(Duration::millis(20));
  CHECK(load.last_sent[2] - at < Duration::micros(5 * 100));
  CHECK_EQ(s.count_state(0, ev::State::assumed_bad), 4u);
  for (const auto& p : s.paths(0)) CHECK_EQ(p.state == ev::State::assumed_bad, p.port == 2);
  s.pair.line().remove_rule(id);
  load.run(Duration::millis(60));
  CHECK_EQ(s.count_state(0, ev::State::good) + s.count_state(0, ev::State::skip), 16u);
  load.packets.clear();
  load.run(Duration::millis(10));
  uint64_t all = 0;
  for (const auto& [port, n] : load.packets) all += n;
  CHECK(all > 1000);
  CHECK(load.packets[2] * 4 * 100 >= all * 95);
  CHECK_EQ(load.bad, 0u);
}

TEST_CASE("ports that come and go while reports overtake one another are all in use in the end") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    StoryConfig c;
    c.pair.seed = seed;
    Story s(c);
    base::Rng rng(seed);
    for (uint8_t p = 1; p <= c.pair.planes; ++p) {
      impair::Rule slow;
      slow.port = p;
      slow.delay = Duration::micros(rng.below(1500));
      s.pair.line().add_rule(slow);
    }
    uint32_t up = 0b11110;
    for (int i = 0; i < 40; ++i) {
      const auto port = static_cast<uint8_t>(1 + rng.below(c.pair.planes));
      const bool now_up = (up >> port & 1) == 0;
      if (!now_up && (up & ~(1u << port)) == 0) continue;  // one stays
      up ^= 1u << port;
      REQUIRE(s.pair.side(0).set_port_up(s.pair.now(), port, now_up) == 0);
      s.pair.flush();
      s.pair.run_for(Duration::micros(rng.below(100)));
    }
    all_ports(s, 0, true);
    s.pair.run_for(Duration::millis(20));
    for (int side = 0; side < 2; ++side) {
      if (!CHECK(s.count_state(side, ev::State::good) == 16))
        std::fprintf(stderr, "seed %d side %d\n", static_cast<int>(seed), side);
    }
  }
}

TEST_CASE("hold time: every port away for five seconds is waited out") {
  StoryConfig c;
  c.hold_time = Duration::seconds(10);
  Story s(c);
  Load load(s, 20'000, 2);
  load.run(Duration::millis(1));
  all_ports(s, 0, false);
  load.run(Duration::seconds(5));
  s.events(0);
  CHECK_EQ(events_of(s, 0, EventKind::qp_error), 0u);
  const uint64_t before = load.next_id;
  const Instant back = s.pair.now();
  all_ports(s, 0, true);
  while (load.next_id < before + 4 && s.pair.now() < back + Duration::millis(100))
    load.run(Duration::micros(100));
  CHECK(load.next_id >= before + 4);
  CHECK(s.pair.now() - back < Duration::millis(20));  // a port that returns is tried at once
  CHECK_EQ(load.bad, 0u);
}

TEST_CASE("hold time: one error, when it is over") {
  StoryConfig c;
  c.hold_time = Duration::seconds(10);
  Story s(c);
  s.pair.line().add_rule(cut(0));
  for (uint32_t i = 0; i < 3; ++i) REQUIRE(s.post(0, i, 0, 0, 20'000) == 0);
  const Instant start = s.pair.now();
  CHECK(!s.run_until_sent(0, 1, Duration::millis(9990)));
  REQUIRE(s.run_until_sent(0, 3, Duration::seconds(1)));
  CHECK(s.pair.now() - start >= Duration::seconds(10));
  check_failed_at(s, 0, Status::retry_exceeded, 3);
  s.pair.run_for(Duration::seconds(30));
  s.events(0);
  CHECK_EQ(events_of(s, 0, EventKind::qp_error), 1u);
}

TEST_CASE("retry budget spent: the oldest work request fails, the rest is flushed, once") {
  StoryConfig c;
  c.linear_cnt = 2;
  c.exp_cnt = 3;
  Story s(c);
  for (uint32_t i = 0; i < 4; ++i) REQUIRE(s.post(0, i, i * 5000u, i * 5000u, 5000) == 0);
  REQUIRE(s.run_until_sent(0, 4));
  s.pair.line().add_rule(cut(0));
  for (uint32_t i = 4; i < 10; ++i) REQUIRE(s.post(0, i, i * 5000u, i * 5000u, 5000) == 0);
  REQUIRE(s.run_until_sent(0, 10));
  check_failed_at(s, 4, Status::retry_exceeded, 10);
  s.events(0);
  CHECK_EQ(events_of(s, 0, EventKind::qp_error), 1u);
  // A QP in ERROR takes work and flushes it.
  CHECK_EQ(s.post(0, 10, 0, 0, 100), 0);
  s.collect(0);
  CHECK_EQ(static_cast<int>(s.end[0].sent.back().status), static_cast<int>(Status::flush_error));
}

TEST_CASE("a key the peer never gave out fails its own work request; earlier ones are complete") {
  Story s;
  for (uint32_t i = 0; i < 3; ++i) REQUIRE(s.post(0, i, i * 5000u, i * 5000u, 5000) == 0);
  REQUIRE(post_raw(s, 3, s.base_of(1), s.end[1].mr.rkey ^ 0x5a5a, 3000) == 0);
  for (uint32_t i = 4; i < 6; ++i) REQUIRE(s.post(0, i, i * 5000u, i * 5000u, 5000) == 0);
  REQUIRE(s.run_until_sent(0, 6));
  check_failed_at(s, 3, Status::remote_access_error, 6);
  CHECK(s.equal(0, 0, 15'000));
  for (int side = 0; side < 2; ++side) {
    s.events(side);
    CHECK_EQ(events_of(s, side, EventKind::qp_error), 1u);
    CHECK(s.stats(side).state == engine::QpState::err);
  }
}

TEST_CASE("a write that leaves its region by one byte is refused and touches nothing outside") {
  StoryConfig c;
  c.memory = 1 << 16;
  Story s(c);
  REQUIRE(s.post(0, 0, 0, 0, 100) == 0);
  REQUIRE(post_raw(s, 1, s.base_of(1) + c.memory - 999, s.end[1].mr.rkey, 1000) == 0);
  REQUIRE(s.run_until_sent(0, 2));
  check_failed_at(s, 1, Status::remote_access_error, 2);
  CHECK_EQ(s.end[1].memory.back(), 0xEE);
}

TEST_CASE("trimming at a slow link asks for each packet again and demotes no path") {
  StoryConfig c;
  c.trimming = true;
  Story s(c);
  impair::Rule r;
  r.dir = impair::Dir::tx;
  r.rate_bps = 1'000'000'000;
  r.queue_bytes = 4000;
  r.trim_on_overflow = true;
  s.pair.line().add_rule(r);
  for (uint32_t i = 0; i < 10; ++i) REQUIRE(s.post(0, i, i * 100'000u, i * 100'000u, 100'000) == 0);
  REQUIRE(s.run_until_sent(0, 10));
  CHECK(s.all_in_order(0, 10));
  CHECK(s.equal(0, 0, 1'000'000));
  CHECK(s.stats(0).nacks_rx > 0);
  CHECK(s.stats(0).tx.rtx_trimmed > 0);
  CHECK(s.stats(1).rx.trimmed_rx >= s.stats(0).tx.rtx_trimmed);
  CHECK_EQ(s.demotions(0), 0u);
  CHECK_EQ(s.count_state(0, ev::State::assumed_bad), 0u);
}

TEST_CASE("a local port that goes down is told to the peer, which stops sending there at once") {
  StoryConfig c;
  c.pair.one_way = Duration::micros(50);
  c.mpr = 1;
  Story s(c);
  Load load(s, 60'000, 4);
  load.run(Duration::millis(5));
  REQUIRE(s.pair.side(1).set_port_up(s.pair.now(), 3, false) == 0);
  s.pair.flush();
  const Instant at = s.pair.now();
  load.run(Duration::millis(10));
  s.events(0);
  CHECK(events_of(s, 0, EventKind::port_remote) >= 1);
  CHECK(load.last_sent[3] - at <= Duration::micros(2 * 50));
  for (const auto& p : s.paths(0)) CHECK_EQ(p.state == ev::State::assumed_bad, p.port == 3);
  REQUIRE(s.pair.side(1).set_port_up(s.pair.now(), 3, true) == 0);
  s.pair.flush();
  load.run(Duration::millis(20));
  load.packets.clear();
  load.run(Duration::millis(5));
  CHECK(load.packets[3] > 0);
  CHECK_EQ(load.bad, 0u);
}

TEST_CASE("dynamic MPR: the sender follows the receiver's window down and up") {
  StoryConfig c;
  c.cap = 2;
  c.mpr = 16;
  c.cc = "null";
  c.pair.one_way = Duration::micros(50);
  Story s(c);
  Load load(s, 400'000, 8);
  const auto open_psns = [&] { return (s.stats(0).next_psn - s.stats(0).unack_psn) & 0xFFFFFF; };
  const auto widest = [&](Duration d) {
    uint32_t most = 0;
    for (const Instant end = s.pair.now() + d; s.pair.now() < end;) {
      load.run(Duration::micros(10));
      most = std::max(most, open_psns());
    }
    return most;
  };
  CHECK(widest(Duration::millis(1)) > 1024);
  engine::QpAttr a;
  a.mpr_dest = 1;
  REQUIRE(s.pair.side(1).modify_qp(s.pair.now(), s.end[1].qpn, a) == 0);
  load.run(Duration::millis(1));
  CHECK(widest(Duration::millis(1)) <= 130);
  a.mpr_dest = 32;
  REQUIRE(s.pair.side(1).modify_qp(s.pair.now(), s.end[1].qpn, a) == 0);
  load.run(Duration::millis(1));
  CHECK(widest(Duration::millis(1)) > 2048);
  CHECK_EQ(load.bad, 0u);
  CHECK_EQ(s.demotions(0), 0u);
}

TEST_CASE("B31: packets for a dead predecessor meet no QP of a restarted side") {
  Story s;
  REQUIRE(s.post(0, 0, 0, 0, 50'000) == 0);  // all on the wire, none delivered yet
  const size_t flying = s.pair.frames_in_flight();
  REQUIRE(flying > 10);
  s.pair.restart(1);
  std::fill(s.end[1].memory.begin(), s.end[1].memory.end(), uint8_t{0xEE});
  s.make(1);
  s.pair.run_for(Duration::micros(100));
  CHECK(s.pair.side(1).stats().drops[static_cast<size_t>(wire::DropReason::bad_qpn)] >= flying);
  CHECK(std::all_of(s.end[1].memory.begin(), s.end[1].memory.end(), [](uint8_t b) { return b == 0xEE; }));
}

TEST_CASE("B11: 30 and 60 % loss slow eight flows down, 100 % ends them within the budget") {
  for (const uint32_t ppm : {300'000u, 600'000u}) {
    StoryConfig c;
    c.exp_cnt = 12;
    Story s(c);
    impair::Rule r;
    r.drop_ppm = ppm;
    s.pair.line().add_rule(r);
    for (uint32_t i = 0; i < 40; ++i) REQUIRE(s.post(0, i, i * 10'000u, i * 10'000u, 10'000) == 0);
    REQUIRE(s.run_until_sent(0, 40, Duration::seconds(60)));
    CHECK(s.all_in_order(0, 40));
    CHECK(s.equal(0, 0, 400'000));
  }
  Story s;
  const size_t idle = s.stats(0).memory_bytes;
  s.pair.line().add_rule(cut(0));
  for (uint32_t i = 0; i < 40; ++i) REQUIRE(s.post(0, i, 0, 0, 10'000) == 0);
  REQUIRE(s.run_until_sent(0, 40, Duration::seconds(60)));
  check_failed_at(s, 0, Status::retry_exceeded, 40);
  CHECK(s.stats(0).memory_bytes <= idle + 16 * 1024);
  const uint64_t frames = s.pair.frames_sent();
  s.pair.run_for(Duration::seconds(60));
  CHECK_EQ(s.pair.frames_sent(), frames);  // a dead QP says nothing more
}

TEST_CASE("B33: a full receive queue lowers the sender's window, an empty one gives it back") {
  StoryConfig c;
  c.pair.one_way = Duration::micros(50);
  c.base_rtt = Duration::micros(100);
  Story s(c);
  Load load(s, 60'000, 8);
  load.run(Duration::millis(3));
  const int64_t before = s.stats(0).cc.cwnd;
  s.pair.side(1).set_receive_pressure(95);
  load.run(Duration::millis(3));
  const int64_t under = s.stats(0).cc.cwnd;
  CHECK(under * 4 <= before);
  s.pair.side(1).set_receive_pressure(10);
  load.run(Duration::millis(20));
  CHECK(s.stats(0).cc.cwnd * 10 >= before * 9);
  CHECK_EQ(load.bad, 0u);
  CHECK_EQ(s.demotions(0), 0u);
}

TEST_CASE("full sockets: what waits for a port leaves no timer that is due") {
  StoryConfig c;
  c.pair.planes = 1;
  c.pair.port_full_ppm = 1'000'000;  // after every packet
  Story s(c);
  impair::Rule r;
  r.drop_ppm = 200'000;  // probes and timeouts become due while the port is full
  s.pair.line().add_rule(r);
  for (uint32_t i = 0; i < 50; ++i) REQUIRE(s.post(0, i, i * 10'000u, i * 10'000u, 10'000) == 0);
  uint32_t idle = 0;
  while (s.end[0].sent.size() < 50 && idle < 1000) {
    const Instant before = s.pair.now();
    const uint64_t sent = s.pair.frames_sent();
    REQUIRE(s.pair.step());
    s.collect(0);
    idle = s.pair.now() == before && s.pair.frames_sent() == sent ? idle + 1 : 0;
  }
  CHECK(s.all_in_order(0, 50));
  CHECK(s.equal(0, 0, 500'000));
}

TEST_CASE("the probe of a bad path whose port is full goes out when the port takes packets again") {
  StoryConfig c;
  c.pair.planes = 2;
  c.pair.evs_per_plane = 1;
  Story s(c);
  const uint64_t id = s.pair.line().add_rule(cut(2));
  REQUIRE(s.post(0, 0, 0, 0, 50'000) == 0);
  REQUIRE(s.run_until_sent(0, 1));
  REQUIRE(s.count_state(0, ev::State::assumed_bad) == 1);
  s.pair.line().remove_rule(id);
  engine::Endpoint& e = s.pair.side(0);
  uint8_t head[wire::kMaxHeaderBytes];
  engine::Transmit t;
  bool probed = false;
  for (int i = 0; i < 50 && !probed && !e.poll_timeout().is_never(); ++i) {
    const Instant now = e.poll_timeout();
    e.handle_timeout(now);
    while (e.poll_transmit(now, 1u << 1, head, t)) {
    }
    probed = e.poll_transmit(now + Duration::micros(1), 3u << 1, head, t) && t.meta.port == 2;
  }
  CHECK(probed);
}
