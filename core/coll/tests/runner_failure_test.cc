// Collectives that go wrong: peers that run another program, fall silent, lie, or leave.
#include "coll/tests/ring.h"

using namespace mrc;        // NOLINT(google-build-using-namespace)
using namespace mrc::coll;  // NOLINT(google-build-using-namespace)

namespace {

// Posts a message of any content on the lane of side 0, as a peer that means harm would.
struct Liar {
  explicit Liar(Bench& bench) : b(bench) {
    memory.resize(65536);
    const auto at = reinterpret_cast<uint64_t>(memory.data());
    key = b.pair.side(0).reg_mr(b.side(0).runner->pd(), at, memory.size(), 0, at).value().lkey;
  }
  void say(const RemoteMemory& to, uint64_t offset, uint32_t length, ImmWord imm) {
    engine::SendWr wr;
    wr.opcode = reliability::WrOpcode::rdma_write_imm;
    wr.addr = reinterpret_cast<uint64_t>(memory.data());
    wr.length = length;
    wr.lkey = key;
    wr.remote_addr = to.addr + offset;
    wr.rkey = to.rkey;
    wr.imm = imm.word();
    CHECK_EQ(b.pair.side(0).post_send(b.pair.now(), b.side(0).qpn, wr), 0);
    b.pair.flush();
    CHECK(!b.run(1, base::Duration::millis(5)));
  }
  template <typename T>
  void put(const T& value) {
    std::memcpy(memory.data(), &value, sizeof value);
  }
  Bench& b;
  std::vector<uint8_t> memory;
  uint32_t key = 0;
};

bool failed_for(Side& s, Failure::Cause cause, int32_t peer) {
  return s.over.size() == 1 && s.over[0].failure != nullptr && s.over[0].failure->cause == cause &&
         s.over[0].failure->peer == peer;
}

}  // namespace

TEST_CASE("ranks that run different programs both learn what the other one runs") {
  Bench b;
  std::vector<int32_t> in(64), out0(64), out1(64);
  // What rank 0 expects is told to rank 1, and the other way round.
  REQUIRE(b.submit(0, exchange(0, 256, {0, 111}), in, out0).ok());
  REQUIRE(b.submit(1, exchange(1, 256, {222, 0}), in, out1).ok());
  REQUIRE(b.run(1));
  REQUIRE(failed_for(b.side(0), Failure::Cause::mismatch, 1));
  CHECK_EQ(b.side(0).over[0].failure->ours, 111u);
  CHECK_EQ(b.side(0).over[0].failure->theirs, 222u);
  CHECK(failed_for(b.side(1), Failure::Cause::mismatch, 0));
}

TEST_CASE("also when the second one notices at once and sends nothing of its program") {
  Bench b;
  std::vector<int32_t> in(64), out0(64), out1(64);
  REQUIRE(b.submit(0, exchange(0, 256, {0, 111}), in, out0).ok());
  CHECK(!b.run(1, base::Duration::millis(5)));
  REQUIRE(b.submit(1, exchange(1, 256, {222, 0}), in, out1).ok());
  REQUIRE(b.run(1));
  CHECK(failed_for(b.side(0), Failure::Cause::mismatch, 1));
  CHECK(failed_for(b.side(1), Failure::Cause::mismatch, 0));
}

TEST_CASE("a message for a job that is done here comes from another program") {
  Bench b;
  std::vector<int32_t> one{1}, other{2};
  for (const uint32_t s : {0u, 1u}) {  // both believe to be the only one that sends
    Writer w(DType::i32);
    w.add({Kind::send, kEager, Buf::input, Buf::output, 1 - s, 0, 0, 4});
    w.prints(s == 0 ? std::vector<uint64_t>{0, 5} : std::vector<uint64_t>{6, 0});
    REQUIRE(b.submit(s, w.done(), s == 0 ? one : other, s == 0 ? one : other).ok());
  }
  REQUIRE(b.run(1));
  CHECK(b.all(JobState::done));
  CHECK(!b.run(2, base::Duration::millis(5)));
  for (const uint32_t s : {0u, 1u}) {
    const auto why = b.side(s).runner->failure_of(b.side(s).group);
    REQUIRE(why != nullptr);
    CHECK(why->cause == Failure::Cause::mismatch);
    CHECK_EQ(why->ours, s == 0 ? 5u : 6u);
    CHECK_EQ(why->theirs, s == 0 ? 6u : 5u);
    CHECK_EQ(b.submit(s, exchange(s, 4), one, other).error(), ECANCELED);
  }
}

TEST_CASE("different lengths are no overrun but a mismatch, eager or not") {
  for (const bool eager : {true, false}) {
    Bench b;
    std::vector<int32_t> in(1 << 14), out0(1 << 14), out1(1 << 14);
    REQUIRE(b.submit(0, eager ? exchange(0, 256) : halves(0, 1 << 16, 32768), in, out0).ok());
    REQUIRE(b.submit(1, eager ? exchange(1, 128) : halves(1, 1 << 15, 16384), in, out1).ok());
    (void)b.run(1, base::Duration::seconds(1));
    bool told = false;
    for (const uint32_t s : {0u, 1u})
      told = told || failed_for(b.side(s), Failure::Cause::mismatch, static_cast<int32_t>(1 - s));
    CHECK(told);
  }
}

TEST_CASE("a peer that falls silent fails the job after the hold time, by its rank") {
  BenchConfig c;
  c.hold = base::Duration::millis(200);
  Bench b(c);
  std::vector<int32_t> in(1 << 14), out(1 << 14);
  REQUIRE(b.submit(0, halves(0, 1 << 16, 4096), in, out).ok());
  impair::Rule r;
  r.down = true;
  b.pair.line().add_rule(r);
  REQUIRE(b.pair.run_until(
      [&] {
        b.step();
        return !b.side(0).over.empty();
      },
      b.pair.now() + base::Duration::seconds(5)));
  REQUIRE(failed_for(b.side(0), Failure::Cause::lane, 1));
  CHECK(b.side(0).over[0].failure->status == engine::Status::retry_exceeded);
  CHECK_EQ(b.submit(0, exchange(0, 256), in, out).error(), ECANCELED);
}

TEST_CASE("abort ends all jobs at once, and nobody reads or writes their memory any more") {
  Bench b;
  auto in = std::make_unique<std::vector<int32_t>>(numbers(0, 1 << 18));
  auto out = std::make_unique<std::vector<int32_t>>(1 << 18);
  std::vector<int32_t> in1 = numbers(1, 1 << 18), out1(1 << 18);
  REQUIRE(b.submit(0, halves(0, 1 << 20, 65536), *in, *out).ok());
  REQUIRE(b.submit(1, halves(1, 1 << 20, 65536), in1, out1).ok());
  for (int i = 0; i < 200; ++i) {
    (void)b.pair.step();
    b.step();
  }
  CHECK(b.stats(0).bytes_tx > 0);
  REQUIRE(b.side(0).over.empty());
  CHECK_EQ(b.side(0).runner->abort(b.pair.side(0), b.pair.now(), b.side(0).group, "enough"), 0);
  b.collect(0);
  REQUIRE(b.side(0).over.size() == 1);
  CHECK(b.side(0).over[0].state == JobState::aborted);
  CHECK(b.side(0).over[0].failure->reason == "enough");
  // ASan watches: what is still in flight must not touch it.
  in.reset();
  out.reset();
  (void)b.run(1, base::Duration::seconds(1));
  CHECK_EQ(b.side(0).over.size(), 1u);
}

TEST_CASE("a lane that is closed takes its group with it") {
  Bench b;
  std::vector<int32_t> in(64), out(64);
  REQUIRE(b.submit(0, exchange(0, 256), in, out).ok());
  CHECK_EQ(b.side(0).runner->close_lane(b.pair.side(0), b.pair.now(), b.side(0).lane), 0);
  CHECK_EQ(b.pair.side(0).destroy_qp(b.pair.now(), b.side(0).qpn), 0);
  b.collect(0);
  CHECK(failed_for(b.side(0), Failure::Cause::closed, 1));
  CHECK_EQ(b.side(0).runner->close_group(b.pair.side(0), b.pair.now(), b.side(0).group), 0);
  CHECK_EQ(b.side(0).runner->close_group(b.pair.side(0), b.pair.now(), b.side(0).group), EINVAL);
}

TEST_CASE("lies of a peer are dropped and counted, and the work goes on") {
  Bench b;
  Liar liar(b);
  const RemoteMemory to = [&] {
    // The memory of side 1's lane, as side 0 was told.
    return b.remote(1);
  }();
  const auto bad = [&] { return b.stats(1).drop_malformed + b.stats(1).drop_late; };
  uint64_t before = bad();
  const auto grew = [&] { return bad() > std::exchange(before, bad()); };
  liar.say(to, kSlotAt, 3, {Imm::eager, 0, 0});  // shorter than its header
  CHECK(grew());
  liar.put(EagerHeader{5, 1'000'000, 0});  // longer than it is
  liar.say(to, kSlotBytes + kSlotAt, 64, {Imm::eager, 5, 0});
  CHECK(grew());
  liar.say(to, 0, 8, {Imm::data, 9, 0});  // data of no job
  CHECK(grew());
  liar.put(Announcement{.job = 3});  // an entry that is another job's
  liar.say(to, uint64_t{kSlots} * kSlotBytes, sizeof(Announcement), {Imm::announce, 64, 0});
  CHECK(grew());
  liar.say(to, 0, 0, {Imm::credit, 0, 999});  // slots that were never used
  CHECK(grew());
}

TEST_CASE("a peer that ignores its credits cannot make us keep more than the slots") {
  Bench b;
  Liar liar(b);
  for (uint32_t i = 0; i < 3 * kSlots; ++i) {
    liar.put(EagerHeader{1000, 4, 0});  // of a job far ahead
    liar.say(b.remote(1), uint64_t{i % kSlots} * kSlotBytes + kSlotAt, kHeader + 4, {Imm::eager, 1000, 0});
  }
  CHECK_EQ(b.stats(1).eager_rx, uint64_t{kSlots});
  CHECK_EQ(b.stats(1).drop_malformed, uint64_t{2 * kSlots});
}

TEST_CASE("an announcement cannot lead a message beyond itself") {
  Bench b;
  Liar liar(b);
  std::vector<int32_t> in = numbers(1, 1 << 12), out(1 << 12);
  Announcement a;
  a.job = 0;
  a.addr = {0, b.remote(1).addr, b.remote(1).addr};
  a.bytes = {0, 64, 64};  // shorter than what the program sends
  a.rkey = {0, 1, 1};
  liar.put(a);
  liar.say(b.remote(1), uint64_t{kSlots} * kSlotBytes, sizeof a, {Imm::announce, 0, 0});
  REQUIRE(b.submit(1, halves(1, 1 << 14, 4096), in, out).ok());
  b.step();
  CHECK(failed_for(b.side(1), Failure::Cause::mismatch, 0));
}

TEST_CASE("groups and jobs that make no sense are refused") {
  Bench b;
  Runner& r = *b.side(0).runner;
  CHECK_EQ(r.new_group({-1, b.side(0).lane}, 0).error(), EINVAL);  // it has a group
  CHECK_EQ(r.new_group({}, 0).error(), EINVAL);
  CHECK_EQ(r.new_group({-1}, 1).error(), EINVAL);
  CHECK_EQ(r.new_group({99, -1}, 1).error(), EINVAL);
  std::vector<int32_t> in(4), out(4);
  CHECK_EQ(b.submit(0, exchange(0, 256), in, out).error(), EINVAL);  // too short
  CHECK_EQ(b.submit(0, exchange(1, 16), in, out).error(), EINVAL);   // sends to itself
  CHECK_EQ(b.submit(0, nullptr, in, out).error(), EINVAL);
  RemoteMemory odd = b.remote(1);
  odd.slots = 1;
  const auto memory = r.open_lane_memory(b.pair.side(0));
  CHECK_EQ(r.add_lane(b.pair.side(0), b.pair.now(), 12345, memory.value(), odd).error(), EINVAL);
  CHECK_EQ(r.close_lane_memory(b.pair.side(0), memory.value()), 0);
  CHECK_EQ(r.close_lane_memory(b.pair.side(0), memory.value()), EINVAL);
}

TEST_CASE("when the driver is gone everything has failed") {
  Bench b;
  std::vector<int32_t> in(64), out(64);
  REQUIRE(b.submit(0, exchange(0, 256), in, out).ok());
  b.side(0).runner->drop_all("the driver was closed");
  b.collect(0);
  CHECK(failed_for(b.side(0), Failure::Cause::closed, -1));
  CHECK_EQ(b.submit(0, exchange(0, 256), in, out).error(), ECANCELED);
}
