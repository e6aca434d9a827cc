// A peer that says anything: state stays bounded, numbers stay consistent, each request completes once.
#include "harness.h"

using namespace mrc;
using namespace mrc::reliability;
using namespace mrc::reliability::testing;

namespace {

// Mostly near the window, where the interesting states are; sometimes anywhere.
uint32_t near(base::Rng& rng, uint32_t around) {
  switch (rng.below(8)) {
    case 0:
      return static_cast<uint32_t>(rng.next()) & 0xFFFFFF;
    case 1:
      return (around + 0x800000 + rng.below(5)) & 0xFFFFFF;
    case 2:
      return (around - rng.below(3000)) & 0xFFFFFF;
    default:
      return (around + rng.below(rng.below(3) == 0 ? 1200 : 12)) & 0xFFFFFF;
  }
}

wire::Packet any_data(base::Rng& rng, uint32_t around, uint16_t msn) {
  const Opcode ops[] = {Opcode::write_first,    Opcode::write_middle, Opcode::write_last,
                        Opcode::write_last_imm, Opcode::write_only,   Opcode::write_only_imm};
  wire::Packet p;
  const bool tidy = rng.below(200) != 0;  // mostly valid, else the first packet ends every round
  p.bth.opcode = static_cast<uint8_t>(tidy ? Opcode::write_only : ops[rng.below(6)]);
  p.bth.psn = near(rng, around);
  p.bth.a = rng.below(4) == 0;
  p.bth.rtx = rng.below(4) == 0;
  p.bth.ts = rng.below(2) == 0;
  p.tseth.tx_timestamp = static_cast<uint16_t>(rng.next());
  p.tseth.ftype = static_cast<uint8_t>(rng.below(3));
  p.meth.msn = tidy ? static_cast<uint16_t>(msn + p.bth.psn - around) : static_cast<uint16_t>(rng.next());
  p.meth.rqmsn = static_cast<uint16_t>(rng.below(4) == 0 ? rng.next() : rng.below(4));
  p.payload_length = rng.below(4) == 0 ? 0 : rng.below(1100);
  if (tidy) p.payload_length = std::min(p.payload_length, 1024u);
  p.reth.dmalen = tidy || rng.below(2) == 0 ? p.payload_length : static_cast<uint32_t>(rng.next());
  p.reth.va = rng.below(500) != 0 ? 0x10000 + rng.below(1000) : rng.next();
  p.reth.r_key = rng.below(500) != 0 ? 7 : 8;
  return p;
}

}  // namespace

TEST_CASE("hostile: random packets at a responder") {
  base::Rng rng(77);
  uint64_t fatal_rounds = 0, deep = 0;
  for (int round = 0; round < 300; ++round) {
    ResponderConfig c;
    c.rq_psn = Psn(static_cast<uint32_t>(rng.next()));
    c.mpr_dest = 1u << rng.below(13);
    c.max_wimm_dest = static_cast<uint16_t>(1 + rng.below(200));
    c.rq_empty_grace = rng.below(2) == 0 ? Duration{} : Duration::micros(50);
    c.dynamic_mpr = rng.below(2) == 0;
    c.max_recv_wr = 64;
    Responder r(c);
    ModelMemory memory(0x10000, 4096);
    Instant now = at_us(1);
    Psn last_cack = r.cack_psn();
    uint64_t posted = 0, completed = 0;
    for (int i = 0; i < 1000; ++i) {
      now = now + Duration{rng.below(3000)};
      const Psn next = r.cack_psn() + 1;
      const auto msn = static_cast<uint16_t>(next.minus(c.rq_psn));
      const wire::Packet p = any_data(rng, next.value, msn);
      const auto entropy = static_cast<uint32_t>(rng.below(2) == 0 ? rng.next() : rng.below(3));
      switch (rng.below(12)) {
        case 0:
          r.on_trimmed(now, p, entropy, rng.below(2) == 0);
          break;
        case 1:
          r.on_probe(now, p, entropy, rng.below(2) == 0);
          break;
        case 2:
          r.set_mpr(1 + static_cast<uint32_t>(rng.next()) % 40'000);
          break;
        case 3:
          posted += r.post_recv(posted) == 0 ? 1u : 0u;
          break;
        default:
          r.on_data(now, p, entropy, rng.below(8) == 0, p.payload_length + kOverhead, memory);
          break;
      }
      if (r.next_timeout() <= now) r.on_timeout(now);
      REQUIRE(r.cack_psn().minus(last_cack) >= 0);
      last_cack = r.cack_psn();
      if (rng.below(3) == 0) {
        wire::Packet out;
        uint32_t trigger = 0;
        for (int k = 0; k < 400 && r.has_control(); ++k) {
          REQUIRE(k < 300);  // an answer never breeds answers
          if (!r.take_control(now, out, trigger)) break;
          if (is(out, Opcode::sack))
            REQUIRE(out.seth.cack_psn == r.cack_psn().value && out.seth.sack_offset >= 1);
        }
      }
      RecvCompletion done;
      while (r.pop_completion(done)) REQUIRE(done.wr_id == completed++);
      REQUIRE(r.ooo_count() <= 255u * 128);
      REQUIRE(r.memory_bytes() < 800 * 1024);
    }
    fatal_rounds += r.fatal() ? 1u : 0u;
    deep += r.counters().messages_done > 50 ? 1u : 0u;
    r.fail();
    RecvCompletion done;
    while (r.pop_completion(done)) REQUIRE(done.wr_id == completed++);
    REQUIRE(completed == posted);
  }
  CHECK(fatal_rounds > 50);
  CHECK(deep > 50);
}

TEST_CASE("hostile: random answers at a requester") {
  base::Rng rng(78);
  uint64_t fatal_rounds = 0, done_rounds = 0;
  for (int round = 0; round < 300; ++round) {
    RequesterConfig c;
    c.sq_psn = Psn(static_cast<uint32_t>(rng.next()));
    c.mpr = 1u << rng.below(13);
    c.dynamic_mpr = rng.below(2) == 0;
    c.max_wimm = static_cast<uint16_t>(1 + rng.below(4));
    c.timeout = 4;
    c.exp_cnt = static_cast<uint8_t>(rng.below(26));
    c.hold_time = rng.below(3) == 0 ? Duration::millis(5) : Duration{};
    c.max_send_wr = 40;
    Requester r(c);
    r.set_timing(test_timing());
    Instant now = at_us(1);
    uint64_t posted = 0, completed = 0;
    bool error_seen = false;
    Psn last_unack = r.unack_psn();
    Effects e;
    const auto drain = [&] {
      SendCompletion done;
      while (r.pop_completion(done)) {
        REQUIRE(done.wr_id == completed++);
        REQUIRE(!(error_seen && done.status == Status::success));
        error_seen = error_seen || done.status != Status::success;
      }
    };
    for (int i = 0; i < 600 && !e.fatal; ++i) {
      now = now + Duration{rng.below(20'000)};
      if (rng.below(4) == 0) {
        WorkRequest w = write_of(posted, rng.below(rng.below(4) == 0 ? 200'000 : 3000));
        w.opcode = rng.below(2) == 0 ? WrOpcode::rdma_write : WrOpcode::rdma_write_imm;
        posted += r.post(w) == 0 ? 1u : 0u;
      }
      for (uint32_t k = rng.below(60); k > 0; --k) {
        const auto p = r.peek(now);
        if (!p) break;
        REQUIRE(p->length <= c.pmtu && (p->dmalen == 0 || p->length > 0));
        r.commit(now, *p, rng.below(4), 1, p->length + kOverhead);
        now = now + Duration{100};
      }
      e.clear();
      const Psn around = r.unack_psn();
      switch (rng.below(8)) {
        case 0:
          r.on_nack(now,
                    NackView{static_cast<wire::NackReason>(rng.below(1000) == 0 ? 0x19 : rng.below(16)),
                             Psn(near(rng, around.value)), rng.below(4), static_cast<uint16_t>(rng.next())},
                    e);
          break;
        case 1:
          r.on_transport_ack(now, Psn(near(rng, around.value)),
                             rng.below(200) == 0 ? static_cast<uint8_t>(rng.next()) : wire::kAethAck, e);
          break;
        case 2:
          r.on_probe_answer(now, now - Duration{rng.below(100'000)}, static_cast<uint8_t>(rng.below(4)),
                            Duration{rng.below(50'000)}, e);
          break;
        case 3:
          r.on_timeout(now, e);
          break;
        default: {
          SackView s = simple_sack(Psn(near(rng, around.value)), Psn(near(rng, around.value)), rng.next(),
                                   Psn(near(rng, around.value)));
          s.bitmap &= rng.next();
          if (rng.below(3) != 0) s.cack = around;
          s.rcvd_bytes = static_cast<uint32_t>(rng.next()) & 0xFFFFFF;
          s.mpr = static_cast<uint8_t>(rng.below(4) == 0 ? rng.next() : 0);
          s.rtx_echo = rng.below(2) == 0;
          s.echo_timestamp = static_cast<uint16_t>(rng.next());
          r.on_sack(now, s, e);
        }
      }
      if (rng.below(50) == 0) r.retry_now(now);
      REQUIRE(r.unack_psn().minus(last_unack) >= 0);
      last_unack = r.unack_psn();
      const int32_t span = r.next_psn().minus(r.unack_psn()) - 1;
      REQUIRE(span >= 0 && span <= 255 * 128);
      REQUIRE(r.outstanding_nominal() >= 0 && r.outstanding_nominal() <= int64_t{span} * (1024 + kOverhead));
      if (e.rtt) REQUIRE(e.rtt->ns > 0);
      for (const Loss& l : e.losses) REQUIRE(l.psn.before(r.next_psn()));
      REQUIRE(r.memory_bytes() < 2 * 1024 * 1024);
      drain();
    }
    fatal_rounds += e.fatal ? 1u : 0u;
    done_rounds += completed > 20 ? 1u : 0u;
    r.fail(Status::flush_error);
    drain();
    REQUIRE(completed == posted);
    REQUIRE(r.idle() && r.outstanding_nominal() == 0);
  }
  CHECK(fatal_rounds > 20);
  CHECK(done_rounds > 50);
}
