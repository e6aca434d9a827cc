// Collectives that go well: over clean and bad networks, alone and many at once, early and late.
#include "coll/tests/ring.h"

using namespace mrc;        // NOLINT(google-build-using-namespace)
using namespace mrc::coll;  // NOLINT(google-build-using-namespace)

namespace {

struct Data {
  explicit Data(size_t n)
      : in{numbers(0, n), numbers(1, n)}, out{std::vector<int32_t>(n), std::vector<int32_t>(n)} {}
  [[nodiscard]] bool right() const { return out[0] == total(in[0].size()) && out[1] == out[0]; }
  std::array<std::vector<int32_t>, 2> in, out;
};

void bad_network(Bench& b) {
  impair::Rule r;
  r.drop_ppm = 20'000;
  r.dup_ppm = 20'000;
  r.reorder_ppm = 100'000;
  r.reorder_delay = base::Duration::micros(300);
  b.pair.line().add_rule(r);
}

}  // namespace

TEST_CASE("an eager exchange: one message each way, no credits, no announcements") {
  Bench b;
  Data d(256);
  for (const uint32_t s : {0u, 1u}) REQUIRE(b.submit(s, exchange(s, 1024), d.in[s], d.out[s]).ok());
  REQUIRE(b.run(1));
  CHECK(b.all(JobState::done));
  CHECK(d.right());
  CHECK_EQ(b.stats(0).eager_tx, 1u);
  CHECK_EQ(b.stats(0).credit_tx + b.stats(0).announce_tx + b.stats(0).data_tx, 0u);
}

TEST_CASE("large messages go from the caller's memory to the peer's, and regions are gone afterwards") {
  Bench b;
  Data d(1 << 18);
  for (const uint32_t s : {0u, 1u}) REQUIRE(b.submit(s, halves(s, 1 << 20, 65536), d.in[s], d.out[s]).ok());
  REQUIRE(b.run(1));
  CHECK(d.right());
  CHECK_EQ(b.stats(0).data_tx, 16u);
  CHECK_EQ(b.stats(0).announce_tx, 1u);
  CHECK_EQ(b.stats(0).bytes_reduced, uint64_t{1} << 19);
}

TEST_CASE("loss, duplicates and reordering change nothing but the time") {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    BenchConfig c;
    c.pair.seed = seed;
    Bench b(c);
    bad_network(b);
    Data small(1000), large(1 << 16);
    for (const uint32_t s : {0u, 1u}) {
      REQUIRE(b.submit(s, exchange(s, 4000), small.in[s], small.out[s]).ok());
      REQUIRE(b.submit(s, halves(s, 1 << 18, 20'000), large.in[s], large.out[s]).ok());
    }
    REQUIRE(b.run(2));
    CHECK(b.all(JobState::done));
    CHECK(small.right() && large.right());
    CHECK_EQ(b.stats(0).drop_malformed + b.stats(0).drop_late, 0u);
  }
}

TEST_CASE("equal seeds give equal traces") {
  std::array<uint64_t, 2> digest{};
  for (uint64_t& out : digest) {
    Bench b;
    bad_network(b);
    Data d(1 << 14);
    for (const uint32_t s : {0u, 1u}) REQUIRE(b.submit(s, halves(s, 1 << 16, 4096), d.in[s], d.out[s]).ok());
    REQUIRE(b.run(1));
    out = b.pair.side(0).trace_digest();
  }
  CHECK_EQ(digest[0], digest[1]);
}

TEST_CASE("many in flight, more than the window, all eager: slots and credits hold, nobody overruns") {
  Bench b;
  constexpr size_t kJobs = 300;
  std::vector<Data> data(kJobs, Data(64));
  for (size_t i = 0; i < kJobs; ++i)
    REQUIRE(b.submit(0, exchange(0, 256), data[i].in[0], data[i].out[0]).ok());
  b.pair.run_for(base::Duration::millis(5));
  for (int i = 0; i < 20; ++i) b.step();
  CHECK_EQ(b.side(0).over.size(), 0u);
  for (size_t i = 0; i < kJobs; ++i) {
    REQUIRE(b.submit(1, exchange(1, 256), data[i].in[1], data[i].out[1]).ok());
    if (i % 7 == 0) b.step();
  }
  REQUIRE(b.run(kJobs));
  CHECK(b.all(JobState::done));
  for (const Data& d : data) CHECK(d.right());
  CHECK_EQ(b.stats(0).drop_malformed + b.stats(1).drop_malformed, 0u);
}

// Rank 0 sends more small messages than there are slots, and rank 1 must not use the first of them before
// something else has happened.
TEST_CASE(
    "messages that have to wait leave their slots, so that later ones get through, and are used as they "
    "came") {
  constexpr uint32_t kMessages = 40;
  for (const bool combine : {false, true}) {
    Bench b;
    Writer w0(DType::i32), w1(DType::i32);
    for (uint32_t i = 0; i < kMessages; ++i)
      w0.add({Kind::send, kEager, Buf::input, Buf::output, 1, i * 4, i * 4, 4});
    w0.add({Kind::recv, 0, Buf::input, Buf::output, 1, 0, 0, 4});
    uint32_t gate = w1.add({Kind::send, 0, Buf::input, Buf::output, 0, 0, 0, 4});
    const auto flags = static_cast<uint8_t>(combine ? kEager | kReduce : kEager);
    for (uint32_t i = 0; i < kMessages; ++i)
      w1.add({Kind::recv, flags, Buf::input, Buf::output, 0, 0, combine ? 0 : i * 4, 4}, {gate});
    std::vector<int32_t> in(kMessages), out(kMessages), back(1), gift{77};
    int32_t sum = 0;
    for (uint32_t i = 0; i < kMessages; ++i) sum += in[i] = static_cast<int32_t>(i + 1);
    REQUIRE(b.submit(0, w0.done(), in, back).ok());
    REQUIRE(b.submit(1, w1.done(), gift, out).ok());
    REQUIRE(b.run(1));
    CHECK(b.stats(1).parked > 0);
    CHECK_EQ(back[0], 77);
    if (combine) {
      CHECK_EQ(out[0], sum);
    } else {
      CHECK(out == in);
    }
  }
}

TEST_CASE("a small collective behind a large one that the peer has not begun does not block it") {
  Bench b;
  Data large(1 << 16), small(16);
  REQUIRE(b.submit(0, halves(0, 1 << 18, 8192), large.in[0], large.out[0]).ok());
  REQUIRE(b.submit(0, exchange(0, 64), small.in[0], small.out[0]).ok());
  REQUIRE(b.submit(1, halves(1, 1 << 18, 8192), large.in[1], large.out[1]).ok());
  REQUIRE(b.submit(1, exchange(1, 64), small.in[1], small.out[1]).ok());
  REQUIRE(b.run(2));
  CHECK(large.right() && small.right());
}

TEST_CASE("messages without bytes are signals: a barrier") {
  Bench b;
  for (const uint32_t s : {0u, 1u}) {
    Writer w(DType::u8);
    const auto peer = 1 - s;
    w.add({Kind::send, kEager, Buf::input, Buf::output, peer, 0, 0, 0});
    w.add({Kind::recv, kEager, Buf::input, Buf::output, peer, 0, 0, 0});
    if (s == 1) CHECK(!b.run(1, base::Duration::millis(50)));
    REQUIRE(b.submit(s, w.done(), nullptr, 0, nullptr, 0).ok());
  }
  REQUIRE(b.run(1));
  CHECK(b.all(JobState::done));
}

TEST_CASE("average divides, a factor multiplies") {
  for (const bool premul : {false, true}) {
    Bench b;
    std::array<std::vector<float>, 2> in{std::vector<float>{3, 5}, std::vector<float>{4, 8}}, out{in};
    for (const uint32_t s : {0u, 1u}) {
      Writer w(DType::f32);
      const auto peer = 1 - s;
      const uint32_t scaled = premul ? w.add({Kind::scale, kPremul, Buf::input, Buf::output, 0, 0, 0, 8})
                                     : w.add({Kind::copy, 0, Buf::input, Buf::output, 0, 0, 0, 8});
      w.add({Kind::send, kEager, Buf::output, Buf::output, peer, 0, 0, 8}, {scaled});
      const uint32_t sum =
          w.add({Kind::recv, kEager | kReduce, Buf::input, Buf::output, peer, 0, 0, 8}, {scaled + 1});
      if (!premul) w.add({Kind::scale, 0, Buf::output, Buf::output, 0, 0, 0, 8}, {sum});
      REQUIRE(b.submit(s, w.done(), in[s], out[s], 10.0).ok());
    }
    REQUIRE(b.run(1));
    CHECK_EQ(out[0][0], premul ? 70.0f : 3.5f);
    CHECK_EQ(out[1][1], premul ? 130.0f : 6.5f);
  }
}

TEST_CASE("what is missing is known while it is missing") {
  Bench b;
  Data d(64);
  const auto job = b.submit(0, exchange(0, 256), d.in[0], d.out[0]);
  REQUIRE(job.ok());
  CHECK(!b.run(1, base::Duration::millis(20)));
  const auto p = b.side(0).runner->progress(job.value());
  CHECK_EQ(p.total, 3u);
  CHECK_EQ(p.done, 2u);
  REQUIRE(p.waiting_for.size() == 1);
  CHECK_EQ(p.waiting_for[0], 1u);
}

TEST_CASE("queue pairs with room for few work requests only slow things down") {
  BenchConfig c;
  c.max_send_wr = 4;
  Bench b(c);
  Data d(1 << 15);
  for (const uint32_t s : {0u, 1u}) REQUIRE(b.submit(s, halves(s, 1 << 17, 2048), d.in[s], d.out[s]).ok());
  REQUIRE(b.run(1));
  CHECK(d.right());
}

TEST_CASE("where a sender cannot know the layout, its offsets begin at its base in the receiver's output") {
  Bench b;
  std::array<std::vector<int32_t>, 2> in{std::vector<int32_t>{1, 2, 3, 4}, std::vector<int32_t>{5, 6, 7, 8}};
  std::vector<int32_t> out0(12), out1(12);
  for (const uint32_t s : {0u, 1u}) {
    Writer w(DType::i32);
    w.add({Kind::send, 0, Buf::input, Buf::output, 1 - s, 0, 0, 16});
    w.add({Kind::recv, 0, Buf::input, Buf::output, 1 - s, 0, 4 * (5 + s), 16});
    const std::vector<uint64_t> base(2, uint64_t{4} * (5 + s));
    REQUIRE(b.submit(s, w.bases(base).done(), in[s], s == 0 ? out0 : out1).ok());
  }
  REQUIRE(b.run(1));
  CHECK(out0 == (std::vector<int32_t>{0, 0, 0, 0, 0, 5, 6, 7, 8, 0, 0, 0}));
  CHECK(out1 == (std::vector<int32_t>{0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 0}));
}
