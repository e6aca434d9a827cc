// Requester and responder over a network that loses, reorders and duplicates: every byte placed once,
// completions in order, immediates in order, nothing stuck, memory back at the end.
#include "harness.h"

using namespace mrc;
using namespace mrc::reliability;
using namespace mrc::reliability::testing;

namespace {

struct LoopConfig {
  uint64_t seed = 1;
  uint32_t loss_ppm = 10'000, ack_loss_ppm = 10'000, dup_ppm = 5'000, trim_ppm = 0, ce_ppm = 20'000;
  uint32_t jitter_us = 10;
  uint32_t messages = 2000, max_length = 9000;
  uint32_t pmtu = 1024, mpr = 1024;
  uint32_t first_psn = 0xFFF000;
  bool timestamps = true, dynamic_mpr = false;
};

struct InFlight {
  Instant at;
  uint64_t order = 0;
  bool to_responder = false, trimmed = false, ce = false;
  uint32_t entropy = 0;
  wire::Packet packet;
  bool operator<(const InFlight& o) const { return at != o.at ? at > o.at : order > o.order; }
};

class Loop {
 public:
  explicit Loop(const LoopConfig& c) : c_(c), rng_(c.seed), req_(requester(c)), rsp_(responder(c)) {}

  void run() {
    prepare();
    while (!(req_.idle() && posted_ == c_.messages)) {
      REQUIRE(steps_++ < 40'000'000);
      post_some();
      transmit();
      advance();
    }
    finish();
  }
  uint64_t sent = 0;
  Requester& requester() { return req_; }
  uint32_t spurious = 0;

 private:
  static RequesterConfig requester(const LoopConfig& c) {
    RequesterConfig r;
    r.sq_psn = Psn(c.first_psn);
    r.pmtu = c.pmtu;
    r.mpr = c.mpr;
    r.dynamic_mpr = c.dynamic_mpr;
    r.max_send_wr = 64;
    r.timeout = 8;
    return r;
  }
  static ResponderConfig responder(const LoopConfig& c) {
    ResponderConfig r;
    r.rq_psn = Psn(c.first_psn);
    r.pmtu = c.pmtu;
    r.mpr_dest = c.mpr;
    r.dynamic_mpr = c.dynamic_mpr;
    return r;
  }

  void prepare() {
    for (uint32_t i = 0; i < c_.messages; ++i) {
      WorkRequest w = write_of(i, rng_.below(10) == 0 ? 0 : rng_.below(c_.max_length + 1));
      if (rng_.below(3) == 0) {
        w.opcode = WrOpcode::rdma_write_imm;
        w.imm = 0xA0000000 + i;
        imms_.push_back({w.imm, w.length});
      }
      w.signaled = rng_.below(4) != 0;
      w.remote_va = 0x10000 + total_;
      total_ += w.length;
      work_.push_back(w);
    }
    memory_ = ModelMemory(0x10000, total_);
    for (size_t i = 0; i < imms_.size() && i < 4000; ++i) REQUIRE(rsp_.post_recv(i) == 0);
    posted_recvs_ = std::min<size_t>(imms_.size(), 4000);
  }

  void post_some() {
    while (posted_ < c_.messages && req_.queued() < 32 && req_.post(work_[posted_]) == 0) ++posted_;
  }

  void push(InFlight f, uint32_t loss_ppm) {
    if (rng_.chance_ppm(loss_ppm)) return;
    const int copies = rng_.chance_ppm(c_.dup_ppm) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      f.at = now_ + Duration::micros(6) + Duration{rng_.below(c_.jitter_us * 1000 + 1)};
      f.order = ++order_;
      wire_.push_back(f);
      std::push_heap(wire_.begin(), wire_.end());
    }
  }

  void transmit() {
    req_.set_timing(test_timing());
    while (req_.outstanding_nominal() < 200'000) {
      const auto p = req_.peek(now_);
      if (!p) break;
      const uint32_t tag = rng_.below(64) + 1;
      req_.commit(now_, *p, tag, static_cast<uint8_t>(1 + tag % 4), int64_t{p->length} + kOverhead);
      ++sent;
      InFlight f;
      f.to_responder = true;
      f.trimmed = rng_.chance_ppm(c_.trim_ppm);
      f.ce = rng_.chance_ppm(c_.ce_ppm);
      f.entropy = tag;
      f.packet = to_wire(*p, now_, c_.timestamps);
      push(f, c_.loss_ppm);
      now_ = now_ + Duration{80};
    }
    if (req_.next_probe_at() <= now_) {
      req_.on_probe_sent(now_);
      InFlight f;
      f.to_responder = true;
      f.packet.bth.opcode = static_cast<uint8_t>(Opcode::reliability_probe);
      f.packet.peth.probe_id = static_cast<uint16_t>(probe_sent_.size());
      probe_sent_.push_back(now_);
      push(f, c_.loss_ppm);
    }
    answer();
  }

  void answer() {
    while (rsp_.has_control()) {
      InFlight f;
      if (!rsp_.take_control(now_, f.packet, f.entropy)) break;
      push(f, c_.ack_loss_ppm);
    }
  }

  void advance() {
    Instant next =
        std::min({req_.next_timeout(), rsp_.next_timeout(), req_.next_release(), req_.next_probe_at()});
    if (!wire_.empty()) next = std::min(next, wire_.front().at);
    REQUIRE(!next.is_never());  // stuck
    now_ = std::max(now_, next);
    if (!wire_.empty() && wire_.front().at <= now_) {
      std::pop_heap(wire_.begin(), wire_.end());
      const InFlight f = wire_.back();
      wire_.pop_back();
      deliver(f);
    }
    if (rsp_.next_timeout() <= now_) rsp_.on_timeout(now_);
    if (req_.next_timeout() <= now_) {
      effects_.clear();
      req_.on_timeout(now_, effects_);
      REQUIRE(!effects_.fatal);
    }
  }

  void deliver(const InFlight& f) {
    if (f.to_responder) {
      if (is(f.packet, Opcode::reliability_probe)) {
        rsp_.on_probe(now_, f.packet, f.entropy, f.ce);
      } else if (f.trimmed) {
        rsp_.on_trimmed(now_, f.packet, f.entropy, false);
      } else {
        rsp_.on_data(now_, f.packet, f.entropy, f.ce, f.packet.payload_length + kOverhead, memory_);
      }
      REQUIRE(!rsp_.fatal());
      check_receives();
      return;
    }
    effects_.clear();
    if (is(f.packet, Opcode::sack)) {
      req_.on_sack(now_, sack_view(f.packet), effects_);
      if (f.packet.seth.pr && f.packet.seth.probe_id < probe_sent_.size()) {
        const Instant at = probe_sent_[f.packet.seth.probe_id];
        const auto port = static_cast<uint8_t>(1 + f.packet.seth.probe_id % 4);  // planes in turn
        req_.on_probe_answer(now_, at, port, now_ - at, effects_);
      }
    } else if (is(f.packet, Opcode::nack)) {
      req_.on_nack(now_, nack_view(f.packet), effects_);
    } else {
      req_.on_transport_ack(now_, Psn(f.packet.bth.psn), f.packet.aeth.syndrome, effects_);
    }
    REQUIRE(effects_.valid && !effects_.fatal);
    if (effects_.rtt) REQUIRE(effects_.rtt->ns >= 12'000 && effects_.rtt->ns < 400'000'000);
    spurious += effects_.spurious;
    check_sends();
  }

  void check_sends() {
    SendCompletion done;
    while (req_.pop_completion(done)) {
      REQUIRE(done.status == Status::success);
      while (next_done_ < work_.size() && !work_[next_done_].signaled) ++next_done_;
      REQUIRE(done.wr_id == next_done_);
      // Complete means placed: all bytes of it and of everything before.
      const WorkRequest& w = work_[next_done_];
      REQUIRE(memory_.all_once(w.remote_va - 0x10000, w.length));
      ++next_done_;
    }
  }

  void check_receives() {
    RecvCompletion r;
    while (rsp_.pop_completion(r)) {
      REQUIRE(!r.flushed && next_imm_ < imms_.size());
      REQUIRE(r.imm == imms_[next_imm_].imm && r.byte_len == imms_[next_imm_].length && r.wr_id == next_imm_);
      ++next_imm_;
      if (posted_recvs_ < imms_.size()) REQUIRE(rsp_.post_recv(posted_recvs_++) == 0);
    }
  }

  void finish() {
    check_sends();
    while (next_done_ < work_.size() && !work_[next_done_].signaled) ++next_done_;
    CHECK_EQ(next_done_, work_.size());
    CHECK_EQ(next_imm_, imms_.size());
    CHECK(memory_.all_once(0, total_));
    CHECK_EQ(rsp_.counters().messages_done, c_.messages);
    CHECK_EQ(rsp_.counters().bytes_placed, total_);
    CHECK_EQ(req_.outstanding_nominal(), 0);
    CHECK_EQ(req_.wimm_outstanding(), 0u);
    CHECK_EQ(rsp_.ooo_count(), 0u);
    CHECK(req_.next_psn() == rsp_.cack_psn() + 1);
    CHECK(req_.next_timeout().is_never());
    for (int i = 0; i < 4 && !rsp_.next_timeout().is_never(); ++i) rsp_.on_timeout(rsp_.next_timeout());
    CHECK(req_.memory_bytes() + rsp_.memory_bytes() <= 6 * 1024);
  }

  struct Imm {
    uint32_t imm, length;
  };
  LoopConfig c_;
  base::Rng rng_;
  Requester req_;
  Responder rsp_;
  ModelMemory memory_;
  Instant now_ = at_us(1000);
  uint64_t order_ = 0, total_ = 0, steps_ = 0;
  size_t posted_ = 0, next_done_ = 0, next_imm_ = 0, posted_recvs_ = 0;
  std::vector<WorkRequest> work_;
  std::vector<Imm> imms_;
  std::vector<InFlight> wire_;
  std::vector<Instant> probe_sent_;
  Effects effects_;
};

}  // namespace

TEST_CASE("loop: loss, reordering and duplicates over 200k packets") {
  uint64_t packets = 0;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    LoopConfig c;
    c.seed = seed;
    c.messages = 12'000;
    Loop l(c);
    l.run();
    packets += l.sent;
  }
  CHECK(packets >= 200'000);
}

TEST_CASE("loop: heavy loss both ways") {
  LoopConfig c;
  c.loss_ppm = 300'000;
  c.ack_loss_ppm = 300'000;
  c.dup_ppm = 100'000;
  c.messages = 600;
  Loop(c).run();
}

TEST_CASE("loop: trimming network, reordering wider than the time rule") {
  LoopConfig c;
  c.trim_ppm = 100'000;
  c.jitter_us = 60;
  c.messages = 1500;
  Loop l(c);
  l.run();
  CHECK(l.requester().counters().rtx_trimmed > 100);
}

TEST_CASE("loop: small windows, small packets, no timestamps, dynamic mpr") {
  LoopConfig c;
  c.mpr = 128;
  c.pmtu = 256;
  c.max_length = 70'000;
  c.messages = 300;
  c.timestamps = false;
  c.dynamic_mpr = true;
  Loop(c).run();
}

TEST_CASE("loop: clean network has no resend") {
  LoopConfig c;
  c.loss_ppm = c.ack_loss_ppm = c.dup_ppm = 0;
  c.jitter_us = 5;
  Loop l(c);
  l.run();
  const RequesterCounters& n = l.requester().counters();
  CHECK_EQ(n.rtx_inferred + n.rtx_probe + n.rtx_timeout + n.rtx_ack_solicit, 0u);
  CHECK_EQ(l.spurious, 0u);
}
