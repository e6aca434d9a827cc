// SRv6 templates (reference 4.5): EV -> destination -> EV.
#include <cerrno>

#include "base/rng.h"
#include "ev/srv6_template.h"
#include "testing/check.h"

using namespace mrc::ev;  // NOLINT(google-build-using-namespace)
using mrc::base::IpAddr;

namespace {

IpAddr usids(std::initializer_list<uint16_t> list) {
  IpAddr a{{0xfc, 0xbb, 0xbb, 0x00}};
  size_t at = 4;
  for (const uint16_t u : list) {
    a.bytes[at++] = static_cast<uint8_t>(u >> 8);
    a.bytes[at++] = static_cast<uint8_t>(u);
  }
  return a;
}
Srv6Template lab() {
  Srv6Template t;
  t.address = usids({0x0010, 0x1000, 0x0020, 0x3007});
  t.n_slots = 4;
  return t;
}

}  // namespace

TEST_CASE("the plane goes into every uSID, the uplink into the second") {
  CHECK(srv6_destination(lab(), 0).value() == usids({0x0010, 0x1000, 0x0020, 0x3007}));
  CHECK(srv6_destination(lab(), 0x5A7).value() == usids({0x0510, 0x15A7, 0x0520, 0x3507}));
  CHECK(srv6_destination(lab(), 0x7FF).value() == usids({0x0710, 0x17FF, 0x0720, 0x3707}));
}

TEST_CASE("an EV above plane and uplink does not fit") {
  CHECK_EQ(srv6_destination(lab(), 0x800).error(), EINVAL);
}

TEST_CASE("unused trailing uSIDs stay zero, a T0-local pair has two") {
  Srv6Template t = lab();
  t.n_slots = 6;
  t.address = usids({0x0010, 0x3007});
  // The uplink field lies on template bits of that uSID: the way back would be ambiguous.
  CHECK_EQ(check_template(t), EINVAL);
  t.uplink_bits = 0;
  CHECK_EQ(check_template(t), 0);
  CHECK(srv6_destination(t, 3).value() == usids({0x0310, 0x3307}));
}

TEST_CASE("bad geometries are refused") {
  const auto bad = [](auto change) {
    Srv6Template t = lab();
    change(t);
    return check_template(t) == EINVAL && !srv6_destination(t, 0).ok() && !srv6_ev(t, t.address).has_value();
  };
  CHECK(bad([](Srv6Template& t) { t.n_slots = 7; }));
  CHECK(bad([](Srv6Template& t) { t.n_slots = 0; }));
  CHECK(bad([](Srv6Template& t) { t.block_bits = 129; }));
  CHECK(bad([](Srv6Template& t) { t.usid_bits = 0; }));
  CHECK(bad([](Srv6Template& t) { t.plane_shift = 14; }));
  CHECK(bad([](Srv6Template& t) { t.uplink_shift = 4; }));  // on top of the plane
  CHECK(bad([](Srv6Template& t) { t.uplink_bits = 17; }));
  CHECK(bad([](Srv6Template& t) { t.uplink_slot = 4; }));
  CHECK(bad([](Srv6Template& t) {
    t.address = usids({0x0010, 0x0000, 0x0020, 0x3007});
  }));  // no uSID for the uplink
  CHECK(bad([](Srv6Template& t) { t.address = usids({0x0110, 0x1000, 0x0020, 0x3007}); }));  // plane bits set
  CHECK_EQ(check_template(lab()), 0);
}

TEST_CASE("every EV comes back from its destination; strangers do not") {
  for (uint32_t ev = 0; ev < 0x800; ++ev) CHECK(srv6_ev(lab(), srv6_destination(lab(), ev).value()) == ev);
  CHECK(!srv6_ev(lab(), usids({0x0510, 0x14A7, 0x0520, 0x3507})).has_value());  // planes disagree
  CHECK(!srv6_ev(lab(), usids({0x0511, 0x15A7, 0x0520, 0x3507})).has_value());  // another leaf
  CHECK(!srv6_ev(lab(), usids({0x0510, 0x15A7, 0x0520, 0x3507, 1})).has_value());
  mrc::base::Rng rng(3);
  for (int i = 0; i < 5000; ++i) {
    IpAddr a = srv6_destination(lab(), rng.below(0x800)).value();
    const uint32_t flip = rng.below(128);
    a.bytes[flip / 8] = static_cast<uint8_t>(a.bytes[flip / 8] ^ (1u << (flip % 8)));
    const auto ev = srv6_ev(lab(), a);
    if (ev) CHECK(srv6_destination(lab(), *ev).value() == a);
  }
}

TEST_CASE("uSIDs off byte borders") {
  Srv6Template t;
  t.block_bits = 30;
  t.usid_bits = 12;
  t.n_slots = 8;
  t.plane_shift = 4;
  t.uplink_bits = 4;
  t.address = IpAddr{{0xfc, 0xbb, 0xbb, 0x02, 0x00, 0x28, 0x00}};
  REQUIRE(check_template(t) == 0);
  for (uint32_t ev = 0; ev < 128; ++ev) CHECK(srv6_ev(t, srv6_destination(t, ev).value()) == ev);
}
