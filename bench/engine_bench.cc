// Two engines in virtual time: packets a second of one core, state of an idle QP, and what many QPs cost.
#include <stdexcept>

#include "bench/bench.h"
#include "engine/timer_heap.h"
#include "testing/pair.h"

namespace mrc::bench {

namespace {

using testing::Pair;
using testing::PairConfig;

constexpr uint32_t kPmtu = 4096;
constexpr double kQpLimit = 16'384;  // bytes of state an idle QP with 128 EVs may have

void must(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(what);
}

// Two endpoints over 8 planes x 16 EVs, one region and one CQ a side, and as many connected QPs as asked for.
class Stage {
 public:
  explicit Stage(uint8_t planes) : pair_(config(planes)) {
    for (int s = 0; s < 2; ++s) {
      Side& side = sides_[s];
      engine::Endpoint& e = pair_.side(s);
      side.memory.resize(1 << 20);
      side.pd = e.alloc_pd();
      side.cq = e.create_cq(1 << 16).value();
      side.mr = e.reg_mr(side.pd, address(s), side.memory.size(), 3, address(s)).value();
    }
  }

  void connect(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      for (int s = 0; s < 2; ++s) {
        const Side& side = sides_[s];
        engine::QpInit init;
        init.pd = side.pd;
        init.send_cq = init.recv_cq = side.cq;
        const auto q = pair_.side(s).create_qp(init);
        must(q.ok(), "create_qp");
        sides_[s].qpns.push_back(q.value());
      }
      for (int s = 0; s < 2; ++s) open(s, sides_[s].qpns.back(), sides_[1 - s].qpns.back());
    }
  }

  void write(uint32_t qp, uint32_t length) {
    engine::SendWr wr;
    wr.addr = address(0);
    wr.length = length;
    wr.lkey = sides_[0].mr.lkey;
    wr.remote_addr = address(1);
    wr.rkey = sides_[1].mr.rkey;
    must(pair_.side(0).post_send(pair_.now(), sides_[0].qpns[qp], wr) == 0, "post_send");
  }

  // Steps until `count` completions came, and says how many came in time.
  uint64_t complete(uint64_t count) {
    uint64_t got = 0;
    std::array<engine::Completion, 64> wc;
    pair_.flush();
    pair_.run_until(
        [&] {
          for (size_t n = pair_.side(0).poll_completion(sides_[0].cq, wc); n > 0;
               n = pair_.side(0).poll_completion(sides_[0].cq, wc))
            got += n;
          return got >= count;
        },
        pair_.now() + base::Duration::seconds(60));
    return got;
  }
  void settle() { pair_.run_for(base::Duration::millis(100)); }
  Pair& pair() { return pair_; }
  [[nodiscard]] uint32_t qpn(uint32_t i) const { return sides_[0].qpns[i]; }

 private:
  struct Side {
    std::vector<uint8_t> memory;
    uint32_t pd = 0, cq = 0;
    engine::MrInfo mr;
    std::vector<uint32_t> qpns;
  };

  static PairConfig config(uint8_t planes) {
    PairConfig c;
    c.planes = planes;
    c.evs_per_plane = 128u / planes;
    return c;
  }
  uint64_t address(int s) { return reinterpret_cast<uint64_t>(sides_[s].memory.data()); }

  void open(int s, uint32_t qpn, uint32_t peer) {
    engine::Endpoint& e = pair_.side(s);
    engine::QpAttr a;
    a.state = engine::QpState::init;
    a.ev_count = 128;
    must(e.modify_qp(pair_.now(), qpn, a) == 0, "INIT");
    engine::QpAttr b;
    b.state = engine::QpState::rtr;
    b.dest_qpn = peer;
    b.rq_psn = 1;
    b.path_mtu = kPmtu;
    b.peer_ports = pair_.peer_ports(s);
    b.mpr_dest = 8;
    b.max_wimm_dest = 64;
    must(e.modify_qp(pair_.now(), qpn, b) == 0, "RTR");
    engine::QpAttr c;
    c.state = engine::QpState::rts;
    c.sq_psn = 1;
    c.mpr = 8;
    c.max_wimm = 64;
    c.timeout = 8;
    c.linear_cnt = 7;
    c.exp_cnt = 8;
    must(e.modify_qp(pair_.now(), qpn, c) == 0, "RTS");
  }

  Pair pair_;
  Side sides_[2];
};

void packet_rate(const Options& o, std::vector<Row>& out) {
  Stage stage(8);
  stage.connect(1);
  const uint64_t rounds = o.quick ? 10 : 400;
  constexpr uint32_t kWrite = 256 * 1024;
  const auto began = Clock::now();
  for (uint64_t i = 0; i < rounds; ++i) {
    stage.write(0, kWrite);
    must(stage.complete(1) == 1, "a write did not complete");
  }
  const double t = elapsed(began);
  out.push_back({"two_engines_packets", static_cast<double>(stage.pair().frames_sent()) / t / 1e6, "Mpkt/s"});
  out.push_back({"two_engines_goodput", static_cast<double>(rounds * kWrite) / t / 1e9, "GB/s"});
}

void idle_state(const Options& o, std::vector<Row>& out) {
  Stage stage(8);
  stage.connect(1);  // tables that grow once are there before we count
  const uint32_t count = o.quick ? 64 : 1024;
  const int64_t before = heap_bytes();
  stage.connect(count);
  // Both sides were counted, two QPs a connection.
  const double fresh = static_cast<double>(heap_bytes() - before) / (2.0 * count);
  // One after the other, so that frames in flight (the stage's, not the engine's) stay few.
  for (uint32_t i = 0; i < count; ++i) {
    stage.write(1 + i, 64 * 1024);
    must(stage.complete(1) == 1, "a write did not complete");
  }
  stage.settle();
  const double used = static_cast<double>(heap_bytes() - before) / (2.0 * count);
  out.push_back({"qp_state_fresh", fresh, "B", kQpLimit});
  out.push_back({"qp_state_idle_after_use", used, "B", kQpLimit});
  const auto own = stage.pair().side(0).qp_stats(stage.qpn(count));
  must(own.ok(), "qp_stats");
  out.push_back({"qp_state_own_account", static_cast<double>(own.value().memory_bytes), "B", kQpLimit});
}

void many_qps(const Options& o, std::vector<Row>& out) {
  const uint32_t count = o.quick ? 500 : 10'000;
  Stage stage(8);
  stage.connect(count);
  for (uint32_t i = 0; i < count; ++i) stage.write(i, 8 * 1024);
  const uint64_t sent = stage.pair().frames_sent();
  const auto began = Clock::now();
  must(stage.complete(count) == count, "a write did not complete");
  const double t = elapsed(began);
  out.push_back({"many_qps", static_cast<double>(count), "QPs"});
  out.push_back(
      {"many_qps_packets", static_cast<double>(stage.pair().frames_sent() - sent) / t / 1e6, "Mpkt/s"});
}

void timers(const Options& o, std::vector<Row>& out) {
  constexpr uint32_t kIds = 10'000;
  engine::TimerHeap heap;
  base::Rng rng(1);
  for (uint32_t i = 0; i < kIds; ++i) heap.set(i, {static_cast<int64_t>(rng.below(1 << 30))});
  // Each round: the soonest fires and is armed anew, and another one moves, as an acknowledgement does.
  const double t = time_per_call(o, [&] {
    const base::Instant now = heap.next();
    heap.set(heap.front(), now + base::Duration{1 + rng.below(1 << 20)});
    heap.set(rng.below(kIds), now + base::Duration{1 + rng.below(1 << 20)});
  });
  out.push_back({"timer_fire_and_move_10k_qps", t * 1e9, "ns"});
}

}  // namespace

void engine_rows(const Options& o, std::vector<Row>& out) {
  packet_rate(o, out);
  idle_state(o, out);
  timers(o, out);
  many_qps(o, out);
}

}  // namespace mrc::bench
