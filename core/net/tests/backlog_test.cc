// What may wait in the queue of a link, against a link in virtual time.
#include <cstdint>

#include "net/backlog.h"
#include "testing/check.h"

using mrc::base::Duration;
using mrc::base::Instant;
using mrc::net::Backlog;

namespace {

// A link of some rate below a socket, and a sender that hands down as much as it may every 100 us.
struct Link {
  int64_t rate, waiting = 0, moved = 0, longest = 0, idle_turns = 0, questions = 0;
  Instant now{1};
  Backlog backlog;

  explicit Link(int64_t bytes_per_second) : rate(bytes_per_second) {}

  int64_t turn(int64_t most) {
    now = now + Duration::micros(100);
    const int64_t drained = std::min(waiting, rate / 10'000);
    waiting -= drained;
    moved += drained;
    if (drained < rate / 10'000) ++idle_turns;
    if (backlog.worth_asking()) backlog.before_send(now, waiting);
    const int64_t room = backlog.room(), sent = std::min(most, room);
    if (room == 0) CHECK(backlog.retry_at(now) > now);
    if (sent == 0) return 0;
    waiting += sent;
    longest = std::max(longest, waiting);
    if (backlog.note_sent(sent)) {
      backlog.after_send(now, waiting);
      ++questions;
    }
    return sent;
  }
  void run(int turns, int64_t most) {
    longest = idle_turns = 0;
    for (int i = 0; i < turns; ++i) turn(most);
  }
};

}  // namespace

TEST_CASE("a slow link keeps work for a millisecond or two, and never runs dry") {
  Link link(12'500'000);  // 100 Mbit/s
  link.run(2'000, 256 * 1024);
  link.run(5'000, 256 * 1024);
  CHECK(link.longest <= 64 * 1024);
  CHECK_EQ(link.idle_turns, 0);
  CHECK(link.backlog.bytes_per_second() > 12'000'000);
  CHECK(link.backlog.bytes_per_second() < 13'000'000);
}

TEST_CASE("a link that becomes faster is used as such, and one that becomes slower holds less") {
  Link link(12'500'000);
  link.run(5'000, 256 * 1024);
  link.rate = 125'000'000;
  link.run(5'000, 256 * 1024);
  link.run(5'000, 256 * 1024);
  CHECK(link.idle_turns == 0);
  CHECK(link.backlog.bytes_per_second() > 120'000'000);
  link.rate = 12'500'000;
  link.run(20'000, 256 * 1024);
  link.run(5'000, 256 * 1024);
  CHECK(link.longest <= 64 * 1024);
}

TEST_CASE("a link that takes everything at once is not limited") {
  Backlog b;
  CHECK(!b.worth_asking());
  Instant now{1};
  for (int i = 0; i < 100; ++i) {
    now = now + Duration::micros(50);
    if (b.worth_asking()) b.before_send(now, 0);
    CHECK_EQ(b.room(), INT64_MAX);
    CHECK(b.note_sent(64 * 1024));
    b.after_send(now, 0);
  }
}

TEST_CASE("what any link takes is not worth a question, until it adds up") {
  Link link(1'000'000'000);
  for (int i = 0; i < 10; ++i) CHECK_EQ(link.turn(500), 500);
  CHECK_EQ(link.questions, 0);
  for (int i = 0; i < 990; ++i) CHECK_EQ(link.turn(500), 500);
  CHECK(link.questions <= 500'000 / Backlog::kMinBytes + 1);
  // A link too slow for it is found out, and holds no more than any other.
  Link slow(1'000'000);
  slow.run(20'000, 500);
  CHECK(slow.longest <= 2 * Backlog::kMinBytes);
  CHECK(slow.backlog.bytes_per_second() < 1'200'000);
}

TEST_CASE("a trickle is never held back") {
  Link link(12'500'000);
  link.run(1'000, 256 * 1024);
  for (int i = 0; i < 100; ++i) link.turn(0);
  for (int i = 0; i < 1'000; ++i) CHECK_EQ(link.turn(500), 500);
}

TEST_CASE("a sender that pauses learns nothing from a queue that had all the time to run empty") {
  Link link(12'500'000);
  link.run(5'000, 256 * 1024);
  const int64_t before = link.backlog.bytes_per_second();
  for (int burst = 0; burst < 200; ++burst) {
    link.run(20, 256 * 1024);
    link.run(200, 0);
  }
  CHECK(link.backlog.bytes_per_second() < before * 5 / 4);
  link.run(2'000, 256 * 1024);
  CHECK(link.longest <= 64 * 1024);
}

TEST_CASE(
    "a link whose queue is always found empty at once grows to the most a rate can be, and no further") {
  Link link(12'500'000);
  link.run(5'000, 256 * 1024);
  Instant now = link.now;
  for (int i = 0; i < 2'000; ++i) {
    now = now + Duration::micros(1);
    CHECK(link.backlog.note_sent(1'000'000));
    link.backlog.after_send(now, 1'000);
    now = now + Duration::micros(1);
    link.backlog.before_send(now, 0);
    CHECK(link.backlog.room() > 0);
  }
  CHECK_EQ(link.backlog.bytes_per_second(), Backlog::kMostRate);
}
