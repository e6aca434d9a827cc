// How often EV probes look for paths for answers (reference 6.13), when one QP leads to a peer and when many
// do.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "engine/tests/solo.h"

using namespace mrc::engine;           // NOLINT(google-build-using-namespace)
using namespace mrc::engine::testing;  // NOLINT(google-build-using-namespace)
namespace wire = mrc::wire;

namespace {

constexpr uint8_t kPeer = 2;
constexpr int kMillis = 200;

EndpointConfig sharing(bool share = true) {
  EndpointConfig c;
  c.share_window = share;
  return c;
}

void receive(Solo& s, const wire::Packet& p, uint8_t plane) {
  std::array<uint8_t, wire::kMaxHeaderBytes + 4> bytes{};
  const size_t n = wire::emit_headers(p, bytes.data());
  wire::DatagramMeta m;
  m.src = v6(kPeer, plane);
  m.dst = v6(1, plane);
  m.port = plane;
  m.icrc_verified = true;
  s.ep.handle_datagram(s.now, m, mrc::base::ByteView(bytes.data(), n + 4));
}

// The `number`th message of the peer: empty, so that no memory is asked for.
void message(Solo& s, uint32_t qpn, uint32_t number, uint8_t plane) {
  wire::Packet p;
  p.bth.opcode = static_cast<uint8_t>(wire::Opcode::write_only);
  p.bth.dqp = qpn;
  p.bth.psn = 1 + number;
  p.bth.a = true;
  p.meth.msn = static_cast<uint16_t>(number);
  receive(s, p, plane);
}

// The peer's SACK for our packet of the QP, the first one as a rule, which travelled on `tag`.
void sack(Solo& s, uint32_t qpn, uint32_t tag, uint8_t plane, uint32_t psn = 1) {
  wire::Packet p;
  p.bth.opcode = static_cast<uint8_t>(wire::Opcode::sack);
  p.bth.dqp = qpn;
  p.seth.cack_psn = p.bth.psn = psn;
  p.seth.entropy = tag;
  p.seth.sack_offset = 1;
  receive(s, p, plane);
}

// Every QP receives a message each millisecond: probes that left, by plane.
std::map<uint8_t, int> probes(Solo& s, const std::vector<uint32_t>& qpns, uint32_t first = 0) {
  std::map<uint8_t, int> out;
  for (uint32_t t = first; t < first + kMillis; ++t) {
    s.now = s.now + Duration::millis(1);
    for (const uint32_t qpn : qpns) message(s, qpn, t, static_cast<uint8_t>(1 + t % 2));
    s.ep.handle_timeout(s.now);
    for (const Transmit& x : s.drain())
      if (x.qpn == wire::kEndpointQpn) ++out[x.meta.port];
  }
  return out;
}

std::vector<uint32_t> open(Solo& s, size_t n) {
  std::vector<uint32_t> out;
  for (size_t i = 0; i < n; ++i) out.push_back(s.open(kPeer));
  return out;
}

}  // namespace

TEST_CASE("many QPs towards one peer ask as often as one does, about its planes in turn") {
  Solo one(sharing()), many(sharing());
  std::map<uint8_t, int> alone = probes(one, open(one, 1)), all = probes(many, open(many, 100));
  CHECK(alone[1] + alone[2] > kMillis / 2);
  CHECK(alone[1] + alone[2] <= kMillis);
  CHECK(all[1] + all[2] > kMillis / 2);
  CHECK(all[1] + all[2] <= kMillis);
  CHECK(std::abs(all[1] - all[2]) <= 1);
}

TEST_CASE("a QP alone at its peer asks as it would without sharing") {
  Solo with(sharing()), without(sharing(false));
  CHECK(probes(with, open(with, 1)) == probes(without, open(without, 1)));
}

TEST_CASE("where one QP of many receives, it asks as often as if it were alone") {
  Solo s(sharing());
  const std::vector<uint32_t> qpns = open(s, 100);
  std::map<uint8_t, int> n = probes(s, {qpns[7]});
  CHECK(n[1] + n[2] > kMillis / 2);
}

TEST_CASE("turns that were not used put nobody off") {
  Solo s(sharing());
  const std::vector<uint32_t> qpns = open(s, 100);
  probes(s, qpns);
  probes(s, {qpns[7]}, kMillis);  // at most one round of turns is still to pass
  std::map<uint8_t, int> n = probes(s, {qpns[7]}, 2 * kMillis);
  CHECK(n[1] + n[2] > kMillis / 2);
}

TEST_CASE("a path for answers that one QP finds dead is left by all that lead to the peer") {
  Solo s(sharing(), 1);
  const std::vector<uint32_t> qpns = open(s, 2);
  const uint32_t tag = 1003;
  s.now = s.now + Duration::millis(1);
  for (const uint32_t qpn : qpns) {
    s.post(qpn, 8);
    REQUIRE(s.drain().size() == 1);
    sack(s, qpn, tag, 1);
  }
  const auto answer = [&](uint32_t qpn, uint32_t number) {
    message(s, qpn, number, 1);
    std::optional<uint32_t> out;
    for (const Transmit& t : s.drain())
      if (t.qpn == qpn) out = t.tag;
    return out;
  };
  CHECK_EQ(answer(qpns[1], 0).value_or(0), tag);
  // The first QP receives and asks; nobody answers.
  for (uint32_t i = 0; i < 50; ++i) {
    s.now = s.now + Duration::millis(1);
    message(s, qpns[0], i, 1);
    s.ep.handle_timeout(s.now);
    s.drain();
  }
  std::set<uint32_t> used;
  for (uint32_t i = 1; i <= 8; ++i) used.insert(answer(qpns[1], i).value_or(0));
  CHECK(used.size() > 1);
  CHECK(!used.contains(0));
}

TEST_CASE("QPs towards one peer answer on one path, the one that was found to work last but for a moment") {
  for (const bool share : {true, false}) {
    Solo s(sharing(share), 1);
    const std::vector<uint32_t> qpns = open(s, 3);
    uint32_t number = 0;
    const auto answers = [&] {
      std::vector<uint32_t> out;
      for (const uint32_t qpn : qpns) message(s, qpn, number, 1);
      ++number;
      for (const Transmit& t : s.drain()) {  // data and probes can be marked, answers cannot
        if (t.qpn != wire::kEndpointQpn && t.meta.ecn == 0) out.push_back(t.tag);
      }
      std::sort(out.begin(), out.end());
      out.erase(std::unique(out.begin(), out.end()), out.end());
      return out;
    };
    s.now = s.now + Duration::millis(1);
    uint32_t tag = 1003;
    for (const uint32_t qpn : qpns) {
      s.post(qpn, 8);
      REQUIRE(s.drain().size() == 1);
      sack(s, qpn, tag++, 1);
    }
    const std::vector<uint32_t> own{1003, 1004, 1005};
    CHECK(answers() == (share ? std::vector<uint32_t>{1003} : own));
    s.now = s.now + Duration::millis(2);
    s.post(qpns[2], 8);
    s.drain();
    sack(s, qpns[2], 1006, 1, 2);
    CHECK(answers() == (share ? std::vector<uint32_t>{1006} : std::vector<uint32_t>{1003, 1004, 1006}));
  }
}
