// The carrier between processes and a switch in user space: what goes in comes out, damage never does harm.
#include "wire/gateway.h"

#include <vector>

#include "base/rng.h"
#include "testing/check.h"

using namespace mrc;        // NOLINT(google-build-using-namespace)
using namespace mrc::wire;  // NOLINT(google-build-using-namespace)

namespace {

base::IpAddr address(uint8_t plane, uint8_t last) {
  base::IpAddr a;
  a.bytes[0] = 0xFC;
  a.bytes[3] = plane;
  a.bytes[4] = 0x80;
  a.bytes[5] = last;
  return a;
}

DatagramMeta meta() {
  DatagramMeta m;
  m.src = address(1, 1);
  m.dst = address(1, 2);
  m.src_port = 50000;
  m.dst_port = 4791;
  m.flow_label = 0x9BCDE;
  m.dscp = 12;
  m.ecn = kEcnCe;
  return m;
}

std::vector<uint8_t> packet(size_t payload) {
  std::vector<uint8_t> p(kOuterBytes + payload, 0x5A);
  emit_outer(meta(), meta().dst, 64, payload, p.data());
  return p;
}

}  // namespace

TEST_CASE("outer headers: every field arrives, the payload is the one put in") {
  for (const size_t size : {0u, 1u, 77u, 9000u, 65'000u}) {
    const auto p = packet(size);
    DatagramMeta got;
    base::ByteView payload;
    REQUIRE(parse_outer(p, got, payload) == OuterFault::none);
    CHECK(got.src == meta().src);
    CHECK(got.dst == meta().dst);
    CHECK_EQ(got.src_port, meta().src_port);
    CHECK_EQ(got.dst_port, meta().dst_port);
    CHECK_EQ(got.flow_label, meta().flow_label);
    CHECK_EQ(got.dscp, 12);
    CHECK_EQ(got.ecn, kEcnCe);
    CHECK_EQ(payload.size(), size);
  }
}

TEST_CASE("outer headers: every shorter length and every wrong one is refused by name") {
  const auto p = packet(20);
  DatagramMeta m;
  base::ByteView payload;
  for (size_t n = 0; n < p.size(); ++n) {
    const OuterFault want = n < kOuterBytes ? OuterFault::truncated : OuterFault::bad_length;
    CHECK(parse_outer({p.data(), n}, m, payload) == want);
  }
  auto v4 = p;
  v4[0] = 0x45;
  CHECK(parse_outer(v4, m, payload) == OuterFault::not_ipv6);
  auto tcp = p;
  tcp[6] = 6;
  CHECK(parse_outer(tcp, m, payload) == OuterFault::not_udp);
  auto udp = p;
  udp[kIpv6Bytes + 5] ^= 1;
  CHECK(parse_outer(udp, m, payload) == OuterFault::bad_length);
}

TEST_CASE("messages: round trip of every verb; no packet is taken for one") {
  for (uint8_t verb = 1; verb <= 6; ++verb) {
    const GatewayMessage m{static_cast<GatewayVerb>(verb),
                           verb % 2 == 0,
                           4791,
                           0x0123456789ABCDEF,
                           address(3, verb),
                           98,
                           9000,
                           200'000'000};
    std::array<uint8_t, kGatewayMessageBytes> b{};
    emit_gateway_message(m, b.data());
    CHECK(is_gateway_message(b));
    GatewayMessage got;
    REQUIRE(parse_gateway_message(b, got));
    CHECK(got == m);
    for (size_t n = 0; n < b.size(); ++n) CHECK(!parse_gateway_message({b.data(), n}, got));
  }
  CHECK(!is_gateway_message(packet(0)));
  CHECK(!is_gateway_message({}));
}

TEST_CASE("messages: other versions, verbs and magics are refused; random bytes never do harm") {
  std::array<uint8_t, kGatewayMessageBytes> b{};
  emit_gateway_message({}, b.data());
  GatewayMessage got;
  for (const auto& [at, value] : {std::pair{0, 'm'}, {4, 2}, {5, 0}, {5, 7}}) {
    auto bad = b;
    bad[static_cast<size_t>(at)] = static_cast<uint8_t>(value);
    CHECK(!parse_gateway_message(bad, got));
  }
  base::Rng rng(7);
  DatagramMeta m;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<uint8_t> junk(rng.below(120));
    for (uint8_t& x : junk) x = static_cast<uint8_t>(rng.next());
    base::ByteView payload;
    if (parse_outer(junk, m, payload) == OuterFault::none)
      CHECK_EQ(payload.size(), junk.size() - kOuterBytes);
    parse_gateway_message(junk, got);
  }
}
