// Queues by hand: marking probability, trimming thresholds, the two classes, order.
#include "sim/aqm.h"

#include <cmath>

#include "testing/check.h"

using namespace mrc::sim;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kSize = 4234;

QueueRules rules() {
  QueueRules r;
  r.data_bytes = 1'000'000;
  r.control_bytes = 10'000;
  return r;
}

struct Bench {
  FramePool pool;
  Port p;
  QueueRules r = rules();
  explicit Bench(uint64_t seed = 1) { p.rng = mrc::base::Rng(seed); }
  FrameId frame(Class cls = Class::data, uint32_t size = kSize) {
    const FrameId id = pool.take();
    Frame& f = pool[id];
    f = {};
    f.size = size;
    f.cls = cls;
    f.ecn = Ecn::ect0;
    f.trimmable = cls == Class::data;
    f.trim_len = 60;
    f.payload = 4096;
    return id;
  }
  Fate put(FrameId id) { return enqueue(pool, p, r, id, pool[id]); }
  Fate put(Class cls = Class::data, uint32_t size = kSize) { return put(frame(cls, size)); }
  FrameId get() { return dequeue(pool, p, r); }
};

double chance(const QueueRules& r, uint32_t queued) {
  return static_cast<double>(mark_probability(r, queued)) / 4294967296.0;
}

}  // namespace

TEST_CASE("marking: 0 below the minimum, linear to pmax, 1 from the maximum on") {
  QueueRules r = rules();
  r.ecn_min = 20'000;
  r.ecn_max = 80'000;
  CHECK_EQ(mark_probability(r, 19'999), uint64_t{0});
  CHECK_EQ(mark_probability(r, 20'000), uint64_t{0});
  CHECK_EQ(chance(r, 35'000), 0.25);
  CHECK_EQ(chance(r, 50'000), 0.5);
  CHECK(std::fabs(chance(r, 79'999) - 59'999.0 / 60'000) < 1e-9);
  CHECK_EQ(chance(r, 80'000), 1.0);
  CHECK_EQ(chance(r, 500'000), 1.0);
  r.ecn_pmax = 0.1;
  CHECK(std::fabs(chance(r, 50'000) - 0.05) < 1e-9);
  CHECK_EQ(chance(r, 80'000), 1.0);
  r.ecn_min = r.ecn_max = 30'000;  // a threshold
  CHECK_EQ(chance(r, 29'999), 0.0);
  CHECK_EQ(chance(r, 30'000), 1.0);
  r.ecn_min = r.ecn_max = 0;
  CHECK_EQ(chance(r, 500'000), 0.0);
}

TEST_CASE("marking: frequency at a depth is the probability, and it is drawn from the port's seed") {
  uint32_t marks[2] = {};
  for (const uint64_t seed : {1u, 2u}) {
    Bench b(seed);
    b.r.ecn_min = 0;
    b.r.ecn_max = 2 * kSize;  // half at one packet
    b.put();
    uint32_t n = 0;
    std::string pattern;
    for (int i = 0; i < 20'000; ++i) {
      const FrameId id = b.frame();
      b.put(id);
      n += b.pool[id].ecn == Ecn::ce ? 1u : 0u;
      b.pool.give(b.get());  // the older one
    }
    marks[seed - 1] = n;
    CHECK(n > 9'700 && n < 10'300);  // 4 sigma: 283
    CHECK_EQ(b.p.n.marks, uint64_t{n});
  }
  CHECK(marks[0] != marks[1]);
}

TEST_CASE("marking: not on frames that cannot carry it, and on the last hop only if told") {
  Bench b;
  b.r.ecn_min = b.r.ecn_max = 1;
  b.put();
  const FrameId plain = b.frame();
  b.pool[plain].ecn = Ecn::not_ect;
  b.put(plain);
  CHECK(b.pool[plain].ecn == Ecn::not_ect);
  b.p.last_hop = true;
  const FrameId unmarked = b.frame();
  b.put(unmarked);
  CHECK(b.pool[unmarked].ecn == Ecn::ect0);
  b.r.ecn_last_hop = true;
  const FrameId marked = b.frame();
  b.put(marked);
  CHECK(b.pool[marked].ecn == Ecn::ce);
  CHECK_EQ(b.p.n.marks, uint64_t{1});
}

TEST_CASE("trimming: at the byte, with the two codepoints, and into the control class") {
  Bench b;
  b.r.trim_bytes = 3 * kSize;
  b.r.trim_last_hop = 4 * kSize;
  for (int i = 0; i < 3; ++i) CHECK(b.put() == Fate::queued);
  CHECK_EQ(b.p.data.bytes, 3 * kSize);
  CHECK_EQ(b.p.n.trims, uint64_t{0});
  const FrameId cut = b.frame();
  CHECK(b.put(cut) == Fate::queued);
  const Frame& f = b.pool[cut];
  CHECK(f.trim == Trim::trimmed && f.cls == Class::control);
  CHECK_EQ(int{f.dscp}, 12);
  CHECK_EQ(f.size, 60 + kWireOverhead);
  CHECK_EQ(int{f.payload}, 0);
  CHECK_EQ(b.p.control.bytes, 60 + kWireOverhead);
  CHECK_EQ(b.p.data.bytes, 3 * kSize);
  b.p.last_hop = true;
  CHECK(b.put() == Fate::queued);  // room for a fourth on the last hop
  const FrameId last = b.frame();
  CHECK(b.put(last) == Fate::queued);
  CHECK(b.pool[last].trim == Trim::trimmed_lasthop);
  CHECK_EQ(int{b.pool[last].dscp}, 16);
  CHECK_EQ(b.p.n.trims, uint64_t{2});
}

TEST_CASE("trimming: what may not be trimmed is dropped at the capacity; headers at the control's") {
  Bench b;
  b.r.trim_bytes = kSize;
  b.r.data_bytes = 2 * kSize;
  b.r.control_bytes = 2 * (60 + kWireOverhead);
  for (int i = 0; i < 3; ++i) {
    const FrameId stiff = b.frame();
    b.pool[stiff].trimmable = false;
    CHECK(b.put(stiff) == (i < 2 ? Fate::queued : Fate::dropped));
  }
  CHECK(b.put() == Fate::queued);
  CHECK(b.put() == Fate::queued);
  CHECK(b.put() == Fate::dropped);  // the control class is full of headers
  CHECK_EQ(b.p.n.drops, uint64_t{2});
  CHECK_EQ(b.p.n.trims, uint64_t{3});
}

TEST_CASE("trimming: 0 is never, and a trimmed frame is never shorter than Ethernet's shortest") {
  Bench b;
  b.r.data_bytes = 2 * kSize;
  for (int i = 0; i < 2; ++i) CHECK(b.put() == Fate::queued);
  CHECK(b.put() == Fate::dropped);
  CHECK_EQ(b.p.n.trims, uint64_t{0});
  Frame f;
  f.trim_len = 0;
  f.size = kSize;
  trim(f, b.r, false);
  CHECK_EQ(f.size, std::max(kWireOverhead, kMinWireBytes));
}

TEST_CASE("queues: first in, first out in each class, bytes exact") {
  Bench b;
  std::vector<FrameId> data, control;
  for (uint32_t i = 0; i < 50; ++i) {
    data.push_back(b.frame(Class::data, 100 + i));
    control.push_back(b.frame(Class::control, 84 + i));
    CHECK(b.put(data.back()) == Fate::queued);
    CHECK(b.put(control.back()) == Fate::queued);
  }
  CHECK_EQ(b.p.data.bytes, 50u * 100 + 49 * 50 / 2);
  CHECK_EQ(b.p.n.max_queue, b.p.data.bytes);
  for (const FrameId id : control) CHECK_EQ(b.get(), id);  // strict: control first
  for (const FrameId id : data) CHECK_EQ(b.get(), id);
  CHECK_EQ(b.get(), kNoFrame);
  CHECK_EQ(b.p.data.bytes, 0u);
  CHECK_EQ(b.p.control.bytes, 0u);
}

TEST_CASE("queues: a paused data class holds still, control goes on") {
  Bench b;
  b.put();
  b.put(Class::control, 100);
  b.p.paused = true;
  CHECK(b.get() != kNoFrame);
  CHECK_EQ(b.get(), kNoFrame);
  b.p.paused = false;
  CHECK(b.get() != kNoFrame);
}

TEST_CASE("queues: a weighted control class gets its share of a busy line, all of an idle one") {
  for (const uint32_t ppm : {100'000u, 250'000u, 500'000u}) {
    Bench b;
    b.r.weighted = true;
    b.r.control_share_ppm = ppm;
    b.r.control_bytes = b.r.data_bytes = 4'000'000'000;
    uint64_t sent[2] = {};
    for (int i = 0; i < 20'000; ++i) {
      while (b.p.data.bytes < 10 * kSize) b.put();
      while (b.p.control.bytes < 10'000) b.put(Class::control, 150);
      const FrameId id = b.get();
      REQUIRE(id != kNoFrame);
      sent[b.pool[id].cls == Class::control ? 1 : 0] += b.pool[id].size;
      b.pool.give(id);
    }
    const double share = static_cast<double>(sent[1]) / static_cast<double>(sent[0] + sent[1]);
    CHECK(std::fabs(share - ppm / 1e6) < 0.01);
    while (!b.p.data.empty()) b.pool.give(b.get());
    for (int i = 0; i < 10; ++i) {  // no data: control goes without waiting for credit
      b.put(Class::control, 150);
      CHECK(b.get() != kNoFrame);
    }
  }
}
