// The experiments of QpAttr: fixed reverse EVs, and no fast loss detection.
#include <algorithm>
#include <map>
#include <set>

#include "story.h"

using namespace mrc;           // NOLINT(google-build-using-namespace): a test file
using namespace mrc::testing;  // NOLINT(google-build-using-namespace)

namespace {

// The EVs, by plane, that side 1 answered on during 30 ms of one-way writes.
std::map<uint8_t, std::set<uint32_t>> answered_on(std::optional<bool> fixed) {
  StoryConfig c;
  c.adjust = [fixed](int, engine::QpAttr& a) {
    if (a.state == engine::QpState::rtr) a.fixed_reverse_ev = fixed;
  };
  Story s(c);
  std::map<uint8_t, std::set<uint32_t>> tags;
  s.pair.on_transmit = [&](int side, const engine::Transmit& t, base::ByteView bytes) {
    const auto opcode = static_cast<wire::Opcode>(bytes[0]);
    if (side == 1 && opcode != wire::Opcode::reliability_probe) tags[t.meta.port].insert(t.tag);
  };
  const Instant end = Instant{} + Duration::millis(30);
  for (uint64_t id = 0; s.pair.now() < end; ++id) {
    REQUIRE(s.post(0, id, 0, 0, 16'384) == 0);
    REQUIRE(s.run_until_sent(0, 1));
    s.end[0].sent.clear();
    s.pair.run_for(Duration::micros(100));
  }
  return tags;
}

engine::QpStats after_losses(std::optional<bool> fast_loss, bool& delivered) {
  StoryConfig c;
  c.adjust = [fast_loss](int, engine::QpAttr& a) {
    if (a.state == engine::QpState::rts) a.fast_loss = fast_loss;
  };
  Story s(c);
  impair::Rule lossy;
  lossy.port = 1;
  lossy.dir = impair::Dir::tx;
  lossy.drop_ppm = 50'000;
  s.pair.line().add_rule(lossy);
  for (uint64_t id = 0; id < 16; ++id) REQUIRE(s.post(0, id, id * 65'536, id * 65'536, 65'536) == 0);
  delivered = s.run_until_sent(0, 16) && s.all_in_order(0, 16) && s.equal(0, 0, 16 * 65'536);
  return s.stats(0);
}

}  // namespace

TEST_CASE("fixed reverse EVs: answers keep one EV a plane from the first on; by default they move") {
  const auto fixed = answered_on(true);
  CHECK_EQ(fixed.size(), 4u);
  for (const auto& [plane, tags] : fixed) CHECK_EQ(tags.size(), 1u);
  const auto free = answered_on(std::nullopt);
  CHECK(std::any_of(free.begin(), free.end(), [](const auto& p) { return p.second.size() > 1; }));
}

TEST_CASE("no fast loss detection: every byte arrives, by probes and timers alone") {
  bool delivered = false;
  const engine::QpStats usual = after_losses(std::nullopt, delivered);
  CHECK(delivered);
  CHECK(usual.tx.rtx_inferred > 0);
  const engine::QpStats slow = after_losses(false, delivered);
  CHECK(delivered);
  CHECK_EQ(slow.tx.rtx_inferred, uint64_t{0});
  CHECK(slow.tx.rtx_probe + slow.tx.rtx_timeout > 0);
}

TEST_CASE("experiments are set on the way up, not on a live QP") {
  Story s;
  engine::QpAttr a;
  a.fast_loss = false;
  CHECK(s.pair.side(0).modify_qp(s.pair.now(), s.end[0].qpn, a) != 0);
  engine::QpAttr b;
  b.fixed_reverse_ev = true;
  CHECK(s.pair.side(0).modify_qp(s.pair.now(), s.end[0].qpn, b) != 0);
}
