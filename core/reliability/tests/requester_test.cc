// Stories of the sending half: segmentation, windows, SACK reading, completions, NACKs (reference 5, 17).
#include <cerrno>

#include "harness.h"

using namespace mrc;
using namespace mrc::reliability;
using namespace mrc::reliability::testing;

namespace {

RequesterConfig config(uint32_t first_psn = 0, uint32_t pmtu = 1024) {
  RequesterConfig c;
  c.sq_psn = Psn(first_psn);
  c.pmtu = pmtu;
  c.timeout = 8;
  return c;
}

std::vector<uint64_t> completed(Requester& r, Status expected = Status::success) {
  std::vector<uint64_t> ids;
  SendCompletion c;
  while (r.pop_completion(c)) {
    CHECK(c.status == expected);
    ids.push_back(c.wr_id);
  }
  return ids;
}

}  // namespace

TEST_CASE("requester: segmentation of example 17.1") {
  Requester r(config(0xFFFFF7, 16));
  for (int i = 0; i < 7; ++i) REQUIRE(r.post(write_of(1, 0)) == 0);
  CHECK_EQ(send_all(r, at_us(1)).size(), 7u);
  WorkRequest w = write_of(2, 40);
  w.opcode = WrOpcode::rdma_write_imm;
  w.imm = 0x11223344;
  REQUIRE(r.post(w) == 0);
  const auto p = send_all(r, at_us(2));
  REQUIRE(p.size() == 3);
  const Opcode ops[] = {Opcode::write_first, Opcode::write_middle, Opcode::write_last_imm};
  const uint32_t psns[] = {0xFFFFFE, 0xFFFFFF, 0};
  const uint32_t lengths[] = {16, 16, 8};
  for (size_t i = 0; i < 3; ++i) {
    CHECK(p[i].opcode == ops[i]);
    CHECK_EQ(p[i].psn.value, psns[i]);
    CHECK_EQ(p[i].length, lengths[i]);
    CHECK_EQ(p[i].va, 0x10000 + 16 * i);
    CHECK_EQ(p[i].local_addr, 0x900000 + 16 * i);
    CHECK_EQ(p[i].dmalen, 40u);
    CHECK_EQ(p[i].msn, 7);
    CHECK(!p[i].rtx);
    CHECK_EQ(p[i].last_of_message, i == 2);
    CHECK_EQ(p[i].last_before_idle, i == 2);
    CHECK_EQ(p[i].imm, i == 2 ? 0x11223344u : 0u);
  }
  CHECK_EQ(r.next_psn().value, 1u);
}

TEST_CASE("requester: lengths at the limits") {
  Requester r(config(0, 256));
  CHECK_EQ(r.post(write_of(1, (1u << 31) + 1)), EINVAL);
  CHECK_EQ(r.post(write_of(2, 1u << 31)), 0);
  CHECK_EQ(r.post(write_of(3, 256)), 0);
  CHECK_EQ(r.post(write_of(4, 257)), 0);
  const auto p = r.peek(at_us(1));
  REQUIRE(p.has_value());
  CHECK(p->opcode == Opcode::write_first);
  CHECK_EQ(p->dmalen, 1u << 31);
  // A message larger than the PSN window goes out in pieces.
  CHECK_EQ(send_all(r, at_us(1)).size(), 1024u);
  CHECK_EQ(r.counters().window_full, 1u);
}

TEST_CASE("requester: queue bound counts completions nobody fetched") {
  RequesterConfig c = config();
  c.max_send_wr = 2;
  Requester r(c);
  CHECK_EQ(r.post(write_of(1, 10)), 0);
  CHECK_EQ(r.post(write_of(2, 10)), 0);
  CHECK_EQ(r.post(write_of(3, 10)), ENOMEM);
  send_all(r, at_us(1));
  Effects e;
  r.on_transport_ack(at_us(20), Psn(1), wire::kAethAck, e);
  CHECK_EQ(r.post(write_of(3, 10)), ENOMEM);
  CHECK_EQ(completed(r).size(), 2u);
  CHECK_EQ(r.post(write_of(3, 10)), 0);
}

TEST_CASE("requester: zero length takes one PSN and completes in order (B20)") {
  Requester r(config());
  for (const uint32_t n : {9000u, 0u, 9000u, 0u}) REQUIRE(r.post(write_of(n == 0 ? 2 : 1, n)) == 0);
  const auto p = send_all(r, at_us(1));
  REQUIRE(p.size() == 9 + 1 + 9 + 1);
  CHECK(p[9].opcode == Opcode::write_only);
  CHECK_EQ(p[9].length, 0u);
  CHECK_EQ(p[9].psn.value, 9u);
  CHECK_EQ(p[10].psn.value, 10u);
  Effects e;
  r.on_transport_ack(at_us(20), Psn(9), wire::kAethAck, e);
  CHECK(completed(r) == (std::vector<uint64_t>{1, 2}));
  r.on_transport_ack(at_us(21), Psn(19), wire::kAethAck, e);
  CHECK(completed(r) == (std::vector<uint64_t>{1, 2}));
  CHECK(r.idle());
}

TEST_CASE("requester: reading the SACKs of example 17.2") {
  Requester r(config(0));
  r.set_timing(test_timing());
  REQUIRE(r.post(write_of(1, 12 * 1024)) == 0);
  send_all(r, at_us(1));
  Effects e;
  r.on_sack(at_us(5), simple_sack(Psn(4), Psn(5), 0b1110110, Psn(11)), e);
  CHECK(e.valid && e.progress);
  CHECK_EQ(r.unack_psn().value, 4u);
  CHECK_EQ(r.outstanding_nominal(), 2 * (1024 + kOverhead));  // 5 and 8
  CHECK(completed(r).empty());                                // a SACK completes nothing
  // Bits at or below cack carry no information and open no hole.
  e.clear();
  r.on_sack(at_us(6), simple_sack(Psn(7), Psn(3), 0b0000'0000, Psn(7)), e);
  CHECK_EQ(r.unack_psn().value, 7u);
  e.clear();
  r.on_sack(at_us(7), simple_sack(Psn(4), Psn(0), 0x1F, Psn(2)), e);  // an old one
  CHECK(e.valid && !e.progress);
  CHECK_EQ(r.unack_psn().value, 7u);
  CHECK_EQ(r.outstanding_nominal(), 1024 + kOverhead);
}

TEST_CASE("requester: acknowledgement of what was never sent is refused") {
  Requester r(config(0xFFFFFF));
  REQUIRE(r.post(write_of(1, 3000)) == 0);
  send_all(r, at_us(1));  // FFFFFF, 0, 1
  Effects e;
  r.on_sack(at_us(5), simple_sack(Psn(2), Psn(3), 0, Psn(2)), e);
  CHECK(!e.valid);
  e.clear();
  r.on_transport_ack(at_us(5), Psn(2), wire::kAethAck, e);
  CHECK(!e.valid);
  CHECK_EQ(r.counters().bad_ack, 2u);
  e.clear();
  r.on_sack(at_us(5), simple_sack(Psn(0xFFFFFE), Psn(0xFFFFFF), ~uint64_t{0}, Psn(1)),
            e);  // bits past the end
  CHECK(e.valid);
  CHECK_EQ(r.outstanding_nominal(), 0);
  CHECK_EQ(r.unack_psn().value, 1u);
}

TEST_CASE("requester: Transport ACK without SACK, partial, repeated, silent") {
  Requester r(config());
  for (uint64_t i = 0; i < 4; ++i) {
    WorkRequest w = write_of(i, 2048);
    w.signaled = i != 1;
    REQUIRE(r.post(w) == 0);
  }
  send_all(r, at_us(1));
  Effects e;
  r.on_transport_ack(at_us(9), Psn(4), wire::kAethAck, e);  // middle of the third
  CHECK(e.progress);
  CHECK(completed(r) == (std::vector<uint64_t>{0}));
  CHECK_EQ(r.unack_psn().value, 4u);
  CHECK_EQ(r.queued(), 2u);
  e.clear();
  r.on_transport_ack(at_us(10), Psn(3), wire::kAethAck, e);
  r.on_transport_ack(at_us(10), Psn(7), 0x60, e);  // PSN error NAK and RNR: ignored
  r.on_transport_ack(at_us(10), Psn(7), 0x20, e);
  CHECK(!e.progress && !e.fatal && completed(r).empty());
  r.on_transport_ack(at_us(11), Psn(7), wire::kAethAck, e);
  CHECK(completed(r) == (std::vector<uint64_t>{2, 3}));
  r.on_transport_ack(at_us(12), Psn(7), wire::kAethAck, e);
  CHECK(completed(r).empty());
}

TEST_CASE("requester: a NAK completes before, fails at, flushes after") {
  Requester r(config());
  for (uint64_t i = 0; i < 4; ++i) REQUIRE(r.post(write_of(i, 2048)) == 0);
  send_all(r, at_us(1));
  Effects e;
  r.on_transport_ack(at_us(9), Psn(3), wire::kNakRemoteAccess, e);  // second packet of message 1
  CHECK(e.fatal);
  SendCompletion c;
  const Status expected[] = {Status::success, Status::remote_access_error, Status::flush_error,
                             Status::flush_error};
  for (uint64_t i = 0; i < 4; ++i) {
    REQUIRE(r.pop_completion(c));
    CHECK_EQ(c.wr_id, i);
    CHECK(c.status == expected[i]);
  }
  CHECK(!r.pop_completion(c));
  CHECK(!r.peek(at_us(10)).has_value());
  CHECK(r.next_timeout().is_never());
  r.fail(Status::flush_error);  // a second cause changes nothing
  CHECK(!r.pop_completion(c));
  CHECK_EQ(r.post(write_of(9, 1)), 0);
  CHECK(completed(r, Status::flush_error) == (std::vector<uint64_t>{9}));
}

TEST_CASE("requester: a NAK about what was acknowledged comes too late") {
  Requester r(config());
  for (uint64_t i = 0; i < 2; ++i) REQUIRE(r.post(write_of(i, 2048)) == 0);
  send_all(r, at_us(1));
  Effects e;
  r.on_transport_ack(at_us(9), Psn(1), wire::kAethAck, e);
  r.on_transport_ack(at_us(9), Psn(1), wire::kNakRemoteAccess, e);
  CHECK(!e.fatal);
  CHECK_EQ(r.queued(), 1u);
  CHECK(completed(r) == (std::vector<uint64_t>{0}));
}

TEST_CASE("requester: WIMM window and numbering") {
  RequesterConfig c = config();
  c.max_wimm = 2;
  c.first_rqmsn = 0xFFFF;
  Requester r(c);
  for (uint64_t i = 0; i < 4; ++i) {
    WorkRequest w = write_of(i, 1500);
    w.opcode = i == 1 ? WrOpcode::rdma_write : WrOpcode::rdma_write_imm;
    REQUIRE(r.post(w) == 0);
  }
  const auto p = send_all(r, at_us(1));
  REQUIRE(p.size() == 6);  // the third WIMM waits
  CHECK_EQ(p[0].rqmsn, 0xFFFF);
  CHECK_EQ(p[1].rqmsn, 0xFFFF);
  CHECK_EQ(p[2].rqmsn, 0);
  CHECK_EQ(p[2].msn, 1);
  CHECK_EQ(p[4].rqmsn, 0);
  CHECK_EQ(p[4].msn, 2);
  CHECK_EQ(r.wimm_outstanding(), 2u);
  CHECK_EQ(r.counters().wimm_blocked, 1u);
  Effects e;
  r.on_sack(at_us(9), simple_sack(Psn(5), Psn(6), 0, Psn(5)), e);
  CHECK(!r.peek(at_us(9)).has_value());  // a SACK frees no credit
  r.on_transport_ack(at_us(9), Psn(1), wire::kAethAck, e);
  const auto q = send_all(r, at_us(10));
  REQUIRE(q.size() == 2);
  CHECK_EQ(q[0].rqmsn, 1);
}

TEST_CASE("requester: one trim (17.8)") {
  Requester r(config(200));
  r.set_timing(test_timing());
  REQUIRE(r.post(write_of(1, 4096)) == 0);
  send_all(r, at_us(1));  // tags 100..103
  Effects e;
  const NackView wrong{wire::NackReason::trimmed, Psn(200), 999, 0};
  r.on_nack(at_us(15), wrong, e);
  CHECK(!e.nack_counted);  // an older transmission: path effect only
  const NackView trim{wire::NackReason::trimmed, Psn(200), 100, base::timestamp16(at_us(1))};
  r.on_nack(at_us(15), trim, e);
  CHECK(e.nack_counted);
  CHECK_EQ(e.nack_nominal, 1024 + kOverhead);
  CHECK_EQ(e.rtt.value_or(Duration{}).ns, 14'000);
  CHECK(e.losses.empty());
  e.clear();
  r.on_nack(at_us(16), trim, e);  // already queued
  CHECK(!e.nack_counted);
  const auto p = r.peek(at_us(16));
  REQUIRE(p.has_value());
  CHECK_EQ(p->psn.value, 200u);
  CHECK(p->rtx);
  CHECK_EQ(p->avoid_tag.value_or(0), 100u);
  r.commit(at_us(16), *p, 300, 2, 1112);
  CHECK_EQ(r.counters().rtx_trimmed, 1u);
  r.on_nack(at_us(17), trim, e);  // names the first transmission
  CHECK(!e.nack_counted);
  CHECK(!r.peek(at_us(17)).has_value());
}

TEST_CASE("requester: refusals wait, out-of-window waits for progress") {
  Requester r(config());
  r.set_timing(test_timing());
  REQUIRE(r.post(write_of(1, 3 * 1024)) == 0);
  send_all(r, at_us(1));
  Effects e;
  r.on_nack(at_us(15), NackView{wire::NackReason::no_resource, Psn(1), 101, 0}, e);
  CHECK(e.nack_counted);
  CHECK(!r.peek(at_us(26)).has_value());
  CHECK(r.next_release() == at_us(27));
  auto p = r.peek(at_us(27));
  REQUIRE(p.has_value());
  r.commit(at_us(27), *p, 201, 1, 1112);
  CHECK(r.next_release().is_never());
  r.on_nack(at_us(40), NackView{wire::NackReason::no_pkt_buffer, Psn(1), 201, 0}, e);
  CHECK(r.next_release() == at_us(40 + 24));  // doubled
  r.on_nack(at_us(41), NackView{wire::NackReason::psn_oor_window, Psn(2), 102, 0}, e);
  CHECK(!r.peek(at_us(42)).has_value());
  r.on_sack(at_us(43), simple_sack(Psn(0), Psn(1), 0, Psn(0)), e);
  p = r.peek(at_us(43));
  REQUIRE(p.has_value());
  CHECK_EQ(p->psn.value, 2u);  // progress freed it, not the refused one
  CHECK_EQ(r.counters().rtx_other_nack, 1u);
}

TEST_CASE("requester: unexpected event is fatal for the oldest request") {
  Requester r(config());
  REQUIRE(r.post(write_of(1, 100)) == 0);
  REQUIRE(r.post(write_of(2, 100)) == 0);
  send_all(r, at_us(1));
  Effects e;
  r.on_nack(at_us(2), NackView{wire::NackReason::unexp_event, Psn(7), 100, 0}, e);
  CHECK(!e.fatal);  // about nothing that is outstanding
  r.on_nack(at_us(2), NackView{wire::NackReason::unexp_event, Psn(1), 101, 0}, e);
  CHECK(e.fatal);
  SendCompletion c;
  REQUIRE(r.pop_completion(c));
  CHECK(c.status == Status::remote_operation_error && c.wr_id == 1);
  REQUIRE(r.pop_completion(c));
  CHECK(c.status == Status::flush_error && c.wr_id == 2);
}

TEST_CASE("requester: dynamic MPR grows, shrinks, and holds resends back") {
  RequesterConfig c = config();
  c.dynamic_mpr = true;
  c.mpr = 256;
  Requester r(c);
  r.set_timing(test_timing());
  REQUIRE(r.post(write_of(1, 4096 * 1024)) == 0);
  CHECK_EQ(send_all(r, at_us(1)).size(), 256u);
  Effects e;
  SackView s = simple_sack(Psn(9), Psn(10), 0, Psn(9));
  s.rcvd_bytes = 50;
  s.mpr = 1;  // 128: 10 .. 137
  r.on_sack(at_us(5), s, e);
  CHECK(!r.peek(at_us(5)).has_value());
  // Tags repeat the PSN: one inside the shrunk window, one beyond it.
  r.on_nack(at_us(6), NackView{wire::NackReason::trimmed, Psn(200), 300, 0}, e);
  CHECK(!r.peek(at_us(6)).has_value());
  r.on_nack(at_us(6), NackView{wire::NackReason::trimmed, Psn(137), 237, 0}, e);
  CHECK_EQ(r.peek(at_us(6)).value_or(PlannedPacket{}).psn.value, 137u);
  send_all(r, at_us(6), 900);
  s.rcvd_bytes = 40;  // older news arrives late
  s.mpr = 32;
  r.on_sack(at_us(7), s, e);
  CHECK(!r.peek(at_us(7)).has_value());
  s.rcvd_bytes = 60;
  s.mpr = 0;  // no information
  r.on_sack(at_us(8), s, e);
  CHECK(!r.peek(at_us(8)).has_value());
  s.rcvd_bytes = 70;
  s.mpr = 4;  // 10 .. 521
  r.on_sack(at_us(9), s, e);
  CHECK_EQ(r.peek(at_us(9)).value_or(PlannedPacket{}).psn.value, 200u);
  CHECK_EQ(send_all(r, at_us(9)).size(), 1u + (521 - 255));
}

TEST_CASE("requester: byte counter news") {
  Requester r(config());
  REQUIRE(r.post(write_of(1, 8000)) == 0);
  send_all(r, at_us(1));
  SackView s = simple_sack(Psn(0), Psn(1), 0, Psn(0));
  s.rcvd_bytes = 5;
  Effects e;
  r.on_sack(at_us(3), s, e);
  CHECK_EQ(e.newly_bytes, 1280);
  e.clear();
  s.rcvd_bytes = 4;
  r.on_sack(at_us(4), s, e);
  CHECK_EQ(e.newly_bytes, 0);
}

TEST_CASE("requester: round trip samples") {
  Requester r(config());
  r.set_timing(test_timing());
  REQUIRE(r.post(write_of(1, 3 * 1024)) == 0);
  const Instant sent = at_us(1000);
  send_all(r, sent);
  Effects e;
  SackView s = simple_sack(Psn(0xFFFFFF), Psn(0), 1, Psn(0));
  s.echo_timestamp = base::timestamp16(sent);
  r.on_sack(sent + Duration::millis(30), s, e);  // far beyond the 8.4 ms wrap
  CHECK_EQ(e.rtt.value_or(Duration{}).ns, 30'000'000);
  e.clear();
  s = simple_sack(Psn(0), Psn(1), 1, Psn(1));  // no timestamp: Karn
  r.on_sack(sent + Duration::millis(31), s, e);
  CHECK_EQ(e.rtt.value_or(Duration{}).ns, 31'000'000);
  e.clear();
  s = simple_sack(Psn(0), Psn(1), 3, Psn(2));
  s.rtx_echo = true;  // does not match a packet sent once
  r.on_sack(sent + Duration::millis(32), s, e);
  CHECK(!e.rtt.has_value());
  e.clear();
  s.trigger = Psn(0x800000);
  r.on_sack(sent + Duration::millis(33), s, e);
  CHECK(!e.rtt.has_value());
}

TEST_CASE("requester: idle state is small") {
  Requester r(config());
  Responder p(ResponderConfig{});
  CHECK(r.memory_bytes() + p.memory_bytes() <= 6 * 1024);
  REQUIRE(r.post(write_of(1, 1000 * 1024)) == 0);
  send_all(r, at_us(1));
  CHECK(r.memory_bytes() > 48 * 1000);
  Effects e;
  r.on_transport_ack(at_us(9), Psn(999), wire::kAethAck, e);
  CHECK_EQ(completed(r).size(), 1u);
  CHECK(r.memory_bytes() <= 4 * 1024);
}
