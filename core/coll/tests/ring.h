// Two ranks in virtual time: a runner on each side of a pair, one lane between them, and the programs of the
// tests.
#pragma once

#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "coll/runner.h"
#include "testing/check.h"
#include "testing/pair.h"

namespace mrc::coll {

using base::Duration;
using testing::Pair;

struct Side {
  std::unique_ptr<Runner> runner;
  uint32_t qpn = 0, lane = 0, group = 0, memory = 0;
  std::vector<Finished> over;
};

// Both ends live in this process: reading the other one's memory is a copy.
class Nearby final : public Reach {
 public:
  explicit Nearby(int& error) : error_(error) {}
  int read(uint32_t pid, uint64_t from, void* to, uint64_t bytes) override {
    CHECK_EQ(pid, 4711u);
    if (error_ == 0) std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
    return error_;
  }

 private:
  int& error_;
};

struct BenchConfig {
  testing::PairConfig pair;
  Duration hold = Duration::seconds(10);
  uint32_t max_send_wr = 256;
  bool local = false;
};

class Bench {
 public:
  explicit Bench(BenchConfig c = {}) : config(std::move(c)), pair(config.pair) {
    for (const uint32_t s : {0u, 1u}) make(s);
    for (const uint32_t s : {0u, 1u}) raise(s);
    if (config.local) {
      for (RemoteMemory& r : remote_) r.local_pid = 4711;
    }
    for (const uint32_t s : {0u, 1u}) {
      Side& e = side(s);
      const auto lane =
          e.runner->add_lane(pair.side(static_cast<int>(s)), pair.now(), e.qpn, e.memory, remote_[1 - s]);
      REQUIRE(lane.ok());
      e.lane = lane.value();
      std::vector<int64_t> lanes(2, -1);
      lanes[1 - s] = e.lane;
      const auto group = e.runner->new_group(lanes, s);
      REQUIRE(group.ok());
      e.group = group.value();
    }
  }

  Side& side(uint32_t s) { return sides_[s]; }
  base::Result<uint64_t> submit(uint32_t s, const std::shared_ptr<const Program>& p, const void* in,
                                size_t in_bytes, void* out, size_t out_bytes, double factor = 1.0) {
    const auto address = [](const void* m) { return reinterpret_cast<uint64_t>(m); };
    auto job = side(s).runner->submit(pair.side(static_cast<int>(s)), pair.now(), side(s).group, p,
                                      {address(in), in_bytes}, {address(out), out_bytes}, factor);
    pair.flush();
    return job;
  }
  template <typename T>
  base::Result<uint64_t> submit(uint32_t s, const std::shared_ptr<const Program>& p, const std::vector<T>& in,
                                std::vector<T>& out, double factor = 1.0) {
    return submit(s, p, in.data(), in.size() * sizeof(T), out.data(), out.size() * sizeof(T), factor);
  }
  void step() {
    for (const uint32_t s : {0u, 1u}) {
      for (int i = 0; i < 1000 && side(s).runner->step(pair.side(static_cast<int>(s)), pair.now()); ++i) {
      }
      collect(s);
    }
    pair.flush();
  }
  void collect(uint32_t s) {
    std::vector<Finished> some;
    side(s).runner->take_finished(some);
    side(s).over.insert(side(s).over.end(), some.begin(), some.end());
  }
  // Both sides have `count` jobs over.
  bool run(size_t count, Duration limit = Duration::seconds(20)) {
    return pair.run_until(
        [&] {
          step();
          return side(0).over.size() >= count && side(1).over.size() >= count;
        },
        pair.now() + limit);
  }
  bool all(JobState state) {
    for (Side& e : sides_) {
      for (const Finished& f : e.over)
        if (f.state != state) return false;
    }
    return true;
  }
  [[nodiscard]] const RemoteMemory& remote(uint32_t s) const { return remote_[s]; }
  const RunnerStats& stats(uint32_t s) { return side(s).runner->stats(); }

  BenchConfig config;
  Pair pair;
  int reading = 0;  // errno of every look into the other one's memory

 private:
  void make(uint32_t s) {
    engine::Endpoint& e = pair.side(static_cast<int>(s));
    side(s).runner = std::make_unique<Runner>(e, std::make_unique<Nearby>(reading));
    const auto memory = side(s).runner->open_lane_memory(e);
    REQUIRE(memory.ok());
    side(s).memory = memory.value();
    remote_[s] = side(s).runner->lane_memory(memory.value());
    engine::QpInit init;
    init.pd = side(s).runner->pd();
    init.send_cq = init.recv_cq = side(s).runner->cq();
    init.max_send_wr = config.max_send_wr;
    init.max_recv_wr = 256;
    side(s).qpn = e.create_qp(init).value();
  }
  void raise(uint32_t s) {
    engine::Endpoint& e = pair.side(static_cast<int>(s));
    engine::QpAttr a;
    a.state = engine::QpState::init;
    a.ev_count = config.pair.planes * config.pair.evs_per_plane;
    REQUIRE(e.modify_qp(pair.now(), side(s).qpn, a) == 0);
    a = {};
    a.state = engine::QpState::rtr;
    a.dest_qpn = side(1 - s).qpn;
    a.rq_psn = s == 0 ? 5000 : 100;
    a.path_mtu = 1024;
    a.peer_ports = pair.peer_ports(static_cast<int>(s));
    a.mpr_dest = 8;
    a.max_wimm_dest = 128;
    REQUIRE(e.modify_qp(pair.now(), side(s).qpn, a) == 0);
    a = {};
    a.state = engine::QpState::rts;
    a.sq_psn = s == 0 ? 100 : 5000;
    a.mpr = 8;
    a.max_wimm = 128;
    a.hold_time = config.hold;
    REQUIRE(e.modify_qp(pair.now(), side(s).qpn, a) == 0);
  }

  std::array<Side, 2> sides_;
  std::array<RemoteMemory, 2> remote_;
};

// Builds programs step by step.
class Writer {
 public:
  explicit Writer(DType t, Op op = Op::sum, uint64_t scratch = 0) {
    spec_.dtype = static_cast<uint32_t>(t);
    spec_.op = static_cast<uint32_t>(op);
    spec_.ranks = 2;
    spec_.scratch_bytes = scratch;
  }
  uint32_t add(Step s, std::vector<uint32_t> deps = {}) {
    spec_.steps.push_back(s);
    spec_.deps.push_back(std::move(deps));
    return static_cast<uint32_t>(spec_.steps.size() - 1);
  }
  Writer& prints(std::vector<uint64_t> p) {
    spec_.prints = std::move(p);
    return *this;
  }
  Writer& bases(std::vector<uint64_t> b) {
    spec_.bases = std::move(b);
    return *this;
  }
  std::shared_ptr<const Program> done() {
    std::string why;
    auto p = Program::compile(spec_, why);
    if (p == nullptr) std::fprintf(stderr, "program: %s\n", why.c_str());
    REQUIRE(p != nullptr);
    return p;
  }

 private:
  ProgramSpec spec_;
};

// All-reduce by exchanging everything in one eager message each way.
inline std::shared_ptr<const Program> exchange(uint32_t rank, uint64_t bytes,
                                               std::vector<uint64_t> prints = {}) {
  const uint32_t peer = 1 - rank;
  Writer w(DType::i32);
  const uint32_t copy = w.add({Kind::copy, 0, Buf::input, Buf::output, 0, 0, 0, bytes});
  w.add({Kind::send, kEager, Buf::input, Buf::output, peer, 0, 0, bytes});
  w.add({Kind::recv, kEager | kReduce, Buf::input, Buf::output, peer, 0, 0, bytes}, {copy});
  return w.prints(std::move(prints)).done();
}

// All-reduce: each reduces one half in chunks and sends the result, without copies between.
inline std::shared_ptr<const Program> halves(uint32_t rank, uint64_t bytes, uint64_t chunk) {
  const uint32_t peer = 1 - rank;
  const uint64_t half = bytes / 2, mine = rank * half, its = peer * half;
  Writer w(DType::i32, Op::sum, half);
  std::vector<std::pair<uint32_t, uint64_t>> sums;
  for (uint64_t at = 0; at < half; at += chunk) {
    const uint64_t n = std::min(chunk, half - at);
    w.add({Kind::send, 0, Buf::input, Buf::scratch, peer, its + at, at, n});
    const uint32_t got = w.add({Kind::recv, 0, Buf::input, Buf::scratch, peer, 0, at, n});
    const uint32_t own = w.add({Kind::copy, 0, Buf::input, Buf::output, 0, mine + at, mine + at, n});
    sums.emplace_back(w.add({Kind::reduce, 0, Buf::scratch, Buf::output, 0, at, mine + at, n}, {got, own}),
                      at);
  }
  for (const auto& [step, at] : sums) {
    const uint64_t n = std::min(chunk, half - at);
    w.add({Kind::send, 0, Buf::output, Buf::output, peer, mine + at, mine + at, n}, {step});
    w.add({Kind::recv, 0, Buf::input, Buf::output, peer, 0, its + at, n});
  }
  return w.done();
}

// The same; what arrives is combined from where it is, once all of the own half has been copied.
inline std::shared_ptr<const Program> folded(uint32_t rank, uint64_t bytes, uint64_t chunk) {
  const uint32_t peer = 1 - rank;
  const uint64_t half = bytes / 2, mine = rank * half, its = peer * half;
  Writer w(DType::i32, Op::sum, half);
  const uint32_t own = w.add({Kind::copy, 0, Buf::input, Buf::output, 0, mine, mine, half});
  std::vector<uint32_t> sums;
  for (uint64_t at = 0; at < half; at += chunk) {
    const uint64_t n = std::min(chunk, half - at);
    w.add({Kind::send, 0, Buf::input, Buf::scratch, peer, its + at, at, n});
    sums.push_back(w.add({Kind::recv, kReduce, Buf::scratch, Buf::output, peer, at, mine + at, n}, {own}));
  }
  for (uint64_t at = 0; at < half; at += chunk) {
    const uint64_t n = std::min(chunk, half - at);
    w.add({Kind::send, 0, Buf::output, Buf::output, peer, mine + at, mine + at, n}, {sums[at / chunk]});
    w.add({Kind::recv, 0, Buf::input, Buf::output, peer, 0, its + at, n});
  }
  return w.done();
}

inline std::vector<int32_t> numbers(uint32_t rank, size_t n) {
  std::vector<int32_t> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = static_cast<int32_t>(i * 31 + rank * 1'000'003);
  return v;
}
inline std::vector<int32_t> total(size_t n) {
  auto v = numbers(0, n);
  const auto w = numbers(1, n);
  for (size_t i = 0; i < n; ++i) v[i] += w[i];
  return v;
}

}  // namespace mrc::coll
