#include "wire/packet.h"

#include "base/rng.h"
#include "testing/check.h"
#include "wire/tests/bytes.h"

namespace mrc::wire {
namespace {

const DatagramMeta kVerified = [] {
  DatagramMeta m;
  m.icrc_verified = true;
  return m;
}();

// A Write Only with Immediate and TSETH: every data header is present. 12 + 4 + 4 + 16 + 4 + 4 of payload.
std::vector<uint8_t> write_only_imm() {
  Packet p;
  p.bth.opcode = 0xCB;
  p.bth.ts = true;
  p.bth.pad = 1;
  std::vector<uint8_t> b(kMaxHeaderBytes);
  b.resize(emit_headers(p, b.data()));
  b.insert(b.end(), {1, 2, 3, 0, 0xAA, 0xBB, 0xCC, 0xDD});
  return b;
}

TEST_CASE("packet: opcodes have their classes") {
  int known = 0;
  for (unsigned v = 0; v < 256; ++v) {
    const auto op = static_cast<Opcode>(v);
    known += is_known(static_cast<uint8_t>(v)) ? 1 : 0;
    CHECK(!is_data(op) || (v >= 0xC6 && v <= 0xCB));
    CHECK(!has_imm(op) || is_last(op));
  }
  CHECK_EQ(known, 12);
  CHECK(is_first(Opcode::write_only) && is_last(Opcode::write_only) && !is_last(Opcode::write_middle));
}

TEST_CASE("packet: cuts at every length, elided or not") {
  const auto b = write_only_imm();
  Packet p;
  for (size_t n = 0; n <= b.size(); ++n) {
    const std::vector<uint8_t> cut(b.begin(), b.begin() + static_cast<std::ptrdiff_t>(n));
    const DropReason want = n < 12   ? DropReason::truncated
                            : n < 16 ? DropReason::bad_icrc
                            : n < 44 ? DropReason::truncated
                            : n < 45 ? DropReason::bad_length
                                     : DropReason::none;
    CHECK_EQ(static_cast<int>(parse_datagram(kVerified, cut, p)), static_cast<int>(want));
    DatagramMeta m;
    m.elided_payload = 3;
    CHECK((parse_datagram(m, cut, p) == DropReason::none) == (n >= 40));
  }
  REQUIRE(parse_datagram(kVerified, b, p) == DropReason::none);
  CHECK_EQ(p.payload.size(), 3u);
}

TEST_CASE("packet: the first failing check names the reason") {
  auto b = write_only_imm();
  Packet p;
  b[1] |= 0x01;
  b[0] = 0x0A;
  CHECK(parse_datagram({}, b, p) == DropReason::bad_icrc);
  CHECK(parse_datagram(kVerified, b, p) == DropReason::bad_tver);
  b[1] &= 0xF0;
  CHECK(parse_datagram(kVerified, b, p) == DropReason::bad_opcode);
  b[0] = 0xCB;
  b[1] = 0x30;
  b.resize(40 + 2 + 4);
  CHECK(parse_datagram(kVerified, b, p) == DropReason::bad_length);
}

TEST_CASE("packet: headers of every opcode round-trip") {
  base::Rng rng(3);
  const uint8_t opcodes[] = {0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE};
  for (const uint8_t op : opcodes) {
    for (int i = 0; i < 200; ++i) {
      std::vector<uint8_t> in(kMaxHeaderBytes);
      for (auto& x : in) x = static_cast<uint8_t>(rng.next());
      in[0] = op;
      in[1] &= 0xC0;
      Packet p;
      REQUIRE(parse_ib(in, p) == DropReason::none);
      std::vector<uint8_t> out(kMaxHeaderBytes, 0xEE), again(kMaxHeaderBytes, 0xDD);
      const size_t n = emit_headers(p, out.data());
      CHECK_EQ(n, kBthBytes + extension_bytes(p.bth));
      out.resize(n);
      Packet q;
      REQUIRE(parse_ib(out, q) == DropReason::none);
      again.resize(emit_headers(q, again.data()));
      CHECK(out == again);
      CHECK(p.bth == q.bth);
      CHECK(p.seth == q.seth && p.cc == q.cc && p.neth == q.neth && p.peth == q.peth);
    }
  }
}

TEST_CASE("packet: trim path") {
  const auto b = write_only_imm();
  Packet p;
  CHECK(parse_trimmed(base::ByteView(b).first(20), p) == DropReason::none);
  CHECK(parse_trimmed(base::ByteView(b).first(19), p) == DropReason::truncated);
  CHECK(parse_trimmed(base::ByteView(b).first(11), p) == DropReason::truncated);
  auto c = b;
  c[0] = 0xDC;
  CHECK(parse_trimmed(c, p) == DropReason::trimmed_control);
}

TEST_CASE("packet: pkey and dqp rules") {
  CHECK(pkey_matches(0xFFFF, 0x7FFF));
  CHECK(!pkey_matches(0x7FFF, 0x7FFF));
  CHECK(!pkey_matches(0xFFFF, 0xFFFE));
  Bth h;
  h.opcode = 0xD8;
  h.dqp = 2;
  CHECK(dqp_class_matches(h));
  h.opcode = 0xCA;
  CHECK(!dqp_class_matches(h));
}

}  // namespace
}  // namespace mrc::wire
