// The bitmap against a slow oracle, and the rules of acceptance at its edges (reference 6.2).
#include "reliability/recv_window.h"

#include <set>

#include "base/rng.h"
#include "testing/check.h"

using namespace mrc;
using namespace mrc::reliability;
using Verdict = RecvWindow::Verdict;

TEST_CASE("acceptance table at the edges") {
  RecvWindow w(base::Psn(0), 128);
  int64_t seq = 0;
  CHECK(w.classify(base::Psn(0), seq) == Verdict::fresh);
  CHECK_EQ(seq, 0);
  CHECK(w.classify(base::Psn(127), seq) == Verdict::fresh);  // cack + mpr, inclusive (D-07)
  CHECK(w.classify(base::Psn(128), seq) == Verdict::above);
  CHECK(w.classify(base::Psn(0xFFFFFF), seq) == Verdict::old_duplicate);
  CHECK_EQ(seq, -1);
  CHECK(w.classify(base::Psn(0x7FFFFF), seq) == Verdict::impossible);  // d = -2^23
  CHECK(w.classify(base::Psn(0x800000), seq) == Verdict::old_duplicate);
  CHECK(w.classify(base::Psn(0x7FFFFE), seq) == Verdict::above);
  w.mark(5, RecvSlot{});
  CHECK(w.classify(base::Psn(5), seq) == Verdict::duplicate);
  CHECK_EQ(w.ooo_count(), 1u);
}

TEST_CASE("a shrunk window still accepts what was granted") {
  RecvWindow w(base::Psn(0), 1024);
  w.set_mpr(128);
  int64_t seq = 0;
  CHECK(w.classify(base::Psn(1023), seq) == Verdict::fresh);
  CHECK(w.classify(base::Psn(1024), seq) == Verdict::above);
  w.step();
  CHECK(w.classify(base::Psn(1023), seq) == Verdict::fresh);
  CHECK(w.classify(base::Psn(1024), seq) == Verdict::above);
  for (int i = 1; i < 1024; ++i) w.step();
  CHECK(w.classify(base::Psn(1024 + 127), seq) == Verdict::fresh);
  CHECK(w.classify(base::Psn(1024 + 128), seq) == Verdict::above);
  w.set_mpr(4096);
  CHECK(w.classify(base::Psn(1023 + 4096), seq) == Verdict::fresh);
}

TEST_CASE("bitmap equals a set under random arrivals across the wrap") {
  for (const uint32_t mpr : {1u, 64u, 100u, 1024u, 4096u}) {
    base::Rng rng(mpr);
    const base::Psn start(0xFFFFF0);
    RecvWindow w(start, mpr);
    std::set<int64_t> oracle;
    int64_t cack = -1;
    for (int i = 0; i < 20'000; ++i) {
      const uint32_t reach = std::min(mpr + 5, 1 + rng.below(rng.below(4) == 0 ? mpr + 5 : 40));
      const int64_t want = cack - 3 + rng.below(reach + 4);
      int64_t seq = 0;
      const Verdict v = w.classify(base::Psn(start.value + static_cast<uint32_t>(want)), seq);
      REQUIRE(seq == want);
      const Verdict expected = want <= cack                 ? Verdict::old_duplicate
                               : want > cack + int64_t{mpr} ? Verdict::above
                               : oracle.count(want) != 0    ? Verdict::duplicate
                                                            : Verdict::fresh;
      REQUIRE(v == expected);
      if (v == Verdict::fresh) {
        RecvSlot s;
        s.msn = static_cast<uint16_t>(want);
        oracle.insert(want);
        w.mark(want, s);
      }
      while (const RecvSlot* s = w.following()) {
        REQUIRE(s->msn == static_cast<uint16_t>(cack + 1));
        w.step();
        oracle.erase(++cack);
      }
      REQUIRE(w.cack() == cack && w.ooo_count() == oracle.size());
      if (!oracle.empty()) REQUIRE(w.max_received() == *oracle.rbegin());
      const int64_t from = cack + 1 + rng.below(mpr + 80);
      const uint64_t bits = w.bits(from);
      for (int b = 0; b < 64; ++b) REQUIRE((bits >> b & 1) == oracle.count(from + b));
      if (oracle.empty() && rng.below(8) == 0) w.shrink();
    }
  }
}

TEST_CASE("memory follows the spread and goes back") {
  RecvWindow w(base::Psn(0), 4096);
  CHECK_EQ(w.bytes(), 0u);
  w.mark(4000, RecvSlot{});
  CHECK(w.oversized());
  w.shrink();
  CHECK(w.received(4000));  // in use: kept
  for (int i = 0; i <= 4000; ++i) w.step();
  CHECK_EQ(w.ooo_count(), 0u);
  w.shrink();
  CHECK_EQ(w.bytes(), 0u);
}
