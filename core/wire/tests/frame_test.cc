#include "wire/frame.h"

#include "testing/check.h"
#include "wire/tests/bytes.h"

namespace mrc::wire {
namespace {

// The reference vector pkt_srv6_usid_srh_copy.
const std::vector<uint8_t> kSrh = from_hex(
    "6120010200742b40fd00000000000001000000000000000afcbbbb000010101000203007000000002902040000000000"
    "fcbbbb000010101000203007000000006120010200341140fd00000000000001000000000000000afd00000000000001"
    "000000000000000ba0b012b700340000ca00ffff000000128000abcd0000000300000000000010000102030400000008"
    "000102030405060716304dcf");
constexpr size_t kOuter = kIpv6Bytes + kSrhBytes;

DropReason check(const std::vector<uint8_t>& f) {
  Frame frame;
  Packet p;
  return parse_frame(f, {}, frame, p);
}

TEST_CASE("frame: SRv6 with SRH decodes and encodes to the same bytes") {
  Frame f;
  Packet p;
  REQUIRE(parse_frame(kSrh, {}, f, p) == DropReason::none);
  CHECK(f.encapsulated && f.has_srh && !f.v4);
  CHECK_EQ(p.payload_length, 8u);
  FrameSpec spec;
  spec.meta = f.meta;
  spec.outer = Encapsulation{f.outer.src, f.outer.dst, f.srh};
  std::vector<uint8_t> out(kSrh.size(), 0xEE);
  CHECK_EQ(emit_frame(spec, p, out), kSrh.size());
  CHECK(out == kSrh);
  CHECK_EQ(emit_frame(spec, p, base::MutByteView(out).first(out.size() - 1)), 0u);
  CHECK_EQ(reflected_entropy(f.meta), 0x0102A0B0u);
}

TEST_CASE("frame: CE and trim marks of the outer header win") {
  Frame f;
  Packet p;
  auto b = kSrh;
  b[1] |= 0x30;
  REQUIRE(parse_frame(b, {}, f, p) == DropReason::none);
  CHECK_EQ(f.meta.ecn, kEcnCe);
  CHECK_EQ(f.meta.dscp, 4);
  b = kSrh;
  const size_t n = trim_frame(b, 16);
  CHECK_EQ(n, kOuter + kIpv6Bytes + kUdpBytes + 16);
  b.resize(n);
  REQUIRE(parse_frame(b, {}, f, p) == DropReason::none);
  CHECK(f.trim == TrimClass::trimmed_lasthop);
  CHECK_EQ(p.meth.msn, 3);
  b.resize(n - 1);
  CHECK(check(b) == DropReason::truncated);
  b.resize(n);
  b[kOuter + kIpv6Bytes + kUdpBytes] = 0xDC;
  CHECK(check(b) == DropReason::trimmed_control);
}

TEST_CASE("frame: uSID shifts of the outer header keep the iCRC") {
  auto b = kSrh;
  base::IpAddr dst;
  for (int hop = 0; hop < 4; ++hop) {
    std::copy_n(b.begin() + 24, 16, dst.bytes.begin());
    CHECK(!usid_end(dst));
    dst = usid_shift(dst);
    std::copy(dst.bytes.begin(), dst.bytes.end(), b.begin() + 24);
    b[7]--;
    CHECK(check(b) == DropReason::none);
  }
  CHECK(usid_end(dst));
}

TEST_CASE("frame: each length has its reason") {
  for (size_t n = 0; n < kSrh.size(); ++n) {
    const DropReason r = check({kSrh.begin(), kSrh.begin() + static_cast<std::ptrdiff_t>(n)});
    CHECK(r ==
          (n < kOuter + kIpv6Bytes + kUdpBytes + kBthBytes ? DropReason::truncated : DropReason::bad_length));
  }
}

TEST_CASE("frame: protocols, ports, fragments, lengths") {
  auto b = kSrh;
  b[0] = 0x51;
  CHECK(check(b) == DropReason::not_udp);
  b = kSrh;
  b[kIpv6Bytes] = kProtoFragment;
  CHECK(check(b) == DropReason::fragment);
  b = kSrh;
  b[kOuter + 6] = kProtoFragment;
  CHECK(check(b) == DropReason::fragment);
  b = kSrh;
  b[kOuter + kIpv6Bytes + 3] ^= 1;
  CHECK(check(b) == DropReason::not_mrc_port);
  b = kSrh;
  b[kOuter + kIpv6Bytes + 5] ^= 1;
  CHECK(check(b) == DropReason::bad_length);
  b = kSrh;
  b.back() ^= 1;
  CHECK(check(b) == DropReason::bad_icrc);
}

}  // namespace
}  // namespace mrc::wire
