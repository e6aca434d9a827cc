#include "wire/icrc.h"

#include "base/rng.h"
#include "testing/check.h"
#include "wire/packet.h"
#include "wire/tests/bytes.h"
#include "wire/udp_ip.h"

namespace mrc::wire {
namespace {

// The reference vector pkt_ipv6_write_only_stev.
const std::vector<uint8_t> kIpv6 = from_hex(
    "6120010200341140fd00000000000001000000000000000afd00000000000001000000000000000ba0b012b700340000"
    "ca00ffff000000128000abcd0000000300000000000010000102030400000008000102030405060716304dcf");
// pkt_ipv4_write_only_udp_ev.
const std::vector<uint8_t> kIpv4 = from_hex(
    "4512004800004000401126910a0000010a000002a0b012b700340000"
    "ca00ffff000000128000abcd00000003000000000000100001020304000000080001020304050607e8e8c472");

DatagramMeta meta_of(bool v4) {
  DatagramMeta m;
  if (v4) {
    Ipv4 h;
    parse_ipv4(kIpv4, h);
    m.src = h.src;
    m.dst = h.dst;
  } else {
    Ipv6 h;
    parse_ipv6(kIpv6, h);
    m.src = h.src;
    m.dst = h.dst;
    m.flow_label = h.flow_label;
  }
  m.src_port = 0xA0B0;
  m.dst_port = kUdpPort;
  return m;
}

TEST_CASE("crc32 of the check string, in one piece and in two") {
  const std::string_view s = "123456789";
  const base::ByteView b(reinterpret_cast<const uint8_t*>(s.data()), s.size());
  CHECK_EQ(~crc32_update(kCrc32Init, b), 0xCBF43926u);
  CHECK_EQ(~crc32_update(crc32_update(kCrc32Init, b.first(4)), b.subspan(4)), 0xCBF43926u);
}

TEST_CASE("carry-less multiplication and tables agree") {
  base::Rng rng(7);
  std::vector<uint8_t> b(9001);
  for (auto& x : b) x = static_cast<uint8_t>(rng.next());
  for (size_t n = 0; n < b.size(); n += n < 600 ? 1 : 211) {
    const size_t at = rng.below(static_cast<uint32_t>(b.size() - n + 1));
    const auto state = static_cast<uint32_t>(rng.next());
    const base::ByteView v = base::ByteView(b).subspan(at, n);
    const uint32_t want = crc32_update_portable(state, v);
    if (has_clmul()) CHECK_EQ(crc32_update_clmul(state, v), want);
    if (has_wide_clmul()) CHECK_EQ(crc32_update_wide(state, v), want);
    CHECK_EQ(crc32_update(state, v), want);
  }
}

TEST_CASE("icrc of the reference packets from the meta data and from the frame") {
  for (const bool v4 : {false, true}) {
    const auto& f = v4 ? kIpv4 : kIpv6;
    const size_t ip = v4 ? kIpv4Bytes : kIpv6Bytes;
    const base::ByteView all(f);
    const base::ByteView ib = all.subspan(ip + kUdpBytes, f.size() - ip - kUdpBytes - 4);
    const uint32_t wire = load_icrc(f.data() + f.size() - 4);
    CHECK_EQ(icrc(meta_of(v4), ib.first(32), ib.subspan(32), 0), wire);
    CHECK_EQ(icrc_of_frame(all.first(ip), all.subspan(ip, kUdpBytes), ib), wire);
  }
}

TEST_CASE("icrc does not depend on how the bytes are cut, and pad counts as zeros") {
  std::vector<uint8_t> ib(kIpv6.begin() + 48, kIpv6.end() - 4);
  ib.insert(ib.end(), {9, 9, 9});
  const base::ByteView v(ib);
  const uint32_t want = icrc(meta_of(false), v.first(12), v.subspan(12), 1);
  CHECK_EQ(icrc(meta_of(false), v.first(33), v.subspan(33), 1), want);
  ib.push_back(0);
  CHECK_EQ(icrc(meta_of(false), ib, {}, 0), want);
}

TEST_CASE("udp checksum: right sum verifies, 0 becomes 0xFFFF") {
  const DatagramMeta m = meta_of(false);
  std::vector<uint8_t> d(kUdpBytes + 2);
  emit_udp({m.src_port, m.dst_port, static_cast<uint16_t>(d.size()), 0}, d.data());
  const uint16_t base = udp_checksum(m.src, m.dst, d);
  // Choosing the payload so that the sum is all ones makes the complement zero.
  base::store_be16(d.data() + kUdpBytes, base);
  CHECK_EQ(udp_checksum(m.src, m.dst, d), 0xFFFF);
  base::store_be16(d.data() + kUdpBytes, 0x1234);
  base::store_be16(d.data() + 6, udp_checksum(m.src, m.dst, d));
  uint32_t sum = ones_sum(m.src.bytes);
  sum = ones_sum(m.dst.bytes, sum) + kProtoUdp + static_cast<uint32_t>(d.size());
  CHECK_EQ(ones_sum(d, sum), 0xFFFFu);
}

TEST_CASE("parse_datagram checks the icrc unless the driver did") {
  Packet p;
  std::vector<uint8_t> b(kIpv6.begin() + 48, kIpv6.end());
  DatagramMeta m = meta_of(false);
  CHECK(parse_datagram(m, b, p) == DropReason::none);
  CHECK_EQ(p.payload_length, 8u);
  CHECK_EQ(p.bth.psn, 0xABCDu);
  CHECK_EQ(reflected_entropy(m), 0x0102A0B0u);
  b[20] ^= 1;
  CHECK(parse_datagram(m, b, p) == DropReason::bad_icrc);
  m.icrc_verified = true;
  CHECK(parse_datagram(m, b, p) == DropReason::none);
}

}  // namespace
}  // namespace mrc::wire
