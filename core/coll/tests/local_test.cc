// Ranks on one host: long messages are read from their sender's memory.
#include <cerrno>

#include "coll/tests/ring.h"

using namespace mrc;        // NOLINT(google-build-using-namespace)
using namespace mrc::coll;  // NOLINT(google-build-using-namespace)

namespace {

constexpr size_t kInts = 1 << 16;

BenchConfig local() {
  BenchConfig c;
  c.local = true;
  return c;
}

struct Data {
  explicit Data(size_t n = kInts)
      : in{numbers(0, n), numbers(1, n)}, out{std::vector<int32_t>(n), std::vector<int32_t>(n)} {}
  [[nodiscard]] bool right() const { return out[0] == total(in[0].size()) && out[1] == out[0]; }
  std::array<std::vector<int32_t>, 2> in, out;
};

// Both have told one another.
void meet(Bench& b) { CHECK(!b.run(1, Duration::millis(2))); }

void submit(Bench& b, Data& d, uint64_t chunk = 16384) {
  for (const uint32_t s : {0u, 1u})
    REQUIRE(b.submit(s, halves(s, d.in[s].size() * 4, chunk), d.in[s], d.out[s]).ok());
}

}  // namespace

TEST_CASE("long messages are read, the network carries notes, and announcements end with the first of them") {
  Bench b(local());
  meet(b);
  for (size_t i = 1; i <= 3; ++i) {
    Data d;
    submit(b, d);
    REQUIRE(b.run(i));
    CHECK(d.right());
  }
  for (const uint32_t s : {0u, 1u}) {
    CHECK_EQ(b.stats(s).local_bytes, 3 * kInts * 4);
    CHECK_EQ(b.stats(s).announce_tx, 1u);
    CHECK_EQ(b.stats(s).local_refused, 0u);
  }
}

TEST_CASE("what was begun over the network goes on in memory, many at once, also when packets are lost") {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    BenchConfig c = local();
    c.pair.seed = seed;
    Bench b(c);
    impair::Rule r;
    r.drop_ppm = 30'000;
    r.reorder_ppm = 50'000;
    r.reorder_delay = Duration::micros(300);
    b.pair.line().add_rule(r);
    std::vector<Data> data(20, Data(1 << 12));
    for (Data& d : data) submit(b, d, 2048);
    REQUIRE(b.run(data.size()));
    CHECK(b.all(JobState::done));
    for (const Data& d : data) CHECK(d.right());
    CHECK(b.stats(0).local_bytes > 0);
  }
}

TEST_CASE(
    "long messages are combined from their sender's memory, or from where they landed, to the same result") {
  for (const bool near : {true, false}) {
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      BenchConfig c;
      c.local = near;
      c.pair.seed = seed;
      Bench b(c);
      impair::Rule r;
      r.drop_ppm = 30'000;
      b.pair.line().add_rule(r);
      meet(b);
      std::vector<Data> data(6, Data(kInts));
      for (Data& d : data) {
        for (const uint32_t s : {0u, 1u})
          REQUIRE(b.submit(s, folded(s, kInts * 4, 24'576), d.in[s], d.out[s]).ok());
      }
      REQUIRE(b.run(data.size()));
      CHECK(b.all(JobState::done));
      for (const Data& d : data) CHECK(d.right());
      for (const uint32_t s : {0u, 1u}) {
        CHECK_EQ(b.stats(s).bytes_reduced, data.size() * kInts * 2);
        CHECK_EQ(b.stats(s).local_bytes, near ? data.size() * kInts * 4 : 0u);
      }
    }
  }
}

TEST_CASE("what cannot be combined yet leaves the slots to others when they become few") {
  Bench b(local());
  meet(b);
  Data large(24 * 40'000);
  Data small(64);
  const uint64_t bytes = large.in[0].size() * 4;
  REQUIRE(b.submit(0, folded(0, bytes, bytes / 24), large.in[0], large.out[0]).ok());
  REQUIRE(b.submit(0, exchange(0, 256), small.in[0], small.out[0]).ok());
  for (int i = 0; i < 10; ++i) {
    (void)b.side(0).runner->step(b.pair.side(0), b.pair.now());
    b.pair.flush();
    (void)b.pair.step();
  }
  // Its twelve notes are there, and wait for a copy that takes many steps; then comes another message.
  REQUIRE(b.submit(1, folded(1, bytes, bytes / 24), large.in[1], large.out[1]).ok());
  REQUIRE(b.submit(1, exchange(1, 256), small.in[1], small.out[1]).ok());
  REQUIRE(b.run(2));
  CHECK(b.all(JobState::done));
  CHECK(large.right());
  CHECK(small.right());
  CHECK(b.stats(1).parked > 0);
}

TEST_CASE("a sender that gives up while it is combined is noticed as well") {
  Bench b(local());
  meet(b);
  Data d;
  REQUIRE(b.submit(0, folded(0, kInts * 4, 16384), d.in[0], d.out[0]).ok());
  b.step();
  for (int i = 0; i < 10; ++i) (void)b.pair.step();
  CHECK_EQ(b.side(0).runner->abort(b.pair.side(0), b.pair.now(), b.side(0).group, "enough"), 0);
  REQUIRE(b.submit(1, folded(1, kInts * 4, 16384), d.in[1], d.out[1]).ok());
  REQUIRE(b.run(1));
  REQUIRE(b.side(1).over.size() == 1);
  CHECK(b.side(1).over[0].state == JobState::failed);
  CHECK(b.side(1).over[0].failure->status == engine::Status::remote_access_error);
}

TEST_CASE("a host that forbids it has the network") {
  BenchConfig c = local();
  Bench b(c);
  b.reading = EPERM;
  // Asked when the lane is made.
  const auto memory = b.side(0).runner->open_lane_memory(b.pair.side(0));
  engine::QpInit init;
  init.pd = b.side(0).runner->pd();
  init.send_cq = init.recv_cq = b.side(0).runner->cq();
  init.max_recv_wr = 256;
  const uint32_t qpn = b.pair.side(0).create_qp(init).value();
  engine::QpAttr a;
  a.state = engine::QpState::init;
  REQUIRE(b.pair.side(0).modify_qp(b.pair.now(), qpn, a) == 0);
  CHECK(b.side(0).runner->add_lane(b.pair.side(0), b.pair.now(), qpn, memory.value(), b.remote(1)).ok());
  CHECK_EQ(b.stats(0).local_refused, 1u);
}

TEST_CASE("another process under the number of the peer is not read from") {
  BenchConfig c = local();
  Bench b(c);
  meet(b);
  RemoteMemory other = b.remote(1);
  other.token ^= 1;
  const auto memory = b.side(0).runner->open_lane_memory(b.pair.side(0));
  engine::QpInit init;
  init.pd = b.side(0).runner->pd();
  init.send_cq = init.recv_cq = b.side(0).runner->cq();
  init.max_recv_wr = 256;
  const uint32_t qpn = b.pair.side(0).create_qp(init).value();
  engine::QpAttr a;
  a.state = engine::QpState::init;
  REQUIRE(b.pair.side(0).modify_qp(b.pair.now(), qpn, a) == 0);
  CHECK(b.side(0).runner->add_lane(b.pair.side(0), b.pair.now(), qpn, memory.value(), other).ok());
  CHECK_EQ(b.stats(0).local_refused, 1u);
}

TEST_CASE("a sender that has given up is noticed: what was read from it does not count") {
  Bench b(local());
  meet(b);
  Data d;
  REQUIRE(b.submit(0, halves(0, kInts * 4, 16384), d.in[0], d.out[0]).ok());
  b.step();
  for (int i = 0; i < 10; ++i) (void)b.pair.step();  // the notes are there
  CHECK_EQ(b.side(0).runner->abort(b.pair.side(0), b.pair.now(), b.side(0).group, "enough"), 0);
  std::fill(d.in[0].begin(), d.in[0].end(), -1);
  REQUIRE(b.submit(1, halves(1, kInts * 4, 16384), d.in[1], d.out[1]).ok());
  REQUIRE(b.run(1));
  REQUIRE(b.side(1).over.size() == 1);
  CHECK(b.side(1).over[0].state == JobState::failed);
  CHECK(b.side(1).over[0].failure->status == engine::Status::remote_access_error);
  CHECK_EQ(b.side(1).over[0].failure->peer, 0);
}

TEST_CASE("a peer that died while it was read fails the group by its rank") {
  Bench b(local());
  meet(b);
  Data d;
  submit(b, d);
  b.reading = ESRCH;
  REQUIRE(b.run(1));
  for (const uint32_t s : {0u, 1u}) {
    REQUIRE(b.side(s).over.size() == 1);
    CHECK(b.side(s).over[0].state == JobState::failed);
    CHECK_EQ(b.side(s).over[0].failure->peer, static_cast<int32_t>(1 - s));
    CHECK(b.stats(s).local_refused > 0);
  }
}

TEST_CASE("notes from a lane that is not read from, and notes that lead elsewhere, are not followed") {
  for (const bool near : {false, true}) {
    BenchConfig c;
    c.local = near;
    Bench b(c);
    meet(b);
    Data d(1 << 10);
    struct Note {
      EagerHeader head;
      PullNote note;
    } evil{};
    evil.head = {0, kPullFlag | static_cast<uint32_t>(sizeof(PullNote)), 0};
    evil.note = {reinterpret_cast<uint64_t>(d.in[0].data()), 2048, uint64_t{1} << 40, 2, 0};
    const auto at = reinterpret_cast<uint64_t>(&evil);
    const uint32_t key = b.pair.side(0).reg_mr(b.side(0).runner->pd(), at, sizeof evil, 0, at).value().lkey;
    engine::SendWr wr;
    wr.opcode = reliability::WrOpcode::rdma_write_imm;
    wr.addr = at;
    wr.length = kHeader + sizeof(PullNote);
    wr.lkey = key;
    wr.remote_addr = b.remote(1).addr + kSlotAt;
    wr.rkey = b.remote(1).rkey;
    wr.imm = ImmWord{Imm::eager, 0, 0}.word();
    CHECK_EQ(b.pair.side(0).post_send(b.pair.now(), b.side(0).qpn, wr), 0);
    b.pair.flush();
    REQUIRE(b.submit(1, halves(1, 4096, 2048), d.in[1], d.out[1]).ok());
    (void)b.pair.run_until([&] { return b.step(), false; }, b.pair.now() + Duration::millis(5));
    CHECK_EQ(b.stats(1).local_bytes, 0u);
    if (near) {
      REQUIRE(b.side(1).over.size() == 1);
      CHECK(b.side(1).over[0].failure->cause == Failure::Cause::mismatch);
    } else {
      CHECK_EQ(b.stats(1).drop_malformed, 1u);
    }
  }
}

TEST_CASE("what goes through memory counts as heard of the peer") {
  Bench b(local());
  CHECK(b.side(0).runner->heard(b.side(0).lane).is_never());
  meet(b);
  for (size_t i = 1; i <= 2; ++i) {
    const base::Instant before = b.pair.now();
    Data d;
    submit(b, d);
    REQUIRE(b.run(i));
    for (const uint32_t s : {0u, 1u}) {
      const base::Instant heard = b.side(s).runner->heard(b.side(s).lane);
      CHECK(!heard.is_never());
      CHECK(heard > before);
      CHECK(heard <= b.pair.now());
    }
    (void)b.pair.run_until([] { return false; }, b.pair.now() + Duration::seconds(1));
  }
  CHECK(b.side(0).runner->heard(4711).is_never());
}

TEST_CASE(
    "a message that was read early is paid for when the slot before it is free, whatever went out between") {
  constexpr uint64_t kLong = 65536, kShort = 64;
  Bench b(local());
  meet(b);
  // First job: what rank 1 says at once lies in its slot at rank 0 until rank 1 has read a long message, and
  // then rank 0 says something before it takes that up.
  Writer zero(DType::i32);
  const uint32_t sent = zero.add({Kind::send, 0, Buf::input, Buf::output, 1, 0, 0, kLong});
  zero.add({Kind::recv, kEager, Buf::input, Buf::output, 1, 0, 0, kShort}, {sent});
  zero.add({Kind::send, kEager, Buf::input, Buf::output, 1, 0, 0, kShort}, {sent});
  Writer one(DType::i32);
  one.add({Kind::send, kEager, Buf::input, Buf::output, 0, 0, 0, kShort});
  const uint32_t got = one.add({Kind::recv, 0, Buf::input, Buf::output, 0, 0, 0, kLong});
  one.add({Kind::recv, kEager, Buf::input, Buf::output, 0, 0, kLong, kShort}, {got});
  // Second job: a long message from rank 1, which rank 0 reads at once.
  Writer take(DType::i32), give(DType::i32);
  take.add({Kind::recv, 0, Buf::input, Buf::output, 1, 0, 0, kLong});
  give.add({Kind::send, 0, Buf::input, Buf::output, 0, 0, 0, kLong});

  const size_t n = kLong / 4;
  std::vector<int32_t> in0 = numbers(0, n), in1 = numbers(1, n), out0(kShort / 4), out1(n + kShort / 4),
                       out2(n), none;
  REQUIRE(b.submit(1, one.done(), in1, out1).ok());
  REQUIRE(b.submit(1, give.done(), in1, none).ok());
  CHECK(!b.run(1, Duration::millis(2)));  // both are at rank 0 before it calls
  REQUIRE(b.submit(0, zero.done(), in0, out0).ok());
  REQUIRE(b.submit(0, take.done(), none, out2).ok());
  REQUIRE(b.run(2));
  CHECK(b.all(JobState::done));
  CHECK(out2 == in1);
}
