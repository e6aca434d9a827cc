// Vectors V072 to V076 and worked examples 17.3, 17.4 of the reference; both clocks.
#include "reliability/arith.h"

#include "reliability/rto.h"
#include "testing/check.h"

using namespace mrc;
using namespace mrc::reliability;

TEST_CASE("byte counter") {
  CHECK_EQ(rcvd_bytes_field(257), 2u);
  CHECK_EQ(rcvd_bytes_field(0), 0u);
  CHECK_EQ(rcvd_bytes_field(256), 1u);
  CHECK_EQ(rcvd_bytes_field(uint64_t{1} << 32), 0u);
  CHECK_EQ(newly_rcvd_bytes(0xFFFFFE, 3), 1280);
  CHECK_EQ(newly_rcvd_bytes(0x10, 0x0F), 0);
  CHECK_EQ(newly_rcvd_bytes(7, 7), 0);
}

TEST_CASE("timestamp round trip") {
  CHECK_EQ(rtt_from_ticks(5, 65520).ns, 2688);
  CHECK_EQ(rtt_from_ticks(0, 0).ns, 0);
}

TEST_CASE("ack timeout sequence of V076") {
  const auto waits = ack_timeout_sequence(8, 3, 4);
  const std::vector<int64_t> multiples = {1, 1, 1, 1, 2, 4, 8, 16};
  REQUIRE(waits.size() == multiples.size());
  for (size_t i = 0; i < waits.size(); ++i) CHECK_EQ(waits[i].ns, 262'144 * multiples[i]);
  CHECK_EQ(fatal_expiry(3, 4).value_or(0), 8u);
  CHECK(!fatal_expiry(3, 25));
}

TEST_CASE("ack timeout limits") {
  CHECK_EQ(ack_timeout_sequence(0, 0, 0).size(), 1u);
  CHECK(ack_timeout_sequence(0, 0, 0)[0] == base::Duration{1024});
  // The cap holds for every exponent, and a larger exponent than 24 is 24.
  const auto longest = ack_timeout_sequence(24, 7, 25);
  for (const auto w : longest) CHECK_EQ(w.ns, kAckTimeoutCap.ns);
  CHECK_EQ(ack_base_interval(31).ns, kAckTimeoutCap.ns);
  const auto forever = ack_timeout_sequence(12, 0, 25);
  CHECK_EQ(forever.back().ns, kAckTimeoutCap.ns);
}

TEST_CASE("ack timer: position and budget are separate") {
  AckTimer t(AckTimerConfig{8, 1, 3, {}, {}, {}});
  const base::Duration none{};
  CHECK_EQ(t.interval(none).ns, 262'144);
  CHECK(!t.expire(base::Instant{1000}));
  CHECK(!t.expire(base::Instant{2000}));
  CHECK_EQ(t.interval(none).ns, 262'144 * 2);
  t.restart();
  CHECK_EQ(t.interval(none).ns, 262'144);
  CHECK_EQ(t.retry_used(), 2u);
  CHECK_EQ(t.deadline(base::Instant{0}, none).ns, 2000 + 262'144);
  CHECK(!t.expire(base::Instant{3000}));
  CHECK(!t.expire(base::Instant{4000}));
  CHECK(t.expire(base::Instant{5000}));
  t.progress();
  CHECK_EQ(t.retry_used(), 0u);
}

TEST_CASE("ack timer: hold time replaces the budget and caps the back-off") {
  AckTimer t(AckTimerConfig{8, 0, 2, {}, base::Duration::seconds(1), base::Duration::millis(5)});
  for (int i = 0; i < 40; ++i) CHECK(!t.expire(base::Instant{i}));
  CHECK_EQ(t.interval({}).ns, base::Duration::millis(5).ns);
}

TEST_CASE("rtt estimator") {
  RttEstimator e;
  CHECK(!e.has_sample());
  e.sample(base::Duration::micros(100));
  CHECK_EQ(e.srtt().ns, 100'000);
  CHECK_EQ(e.rttvar().ns, 50'000);
  for (int i = 0; i < 200; ++i) e.sample(base::Duration::micros(200));
  CHECK(e.srtt() > base::Duration::micros(199));
  CHECK(e.rttvar() < base::Duration::micros(1));
  e.sample(base::Duration{-5});  // a bad clock changes nothing
  CHECK(e.srtt() > base::Duration::micros(199));
}
