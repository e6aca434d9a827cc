// CC profiles: what each state needs, allows and refuses.
#include "cc/profile.h"

#include <cerrno>
#include <limits>

#include "testing/check.h"

using namespace mrc::cc;  // NOLINT(google-build-using-namespace)
using mrc::base::Duration;
using mrc::base::ProfileState;

namespace {

constexpr uint64_t kId = std::numeric_limits<uint64_t>::max();  // any 64-bit id

CcProfileChange to(ProfileState s) {
  CcProfileChange c;
  c.state = s;
  return c;
}
CcProfileChange give(const char* algorithm) {
  CcProfileChange c;
  c.algorithm = algorithm;
  return c;
}
CcProfileChange give(const CcConfig& config) {
  CcProfileChange c;
  c.config = config;
  return c;
}
CcProfileStore online(CcProfileLimits limits = {}) {
  CcProfileStore s(limits);
  CcProfileChange c = to(ProfileState::offline);
  c.algorithm = "uet-1.0-nscc";
  REQUIRE(s.modify(kId, c) == 0);
  c = to(ProfileState::online);
  c.config = CcConfig{};
  REQUIRE(s.modify(kId, c) == 0);
  return s;
}

}  // namespace

TEST_CASE("OFFLINE needs an algorithm, ONLINE a config, given now or before") {
  CcProfileStore s;
  CHECK(s.query(kId).state == ProfileState::init);
  CHECK_EQ(s.modify(kId, to(ProfileState::offline)), EINVAL);
  CHECK_EQ(s.modify(kId, give("uet-1.0-nscc")), 0);
  CHECK_EQ(s.modify(kId, to(ProfileState::offline)), 0);
  CHECK_EQ(s.modify(kId, to(ProfileState::online)), EINVAL);
  CcConfig config;
  config.gamma = 0.5;
  CHECK_EQ(s.modify(kId, give(config)), 0);
  CHECK_EQ(s.modify(kId, to(ProfileState::online)), 0);
  CHECK(s.query(kId).state == ProfileState::online);
  CHECK_EQ(s.query(kId).config->gamma, 0.5);
  CHECK_EQ(s.ids().size(), 1u);
}

TEST_CASE("only INIT, OFFLINE, ONLINE, OFFLINE, INIT; nothing stays in place or skips") {
  CcProfileStore s = online();
  CHECK_EQ(s.modify(kId, to(ProfileState::online)), EINVAL);
  CHECK_EQ(s.modify(kId, to(ProfileState::init)), EINVAL);
  CHECK_EQ(s.modify(kId, to(ProfileState::offline)), 0);
  CHECK_EQ(s.modify(kId, to(ProfileState::offline)), EINVAL);
  CHECK_EQ(s.modify(kId, to(ProfileState::online)), 0);
  CHECK_EQ(s.modify(kId, to(ProfileState::offline)), 0);
  CHECK_EQ(s.modify(kId, to(ProfileState::init)), 0);
  CHECK(!s.query(kId).algorithm);  // INIT forgets
  CHECK(s.ids().empty());
  CHECK_EQ(s.modify(kId, to(ProfileState::init)), EINVAL);
  CcProfileChange jump = to(ProfileState::online);
  jump.algorithm = "null";
  jump.config = CcConfig{};
  CHECK_EQ(s.modify(kId, jump), EINVAL);
  CHECK(s.ids().empty());
}

TEST_CASE("cur_state is asserted before anything changes") {
  CcProfileStore s = online();
  CcProfileChange c = to(ProfileState::offline);
  c.cur_state = ProfileState::offline;
  CHECK_EQ(s.modify(kId, c), EINVAL);
  CHECK(s.query(kId).state == ProfileState::online);
  c.cur_state = ProfileState::online;
  CHECK_EQ(s.modify(kId, c), 0);
}

TEST_CASE("an ONLINE profile takes a new config only with the capability, and never another algorithm") {
  CcConfig config;
  config.target_delay = Duration::micros(6);
  CcProfileStore s = online();
  CHECK_EQ(s.modify(kId, give(config)), 0);
  CHECK_EQ(s.query(kId).config->target_delay.ns, 6'000);
  CHECK_EQ(s.modify(kId, give("fixed-window")), EINVAL);
  CcProfileStore rigid = online({64, false});
  CHECK_EQ(rigid.modify(kId, give(config)), EINVAL);
  CHECK_EQ(rigid.query(kId).config->target_delay.ns, 0);
  CHECK_EQ(rigid.modify(kId, to(ProfileState::offline)), 0);
  CHECK_EQ(rigid.modify(kId, give(config)), 0);
}

TEST_CASE("a profile that a QP holds cannot leave ONLINE") {
  CcProfileStore s = online();
  const auto held = s.hold(kId);
  REQUIRE(held.ok());
  CHECK_EQ(*held.value().algorithm, "uet-1.0-nscc");
  CHECK_EQ(s.modify(kId, to(ProfileState::offline)), EBUSY);
  CHECK(s.query(kId).state == ProfileState::online);
  s.release(kId);
  s.release(kId);  // one too many changes nothing
  CHECK_EQ(s.modify(kId, to(ProfileState::offline)), 0);
  CHECK_EQ(s.hold(kId).error(), EINVAL);
  CHECK_EQ(s.hold(7).error(), EINVAL);
}

TEST_CASE("unknown algorithms and settings out of range are refused whole") {
  CcProfileStore s;
  CHECK_EQ(s.modify(kId, give("bbr")), EINVAL);
  CcProfileChange c = give("uet-1.0-nscc");
  c.config = CcConfig{};
  c.config->max_md_jump = 1.5;
  CHECK_EQ(s.modify(kId, c), EINVAL);
  CHECK(s.ids().empty());
  CHECK_EQ(s.modify(kId, give("")), 0);  // NULL: no congestion control
  c = to(ProfileState::init);
  c.algorithm = "null";
  CHECK_EQ(s.modify(kId, c), EINVAL);
}

TEST_CASE("the number of profiles is limited; blank ones cost nothing") {
  CcProfileStore s({2, true});
  CHECK_EQ(s.modify(1, {}), 0);
  CHECK(s.ids().empty());
  CHECK_EQ(s.modify(1, give("null")), 0);
  CHECK_EQ(s.modify(2, give("null")), 0);
  CHECK_EQ(s.modify(3, give("null")), EINVAL);
  CHECK_EQ(s.modify(1, to(ProfileState::offline)), 0);
  CHECK_EQ(s.modify(1, to(ProfileState::init)), 0);
  CHECK_EQ(s.modify(3, give("null")), 0);
}
