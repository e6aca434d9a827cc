// How long runs on one EV are, and which QPs share one.
#include "engine/run.h"

#include <cerrno>
#include <map>
#include <set>

#include "engine/tests/solo.h"

using namespace mrc::engine;           // NOLINT(google-build-using-namespace)
using namespace mrc::engine::testing;  // NOLINT(google-build-using-namespace)
namespace ev = mrc::ev;

namespace {

constexpr uint32_t kLimit = 61'440;
// What a middle packet of 1024 bytes counts in a run.
constexpr int64_t kPacket = 1024 + 40;
Instant us(int64_t t) { return Instant{t * 1000}; }

int64_t length_of(Run r, uint32_t evs = 1) {
  r.start({1, 1}, v6(2, 1), evs);
  int64_t low = 0;
  for (int64_t high = 1 << 20; low + 1 < high;) {
    const int64_t middle = (low + high) / 2;
    (r.has_room(middle) ? low : high) = middle;
  }
  return low;
}

EndpointConfig with_runs(uint32_t bytes = kLimit) {
  EndpointConfig c;
  c.run_bytes = bytes;
  return c;
}

// Two hundred packets of 1024 bytes in 600 us: runs are as long as they may be from here on.
void warm_up(Solo& s, uint32_t qpn) {
  s.post(qpn, 200 * 1024);
  REQUIRE(s.drain().size() == 200);
  s.now = s.now + Duration::micros(600);
  s.post(qpn, 1024);
  REQUIRE(s.drain().size() == 1);
}

Transmit one(Solo& s, uint32_t qpn, uint32_t ports = kAllPorts) {
  s.post(qpn, 1024);
  const auto t = s.next(ports);
  REQUIRE(t.has_value() && t->is_data && t->qpn == qpn);
  return *t;
}

}  // namespace

TEST_CASE("a run lasts 200 us at the present rate, and has a limit") {
  Run r(kLimit);
  CHECK(r.used());
  CHECK_EQ(length_of(r), 0);  // nothing is known yet
  r.measure(us(1000), 100'000);
  CHECK_EQ(length_of(r), 20'000);
  r.measure(us(1500), 500'000);  // 1 GB/s
  CHECK_EQ(length_of(r), int64_t{kLimit});
  CHECK(!Run(0).used());
}

TEST_CASE("with many EVs runs are short enough to walk over all of them in 10 ms") {
  Run r(kLimit);
  r.measure(us(1000), 100'000);
  CHECK_EQ(length_of(r, 0), 20'000);
  CHECK_EQ(length_of(r, 50), 20'000);
  CHECK_EQ(length_of(r, 100), 10'000);
  CHECK_EQ(length_of(r, 4000), 250);
  r.measure(us(1500), 5'000'000);  // 10 GB/s: the limit is shorter than that
  CHECK_EQ(length_of(r, 500), int64_t{kLimit});
}

TEST_CASE("a run that is started has what is left of it") {
  Run r(kLimit);
  r.measure(us(1000), 100'000);
  r.start({7, 2}, v6(3, 2));
  CHECK((r.path() == ev::PathId{7, 2}));
  CHECK(r.to() == v6(3, 2));
  r.add(15'000);
  CHECK(r.has_room(5'000));
  CHECK(!r.has_room(5'001));
}

TEST_CASE("the rate counts after half a millisecond; a pause shortens runs slowly") {
  Run r(kLimit);
  r.measure(us(1000), 100'000);
  r.measure(us(1499), 200'000);
  CHECK_EQ(length_of(r), 20'000);  // the interval is not over
  r.measure(us(1500), 0);
  CHECK_EQ(length_of(r), int64_t{kLimit});  // 400 bytes a microsecond
  Run quiet(kLimit);
  quiet.measure(us(1000), 100'000);
  quiet.measure(us(50'000), 100);
  CHECK_EQ(length_of(quiet), 19'600);  // one interval, whatever its length: 2 % less
  int halved = 1;
  for (int64_t t = 50'600; length_of(quiet) > 10'000; t += 600, ++halved) quiet.measure(us(t), 0);
  CHECK(halved >= 34);
  CHECK(halved <= 36);
}

TEST_CASE("ev_run 1 sprays every packet, N keeps to one EV for N packets") {
  Solo s(with_runs());
  warm_up(s, s.open(2));
  const uint32_t spray = s.open(2, [](QpAttr& a) { a.ev_run = 1; });
  s.post(spray, 160 * 1024);
  std::map<uint32_t, int> used;
  for (const Transmit& t : s.drain()) ++used[t.tag];
  CHECK_EQ(used.size(), 16u);
  for (const auto& [tag, n] : used) CHECK_EQ(n, 10);

  const uint32_t five = s.open(2, [](QpAttr& a) { a.ev_run = 5; });
  s.post(five, 80 * 1024);
  const auto sent = s.drain();
  REQUIRE(sent.size() == 80);
  std::set<uint32_t> begun;
  for (size_t i = 0; i < sent.size(); ++i) {
    CHECK_EQ(sent[i].tag, sent[i - i % 5].tag);
    begun.insert(sent[i].tag);
  }
  CHECK_EQ(begun.size(), 16u);
}

TEST_CASE("ev_run goes up to 4096 and is set before the QP is connected") {
  Solo s;
  const auto with = [](uint32_t n) { return [n](QpAttr& a) { a.ev_run = n; }; };
  CHECK_EQ(s.connect(s.create(), s.planes_of(2), with(4096)), 0);
  CHECK_EQ(s.connect(s.create(), s.planes_of(2), with(4097)), EINVAL);
  const uint32_t live = s.open(2);
  QpAttr a;
  a.ev_run = 1;
  CHECK_EQ(s.ep.modify_qp(s.now, live, a), EINVAL);
}

TEST_CASE("without run_bytes every packet takes the next EV") {
  Solo s;
  warm_up(s, s.open(2));
  const uint32_t q = s.open(2);
  s.post(q, 16 * 1024);
  std::set<uint32_t> tags;
  for (const Transmit& t : s.drain()) tags.insert(t.tag);
  CHECK_EQ(tags.size(), 16u);
}

TEST_CASE("QPs towards one address fill one run together, to its last packet") {
  Solo s(with_runs());
  const uint32_t a = s.open(2);
  const uint32_t b = s.open(2);
  warm_up(s, a);
  s.drain();
  s.post(a, 300 * 1024);
  s.post(b, 300 * 1024);
  const auto sent = s.drain();
  REQUIRE(sent.size() == 600);
  size_t runs = 0, shared = 0;
  for (size_t i = 0; i < sent.size(); ++runs) {
    std::set<uint32_t> qps;
    size_t n = 0;
    for (; i + n < sent.size() && sent[i + n].tag == sent[i].tag; ++n) qps.insert(sent[i + n].qpn);
    const bool whole = i > 0 && i + n < sent.size();
    if (whole) CHECK_EQ(n, size_t{kLimit / kPacket});
    shared += qps.size() == 2 ? 1u : 0u;
    i += n;
  }
  CHECK(runs >= 10);
  CHECK(shared >= runs - 2);
}

TEST_CASE("a QP that leads elsewhere starts a run of its own") {
  Solo s(with_runs());
  const uint32_t a = s.open(2);
  const uint32_t b = s.open(2);
  const uint32_t other = s.open(3);
  warm_up(s, a);
  const uint32_t tag = one(s, a).tag;
  CHECK_EQ(one(s, b).tag, tag);
  std::set<uint32_t> tags;
  for (int i = 0; i < 8; ++i) {
    tags.insert(one(s, a).tag);
    const Transmit t = one(s, other);
    CHECK(t.meta.dst == v6(3, t.meta.port));
  }
  CHECK(tags.size() >= 7);  // each time the run was the other one's
}

TEST_CASE("a port that is full or down ends the run") {
  Solo s(with_runs());
  const uint32_t a = s.open(2);
  warm_up(s, a);
  const Transmit first = one(s, a);
  CHECK_EQ(one(s, a).tag, first.tag);
  const Transmit around = one(s, a, kAllPorts & ~(1u << first.meta.port));
  CHECK(around.meta.port != first.meta.port);
  CHECK_EQ(one(s, a).tag, around.tag);
  REQUIRE(s.ep.set_port_up(s.now, around.meta.port, false) == 0);
  for (int i = 0; i < 100; ++i) {
    s.post(a, 1024);
    for (const Transmit& t : s.drain()) CHECK_EQ(t.meta.port, first.meta.port);
  }
}

TEST_CASE("an EV that is not GOOD ends the run, also where only one QP thinks so") {
  Solo s(with_runs());
  const uint32_t a = s.open(2);
  const uint32_t b = s.open(2);
  warm_up(s, a);
  const uint32_t tag = one(s, a).tag;
  REQUIRE(s.ep.set_ev_state(s.now, b, tag, ev::State::denied) == 0);
  CHECK_EQ(one(s, a).tag, tag);
  const uint32_t next = one(s, b).tag;
  CHECK(next != tag);
  CHECK_EQ(one(s, a).tag, next);  // the run is the newer one
  REQUIRE(s.ep.set_ev_state(s.now, a, next, ev::State::assumed_bad) == 0);
  const uint32_t last = one(s, a).tag;
  CHECK(last != next);
}
