// Who waits in front of a peer, and that nobody waits for ever.
#include "engine/share.h"

#include <map>

#include "engine/tests/solo.h"

using namespace mrc::engine;           // NOLINT(google-build-using-namespace)
using namespace mrc::engine::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr int64_t kTurn = Share::kTurnBytes;
constexpr int64_t kNominal = 1024 + 88;  // of a packet here
constexpr uint32_t kMegabyte = 1 << 20;

EndpointConfig sharing() {
  EndpointConfig c;
  c.share_window = true;
  return c;
}

// A window of `bytes`, for a QP alone as for all of them.
Solo::Adjust window(int64_t bytes) {
  return [bytes](QpAttr& a) {
    if (a.state != QpState::init) return;
    a.cc_algorithm = "fixed-window";
    a.cc_config = mrc::cc::CcConfig{};
    a.cc_config->max_cwnd = bytes;
  };
}

int64_t in_flight(const Solo& s, uint32_t qpn) { return s.ep.qp_stats(qpn).value().outstanding; }

}  // namespace

TEST_CASE("there is room for a whole turn; small windows are shared in small turns") {
  Share s;
  s.limit = 1000;
  CHECK_EQ(s.turn(), 500);
  CHECK(s.has_room());
  s.outstanding = 750;
  CHECK(s.has_room());
  s.outstanding = 751;
  CHECK(!s.has_room());
  s.limit = 3 * kTurn;
  s.outstanding = kTurn;
  s.granted = kTurn;
  CHECK(s.has_room());
  s.granted = kTurn + 1;
  CHECK(!s.has_room());
}

TEST_CASE("who waited first is woken first, no more of them than there is room") {
  Shares all;
  Share& s = *all.join(v6(2, 1));
  CHECK(all.join(v6(2, 1)) == &s);
  CHECK(all.join(v6(3, 1)) != &s);
  s.limit = 2 * kTurn;
  for (const uint32_t slot : {5u, 1u, 9u, 3u}) all.wait(s, slot);
  std::vector<uint32_t> woken;
  const auto begin = [&](const Share&, uint32_t slot) {
    woken.push_back(slot);
    s.granted += kTurn;
  };
  all.wake(s, begin);
  CHECK((woken == std::vector<uint32_t>{5, 1}));
  all.wake_all(begin);
  CHECK_EQ(woken.size(), 2u);
  s.granted -= kTurn;
  all.wake_all(begin);
  CHECK((woken == std::vector<uint32_t>{5, 1, 9}));
}

TEST_CASE("one that is gone takes no room: the next is woken") {
  Shares all;
  Share& s = *all.join(v6(2, 1));
  s.limit = kTurn;
  for (uint32_t slot = 0; slot < 4; ++slot) all.wait(s, slot);
  std::vector<uint32_t> woken;
  all.wake(s, [&](const Share&, uint32_t slot) {
    woken.push_back(slot);
    if (slot == 2) s.granted += kTurn;
  });
  CHECK((woken == std::vector<uint32_t>{0, 1, 2}));
}

TEST_CASE("a share goes with its last member, and who waited there with it") {
  Shares all;
  Share* s = all.join(v6(2, 1));
  all.join(v6(2, 1));
  s->limit = 7;
  all.leave(v6(2, 1));
  all.wait(*s, 4);
  all.leave(v6(2, 1));
  all.leave(v6(2, 1));  // nobody there: nothing
  all.wake_all([](const Share&, uint32_t) { CHECK(false); });
  CHECK_EQ(all.join(v6(2, 1))->limit, 0);
}

TEST_CASE("two QPs towards one peer have one window; towards two peers, each its own") {
  Solo s(sharing());
  const uint32_t a = s.open(2, window(4 * kTurn));
  const uint32_t b = s.open(2, window(4 * kTurn));
  const uint32_t elsewhere = s.open(3, window(4 * kTurn));
  for (const uint32_t q : {a, b, elsewhere}) s.post(q, kMegabyte);
  s.drain();
  const int64_t both = in_flight(s, a) + in_flight(s, b);
  CHECK(both > 3 * kTurn);
  CHECK(both <= 4 * kTurn + 4 * kNominal);  // a turn may end with a packet that exceeds it
  CHECK(in_flight(s, a) > 0);
  CHECK(in_flight(s, b) > 0);
  CHECK(in_flight(s, elsewhere) > 3 * kTurn);
}

TEST_CASE("a message of one packet does not wait for room") {
  Solo s(sharing());
  const uint32_t a = s.open(2, window(2 * kTurn));
  const uint32_t b = s.open(2, window(2 * kTurn));
  s.post(a, kMegabyte);
  s.drain();
  CHECK_EQ(in_flight(s, b), 0);
  s.post(b, 100);
  s.drain();
  CHECK(in_flight(s, b) > 0);
}

TEST_CASE("off by default: each QP has a window of its own") {
  CHECK(!EndpointConfig{}.share_window);
  Solo s;
  const uint32_t a = s.open(2, window(2 * kTurn));
  const uint32_t b = s.open(2, window(2 * kTurn));
  for (const uint32_t q : {a, b}) s.post(q, kMegabyte);
  s.drain();
  for (const uint32_t q : {a, b}) CHECK(in_flight(s, q) >= 2 * kTurn);
}

TEST_CASE("the largest window of the members is everybody's, also of one that came later") {
  Solo s(sharing());
  const uint32_t a = s.open(2, window(kTurn));
  const uint32_t b = s.open(2, window(4 * kTurn));
  s.post(b, kMegabyte);
  s.drain();
  CHECK(in_flight(s, b) > 3 * kTurn);
  s.post(a, kMegabyte);
  CHECK(s.drain().empty());
}

TEST_CASE("a QP that is destroyed, reset or in error gives its part to who waits") {
  for (const int how : {0, 1, 2}) {
    Solo s(sharing());
    const uint32_t a = s.open(2, window(2 * kTurn));
    const uint32_t b = s.open(2, window(2 * kTurn));
    s.post(a, kMegabyte);
    s.drain();
    CHECK(in_flight(s, a) >= kTurn);
    s.post(b, kMegabyte);
    CHECK(s.drain().empty());
    QpAttr end;
    end.state = how == 1 ? QpState::reset : QpState::err;
    REQUIRE((how == 0 ? s.ep.destroy_qp(s.now, a) : s.ep.modify_qp(s.now, a, end)) == 0);
    s.drain();
    CHECK(in_flight(s, b) >= kTurn);
  }
}

TEST_CASE("a QP that goes in the middle of its turn takes nothing with it") {
  Solo s(sharing());
  const uint32_t a = s.open(2, window(kTurn));
  const uint32_t b = s.open(2, window(kTurn));
  s.post(a, kMegabyte);
  s.drain(10);
  s.post(b, kMegabyte);
  CHECK_EQ(in_flight(s, a), 10 * kNominal);
  REQUIRE(s.ep.destroy_qp(s.now, a) == 0);
  s.drain();
  CHECK(in_flight(s, b) >= kTurn);
}

TEST_CASE("a turn outlasts a full socket: the same QP goes on, then the others") {
  Solo s(sharing());
  const uint32_t a = s.open(2, window(kTurn));
  const uint32_t b = s.open(2, window(kTurn));
  s.post(a, kMegabyte);
  s.post(b, kMegabyte);
  const auto first = s.drain(10);
  REQUIRE(first.size() == 10);
  const uint32_t turn = first[0].qpn;
  CHECK(s.drain(SIZE_MAX, 0).empty());  // no port takes anything
  const auto rest = s.drain();
  int64_t sent = 0;
  for (const Transmit& t : rest) {
    CHECK_EQ(t.qpn, turn);
    sent += t.payload_len;
  }
  CHECK(sent + 10 * 1024 >= kTurn * 9 / 10);
  CHECK_EQ(in_flight(s, turn == a ? b : a), 0);
}

TEST_CASE("a QP whose planes are down leaves its turn to another, the one it has and the one it would get") {
  for (const bool begun : {false, true}) {
    Solo s(sharing());
    const uint32_t a = s.open(2, window(kTurn));
    const std::vector<PeerPort> one_plane{s.planes_of(2)[0]};  // the address that names the share
    const uint32_t b = s.create();
    REQUIRE(s.connect(b, one_plane, window(kTurn)) == 0);
    s.post(b, kMegabyte);
    if (begun) s.drain(1);
    REQUIRE(s.ep.set_port_up(s.now, 1, false) == 0);
    s.post(a, kMegabyte);
    s.drain();
    CHECK_EQ(in_flight(s, b), begun ? kNominal : 0);
    // One packet that may still be under way leaves no room for a whole turn of 64 KiB.
    if (!begun) CHECK(in_flight(s, a) >= kTurn);
    if (begun) REQUIRE(s.ep.destroy_qp(s.now, b) == 0);
    s.drain();
    CHECK(in_flight(s, a) >= kTurn);
  }
}

TEST_CASE("a QP all of whose EVs are denied holds no turn") {
  Solo s(sharing());
  const uint32_t a = s.open(2, window(kTurn));
  const uint32_t b = s.open(2, window(kTurn));
  for (const PathStats& p : s.ep.path_stats(b))
    REQUIRE(s.ep.set_ev_state(s.now, b, p.tag, mrc::ev::State::denied) == 0);
  s.post(b, kMegabyte);
  CHECK(s.drain().empty());
  s.post(a, kMegabyte);
  s.drain();
  CHECK(in_flight(s, a) >= kTurn);
}

TEST_CASE("a QP that was reset while it waited waits again like any other") {
  Solo s(sharing());
  const uint32_t a = s.open(2, window(kTurn));
  const uint32_t b = s.open(3, window(2 * kTurn));
  s.post(b, kMegabyte);
  s.drain();  // one turn and no room for a second: b waits in front of host 3
  QpAttr reset;
  reset.state = QpState::reset;
  REQUIRE(s.ep.modify_qp(s.now, b, reset) == 0);
  REQUIRE(s.connect(b, s.planes_of(2), window(kTurn)) == 0);
  s.post(a, kMegabyte);
  s.drain();
  s.post(b, kMegabyte);
  CHECK(s.drain().empty());  // a has the room
  REQUIRE(s.ep.destroy_qp(s.now, a) == 0);
  s.drain();
  CHECK(in_flight(s, b) >= kTurn - kNominal);
}

TEST_CASE("a slot that is used again inherits no place in a queue") {
  Solo s(sharing());
  const uint32_t a = s.open(2, window(kTurn));
  const uint32_t gone = s.open(2, window(kTurn));
  s.post(a, kMegabyte);
  s.drain();
  s.post(gone, kMegabyte);
  s.drain();
  REQUIRE(s.ep.destroy_qp(s.now, gone) == 0);
  const uint32_t fresh = s.open(3, window(kTurn));  // in the slot of `gone`, towards another peer
  REQUIRE(s.ep.destroy_qp(s.now, a) == 0);
  s.drain();
  s.post(fresh, kMegabyte);
  s.drain();
  CHECK(in_flight(s, fresh) >= kTurn);
  CHECK(in_flight(s, fresh) <= kTurn + kNominal);
}
