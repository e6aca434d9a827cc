#include "wire/packet.h"

#include <array>
#include <string>
#include <vector>

#include "base/rng.h"
#include "testing/check.h"

using namespace mrc::wire;  // NOLINT(google-build-using-namespace)
using mrc::base::ByteView;

namespace {

std::vector<uint8_t> unhex(const std::string& s) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i + 1 < s.size(); i += 2) out.push_back(static_cast<uint8_t>(std::stoi(s.substr(i, 2), nullptr, 16)));
  return out;
}

// Reference vector pkt_ipv6_write_only_stev, from BTH to the iCRC, and what its IP and UDP headers say.
const std::vector<uint8_t> kWriteOnly =
    unhex("ca00ffff000000128000abcd0000000300000000000010000102030400000008000102030405060716304dcf");
DatagramMeta write_only_meta() {
  DatagramMeta m;
  m.src.bytes = {0xfd, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xa};
  m.dst.bytes = {0xfd, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xb};
  m.src_port = 0xA0B0;
  m.dst_port = 4791;
  m.flow_label = 0x102;
  m.dscp = 4;
  m.ecn = 2;
  return m;
}

}  // namespace

TEST_CASE("crc32: check value, both paths, every length and split") {
  const std::string check = "123456789";
  const ByteView v(reinterpret_cast<const uint8_t*>(check.data()), check.size());
  CHECK_EQ(~crc32_update(kCrcInit, v), 0xCBF43926u);
  std::vector<uint8_t> data(700);
  mrc::base::Rng rng(1);
  for (auto& b : data) b = static_cast<uint8_t>(rng.next());
  for (size_t n = 0; n <= data.size(); ++n) {
    const uint32_t want = crc32_update_portable(kCrcInit, ByteView(data.data(), n));
    CHECK_EQ(crc32_update(kCrcInit, ByteView(data.data(), n)), want);
    const size_t cut = n / 3;
    CHECK_EQ(crc32_update(crc32_update(kCrcInit, ByteView(data.data(), cut)), ByteView(data.data() + cut, n - cut)), want);
  }
}

TEST_CASE("a write only packet parses, and its iCRC does not see class, label or hop limit") {
  Packet p;
  DatagramMeta m = write_only_meta();
  REQUIRE(parse_datagram(m, kWriteOnly, p) == DropReason::none);
  CHECK_EQ(p.bth.dqp, 18u);
  CHECK_EQ(p.bth.psn, 0xABCDu);
  CHECK(p.bth.a);
  CHECK_EQ(p.meth.msn, 3);
  CHECK_EQ(p.reth.va, 0x1000u);
  CHECK_EQ(p.reth.dmalen, 8u);
  CHECK_EQ(p.payload.size(), 8u);
  m.flow_label = 0xFFFFF;
  m.dscp = 63;
  m.ecn = 3;
  CHECK(parse_datagram(m, kWriteOnly, p) == DropReason::none);
  m.src_port ^= 1;
  CHECK(parse_datagram(m, kWriteOnly, p) == DropReason::bad_icrc);
}

TEST_CASE("every flipped bit that is covered is found; only the variant byte is not") {
  Packet p;
  const DatagramMeta m = write_only_meta();
  for (size_t bit = 0; bit < kWriteOnly.size() * 8; ++bit) {
    auto b = kWriteOnly;
    b[bit / 8] = static_cast<uint8_t>(b[bit / 8] ^ (1u << (bit % 8)));
    const bool variant = bit / 8 == 4;
    CHECK((parse_datagram(m, b, p) == DropReason::none) == variant);
  }
}

TEST_CASE("cut anywhere, a packet is dropped with a reason and never read past its end") {
  Packet p;
  for (size_t n = 0; n < kWriteOnly.size(); ++n) {
    std::vector<uint8_t> b(kWriteOnly.begin(), kWriteOnly.begin() + static_cast<long>(n));
    const DropReason r = parse_datagram(write_only_meta(), b, p);
    CHECK(r == (n < 16 ? DropReason::truncated : DropReason::bad_icrc));
    CHECK(parse_ib(b, p) != DropReason::none || n >= 32);
  }
}

TEST_CASE("trimmed packets need BTH, METH and the TSETH they announce") {
  Packet p;
  const auto full = unhex("ca00ffff000000129000abcd000000030f0f0001");
  CHECK(parse_trimmed(full, p) == DropReason::none);
  CHECK_EQ(p.tseth.tx_timestamp, 0x0F0F);
  CHECK(parse_trimmed(ByteView(full.data(), 19), p) == DropReason::truncated);
  CHECK(parse_trimmed(ByteView(full.data(), 11), p) == DropReason::truncated);
  auto control = full;
  control[0] = 0xDC;
  CHECK(parse_trimmed(control, p) == DropReason::trimmed_control);
}

TEST_CASE("every opcode emits what it parses") {
  mrc::base::Rng rng(5);
  for (int op = 0; op < 256; ++op) {
    if (!is_known(static_cast<uint8_t>(op))) continue;
    std::array<uint8_t, kMaxHeaderBytes> raw{};
    for (auto& b : raw) b = static_cast<uint8_t>(rng.next());
    raw[0] = static_cast<uint8_t>(op);
    raw[1] &= 0xC0;   // tver 0, pad 0
    Packet p;
    REQUIRE(parse_ib(raw, p) == DropReason::none);
    std::array<uint8_t, kMaxHeaderBytes> again{};
    const size_t n = emit_headers(p, again.data());
    CHECK_EQ(n, Bth::kSize + extension_size(p.bth));
    Packet q;
    REQUIRE(parse_ib(ByteView(again.data(), n), q) == DropReason::none);
    std::array<uint8_t, kMaxHeaderBytes> third{};
    CHECK_EQ(emit_headers(q, third.data()), n);
    CHECK(again == third);
  }
}

TEST_CASE("entropy reflection: flow label over source port, upper half 0 over IPv4") {
  DatagramMeta m = write_only_meta();
  CHECK_EQ(reflected_entropy(m), 0x0102A0B0u);
  m.flow_label = 0xF0102;   // bits above 16 are not part of the EV (D-20)
  CHECK_EQ(reflected_entropy(m), 0x0102A0B0u);
  m.src = mrc::base::IpAddr::v4(10, 0, 0, 1);
  CHECK_EQ(reflected_entropy(m), 0x0000A0B0u);
}
