// Stories of the receiving half: acceptance, SACKs, NACKs, trims (reference 6.2 to 6.7).
#include "responder_peer.h"

using namespace mrc;
using namespace mrc::reliability;
using namespace mrc::reliability::testing;

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

TEST_CASE("responder: what only bytes ask for keeps its distance, what the peer asks for does not") {
  ResponderConfig c = config();
  c.sack_bytes = 2 * c.sack_min_charge;
  c.sack_gap = Duration::micros(20);
  Peer p(c);
  uint32_t psn = 0;
  const auto two_more = [&] {
    for (int i = 0; i < 2; ++i, ++psn) p.send(only(psn, static_cast<uint16_t>(psn)));
    return p.answers().size();
  };
  CHECK_EQ(two_more(), 2u);  // SACK and Transport ACK
  CHECK_EQ(two_more(), 1u);  // ACK
  p.send(with_ar(only(psn, static_cast<uint16_t>(psn))));
  ++psn;
  CHECK_EQ(p.answers().size(), 2u);
  p.now = p.now + Duration::micros(20);
  CHECK_EQ(two_more(), 2u);
  p.now = p.now + Duration::micros(160);
  CHECK_EQ(two_more(), 2u);
  p.now =
      p.now + Duration::micros(161);  // a pause: what came first after it waits for the rest, or the timer
  CHECK_EQ(two_more(), 1u);
  p.now = p.now + Duration::micros(20);
  CHECK_EQ(two_more(), 2u);
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
