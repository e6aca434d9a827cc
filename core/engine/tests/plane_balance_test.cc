// New data stays level over planes, repairs stay in theirs, and no dead line is waited for.
#include "engine/plane_balance.h"

#include <map>

#include "engine/tests/solo.h"

using namespace mrc::engine;           // NOLINT(google-build-using-namespace)
using namespace mrc::engine::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kPlane1 = 1u << 1, kPlane2 = 1u << 2, kBoth = kPlane1 | kPlane2;
constexpr uint32_t kMax = PlaneBalance::kMaxAhead;

// Nobody answers here, and no timer shall find that out.
void patient(QpAttr& a) {
  if (a.state == QpState::rts) a.timeout = 20;
}

uint32_t data_on(const std::vector<Transmit>& sent, uint8_t port) {
  uint32_t bytes = 0;
  for (const Transmit& t : sent) bytes += t.is_data && t.meta.port == port ? t.payload_len : 0;
  return bytes;
}

}  // namespace

TEST_CASE("a plane may be so far ahead of the slowest and no further") {
  PlaneBalance b;
  b.count(kBoth | 1u << 3);
  for (uint32_t sent = 0; sent < kMax; sent += kMax / 4) {
    CHECK_EQ(b.too_far_ahead(), 0u);
    b.sent(1, kMax / 4);
    b.sent(3, kMax / 8);
  }
  CHECK_EQ(b.too_far_ahead(), kPlane1);
  CHECK_EQ(b.last(), kPlane2);
  b.sent(2, kMax / 4);
  CHECK_EQ(b.too_far_ahead(), 0u);
  b.sent(2, kMax);
  CHECK_EQ(b.last(), 1u << 3);
  CHECK_EQ(b.too_far_ahead(), 0u);  // all are ahead of plane 3 by less
}

TEST_CASE("planes that come or go start level") {
  PlaneBalance b;
  b.count(kPlane1);
  b.sent(1, 10 * kMax);
  CHECK_EQ(b.too_far_ahead(), 0u);  // of nobody
  b.count(kBoth);
  b.sent(1, kMax);
  CHECK_EQ(b.too_far_ahead(), kPlane1);
  b.count(kPlane1);
  CHECK_EQ(b.too_far_ahead(), 0u);
}

TEST_CASE("a line that takes nothing is left alone after a while, until it does") {
  PlaneBalance b;
  b.count(kBoth);
  const auto at = [](int64_t us) { return Instant{us * 1000}; };
  CHECK(!b.refused(at(0), kPlane2));
  CHECK_EQ(b.retry_at().ns, PlaneBalance::kPatience.ns);
  b.writable(kBoth);  // it took something in between
  CHECK(b.retry_at().is_never());
  CHECK(!b.refused(at(30'000), kPlane2));
  CHECK(!b.refused(at(49'000), kPlane2));
  CHECK(b.refused(at(50'000), kPlane2));
  CHECK(b.stuck(2));
  b.count(kBoth);
  b.sent(1, 10 * kMax);
  CHECK_EQ(b.too_far_ahead(), 0u);
  b.writable(kPlane2);
  CHECK(!b.stuck(2));
  b.count(kBoth);
  b.sent(1, kMax);
  CHECK_EQ(b.too_far_ahead(), kPlane1);
}

TEST_CASE("a line that is full holds the other planes back, not for ever") {
  Solo s;
  const uint32_t qpn = s.open(2, patient);
  s.post(qpn, 1 << 20);
  CHECK_EQ(data_on(s.drain(SIZE_MAX, kPlane1), 1), kMax);
  CHECK_EQ(data_on(s.drain(100), 1), data_on(s.drain(100), 2));  // both go on
  CHECK(data_on(s.drain(SIZE_MAX, kPlane1), 1) <= 1024);
  s.now = s.now + PlaneBalance::kPatience / 2;
  s.ep.handle_timeout(s.now);
  CHECK_EQ(data_on(s.drain(SIZE_MAX, kPlane1), 1), 0u);
  CHECK(s.ep.poll_timeout() <= s.now + PlaneBalance::kPatience / 2);
  s.now = s.now + PlaneBalance::kPatience / 2;
  s.ep.handle_timeout(s.now);
  CHECK(data_on(s.drain(SIZE_MAX, kPlane1), 1) > kMax);  // alone
}

namespace {

// The peer's word that a queue on its way trimmed packet `t`.
void refuse(Solo& s, uint32_t qpn, const Transmit& t, mrc::wire::NackReason why) {
  namespace wire = mrc::wire;
  wire::Packet p;
  p.bth.opcode = static_cast<uint8_t>(wire::Opcode::nack);
  p.bth.dqp = qpn;
  p.bth.psn = p.neth.nack_psn = t.psn;
  p.neth.nack_reason = static_cast<uint8_t>(why);
  p.neth.entropy = t.tag;
  std::array<uint8_t, wire::kMaxHeaderBytes + 4> bytes{};
  const size_t n = wire::emit_headers(p, bytes.data());
  wire::DatagramMeta m;
  m.src = v6(2, 1);
  m.dst = v6(1, 1);
  m.port = 1;
  m.icrc_verified = true;
  s.ep.handle_datagram(s.now, m, mrc::base::ByteView(bytes.data(), n + 4));
}

}  // namespace

TEST_CASE("what a queue trimmed is sent again in its plane, on another EV") {
  for (const auto why : {mrc::wire::NackReason::trimmed, mrc::wire::NackReason::trimmed_lasthop}) {
    Solo s({}, 4);
    const uint32_t qpn = s.open(2);
    s.post(qpn, 64 * 1024);
    const auto sent = s.drain();
    REQUIRE(sent.size() == 64);
    for (const Transmit& t : sent) refuse(s, qpn, t, why);
    const auto again = s.drain();
    REQUIRE(again.size() == sent.size());
    for (size_t i = 0; i < sent.size(); ++i) {
      CHECK(again[i].rtx);
      CHECK_EQ(again[i].psn, sent[i].psn);
      CHECK_EQ(again[i].meta.port, sent[i].meta.port);
      CHECK(again[i].tag != sent[i].tag);
    }
  }
}

TEST_CASE("while the plane of a repair has no room, new data goes first; a dead line is not waited for") {
  Solo s;
  const uint32_t qpn = s.open(2, patient);
  s.post(qpn, 1 << 20);
  const auto sent = s.drain(8);
  const Transmit& trimmed = sent[0];
  const uint32_t home = 1u << trimmed.meta.port;
  refuse(s, qpn, trimmed, mrc::wire::NackReason::trimmed);
  for (const Transmit& t : s.drain(8, kBoth & ~home)) CHECK(!t.rtx);
  const auto first = s.next();
  REQUIRE(first.has_value());
  CHECK(first->rtx);
  CHECK_EQ(first->meta.port, trimmed.meta.port);
  refuse(s, qpn, *first, mrc::wire::NackReason::trimmed);
  for (const Transmit& t : s.drain(SIZE_MAX, kBoth & ~home)) CHECK(!t.rtx);
  s.now = s.now + PlaneBalance::kPatience;
  s.ep.handle_timeout(s.now);
  int repaired = 0;
  for (const Transmit& t : s.drain(SIZE_MAX, kBoth & ~home))
    repaired += t.rtx && t.psn == trimmed.psn ? 1 : 0;
  CHECK_EQ(repaired, 1);
}

TEST_CASE("a receiver's own refusals are repaired anywhere") {
  Solo s({}, 4);
  const uint32_t qpn = s.open(2, patient);
  s.post(qpn, 64 * 1024);
  const auto sent = s.drain();
  for (const Transmit& t : sent) {
    if (t.meta.port == 1) refuse(s, qpn, t, mrc::wire::NackReason::no_pkt_buffer);
  }
  s.now = s.now + Duration::millis(1);
  s.ep.handle_timeout(s.now);
  const auto again = s.drain();
  uint32_t all = 0;
  for (uint8_t port = 1; port <= 4; ++port) {
    CHECK(data_on(again, port) > 0);
    all += data_on(again, port);
  }
  CHECK_EQ(all, 16u * 1024);
}
