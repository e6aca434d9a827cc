// Stories of the receiving half: message rules, immediates, NAKs, bounds (reference 2.17, 6.8 to 6.10).
#include <cerrno>

#include "responder_peer.h"

using namespace mrc;
using namespace mrc::reliability;
using namespace mrc::reliability::testing;

TEST_CASE("responder: length rules of every opcode") {
  struct Row {
    Opcode op;
    uint32_t length, dmalen;
    bool good;
  };
  const Row rows[] = {
      {Opcode::write_only, 0, 0, true},
      {Opcode::write_only, kPmtu, kPmtu, true},
      {Opcode::write_only, 5, 6, false},
      {Opcode::write_only, kPmtu + 1, kPmtu + 1, false},
      {Opcode::write_only_imm, 3, 0, false},
      {Opcode::write_first, kPmtu, kPmtu + 1, true},
      {Opcode::write_first, kPmtu, kPmtu, false},
      {Opcode::write_first, kPmtu - 1, 3 * kPmtu, false},
      {Opcode::write_first, kPmtu, 0x80000001, false},
      {Opcode::write_first, kPmtu, 0x80000000, true},
      {Opcode::write_middle, kPmtu, 3 * kPmtu, false},  // nothing was begun
      {Opcode::write_last, 10, kPmtu + 10, false},
  };
  for (const Row& row : rows) {
    Peer p(config());
    p.send(data(row.op, 0, 0, row.length, row.dmalen));
    CHECK_EQ(p.rsp.fatal(), !row.good);
    if (row.good) continue;
    const auto a = p.answers();
    REQUIRE(a.size() == 1);
    CHECK_EQ(a[0].aeth.syndrome, 0x61);
    CHECK_EQ(p.rsp.counters().invalid_requests, 1u);
  }
}

TEST_CASE("responder: packets of one message must agree") {
  const uint32_t total = 2 * kPmtu + 10;
  struct Row {
    wire::Packet second, third;
  };
  const auto mid = [&](uint32_t psn, uint16_t msn, uint32_t n) {
    return data(Opcode::write_middle, psn, msn, kPmtu, n);
  };
  const auto last = [&](uint32_t psn, uint16_t msn, uint32_t n) {
    return data(Opcode::write_last, psn, msn, 10, n);
  };
  const Row bad[] = {
      {mid(1, 4, total), last(2, 3, total)},      // msn changes
      {mid(1, 3, total + 4), last(2, 3, total)},  // dmalen changes
      {mid(1, 3, total), last(2, 3, total + kPmtu)},
      {mid(1, 3, total), mid(2, 3, total)},    // more than dmalen
      {last(1, 3, total), last(2, 3, total)},  // less than dmalen
      {only(1, 4), last(2, 3, total)},         // a message inside another
  };
  for (const Row& row : bad) {
    for (const bool reversed : {false, true}) {  // the verdict does not depend on arrival
      Peer p(config());
      std::vector<wire::Packet> order = {data(Opcode::write_first, 0, 3, kPmtu, total), row.second,
                                         row.third};
      if (reversed) std::swap(order[0], order[2]);
      for (const auto& x : order) p.send(x);
      CHECK(p.rsp.fatal());
    }
  }
  Peer p(config());
  p.send(only(0, 3));
  p.send(only(1, 3));  // number used again
  CHECK(p.rsp.fatal());
}

TEST_CASE("responder: an access error waits for everything before it") {
  Peer p(config());
  wire::Packet bad = only(2, 2);
  bad.reth.r_key = 99;
  p.send(with_ar(bad));
  CHECK(!p.rsp.fatal());
  p.answers();
  p.send(only(3, 3));
  p.send(only(1, 1));
  CHECK(!p.rsp.fatal());
  p.send(only(0, 0));
  CHECK(p.rsp.fatal());
  CHECK_EQ(p.rsp.cack_psn().value, 1u);
  const auto a = p.answers();
  REQUIRE(a.size() == 1);
  CHECK_EQ(a[0].aeth.syndrome, 0x62);
  CHECK_EQ(a[0].bth.psn, 2u);
  CHECK_EQ(a[0].aeth.msn, 2u);
  // Silence afterwards, but the NAK is repeated at most once a ms.
  p.rsp.fail();
  const uint64_t calls = p.memory.calls;
  p.now = p.now + Duration::micros(999);
  p.send(bad);
  CHECK(p.answers().empty());
  p.now = p.now + Duration::micros(1);
  p.send(only(1, 1));  // before the failing one: nothing to repeat
  CHECK(p.answers().empty());
  p.send(bad);
  CHECK_EQ(p.answers().size(), 1u);
  p.send(bad);
  CHECK(p.answers().empty());
  CHECK_EQ(p.memory.calls, calls);
}

TEST_CASE("responder: early immediates complete in order") {
  Peer p(config());
  for (uint64_t i = 0; i < 3; ++i) REQUIRE(p.rsp.post_recv(50 + i) == 0);
  wire::Packet late = wimm(3, 3, 1);
  late.bth.se = true;
  p.send(late);
  p.send(wimm(1, 1, 0));
  p.send(only(2, 2));
  RecvCompletion c;
  CHECK(!p.rsp.pop_completion(c));
  p.send(wimm(1, 1, 0));  // duplicate
  p.send(only(0, 0));
  REQUIRE(p.rsp.pop_completion(c));
  CHECK(c.wr_id == 50 && c.imm == 0xC0DE0000 && c.byte_len == 100 && !c.solicited && !c.flushed);
  REQUIRE(p.rsp.pop_completion(c));
  CHECK(c.wr_id == 51 && c.imm == 0xC0DE0001 && c.solicited);
  CHECK(!p.rsp.pop_completion(c));
  p.rsp.fail();
  REQUIRE(p.rsp.pop_completion(c));
  CHECK(c.flushed && c.wr_id == 52);
  REQUIRE(p.rsp.post_recv(60) == 0);
  REQUIRE(p.rsp.pop_completion(c));
  CHECK(c.flushed && c.wr_id == 60);
}

TEST_CASE("responder: immediates out of their order or range") {
  {
    ResponderConfig c = config();
    c.max_wimm_dest = 2;
    Peer p(c);
    for (uint64_t i = 0; i < 8; ++i) REQUIRE(p.rsp.post_recv(i) == 0);
    p.send(wimm(3, 3, 2));  // two may be stashed: 0 and 1
    p.send(wimm(2, 2, 1));
    p.send(wimm(1, 1, 0));
    CHECK(!p.rsp.fatal());
    p.send(only(0, 0));
    CHECK(p.rsp.fatal());
    const auto a = p.answers();
    CHECK_EQ(a.at(0).aeth.syndrome, 0x61);
    CHECK_EQ(a.at(0).bth.psn, 3u);
    CHECK_EQ(p.rsp.counters().wimm_done, 2u);
  }
  {
    ResponderConfig c = config();
    c.first_rqmsn = 0xFFFF;
    Peer p(c);
    for (uint64_t i = 0; i < 8; ++i) REQUIRE(p.rsp.post_recv(i) == 0);
    p.send(wimm(0, 0, 0xFFFF));
    p.send(wimm(1, 1, 0));
    CHECK(!p.rsp.fatal());
    p.send(wimm(2, 2, 0));  // number used again
    CHECK(p.rsp.fatal());
  }
}

TEST_CASE("responder: no receive request") {
  Peer p(config());
  p.send(only(0, 0));
  p.send(wimm(1, 1, 0));
  CHECK(p.rsp.fatal());
  const auto a = p.answers();
  REQUIRE(a.size() == 1);
  CHECK_EQ(a[0].aeth.syndrome, 0x63);
  CHECK_EQ(a[0].bth.psn, 1u);
  CHECK_EQ(a[0].aeth.msn, 1u);
  CHECK_EQ(p.rsp.counters().rq_empty, 1u);
}

TEST_CASE("responder: a grace period for the receive request") {
  ResponderConfig c = config();
  c.rq_empty_grace = Duration::millis(1);
  Peer p(c);
  p.send(wimm(0, 0, 0));
  p.send(only(1, 1));
  p.send(wimm(2, 2, 1));
  for (const auto& a : p.answers()) CHECK(!is(a, Opcode::transport_ack));
  REQUIRE(p.rsp.post_recv(7) == 0);
  auto a = p.answers();
  REQUIRE(a.size() == 1);
  CHECK_EQ(a[0].bth.psn, 1u);  // the plain Write behind it is complete too
  CHECK_EQ(a[0].aeth.msn, 2u);
  p.send(only(3, 3));
  RecvCompletion r;
  REQUIRE(p.rsp.pop_completion(r));
  CHECK(r.wr_id == 7 && !p.rsp.pop_completion(r));
  const Instant due = p.now + Duration::millis(1);
  p.rsp.on_timeout(due);
  CHECK(p.rsp.fatal());
  a = p.answers();
  REQUIRE(a.size() == 1);
  CHECK_EQ(a[0].aeth.syndrome, 0x63);
  CHECK_EQ(a[0].bth.psn, 2u);
}

TEST_CASE("responder: zero length asks no memory (B20)") {
  Peer p(config());
  REQUIRE(p.rsp.post_recv(1) == 0);
  wire::Packet a = only(0, 0, 0);
  a.reth.r_key = 12345;  // not looked at
  p.send(a);
  p.send(wimm(1, 1, 0, 0));
  CHECK_EQ(p.memory.calls, 0u);
  CHECK_EQ(p.rsp.counters().messages_done, 2u);
  RecvCompletion c;
  REQUIRE(p.rsp.pop_completion(c));
  CHECK_EQ(c.byte_len, 0u);
}

TEST_CASE("responder: queues are bounded") {
  ResponderConfig c = config();
  c.max_recv_wr = 2;
  Peer p(c);
  CHECK_EQ(p.rsp.post_recv(1), 0);
  CHECK_EQ(p.rsp.post_recv(2), 0);
  CHECK_EQ(p.rsp.post_recv(3), ENOMEM);
  for (uint32_t i = 0; i < 1000; ++i) p.rsp.on_trimmed(p.now, only(i, 0), i, false);
  CHECK_EQ(p.rsp.counters().control_overflow, 1000u - 256);
  CHECK_EQ(p.answers().size(), 256u);
}

TEST_CASE("responder: a full queue keeps NACKs, marks and the newest answer, not what any SACK says") {
  Peer p(config());
  for (uint32_t i = 0; i < 256; ++i) p.send(with_ar(only(i, static_cast<uint16_t>(i))), i, i < 10);
  for (uint32_t i = 300; i < 600; ++i) p.rsp.on_trimmed(p.now, only(i, 0), i, false);
  size_t nacks = 0;
  size_t marks = 0;
  size_t newest = 0;
  const auto all = p.answers();
  for (const auto& a : all) {
    nacks += is(a, Opcode::nack);
    marks += is(a, Opcode::sack) && a.seth.m == 1;
    newest += is(a, Opcode::sack) && a.seth.entropy == 255;
  }
  CHECK_EQ(nacks, 245u);
  CHECK_EQ(marks, 10u);
  CHECK_EQ(newest, 1u);
  CHECK_EQ(all.size(), 257u);  // and the Transport ACK
}

TEST_CASE("responder: a probe is answered with the Transport ACK, too, when nothing else can be missing") {
  Peer p(config());
  wire::Packet probe;
  const auto acks = [&] {
    p.rsp.on_probe(p.now, probe, 5, false);
    const auto a = p.answers();
    return std::count_if(a.begin(), a.end(), [](const auto& x) { return is(x, Opcode::transport_ack); });
  };
  CHECK_EQ(acks(), 0);  // nothing was ever complete
  p.send(only(0, 0));
  p.answers();
  CHECK_EQ(acks(), 1);
  p.send(only(2, 2));
  p.answers();
  CHECK_EQ(acks(), 0);  // a hole: its SACK says what to do
  p.send(only(1, 1));
  p.answers();
  CHECK_EQ(acks(), 1);
}

TEST_CASE("responder: memory of a burst goes back after quiet") {
  Peer p(config());
  for (uint32_t i = 1; i < 1000; ++i) p.send(only(i, static_cast<uint16_t>(i)), i);
  CHECK(p.rsp.memory_bytes() > 16 * 1000);
  p.send(only(0, 0));
  p.answers();
  for (int i = 0; i < 5 && !p.rsp.next_timeout().is_never(); ++i) {
    p.now = p.rsp.next_timeout();
    p.rsp.on_timeout(p.now);
    p.answers();
  }
  CHECK(p.rsp.next_timeout().is_never());
  CHECK(p.rsp.memory_bytes() < 2500);
}
