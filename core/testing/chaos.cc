#include "testing/chaos.h"

#include <algorithm>
#include <cstdio>
#include <memory>

#include "testing/chaos_flow.h"
#include "testing/chaos_harm.h"
#include "testing/chaos_setup.h"
#include "testing/pair.h"

namespace mrc::testing {

namespace {

using engine::QpAttr;
using engine::QpState;

// One end of one QP.
struct Half {
  uint32_t qpn = 0, pd = 0, scq = 0, rcq = 0;
  engine::MrInfo source, target;  // target: where the peer writes
};

HarmConfig harm_config(const ChaosSetup& setup, const ChaosOptions& options) {
  HarmConfig c = setup.harm;
  c.actions = options.actions;
  return c;
}

class Run {
 public:
  Run(const ChaosOptions& o)
      : options_(o),
        setup_(draw_setup(o.seed)),
        pair_(setup_.pair),
        harm_(o.seed ^ 0xC4A05, setup_.pair, harm_config(setup_, o), o.without),
        psn_rng_(o.seed ^ 0x5eed) {
    for (uint32_t q = 0; q < setup_.qps; ++q) {
      for (int s = 0; s < 2; ++s)
        flows_.push_back(std::make_unique<Flow>(setup_.flow, o.seed * 31 + q * 2 + static_cast<uint64_t>(s)));
    }
    halves_.resize(flows_.size());
    report_.setup = setup_.text();
  }

  ChaosReport go() {
    connect(true, true);
    while (pair_.frames_sent() < options_.packets && !broken()) {
      post_all();
      pair_.flush();
      const bool more = step();
      check_all();
      if (!more || pair_.now() >= harm_.next_at()) act();
      if (pair_.now() > kLimit)
        violate("packet budget not reached in an hour of virtual time: traffic is stuck");
    }
    report_.packets = std::min(pair_.frames_sent(), options_.packets);
    if (!broken()) drain();
    finish();
    return report_;
  }

 private:
  static constexpr Instant kLimit{3'600'000'000'000};
  static constexpr uint32_t kMaxIdleSteps = 100'000;

  // One event. Events that neither send anything nor move time on would spin a real driver.
  bool step() {
    const uint64_t sent = pair_.frames_sent();
    const Instant before = pair_.now();
    const bool more = pair_.step();
    ++report_.steps;
    idle_steps_ = sent == pair_.frames_sent() && before == pair_.now() ? idle_steps_ + 1 : 0;
    if (idle_steps_ == kMaxIdleSteps) violate("events without time or packets: a timer spins");
    return more;
  }

  Half& half(uint32_t q, int s) { return halves_[q * 2 + static_cast<uint32_t>(s)]; }
  // Flow of QP q from side s to the other one.
  Flow& flow(uint32_t q, int s) { return *flows_[q * 2 + static_cast<uint32_t>(s)]; }
  [[nodiscard]] bool broken() const { return options_.stop_at_first && !report_.violations.empty(); }
  void violate(const std::string& what) {
    if (report_.violations.size() >= 20) return;
    char b[64];
    std::snprintf(b, sizeof b, "t=%.6f s, packet %llu: ", static_cast<double>(pair_.now().ns) / 1e9,
                  static_cast<unsigned long long>(pair_.frames_sent()));
    report_.violations.push_back(b + what);
  }
  void must(engine::Errno e, const char* what) {
    if (e != 0) violate(std::string(what) + " failed with errno " + std::to_string(e));
  }

  // New QPs for all pairs; `fresh[s]`: side s has a new endpoint and needs regions and CQs too.
  void connect(bool fresh0, bool fresh1) {
    const std::array<bool, 2> fresh{fresh0, fresh1};
    for (uint32_t q = 0; q < setup_.qps; ++q) {
      for (int s = 0; s < 2; ++s) make_half(q, s, fresh[static_cast<size_t>(s)]);
      // Both directions near the 24-bit wrap half of the time (B15).
      const uint32_t psn0 = draw_psn();
      const uint32_t psn1 = draw_psn();
      open_half(q, 0, psn0, psn1);
      open_half(q, 1, psn1, psn0);
    }
  }
  uint32_t draw_psn() {
    return psn_rng_.below(2) == 0 ? 0xFFFFFF - psn_rng_.below(4000) : psn_rng_.below(1u << 24);
  }

  void make_half(uint32_t q, int s, bool fresh) {
    engine::Endpoint& e = pair_.side(s);
    Half& h = half(q, s);
    if (fresh) {
      h = Half{};
      h.pd = e.alloc_pd();
      h.scq = e.create_cq(4096).value();
      h.rcq = e.create_cq(4096).value();
      auto& src = flow(q, s).source();
      auto& dst = flow(q, 1 - s).target();
      h.source = e.reg_mr(h.pd, reinterpret_cast<uint64_t>(src.data()), src.size(),
                          engine::Access::local_write, reinterpret_cast<uint64_t>(src.data()))
                     .value();
      h.target = e.reg_mr(h.pd, reinterpret_cast<uint64_t>(dst.data()), dst.size(),
                          engine::Access::local_write | engine::Access::remote_write,
                          reinterpret_cast<uint64_t>(dst.data()))
                     .value();
    } else if (h.qpn != 0) {
      must(e.destroy_qp(pair_.now(), h.qpn), "destroy_qp");
      discard(e, h);
    }
    engine::QpInit init;
    init.pd = h.pd;
    init.send_cq = h.scq;
    init.recv_cq = h.rcq;
    init.max_send_wr = 64;
    init.max_recv_wr = 256;
    h.qpn = e.create_qp(init).value();
  }

  // Completions of a QP that is gone mean nothing any more.
  static void discard(engine::Endpoint& e, const Half& h) {
    std::array<engine::Completion, 64> wc;
    while (e.poll_completion(h.scq, wc) > 0 || e.poll_completion(h.rcq, wc) > 0) {
    }
  }

  void open_half(uint32_t q, int s, uint32_t sq_psn, uint32_t rq_psn) {
    engine::Endpoint& e = pair_.side(s);
    const Half& h = half(q, s);
    QpAttr a;
    a.state = QpState::init;
    a.cc_algorithm = setup_.cc;
    a.ev_policy = setup_.policy;
    a.ev_count = setup_.pair.planes * setup_.pair.evs_per_plane;
    must(e.modify_qp(pair_.now(), h.qpn, a), "to INIT");
    QpAttr b;
    b.state = QpState::rtr;
    b.dest_qpn = half(q, 1 - s).qpn;
    b.rq_psn = rq_psn;
    b.path_mtu = setup_.pmtu;
    b.peer_ports = pair_.peer_ports(s);
    b.mpr_dest = setup_.mpr;
    b.max_wimm_dest = setup_.max_wimm;
    b.cap = setup_.harm.dynamic_mpr ? 2 : 0;
    b.trimming = setup_.harm.trimming;
    b.sack_bytes = 4096;
    b.rq_empty_grace = Duration::seconds(1);  // fewer receives than immediates: they wait, none is refused
    b.base_rtt = setup_.pair.one_way * 2;
    must(e.modify_qp(pair_.now(), h.qpn, b), "to RTR");
    for (uint32_t i = 0; i < setup_.receives; ++i) must(e.post_recv(pair_.now(), h.qpn, 0), "post_recv");
    QpAttr c;
    c.state = QpState::rts;
    c.sq_psn = sq_psn;
    c.mpr = setup_.mpr;
    c.max_wimm = setup_.max_wimm;
    c.timeout = 8;
    c.linear_cnt = 7;
    c.exp_cnt = 25;
    if (setup_.hold) c.hold_time = Duration::seconds(3600);
    must(e.modify_qp(pair_.now(), h.qpn, c), "to RTS");
  }

  void post_all() {
    for (uint32_t q = 0; q < setup_.qps; ++q) {
      for (int s = 0; s < 2; ++s) {
        Flow& f = flow(q, s);
        while (f.may_post()) {
          const OpenWrite w = f.next();
          engine::SendWr wr;
          wr.wr_id = w.id;
          wr.opcode = w.with_imm ? reliability::WrOpcode::rdma_write_imm : reliability::WrOpcode::rdma_write;
          wr.addr = reinterpret_cast<uint64_t>(f.source().data()) + f.remote_offset(w);
          wr.length = w.length;
          wr.lkey = half(q, s).source.lkey;
          wr.remote_addr = reinterpret_cast<uint64_t>(f.target().data()) + f.remote_offset(w);
          wr.rkey = half(q, 1 - s).target.rkey;
          wr.imm = w.imm;
          const engine::Errno e = pair_.side(s).post_send(pair_.now(), half(q, s).qpn, wr);
          must(e, "post_send");
          if (e != 0) return f.take_back();
          f.posted(w);
        }
      }
    }
  }

  void check_all() {
    std::array<engine::Completion, 32> wc;
    std::string why;
    for (uint32_t q = 0; q < setup_.qps; ++q) {
      for (int s = 0; s < 2; ++s) {
        engine::Endpoint& e = pair_.side(s);
        Half& h = half(q, s);
        // Receives first: an immediate must not be overtaken by the wiping of its bytes.
        for (size_t n = e.poll_completion(h.rcq, wc); n > 0; n = e.poll_completion(h.rcq, wc)) {
          for (size_t i = 0; i < n; ++i) on_recv(q, s, wc[i]);
        }
        for (size_t n = e.poll_completion(h.scq, wc); n > 0; n = e.poll_completion(h.scq, wc)) {
          for (size_t i = 0; i < n; ++i) {
            if (wc[i].status != engine::Status::success) {
              violate("send completion with status " + std::to_string(static_cast<int>(wc[i].status)) +
                      " on QP " + std::to_string(wc[i].qpn));
            } else if (!flow(q, s).on_send_complete(wc[i].wr_id, why)) {
              violate(why);
            }
          }
        }
      }
    }
    for (int s = 0; s < 2; ++s) check_events(s);
    report_.max_frames = std::max(report_.max_frames, pair_.frames_in_flight());
  }

  void on_recv(uint32_t q, int s, const engine::Completion& c) {
    std::string why;
    if (c.status != engine::Status::success) {
      violate("receive completion with status " + std::to_string(static_cast<int>(c.status)));
      return;
    }
    if (!flow(q, 1 - s).on_immediate(c.imm, c.byte_len, why)) violate(why);
    must(pair_.side(s).post_recv(pair_.now(), half(q, s).qpn, 0), "post_recv");
  }

  void check_events(int s) {
    engine::Event e;
    while (pair_.side(s).poll_event(e)) {
      if (e.kind == engine::EventKind::qp_error) violate("QP " + std::to_string(e.qpn) + " went to ERR");
      if (e.kind == engine::EventKind::cq_overrun) violate("CQ overrun");
      if (e.kind == engine::EventKind::ev_state && e.ev.state == ev::State::assumed_bad)
        ++report_.ev_demotions;
    }
  }

  void act() {
    const HarmStep h = harm_.take(pair_.now());
    if (h.kind == HarmStep::Kind::none) return;
    report_.actions.push_back({h.index, pair_.now().ns, h.text});
    switch (h.kind) {
      case HarmStep::Kind::rule:
        pair_.line().add_rule(h.rule);
        ++report_.rules;
        if (h.rule.down) ++report_.cuts;
        break;
      case HarmStep::Kind::port:
        must(pair_.side(h.side).set_port_up(pair_.now(), h.port, h.up), "set_port_up");
        if (!h.up) ++report_.flaps;
        break;
      case HarmStep::Kind::mpr: {
        QpAttr a;
        a.mpr_dest = h.mpr;
        for (uint32_t q = 0; q < setup_.qps; ++q)
          must(pair_.side(h.side).modify_qp(pair_.now(), half(q, h.side).qpn, a), "mpr change");
        ++report_.mpr_changes;
        break;
      }
      case HarmStep::Kind::pressure:
        pair_.side(h.side).set_receive_pressure(h.pressure);
        ++report_.pressures;
        break;
      case HarmStep::Kind::restart:
        restart(h.side);
        break;
      case HarmStep::Kind::none:
        break;
    }
    measure();
  }

  void restart(int side) {
    ++report_.restarts;
    collect(side);
    pair_.restart(side);
    harm_.forget_ports(side);
    for (auto& f : flows_) f->abandon();
    connect(side == 0, side == 1);
  }

  void measure() {
    for (uint32_t q = 0; q < setup_.qps; ++q) {
      for (int s = 0; s < 2; ++s) {
        const auto st = pair_.side(s).qp_stats(half(q, s).qpn);
        if (st.ok()) report_.max_qp_bytes = std::max(report_.max_qp_bytes, st.value().memory_bytes);
      }
    }
    if (report_.max_qp_bytes > options_.max_qp_bytes)
      violate("a QP holds " + std::to_string(report_.max_qp_bytes) + " B");
    if (pair_.frames_overflowed() != 0) violate("more frames in flight than the windows allow");
  }

  // Everything heals, nobody posts: all that is open must come to its end.
  void drain() {
    const uint64_t before = pair_.frames_sent();
    pair_.line().clear();
    for (int s = 0; s < 2; ++s) {
      pair_.side(s).set_receive_pressure(0);
      for (uint8_t p = 1; p <= setup_.pair.planes; ++p)
        must(pair_.side(s).set_port_up(pair_.now(), p, true), "port up");
    }
    pair_.flush();
    const auto all_done = [this] {
      check_all();
      if (broken()) return true;
      return std::all_of(flows_.begin(), flows_.end(),
                         [](const auto& f) { return f->open() == 0 && !f->immediates_pending(); });
    };
    pair_.run_until(all_done, pair_.now() + Duration::seconds(60));
    for (size_t i = 0; i < flows_.size() && !broken(); ++i) {
      std::string why;
      if (!flows_[i]->finished(why)) violate("stuck after healing: flow " + std::to_string(i) + ": " + why);
    }
    // Late packets of the past may still fly; they must not touch anything.
    pair_.run_for(Duration::seconds(2));
    check_all();
    for (auto& f : flows_) {
      std::string why;
      if (!broken() && !f->finished(why)) violate("after the last packet: " + why);
    }
    report_.drain_packets = pair_.frames_sent() - before;
  }

  void collect(int s) {
    for (uint32_t q = 0; q < setup_.qps; ++q) {
      const auto st = pair_.side(s).qp_stats(half(q, s).qpn);
      if (!st.ok()) continue;
      const auto& tx = st.value().tx;
      report_.rtx += tx.rtx_trimmed + tx.rtx_lasthop + tx.rtx_other_nack + tx.rtx_inferred + tx.rtx_probe +
                     tx.rtx_timeout;
      report_.spurious += tx.spurious;
      report_.duplicates += st.value().rx.duplicates;
      report_.nacks += st.value().rx.nack_tx;
    }
    const auto& drops = pair_.side(s).stats().drops;
    for (size_t i = 0; i < drops.size(); ++i) report_.rejected[i] += drops[i];
    digest_ = digest_ * 0x100000001b3ULL ^ pair_.side(s).trace_digest();
  }

  void finish() {
    measure();
    for (int s = 0; s < 2; ++s) collect(s);
    for (const auto& f : flows_) {
      report_.writes += f->writes;
      report_.immediates += f->immediates;
      report_.bytes += f->bytes;
    }
    report_.network = pair_.line().counters();
    report_.virtual_ns = pair_.now().ns;
    report_.digest = digest_;
  }

  ChaosOptions options_;
  ChaosSetup setup_;
  Pair pair_;
  Harm harm_;
  base::Rng psn_rng_;
  std::vector<std::unique_ptr<Flow>> flows_;
  std::vector<Half> halves_;
  ChaosReport report_;
  uint32_t idle_steps_ = 0;
  uint64_t digest_ = 0xcbf29ce484222325ULL;
};

}  // namespace

uint64_t episode_seed(uint64_t seed, uint64_t episode) {
  base::Rng r(seed);
  return base::Rng(r.next() ^ episode).next();
}

ChaosReport run_chaos(const ChaosOptions& options) { return Run(options).go(); }

ChaosOptions shrink_chaos(const ChaosOptions& failing, const ChaosReport& report, uint32_t budget) {
  ChaosOptions best = failing;
  std::vector<uint32_t> live;
  for (const ChaosAction& a : report.actions) live.push_back(a.index);
  // What came after the violation did not matter; it must not come in when the run goes on without something.
  if (!live.empty()) best.actions = std::min(best.actions, *std::max_element(live.begin(), live.end()) + 1);
  std::sort(live.begin(), live.end());
  live.erase(std::unique(live.begin(), live.end()),
             live.end());  // a port that comes back has the index of its fall
  // Delta debugging: leave out chunks, halves first, as long as the run still fails.
  for (size_t chunk = std::max<size_t>(live.size() / 2, 1); budget > 0 && !live.empty(); chunk /= 2) {
    for (size_t at = 0; at < live.size() && budget > 0;) {
      ChaosOptions trial = best;
      const size_t end = std::min(at + chunk, live.size());
      trial.without.insert(trial.without.end(), live.begin() + static_cast<long>(at),
                           live.begin() + static_cast<long>(end));
      --budget;
      if (run_chaos(trial).violations.empty()) {
        at = end;
        continue;
      }
      best = trial;
      live.erase(live.begin() + static_cast<long>(at), live.begin() + static_cast<long>(end));
    }
    if (chunk <= 1) break;
  }
  return best;
}

}  // namespace mrc::testing
