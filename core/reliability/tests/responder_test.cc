// Stories of the receiving half: acceptance, SACKs, NACKs, Transport ACKs, immediates, errors (reference 6).
#include <cerrno>

#include "harness.h"

using namespace mrc;
using namespace mrc::reliability;
using namespace mrc::reliability::testing;

namespace {

constexpr uint32_t kPmtu = 1024;

ResponderConfig config() {
  ResponderConfig c;
  c.rq_psn = Psn(0);
  c.pmtu = kPmtu;
  return c;
}

struct Peer {
  explicit Peer(const ResponderConfig& c) : rsp(c), memory(0x10000, 1 << 20) {}
  Responder rsp;
  ModelMemory memory;
  Instant now = at_us(1);

  void send(const wire::Packet& p, uint32_t entropy = 5, bool ce = false) {
    rsp.on_data(now, p, entropy, ce, p.payload_length + kOverhead, memory);
  }
  std::vector<wire::Packet> answers() {
    std::vector<wire::Packet> out;
    uint32_t entropy = 0;
    while (rsp.has_control()) {
      wire::Packet p;
      if (!rsp.take_control(now, p, entropy)) break;
      out.push_back(p);
    }
    return out;
  }
};

wire::Packet data(Opcode op, uint32_t psn, uint16_t msn, uint32_t length, uint32_t dmalen,
                  uint64_t va = 0x10000) {
  wire::Packet p;
  p.bth.opcode = static_cast<uint8_t>(op);
  p.bth.psn = psn;
  p.bth.ts = true;
  p.tseth.tx_timestamp = static_cast<uint16_t>(0x1000 + psn);
  p.meth.msn = msn;
  p.reth = wire::Reth{va, 7, dmalen};
  p.payload_length = length;
  return p;
}
wire::Packet only(uint32_t psn, uint16_t msn, uint32_t length = 100) {
  return data(Opcode::write_only, psn, msn, length, length, 0x10000 + 1024ull * psn);
}
wire::Packet wimm(uint32_t psn, uint16_t msn, uint16_t rqmsn, uint32_t length = 100) {
  wire::Packet p = only(psn, msn, length);
  p.bth.opcode = static_cast<uint8_t>(Opcode::write_only_imm);
  p.meth.rqmsn = rqmsn;
  p.imm.imm = 0xC0DE0000u + rqmsn;
  return p;
}
wire::Packet with_ar(wire::Packet p) {
  p.bth.a = true;
  return p;
}
wire::Packet with_rtx(wire::Packet p) {
  p.bth.rtx = true;
  return p;
}

}  // namespace

TEST_CASE("responder: contents of a SACK") {
  ResponderConfig c = config();
  c.dynamic_mpr = true;
  Peer p(c);
  for (uint32_t i = 0; i <= 4; ++i) p.send(only(i, static_cast<uint16_t>(i)));
  for (const uint32_t i : {6u, 7u, 9u, 10u}) p.send(only(i, static_cast<uint16_t>(i)));
  p.rsp.set_pressure(64, true);
  p.send(with_ar(only(11, 11)), 0x10064);
  const auto a = p.answers();
  REQUIRE(a.size() == 2);
  REQUIRE(is(a[0], Opcode::sack));
  CHECK_EQ(a[0].bth.psn, 4u);
  CHECK_EQ(a[0].seth.cack_psn, 4u);
  CHECK_EQ(a[0].seth.sack_offset, 1);
  CHECK_EQ(a[0].seth.sack_bitmap, 0b1110110u);
  CHECK_EQ(a[0].seth.ack_psn_offset, 7);
  CHECK_EQ(a[0].seth.entropy, 0x10064u);
  CHECK_EQ(a[0].seth.m, 0);
  CHECK_EQ(a[0].seth.mpr, 8);
  CHECK_EQ(a[0].cc.ooo_count, 5);
  CHECK_EQ(a[0].cc.tx_timestamp, 0x100B);
  CHECK_EQ(a[0].cc.rcv_cwnd_pen, 64);
  CHECK(a[0].cc.restore_cwnd);
  CHECK_EQ(a[0].cc.rcvd_bytes, (10 * (100 + kOverhead) + 255) / 256);
  REQUIRE(is(a[1], Opcode::transport_ack));
  CHECK_EQ(a[1].bth.psn, 4u);
  CHECK_EQ(a[1].aeth.syndrome, 0x1F);
  CHECK_EQ(a[1].aeth.msn, 5u);
}

TEST_CASE("responder: what triggers a SACK, and what does not") {
  Peer p(config());
  p.send(data(Opcode::write_first, 0, 0, kPmtu, 100 * kPmtu));
  CHECK(!p.rsp.has_control());
  CHECK(p.rsp.next_timeout() == p.now + Duration::micros(20));
  p.send(data(Opcode::write_middle, 1, 0, kPmtu, 100 * kPmtu), 6, true);  // CE
  auto a = p.answers();
  REQUIRE(a.size() == 1);
  CHECK_EQ(a[0].seth.m, 1);
  CHECK_EQ(p.rsp.counters().ce_seen, 1u);
  p.send(with_rtx(data(Opcode::write_middle, 2, 0, kPmtu, 100 * kPmtu)));
  a = p.answers();
  REQUIRE(a.size() == 1);
  CHECK(a[0].bth.rtx);
  // Byte threshold: 16 KiB at 1112 a packet is the 15th.
  for (uint32_t i = 3; i < 17; ++i) {
    p.send(data(Opcode::write_middle, i, 0, kPmtu, 100 * kPmtu));
    CHECK(!p.rsp.has_control());
  }
  p.send(data(Opcode::write_middle, 17, 0, kPmtu, 100 * kPmtu));
  CHECK_EQ(p.answers().size(), 1u);
  // Timer, with the echo of the newest packet.
  p.send(data(Opcode::write_middle, 18, 0, kPmtu, 100 * kPmtu), 77);
  p.rsp.on_timeout(p.now + Duration::micros(19));
  CHECK(!p.rsp.has_control());
  p.rsp.on_timeout(p.now + Duration::micros(20));
  a = p.answers();
  REQUIRE(a.size() == 1);
  CHECK_EQ(a[0].seth.entropy, 77u);
  CHECK(p.rsp.next_timeout().is_never());
}

TEST_CASE("responder: small packets are charged at least 1024 bytes") {
  Peer p(config());
  for (uint32_t i = 0; i < 15; ++i) p.send(data(Opcode::write_middle, i + 1, 0, kPmtu, 100 * kPmtu), 5);
  CHECK(p.rsp.has_control());  // out of order counts alike
  Peer q(config());
  for (uint32_t i = 0; i < 16; ++i) {
    CHECK_EQ(q.answers().size(), i == 0 ? 0u : 1u);  // the Transport ACK of each message
    q.send(only(i, static_cast<uint16_t>(i), 0));
  }
  const auto a = q.answers();
  REQUIRE(a.size() == 2);
  CHECK(is(a[0], Opcode::sack));
}

TEST_CASE("responder: coalescing keeps every needed echo") {
  Peer p(config());
  for (uint32_t i = 0; i < 4; ++i) p.send(with_ar(only(i, static_cast<uint16_t>(i))), 5);
  p.send(with_ar(only(4, 4)), 6);
  p.send(only(5, 5), 5, true);
  p.send(only(6, 6), 5, true);
  p.send(with_rtx(only(7, 7)), 5);
  p.send(with_rtx(only(8, 8)), 5);
  wire::Packet probe;
  probe.peth.probe_id = 9;
  p.rsp.on_probe(p.now, probe, 5, false);
  std::vector<wire::Packet> sacks;
  for (const auto& a : p.answers()) {
    if (is(a, Opcode::sack)) sacks.push_back(a);
  }
  REQUIRE(sacks.size() == 6);  // EV 5, EV 6, CE on 5, two resends, probe
  CHECK_EQ(sacks[0].seth.ack_psn_offset, 3 - 8);
  CHECK_EQ(sacks[2].seth.m, 1);
  CHECK_EQ(sacks[2].cc.tx_timestamp, 0x1006);
  CHECK(sacks[3].bth.rtx && sacks[4].bth.rtx);
  CHECK(sacks[5].seth.pr);
  CHECK_EQ(sacks[5].seth.probe_id, 9);
}

TEST_CASE("responder: the bitmap window walks and extra windows follow") {
  for (const bool extra : {false, true}) {
    ResponderConfig c = config();
    c.extra_sacks = extra;
    c.sack_bytes = 1 << 30;
    Peer p(c);
    for (uint32_t i = 1; i <= 200; ++i) p.send(only(i, static_cast<uint16_t>(i)));
    p.send(with_ar(only(201, 201)));
    auto a = p.answers();
    REQUIRE(a.size() == (extra ? 4u : 1u));
    for (int k = 0; !extra && k < 3; ++k) {
      p.send(with_ar(only(202u + static_cast<uint32_t>(k), 0)));
      for (const auto& more : p.answers()) a.push_back(more);
    }
    REQUIRE(a.size() == 4);
    CHECK_EQ(a[0].seth.sack_offset, 1);
    CHECK_EQ(a[0].seth.sack_bitmap, ~uint64_t{1});
    CHECK_EQ(a[1].seth.sack_offset, 65);
    CHECK_EQ(a[1].seth.sack_bitmap, ~uint64_t{0});
    CHECK_EQ(a[2].seth.sack_offset, 129);
    const int newest = extra ? 201 : 204;
    CHECK_EQ(a[3].seth.sack_offset + 63, newest + 1);  // ends at the newest packet
    if (extra) CHECK_EQ(a[3].cc.tx_timestamp, 0);
  }
}

TEST_CASE("responder: duplicates touch nothing and are answered") {
  Peer p(config());
  p.send(only(0, 0));
  p.send(only(2, 2));
  p.answers();
  const uint64_t calls = p.memory.calls;
  p.send(only(2, 2));
  auto a = p.answers();
  REQUIRE(a.size() == 1);
  CHECK_EQ(a[0].seth.ack_psn_offset, 2);
  p.send(only(0, 0));
  a = p.answers();
  REQUIRE(a.size() == 2);  // and the newest Transport ACK again
  CHECK(is(a[1], Opcode::transport_ack));
  CHECK_EQ(a[1].bth.psn, 0u);
  CHECK_EQ(p.memory.calls, calls);
  CHECK_EQ(p.rsp.counters().duplicates, 2u);
  CHECK_EQ(a[0].cc.rcvd_bytes, (2 * (100 + kOverhead) + 255) / 256);
}

TEST_CASE("responder: above the window and impossible numbers (D-06)") {
  for (const bool nack : {true, false}) {
    ResponderConfig c = config();
    c.mpr_dest = 128;
    c.oor_nack = nack;
    Peer p(c);
    p.send(only(128, 0), 44);
    p.send(only(0x7FFFFF, 0), 44);
    const auto a = p.answers();
    CHECK_EQ(a.size(), nack ? 1u : 0u);
    if (nack) {
      CHECK(is(a[0], Opcode::nack));
      CHECK_EQ(a[0].neth.nack_reason, 0x0B);
      CHECK_EQ(a[0].neth.nack_psn, 128u);
      CHECK_EQ(a[0].neth.entropy, 44u);
      CHECK_EQ(a[0].neth.tx_timestamp, 0x1080);
    }
    CHECK(p.memory.untouched());
    CHECK_EQ(p.rsp.counters().out_of_window, 1u);
    CHECK_EQ(p.rsp.counters().impossible, 1u);
  }
}

TEST_CASE("responder: trimmed headers") {
  Peer p(config());
  p.send(only(0, 0));
  p.answers();
  p.rsp.on_trimmed(p.now, only(1, 1), 9, false);
  p.rsp.on_trimmed(p.now, only(2, 2), 9, true);
  p.rsp.on_trimmed(p.now, only(0, 0), 9, false);  // already here
  const auto a = p.answers();
  REQUIRE(a.size() == 3);
  CHECK_EQ(a[0].neth.nack_reason, 0x01);
  CHECK_EQ(a[1].neth.nack_reason, 0x02);
  CHECK_EQ(a[1].bth.psn, 2u);
  CHECK(is(a[2], Opcode::sack));
  CHECK_EQ(a[2].seth.cack_psn, 0u);
  ResponderConfig c = config();
  c.trim_nack = false;
  Peer q(c);
  q.rsp.on_trimmed(q.now, only(0, 0), 9, false);
  CHECK(!q.rsp.has_control());
  CHECK_EQ(q.rsp.counters().trimmed_rx, 1u);
}

TEST_CASE("responder: service time is added to the echo") {
  ResponderConfig c = config();
  c.service_time = true;
  Peer p(c);
  p.send(with_ar(only(0, 0)));
  p.now = p.now + Duration{128 * 10};
  const auto a = p.answers();
  REQUIRE(!a.empty());
  CHECK_EQ(a[0].cc.tx_timestamp, 0x1000 + 10);
}

TEST_CASE("responder: no buffer refuses before anything is recorded") {
  Peer p(config());
  p.memory.refuse = true;
  p.send(only(0, 0));
  auto a = p.answers();
  REQUIRE(a.size() == 1);
  CHECK_EQ(a[0].neth.nack_reason, 0x07);
  p.memory.refuse = false;
  p.send(only(0, 0));
  a = p.answers();
  REQUIRE(a.size() == 1);
  CHECK(is(a[0], Opcode::transport_ack));
}

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
  CHECK_EQ(p.rsp.counters().control_overflow, 1000u - 64);
  CHECK_EQ(p.answers().size(), 64u);
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
