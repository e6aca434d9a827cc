// Pump and ping-pong over two drivers of one process, each progressed by the same thread in turns.
#include <cerrno>

#include "net/tests/driver_pair.h"
#include "perf/ping_pong.h"
#include "perf/pump.h"

using namespace mrc;
using namespace mrc::perf;
using engine::Status;

namespace {

constexpr Duration kTurn = Duration::micros(200);
constexpr int kMostTurns = 50'000;

struct Side : net::End {
  std::vector<net::End> more;  // further queue pairs of the same driver: only qpn and psn are used
};

Side open_side(const std::vector<std::string>& planes, uint64_t seed, size_t bytes, size_t qps,
               bool own_thread) {
  net::DriverConfig c;
  c.engine.seed = seed;
  c.progress = own_thread ? net::Progress::thread : net::Progress::caller;
  for (const auto& p : planes) {
    net::PlaneConfig plane;
    plane.address = p;
    plane.evs = 4;
    c.planes.push_back(plane);
  }
  std::string why;
  auto d = net::Driver::open(c, why);
  REQUIRE(d.ok());
  Side s;
  s.driver = std::move(d.value());
  s.memory.resize(2 * bytes);  // source, then landing
  s.driver->with([&](engine::Endpoint& ep, Instant) {
    s.pd = ep.alloc_pd();
    s.cq = ep.create_cq(4096).value();
    const uint32_t access = engine::Access::local_write | engine::Access::remote_write;
    s.mr = ep.reg_mr(s.pd, s.base(), 2 * bytes, access, s.base()).value();
    for (size_t i = 0; i < qps; ++i) {
      engine::QpInit init;
      init.pd = s.pd;
      init.send_cq = init.recv_cq = s.cq;
      net::End& end = i == 0 ? s : s.more.emplace_back();
      end.qpn = ep.create_qp(init).value();
      end.psn = ep.random_psn();
    }
  });
  return s;
}

void connect_all(Side& a, Side& b) {
  net::connect(a, b);
  for (size_t i = 0; i < a.more.size(); ++i) {
    net::End x, y;
    x.driver = std::move(a.driver);
    y.driver = std::move(b.driver);
    x.qpn = a.more[i].qpn, x.psn = a.more[i].psn;
    y.qpn = b.more[i].qpn, y.psn = b.more[i].psn;
    net::connect(x, y);
    a.driver = std::move(x.driver);
    b.driver = std::move(y.driver);
  }
}

std::pair<Side, Side> sides(size_t bytes, size_t qps, bool own_thread = false) {
  Side a = open_side({"127.0.0.41", "127.0.0.42"}, 1, bytes, qps, own_thread);
  Side b = open_side({"127.0.0.51", "127.0.0.52"}, 2, bytes, qps, own_thread);
  connect_all(a, b);
  connect_all(b, a);
  return {std::move(a), std::move(b)};
}

PumpConfig pump_config(Side& own, Side& peer, bool own_thread = false) {
  PumpConfig c;
  c.cq = own.cq;
  c.qpns.push_back(own.qpn);
  for (const net::End& e : own.more) c.qpns.push_back(e.qpn);
  c.lkey = own.mr.lkey;
  c.rkey = peer.mr.rkey;
  c.source = {own.base(), own.memory.size() / 2};
  c.target = {peer.base() + peer.memory.size() / 2, peer.memory.size() / 2};
  c.own_thread = own_thread;
  c.bin = Duration::millis(1);
  return c;
}

bool finish(Pump& a, Pump& b, bool both) {
  bool a_done = false, b_done = false;
  for (int i = 0; i < kMostTurns; ++i) {
    a_done = a.run(kTurn);
    b_done = b.run(kTurn) || !both;
    if (a_done && b_done) return true;
  }
  return false;
}

uint64_t total(const Timeline& t) {
  uint64_t sum = t.rest();
  for (const uint64_t b : t.bins()) sum += b;
  return sum;
}

void one_way(size_t qps, bool own_thread) {
  auto [a, b] = sides(64 * 1024, qps, own_thread);
  for (size_t i = 0; i < a.memory.size() / 2; ++i) a.memory[i] = static_cast<uint8_t>(i * 7 + (i >> 8));
  Pump sender(*a.driver, pump_config(a, b, own_thread)), receiver(*b.driver, pump_config(b, a, own_thread));
  receiver.start_passive();
  receiver.run(Duration{});
  Job job;
  job.size = 5000;
  job.depth = 4;
  job.iters = 30;
  REQUIRE(sender.start(job) == 0);
  REQUIRE(finish(sender, receiver, false));
  receiver.run(Duration::millis(2));
  const PumpResult& r = sender.result();
  CHECK_EQ(r.messages, 30 * qps);
  CHECK_EQ(r.bytes, 30 * qps * 5000);
  CHECK_EQ(r.errors, 0u);
  CHECK(r.to > r.from);
  CHECK_EQ(r.qp_bytes.size(), qps);
  for (const uint64_t bytes : r.qp_bytes) CHECK_EQ(bytes, 30u * 5000);
  CHECK_EQ(sender.latency().count(), r.messages);
  CHECK(sender.latency().min() > 0);
  CHECK_EQ(total(sender.sent()), r.bytes);
  CHECK(total(receiver.arrived()) <= r.bytes);
  CHECK_EQ(sender.in_flight(), 0u);
  // Every queue pair walked its part of the window: the first messages of each lie where they belong.
  const size_t part = 64 * 1024 / qps / 64 * 64;
  b.driver->with([&](engine::Endpoint&, Instant) {
    for (size_t q = 0; q < qps; ++q)
      CHECK(std::memcmp(a.memory.data() + q * part, b.memory.data() + 64 * 1024 + q * part, 5000) == 0);
  });
}

}  // namespace

TEST_CASE("pump: one queue pair, one way") { one_way(1, false); }
TEST_CASE("pump: four queue pairs share the windows") { one_way(4, false); }
TEST_CASE("pump: with a driver thread") { one_way(2, true); }

TEST_CASE("pump: both ways with immediates, twice on the same queue pairs") {
  auto [a, b] = sides(32 * 1024, 2);
  auto ca = pump_config(a, b), cb = pump_config(b, a);
  ca.recv_depth = cb.recv_depth = 16;
  Pump x(*a.driver, ca), y(*b.driver, cb);
  Job job;
  job.op = reliability::WrOpcode::rdma_write_imm;
  job.size = 300;
  job.depth = 8;
  job.iters = 100;
  for (int round = 0; round < 2; ++round) {
    REQUIRE(x.start(job) == 0);
    REQUIRE(y.start(job) == 0);
    REQUIRE(finish(x, y, true));
    CHECK_EQ(x.result().messages, 200u);
    CHECK_EQ(y.result().messages, 200u);
    CHECK_EQ(x.result().errors + y.result().errors, 0u);
    CHECK_EQ(x.result().first_error, Status::success);
    CHECK_EQ(y.result().first_error, Status::success);
    x.rest(kTurn);
    y.rest(kTurn);
    CHECK_EQ(x.result().messages, 200u);  // rest counts nothing
  }
}

TEST_CASE("pump: a duration ends it; stop ends it; work in flight forbids another start") {
  auto [a, b] = sides(32 * 1024, 1);
  Pump x(*a.driver, pump_config(a, b)), y(*b.driver, pump_config(b, a));
  y.start_passive();
  Job job;
  job.size = 1000;
  job.depth = 4;
  job.duration = Duration::millis(20);
  REQUIRE(x.start(job) == 0);
  x.run(Duration::micros(1));
  CHECK(x.in_flight() > 0);
  CHECK_EQ(x.start(job), EBUSY);
  REQUIRE(finish(x, y, false));
  CHECK((x.result().to - x.result().from) >= Duration::millis(20));
  CHECK_EQ(total(x.sent()), x.result().bytes);
  job.duration = Duration{};
  REQUIRE(x.start(job) == 0);
  for (int i = 0; i < 10; ++i) x.run(kTurn), y.run(kTurn);
  x.stop();
  REQUIRE(finish(x, y, false));
  CHECK(x.result().posted >= x.result().messages);
  y.stop();
  CHECK(y.run(kTurn));
}

TEST_CASE("pump: a job writes inside its region and nowhere else") {
  constexpr size_t kBytes = 32 * 1024, kRegion = 4096;
  auto [a, b] = sides(kBytes, 3);
  std::fill(a.memory.begin(), a.memory.end(), uint8_t{7});
  Pump x(*a.driver, pump_config(a, b)), y(*b.driver, pump_config(b, a));
  y.start_passive();
  Job job;
  job.size = 100;
  job.depth = 4;
  job.iters = 40;
  job.region = kRegion;
  REQUIRE(x.start(job) == 0);
  REQUIRE(finish(x, y, false));
  const uint8_t* landed = b.memory.data() + kBytes;
  size_t written = 0;
  for (size_t i = 0; i < kBytes; ++i) {
    written += landed[i] == 7;
    if (landed[i] != 0) CHECK(i < kRegion);
  }
  // Three parts of 1,344 bytes take ten messages of 100 each, 128 apart.
  CHECK_EQ(written, 3u * 10 * 100);
}

TEST_CASE("pump: what does not fit is refused") {
  auto [a, b] = sides(4096, 1);
  Pump x(*a.driver, pump_config(a, b));
  Job job;
  job.size = 4097;
  CHECK_EQ(x.start(job), EINVAL);
  job.size = 4096;
  job.depth = 0;
  CHECK_EQ(x.start(job), EINVAL);
  job.depth = (1u << 24) + 1;
  CHECK_EQ(x.start(job), EINVAL);
}

TEST_CASE("pump: a peer that forbids the memory ends it with errors, and says which") {
  auto [a, b] = sides(4096, 1);
  auto ca = pump_config(a, b);
  ca.rkey ^= 0x5555;
  Pump x(*a.driver, ca), y(*b.driver, pump_config(b, a));
  y.start_passive();
  Job job;
  job.size = 64;
  job.depth = 4;
  REQUIRE(x.start(job) == 0);
  REQUIRE(finish(x, y, false));
  CHECK_EQ(x.result().errors, 4u);
  CHECK(x.result().first_error == Status::remote_access_error);
  CHECK_EQ(x.result().messages, 0u);
}

namespace {

PingPongConfig rally_config(Side& own, Side& peer, bool own_thread = false) {
  PingPongConfig c;
  c.cq = own.cq;
  c.qpn = own.qpn;
  c.lkey = own.mr.lkey;
  c.rkey = peer.mr.rkey;
  c.source = own.base();
  c.landing = own.memory.data() + own.memory.size() / 2;
  c.target = peer.base() + peer.memory.size() / 2;
  c.recv_depth = 16;
  c.own_thread = own_thread;
  return c;
}

void rally(uint32_t size, bool imm, uint64_t iters, bool own_thread = false) {
  auto [a, b] = sides(16 * 1024, 1, own_thread);
  PingPong x(*a.driver, rally_config(a, b, own_thread)), y(*b.driver, rally_config(b, a, own_thread));
  Rally r;
  r.size = size;
  r.imm = imm;
  REQUIRE(y.start(r) == 0);
  y.run(Duration{});  // its receives are there before the first message is
  r.serve = true;
  r.iters = iters;
  r.warm_up = 5;
  REQUIRE(x.start(r) == 0);
  bool done = false;
  for (int i = 0; i < kMostTurns && !done; ++i) {
    done = x.run(kTurn);
    y.run(kTurn);
  }
  REQUIRE(done);
  CHECK_EQ(x.round_trip().count(), iters);
  CHECK_EQ(x.answered(), iters + 5);
  CHECK_EQ(y.answered(), iters + 5);
  CHECK_EQ(x.errors() + y.errors(), 0u);
  CHECK(x.round_trip().min() > 0);
  CHECK(x.to() > x.from());
  x.rest(kTurn);
  y.stop();
  CHECK(y.run(kTurn));
}

}  // namespace

TEST_CASE("ping-pong: told by memory") { rally(8, false, 300); }  // passes 255
TEST_CASE("ping-pong: told by immediates") { rally(9000, true, 100); }
TEST_CASE("ping-pong: with a driver thread") { rally(64, true, 40, true); }

TEST_CASE("ping-pong: memory and a driver thread, or no byte, are refused") {
  auto [a, b] = sides(4096, 1);
  PingPong x(*a.driver, rally_config(a, b, true)), y(*a.driver, rally_config(a, b));
  Rally r;
  CHECK_EQ(x.start(r), EINVAL);
  r.size = 0;
  CHECK_EQ(y.start(r), EINVAL);
}
