// A connected pair of QPs with memory on both sides: what every story starts from.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "testing/check.h"
#include "testing/pair.h"

namespace mrc::testing {

struct StoryConfig {
  PairConfig pair;
  uint32_t pmtu = 1024;
  size_t memory = 1 << 20;
  uint32_t psn0 = 100, psn1 = 5000;
  uint8_t mpr = 8;
  uint32_t cap = 0;
  bool trimming = false;
  std::optional<uint32_t> qpn0, qpn1;
  uint32_t max_send_wr = 1024;
  uint8_t timeout = 8, linear_cnt = 7, exp_cnt = 8;
  std::optional<Duration> hold_time;
  std::string cc = "uet-1.0-nscc";
  uint16_t max_wimm = 64;
  uint32_t recvs = 256;
  std::optional<Duration> base_rtt, min_ack_timeout;
  // Called with the attributes of INIT, RTR and RTS (a.state) of a side before they are given.
  std::function<void(int, engine::QpAttr&)> adjust;
};

class Story {
 public:
  explicit Story(const StoryConfig& c = {}) : config(c), pair(c.pair) {
    for (int s = 0; s < 2; ++s) make(s);
    for (int s = 0; s < 2; ++s) open(s);
  }

  void make(int s) {
    End& e = end[static_cast<size_t>(s)];
    engine::Endpoint& ep = pair.side(s);
    e.memory.resize(config.memory);
    for (size_t i = 0; i < e.memory.size(); ++i)
      e.memory[i] = s == 0 ? static_cast<uint8_t>(i * 131 + (i >> 8)) : 0xEE;
    e.pd = ep.alloc_pd();
    e.cq = ep.create_cq(8192).value();
    e.mr = ep.reg_mr(e.pd, base_of(s), e.memory.size(),
                     engine::Access::local_write | engine::Access::remote_write, base_of(s))
               .value();
    engine::QpInit init;
    init.pd = e.pd;
    init.send_cq = init.recv_cq = e.cq;
    init.max_send_wr = config.max_send_wr;
    init.max_recv_wr = 4096;
    init.qpn = s == 0 ? config.qpn0 : config.qpn1;
    const auto q = ep.create_qp(init);
    REQUIRE(q.ok());
    e.qpn = q.value();
  }

  void open(int s) {
    engine::Endpoint& ep = pair.side(s);
    const End& e = end[static_cast<size_t>(s)];
    engine::QpAttr a;
    a.state = engine::QpState::init;
    a.cc_algorithm = config.cc;
    a.ev_count = config.pair.planes * config.pair.evs_per_plane;
    adjusted(s, a);
    REQUIRE(ep.modify_qp(pair.now(), e.qpn, a) == 0);
    engine::QpAttr b;
    b.state = engine::QpState::rtr;
    b.dest_qpn = end[static_cast<size_t>(1 - s)].qpn;
    b.rq_psn = s == 0 ? config.psn1 : config.psn0;
    b.path_mtu = config.pmtu;
    b.peer_ports = pair.peer_ports(s);
    b.mpr_dest = config.mpr;
    b.max_wimm_dest = config.max_wimm;
    b.cap = config.cap;
    b.trimming = config.trimming;
    b.sack_bytes = 4096;
    b.base_rtt = config.base_rtt;
    b.min_ack_timeout = config.min_ack_timeout;
    adjusted(s, b);
    REQUIRE(ep.modify_qp(pair.now(), e.qpn, b) == 0);
    for (uint32_t i = 0; i < config.recvs; ++i) REQUIRE(ep.post_recv(pair.now(), e.qpn, i) == 0);
    engine::QpAttr c;
    c.state = engine::QpState::rts;
    c.sq_psn = s == 0 ? config.psn0 : config.psn1;
    c.mpr = config.mpr;
    c.max_wimm = config.max_wimm;
    c.timeout = config.timeout;
    c.linear_cnt = config.linear_cnt;
    c.exp_cnt = config.exp_cnt;
    c.hold_time = config.hold_time;
    adjusted(s, c);
    REQUIRE(ep.modify_qp(pair.now(), e.qpn, c) == 0);
  }

  void adjusted(int s, engine::QpAttr& a) const {
    if (config.adjust) config.adjust(s, a);
  }

  [[nodiscard]] uint64_t base_of(int s) {
    return reinterpret_cast<uint64_t>(end[static_cast<size_t>(s)].memory.data());
  }

  engine::Errno post(int from, uint64_t id, size_t src, size_t dst, uint32_t length,
                     std::optional<uint32_t> imm = std::nullopt) {
    engine::SendWr wr;
    wr.wr_id = id;
    wr.opcode = imm ? reliability::WrOpcode::rdma_write_imm : reliability::WrOpcode::rdma_write;
    wr.imm = imm.value_or(0);
    wr.addr = base_of(from) + src;
    wr.length = length;
    wr.lkey = end[static_cast<size_t>(from)].mr.lkey;
    wr.remote_addr = base_of(1 - from) + dst;
    wr.rkey = end[static_cast<size_t>(1 - from)].mr.rkey;
    const engine::Errno e = pair.side(from).post_send(pair.now(), end[static_cast<size_t>(from)].qpn, wr);
    pair.flush();
    return e;
  }

  // Collects completions of one side; sends go to `sent`, immediates to `received`.
  void collect(int s) {
    End& e = end[static_cast<size_t>(s)];
    std::array<engine::Completion, 64> wc;
    for (size_t n = pair.side(s).poll_completion(e.cq, wc); n > 0;
         n = pair.side(s).poll_completion(e.cq, wc)) {
      for (size_t i = 0; i < n; ++i)
        (wc[i].opcode == engine::WcOpcode::rdma_write ? e.sent : e.received).push_back(wc[i]);
    }
  }
  bool run_until_sent(int s, size_t count, Duration limit = Duration::seconds(5)) {
    return pair.run_until(
        [&] {
          collect(0);
          collect(1);
          return end[static_cast<size_t>(s)].sent.size() >= count;
        },
        pair.now() + limit);
  }
  // True when all `count` completions of side s succeeded, in posting order from `first`.
  bool all_in_order(int s, size_t count, uint64_t first = 0) {
    const auto& sent = end[static_cast<size_t>(s)].sent;
    if (sent.size() != count) return false;
    for (size_t i = 0; i < count; ++i) {
      if (sent[i].wr_id != first + i || sent[i].status != engine::Status::success) return false;
    }
    return true;
  }
  bool equal(size_t src, size_t dst, size_t length) {
    return std::memcmp(end[0].memory.data() + src, end[1].memory.data() + dst, length) == 0;
  }
  engine::QpStats stats(int s) { return pair.side(s).qp_stats(end[static_cast<size_t>(s)].qpn).value(); }
  std::vector<engine::PathStats> paths(int s) {
    return pair.side(s).path_stats(end[static_cast<size_t>(s)].qpn);
  }
  size_t count_state(int s, ev::State state) {
    const auto p = paths(s);
    return static_cast<size_t>(
        std::count_if(p.begin(), p.end(), [state](const auto& x) { return x.state == state; }));
  }
  // Events of side s so far, drained into end[s].events.
  void events(int s) {
    engine::Event e;
    while (pair.side(s).poll_event(e)) end[static_cast<size_t>(s)].events.push_back(e);
  }
  size_t demotions(int s) {
    events(s);
    const auto& v = end[static_cast<size_t>(s)].events;
    return static_cast<size_t>(std::count_if(v.begin(), v.end(), [](const engine::Event& e) {
      return e.kind == engine::EventKind::ev_state && e.ev.state == ev::State::assumed_bad;
    }));
  }

  struct End {
    std::vector<uint8_t> memory;
    uint32_t pd = 0, cq = 0, qpn = 0;
    engine::MrInfo mr;
    std::vector<engine::Completion> sent, received;
    std::vector<engine::Event> events;
  };
  StoryConfig config;
  Pair pair;
  std::array<End, 2> end;
};

}  // namespace mrc::testing
