// Leaving the iCRC off: by agreement of both ends and for their QPs alone; everything else is checked as
// ever.
#include <cerrno>
#include <optional>

#include "story.h"

using namespace mrc;           // NOLINT(google-build-using-namespace): a test file
using namespace mrc::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kBytes = 100'000;

// What each side was told before RTR; nullopt: nothing.
StoryConfig told(std::optional<bool> first, std::optional<bool> second) {
  StoryConfig c;
  c.hold_time = Duration::millis(50);
  c.adjust = [=](int side, engine::QpAttr& a) {
    if (a.state == engine::QpState::rtr) a.icrc = side == 0 ? first : second;
  };
  return c;
}

uint64_t bad_icrc(Story& s, int side) {
  return s.pair.side(side).stats().drops[static_cast<size_t>(wire::DropReason::bad_icrc)];
}

uint32_t trailer(base::ByteView packet) { return wire::load_icrc(packet.data() + packet.size() - 4); }

bool of_a_qp(base::ByteView packet) { return base::load_be24(packet.data() + 5) != wire::kEndpointQpn; }

struct Caught {
  wire::DatagramMeta meta;
  std::vector<uint8_t> bytes;
};

// The first data packet of side 0, which does not arrive by itself.
Caught first_data_packet(Story& s) {
  std::optional<Caught> caught;
  s.pair.on_transmit = [&](int side, const engine::Transmit& t, base::ByteView b) {
    if (side == 0 && t.is_data && !caught) caught = Caught{t.meta, {b.begin(), b.end()}};
  };
  impair::Rule lost;
  lost.drop_ppm = 1'000'000;
  lost.dir = impair::Dir::tx;
  s.pair.line().add_rule(lost);
  REQUIRE(s.post(0, 1, 0, 0, 512) == 0);
  s.pair.flush();
  s.pair.on_transmit = nullptr;
  REQUIRE(caught.has_value());
  return *caught;
}

// True when side 1 placed the packet: its last payload byte is there.
bool placed(Story& s, const Caught& c) {
  s.pair.inject(1, c.meta, c.bytes, Duration{0});
  s.pair.run_for(Duration::micros(20));
  const bool there = s.end[1].memory[511] != 0xEE;
  s.end[1].memory[511] = 0xEE;
  return there;
}

}  // namespace

TEST_CASE("both ends agreed: every packet of the QP carries 0 for an iCRC, both ways, and all arrives") {
  Story s(told(false, false));
  size_t bare = 0, sealed = 0, answers = 0;
  s.pair.on_transmit = [&](int side, const engine::Transmit& t, base::ByteView b) {
    if (!of_a_qp(b)) return;
    answers += side == 1;
    CHECK(!t.icrc);
    ++(trailer(b) == 0 ? bare : sealed);
  };
  REQUIRE(s.post(0, 1, 0, 0, kBytes) == 0);
  REQUIRE(s.run_until_sent(0, 1));
  CHECK(s.all_in_order(0, 1, 1));
  CHECK(s.equal(0, 0, kBytes));
  CHECK(bare > 0);
  CHECK(answers > 0);
  CHECK_EQ(sealed, 0u);
  CHECK_EQ(bad_icrc(s, 0) + bad_icrc(s, 1), 0u);
}

TEST_CASE("an end that did not agree drops what comes without an iCRC, and nothing of it is placed") {
  for (const std::optional<bool> other : {std::optional<bool>(), std::optional<bool>(true)}) {
    Story s(told(false, other));
    REQUIRE(s.post(0, 1, 0, 0, kBytes) == 0);
    s.run_until_sent(0, 1);
    CHECK(!s.all_in_order(0, 1, 1));
    CHECK(bad_icrc(s, 1) > 0);
    CHECK_EQ(s.stats(1).rx.bytes_placed, 0u);
    CHECK_EQ(s.end[1].memory[0], 0xEE);
  }
}

TEST_CASE("without an agreement every packet has its iCRC, and a damaged one is dropped") {
  Story s;
  s.pair.on_transmit = [&](int, const engine::Transmit& t, base::ByteView b) {
    CHECK(t.icrc);
    CHECK(trailer(b) != 0);
  };
  impair::Rule r;
  r.corrupt_ppm = 100'000;
  s.pair.line().add_rule(r);
  REQUIRE(s.post(0, 1, 0, 0, kBytes) == 0);
  REQUIRE(s.run_until_sent(0, 1));
  CHECK(s.equal(0, 0, kBytes));
  CHECK(bad_icrc(s, 1) > 0);
}

TEST_CASE(
    "nobody makes a QP with an iCRC take a packet without: neither by 0 in its place nor by another QPN") {
  Story s;
  const Caught good = first_data_packet(s);
  Caught bare = good;
  std::fill(bare.bytes.end() - 4, bare.bytes.end(), uint8_t{0});
  CHECK(!placed(s, bare));
  CHECK_EQ(bad_icrc(s, 1), 1u);
  CHECK(placed(s, good));
}

TEST_CASE("what carries an iCRC is checked also where it may be left off") {
  Story s(told(false, false));
  const Caught bare = first_data_packet(s);
  Caught astray = bare;  // as a packet of another QP whose number was damaged on the way
  wire::store_icrc(astray.bytes.data() + astray.bytes.size() - 4, 0x12345678);
  CHECK(!placed(s, astray));
  CHECK_EQ(bad_icrc(s, 1), 1u);
  Caught sealed = bare;
  const base::ByteView covered(sealed.bytes.data(), sealed.bytes.size() - 4);
  wire::store_icrc(sealed.bytes.data() + covered.size(), wire::icrc(sealed.meta, covered, {}, 0));
  CHECK(placed(s, sealed));
}

TEST_CASE("what was agreed holds for the life of a QP: neither RTS nor a live QP changes it") {
  Story s;
  for (const bool on : {false, true}) {
    engine::QpAttr a;
    a.icrc = on;
    CHECK_EQ(s.pair.side(0).modify_qp(s.pair.now(), s.end[0].qpn, a), EINVAL);
  }
  CHECK(!s.pair.side(0).query_qp(s.end[0].qpn).value().icrc.has_value());
  engine::QpAttr down;
  down.state = engine::QpState::reset;
  REQUIRE(s.pair.side(0).modify_qp(s.pair.now(), s.end[0].qpn, down) == 0);
  s.config.adjust = [](int, engine::QpAttr& a) {
    if (a.state == engine::QpState::rtr) a.icrc = false;
  };
  s.open(0);  // a QP that begins anew may agree anew
  engine::QpAttr rts;
  rts.state = engine::QpState::rts;
  rts.sq_psn = 1;
  rts.icrc = false;
  engine::QpAttr again = down;
  REQUIRE(s.pair.side(1).modify_qp(s.pair.now(), s.end[1].qpn, again) == 0);
  s.config.adjust = [&](int, engine::QpAttr& a) {
    if (a.state == engine::QpState::rts)
      CHECK_EQ(s.pair.side(1).modify_qp(s.pair.now(), s.end[1].qpn, rts), EINVAL);
  };
  s.open(1);
}
