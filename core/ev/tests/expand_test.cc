// Field expansion (reference 4.4): the published examples, each rule of the error table, and the way back.
#include "ev/expand.h"

#include <cerrno>
#include <string>

#include "base/rng.h"
#include "testing/check.h"

using namespace mrc::ev;  // NOLINT(google-build-using-namespace)

namespace {

Field fixed(uint16_t width, uint64_t init) { return {width, init, 0, 0, 0}; }
Field filled(uint16_t width, uint64_t init, uint64_t mask) { return {width, init, 0, 0, mask}; }

std::vector<uint8_t> bytes(const std::string& hex) {
  std::vector<uint8_t> out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return out;
}

std::string expanded(const FormatWidths& format, const Fields& fields, const std::string& bits) {
  const auto in = bytes(bits);
  const auto x = expand(format, fields, in, static_cast<uint32_t>(in.size() * 8));
  REQUIRE(x.ok());
  CHECK_EQ(x.value().consumed, compact_width(fields));
  // Compact bits come back, whatever they were.
  const auto back = compact(format, fields, x.value().value);
  REQUIRE(back.has_value());
  for (uint32_t i = 0; i < x.value().consumed; ++i) CHECK_EQ(bit(back->bytes, i), bit(in, i));
  std::string out;
  for (uint32_t i = 0; i < (x.value().width + 7) / 8; ++i) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", x.value().value.bytes[i]);
    out += two;
  }
  return out;
}

int refused(const FormatWidths& format, const Fields& fields, uint32_t limit) {
  return check_fields(format, fields, limit);
}

}  // namespace

TEST_CASE("EV bits fill the masks from the most significant bit down") {
  CHECK_EQ(expanded({16, 16}, {filled(16, 0, 0xFFFF), filled(16, 0, 0xFFFF)}, "a1b2c3d4"), "a1b2c3d4");
  CHECK_EQ(expanded({16, 16}, {filled(16, 256, 15), filled(16, 512, 15)}, "5c"), "0105020c");
  CHECK_EQ(expanded({16, 16}, {filled(16, 4096, 3855), filled(16, 8192, 3855)}, "9a3c"), "190a230c");
}

TEST_CASE("a locator stays, four uSIDs follow; narrow fields stand at the right of their format field") {
  const FormatWidths f{32, 16, 16, 16, 16};
  CHECK_EQ(expanded(f,
                    {fixed(32, 0xFCBBBB00), filled(16, 256, 255), filled(16, 512, 255), filled(16, 768, 255),
                     filled(16, 1024, 255)},
                    "11223344"),
           "fcbbbb000111022203330444");
  CHECK_EQ(
      expanded(
          f, {fixed(32, 0x42424242), filled(4, 0, 15), filled(4, 0, 15), filled(4, 0, 15), filled(4, 0, 15)},
          "1f2e"),
      "424242420001000f0002000e");
  CHECK_EQ(expanded(f, {fixed(32, 0xDEADDEAD), filled(16, 0, 0xFFFF), filled(16, 0, 0xFFFF)}, "beefcafe"),
           "deaddeadbeefcafe00000000");
}

TEST_CASE("structured hops of 10, 8 and 4 bits start at the first bit of the EV") {
  const auto x = expand({10, 8, 4}, {fixed(10, 0x2A5), fixed(8, 0x9C), fixed(4, 0xB)}, {}, 0);
  REQUIRE(x.ok());
  CHECK_EQ(ev_to_u32(x.value().value), 0x2A5u << 22 | 0x9Cu << 14 | 0xBu << 10);
  CHECK_EQ(x.value().width, 22u);
}

TEST_CASE("a UDP value fills the first two bytes, its tag is the source port") {
  const auto in = bytes("a5");
  const auto x = expand({16}, {filled(16, 0, 0xF00F)}, in, 8, max_width(FormatMode::udp));
  REQUIRE(x.ok());
  CHECK_EQ(wire_tag(FormatMode::udp, false, x.value().value, 1, 0), 0xA005u);
}

TEST_CASE("tags: STEV and templates are their own, wide SRv6 values get one from port and index") {
  const EvValue v = ev_from_u32(0x12345678);
  CHECK_EQ(wire_tag(FormatMode::stev, false, v, 3, 9), 0x12345678u);
  CHECK_EQ(wire_tag(FormatMode::srv6, true, v, 3, 9), 0x12345678u);
  CHECK_EQ(wire_tag(FormatMode::srv6, false, v, 3, 9), 0x03000009u);
  CHECK_EQ(wire_tag(FormatMode::srv6_srh, false, v, 3, 0x1FFFFFF), 0x03FFFFFFu);
}

TEST_CASE("every rule of the table has its errno") {
  CHECK_EQ(refused({16}, {fixed(8, 0), fixed(8, 0)}, 32), E2BIG);     // more fields than format fields
  CHECK_EQ(refused({8, 8}, {fixed(8, 0), fixed(16, 0)}, 32), E2BIG);  // sum wider than the format
  CHECK_EQ(refused({8, 9}, {}, max_width(FormatMode::udp)), E2BIG);   // format wider than its mode
  CHECK_EQ(refused({16, 16, 1}, {}, max_width(FormatMode::stev)), E2BIG);
  CHECK_EQ(refused({128, 1}, {}, max_width(FormatMode::srv6)), E2BIG);
  CHECK_EQ(refused({128, 128, 1}, {}, max_width(FormatMode::srv6_srh)), E2BIG);
  CHECK_EQ(refused({128, 128}, {}, max_width(FormatMode::srv6_srh)), 0);
  CHECK_EQ(refused({8, 16}, {fixed(16, 0), fixed(8, 0)}, 32), E2BIG);  // a field wider than its own slot
  CHECK_EQ(refused({16}, {fixed(4, 16)}, 16), EINVAL);
  CHECK_EQ(refused({16}, {fixed(4, 15)}, 16), 0);
  CHECK_EQ(refused({16}, {filled(4, 0, 0x10)}, 16), EINVAL);
  CHECK_EQ(refused({16}, {{16, 0, 0, 16, 0x0F}}, 16), EINVAL);
  CHECK_EQ(refused({16}, {{16, 0, 0, 15, 0xF000}}, 16), 0);  // max_val counts bits, not places
  CHECK_EQ(refused({16}, {{16, 0, 3, 2, 0xFF}}, 16), EINVAL);
  CHECK_EQ(refused({16}, {{16, 0, 0, 1, 0}}, 16), EINVAL);  // a fixed part has no range
  CHECK_EQ(refused({16}, {{16, 0, 0, 99, 0x0F}, fixed(16, 0)}, 16),
           E2BIG);  // rules apply in the order of the table
  CHECK_EQ(check_format({}, 32), EINVAL);
  CHECK_EQ(check_format({8, 0}, 32), EINVAL);
  CHECK_EQ(check_format({65535, 65535, 2}, 256), E2BIG);
}

TEST_CASE("too few EV bits are refused, whoever counts them") {
  const auto in = bytes("ff");
  CHECK_EQ(expand({16}, {filled(16, 0, 0x1FF)}, in, 8).error(), EINVAL);
  CHECK_EQ(expand({16}, {filled(16, 0, 0xF)}, in, 3).error(), EINVAL);
  CHECK_EQ(expand({16}, {filled(16, 0, 0xF)}, in, 9).error(), EINVAL);
  CHECK(expand({16}, {filled(16, 0, 0xF)}, in, 4).ok());
}

TEST_CASE("values of other fixed bits do not compact; fields wider than 64 bits keep their upper part zero") {
  const Fields f{fixed(8, 0xAB), filled(8, 0, 0x0F)};
  EvValue v = ev_from_u32(0xAB070000);
  CHECK(compact({8, 8}, f, v).has_value());
  v.bytes[0] = 0xAC;
  CHECK(!compact({8, 8}, f, v).has_value());
  v = ev_from_u32(0xAB070100);
  CHECK(!compact({8, 8}, f, v).has_value());
  CHECK_EQ(expanded({80}, {filled(80, 1, 0xFF00)}, "5a"), "00000000000000005a01");
}

TEST_CASE("random fields: what is expanded is compacted again") {
  mrc::base::Rng rng(7);
  for (int round = 0; round < 2000; ++round) {
    FormatWidths format;
    Fields fields;
    for (uint32_t left = 256; left > 0 && format.size() < 12;) {
      const auto w = static_cast<uint16_t>(1 + rng.below(std::min<uint32_t>(left, 40)));
      format.push_back(w);
      left -= w;
      const auto fw = static_cast<uint16_t>(1 + rng.below(w));
      const uint64_t ones = (uint64_t{1} << fw) - 1;
      if (fields.size() + 1 == format.size() && rng.below(8) != 0)
        fields.push_back({fw, rng.next() & ones, 0, 0, rng.next() & ones});
    }
    EvValue in;
    for (uint32_t i = 0; i < compact_width(fields); ++i) set_bit(in, i, (rng.next() & 1) != 0);
    const auto x = expand(format, fields, in.bytes, 256);
    REQUIRE(x.ok());
    CHECK(compact(format, fields, x.value().value) == in);
  }
}
