// Records, transmission order and retransmission queue against plain containers (reference 5.1, 5.7).
#include "reliability/sent_window.h"

#include <algorithm>
#include <list>
#include <map>

#include "base/rng.h"
#include "testing/check.h"

using namespace mrc;
using namespace mrc::reliability;

TEST_CASE("sent window equals plain containers under random events") {
  base::Rng rng(5);
  SentWindow w;
  std::list<int64_t> order;         // in flight, by transmission
  std::map<int64_t, int64_t> lost;  // number -> held until
  int64_t unack = -1;
  int64_t next = 0;
  for (int64_t now = 1; now < 120'000; ++now) {
    const uint32_t limit = now % 30'000 < 15'000 ? 50 : 700;  // small and grown rings
    const uint32_t what = rng.below(10);
    if (what < 4 && next - unack - 1 < limit) {
      w.append();
      w.link_newest(next);
      order.push_back(next++);
    } else if (what < 6 && !order.empty()) {
      auto it =
          std::next(order.begin(), rng.below(static_cast<uint32_t>(std::min<size_t>(order.size(), 40))));
      const int64_t seq = *it;
      order.erase(it);
      w.unlink(seq);
      const int64_t hold = rng.below(2) == 0 ? 0 : now + rng.below(50);
      w.queue(seq, base::Instant{hold});
      lost[seq] = hold;
    } else if (what < 8) {
      const auto ready =
          std::find_if(lost.begin(), lost.end(), [&](const auto& e) { return e.second <= now; });
      const int64_t got = w.first_ready(base::Instant{now});
      REQUIRE(got == (ready == lost.end() ? SentWindow::kNone : ready->first));
      if (got != SentWindow::kNone) {
        w.unqueue(got);
        lost.erase(got);
        w.link_newest(got);
        order.push_back(got);
      }
    } else if (next > unack + 1) {
      const int64_t seq = unack + 1;  // acknowledged in whatever state it is
      if (lost.erase(seq) != 0) {
        w.unqueue(seq);
      } else {
        order.remove(seq);
        w.unlink(seq);
      }
      w.pop_front();
      ++unack;
      if (w.empty()) w.shrink();
    }
    REQUIRE(w.oldest_sent() == (order.empty() ? SentWindow::kNone : order.front()));
    REQUIRE(w.queued() == lost.size() && w.unack() == unack && w.next() == next);
  }
  CHECK(next > 10'000);
}

TEST_CASE("sent window: a lost packet behind the ring's end is found") {
  SentWindow w;
  const auto add = [&] {
    const int64_t seq = w.next();
    w.append();
    w.link_newest(seq);
  };
  for (int i = 0; i < 20; ++i) add();
  for (int64_t s = 0; s < 20; ++s) {
    w.unlink(s);
    w.pop_front();
  }
  for (int i = 0; i < 30; ++i) add();  // 20..49 in a ring of 32: 32..49 lie in slots 0..17
  w.unlink(40);
  w.queue(40, base::Instant{});
  CHECK_EQ(w.first_ready(base::Instant{1}), 40);
  CHECK_EQ(w.bytes(), 32 * sizeof(SentRecord) + 16);
}

TEST_CASE("sent window: shrinking keeps the newest records") {
  SentWindow w;
  for (int64_t i = 0; i < 500; ++i) {
    w.append().tag = static_cast<uint32_t>(i);
    w.link_newest(i);
  }
  for (int64_t i = 0; i < 500; ++i) {
    w.unlink(i);
    w.pop_front();
  }
  w.shrink();
  REQUIRE(w.recent(499) != nullptr && w.recent(468) != nullptr);
  CHECK_EQ(w.recent(499)->tag, 499u);
  CHECK_EQ(w.recent(468)->tag, 468u);
  CHECK(w.recent(467) == nullptr);
  CHECK(w.recent(500) == nullptr);
}
