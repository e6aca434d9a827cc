// EvTable against a slow, obvious model of section 8: random events, every state compared after each.
// The model does not know which spare is taken; it checks that the exchange was a legal one.
#include <algorithm>
#include <map>
#include <set>

#include "ev/table.h"
#include "testing/check.h"

using namespace mrc::ev;  // NOLINT(google-build-using-namespace)
using mrc::base::Duration;
using mrc::base::Instant;
using mrc::base::Rng;

namespace {

struct Ev {
  uint8_t port = 0;
  State state = State::good;
  BadReason reason = BadReason::none;
  bool active = false, probing = false;
  Instant since{}, marked{}, probe_at{};
  int successes = 0, failures = 0, relapses = 0;
  bool trial = false;
  uint32_t tag = 0;
};

constexpr uint32_t kPlanes = 3, kActive = 4, kSpare = 2, kFloor = 5;
constexpr uint32_t kAllPorts = 0b1110, kFewMarks = 64;  // of 2048

class Model {
 public:
  explicit Model(uint64_t seed)
      : rng_(seed),
        table_(paths(0, kActive), paths(kActive, kActive + kSpare), config(), policy(), Rng(seed)) {
    for (uint32_t p = 1; p <= kPlanes; ++p) {
      for (uint32_t k = 0; k < kActive + kSpare; ++k) {
        evs_[p * 100 + k] = Ev{static_cast<uint8_t>(p), State::good, BadReason::none, k < kActive};
        evs_[p * 100 + k].tag = p * 100 + k;
      }
    }
  }

  void step() {
    now_ = now_ + Duration{rng_.below(400'000)};
    switch (rng_.below(14)) {
      case 0:
        return feedback(PathFeedback::skip_once);
      case 1:
        return rng_.below(6) == 0 ? feedback(PathFeedback::always_skip) : feedback(PathFeedback::none);
      case 2:
        return trimmed();
      case 3:
        return lost();
      case 4:
        return controller();
      case 5:
        return rng_.below(4) == 0 ? ports() : choose();
      case 6:
      case 7:
      case 8:
        return probe();
      case 9:
        return arrived_late();
      case 10:
        return arrived();
      default:
        return choose();
    }
  }

 private:
  static std::vector<PathId> paths(uint32_t from, uint32_t to) {
    std::vector<PathId> out;
    for (uint32_t p = 1; p <= kPlanes; ++p) {
      for (uint32_t k = from; k < to; ++k) out.push_back({p * 100 + k, static_cast<uint8_t>(p)});
    }
    return out;
  }
  static TableConfig config() {
    TableConfig c;
    c.min_active = kFloor;
    return c;
  }
  static std::unique_ptr<PathPolicy> policy() { return std::move(make_policy("bitmap").value()); }
  static bool usable(const Ev& e) { return e.state == State::good || e.state == State::skip; }

  uint32_t any() { return (1 + rng_.below(kPlanes)) * 100 + rng_.below(kActive + kSpare); }
  bool up(const Ev& e) const { return (ports_ >> e.port & 1) != 0; }
  bool spare(uint8_t port) const {
    return std::any_of(evs_.begin(), evs_.end(), [&](const auto& e) {
      return e.second.port == port && !e.second.active && usable(e.second);
    });
  }
  uint32_t usable_active() const {
    return static_cast<uint32_t>(std::count_if(
        evs_.begin(), evs_.end(), [](const auto& e) { return e.second.active && usable(e.second); }));
  }

  void good(Ev& e) {
    if (!usable(e)) e.since = now_;
    e.state = State::good;
    e.reason = BadReason::none;
    e.successes = e.failures = 0;
    e.probing = e.trial = false;
  }
  void bad(Ev& e, BadReason why) {
    if (!usable(e)) return;
    e.state = State::assumed_bad;
    e.reason = why;
    e.since = now_;
    e.successes = e.failures = 0;
    e.probing = e.trial = false;
    e.probe_at = now_ + Duration::micros(24) + (e.relapses >= 2 ? wait(e, e.relapses) : Duration{});
  }
  static Duration wait(const Ev& e, int doublings) {
    const Duration most =
        std::min(Duration::millis(int64_t{1} << std::min(doublings, 20)), Duration::seconds(1));
    // From the second failure on its own part of it, half at least.
    const int64_t part = doublings == 0 ? 0 : (e.tag * 0x9e3779b9U) >> 16;
    return Duration{most.ns - most.ns * part / 0x20000};
  }
  void arrived() {
    const uint32_t tag = any();
    Ev& e = evs_[tag];
    CHECK(table_.on_trial(tag) == e.trial);
    e.trial = false;
    e.relapses = 0;
    table_.on_full_arrived(tag);
    compare();
  }
  void mark(Ev& e) {
    if (!usable(e)) return;
    e.state = State::skip;
    e.marked = now_;
  }

  void feedback(PathFeedback m) {
    const uint32_t tag = any();
    if (m == PathFeedback::skip_once) mark(evs_[tag]);
    if (m == PathFeedback::always_skip) bad(evs_[tag], BadReason::always_skip);
    CHECK(table_.on_feedback(now_, tag, m));
    compare();
  }
  void trimmed() {
    const uint32_t tag = any();
    mark(evs_[tag]);
    CHECK(table_.on_trimmed(now_, tag));
    compare();
  }
  void lost() {
    const uint32_t tag = any();
    Ev& e = evs_[tag];
    const Instant sent = now_ - Duration{rng_.below(600'000)};
    if (usable(e) && sent >= e.since) {
      const bool held = e.active && !spare(e.port) && usable_active() <= kFloor;
      if (e.trial) e.relapses = std::min(e.relapses + 1, 31);
      const BadReason why = e.trial && e.relapses >= 3 ? BadReason::relapse : BadReason::loss;
      e.trial = false;
      held ? mark(e) : bad(e, why);
    }
    CHECK(table_.on_loss(now_, tag, BadReason::loss, sent));
    compare();
  }
  // What is said of an EV that a loss did not retire changes nothing.
  void arrived_late() {
    const uint32_t tag = any();
    Ev& e = evs_[tag];
    if (e.state == State::assumed_bad && (e.reason == BadReason::loss || e.reason == BadReason::relapse)) {
      e.relapses = 0;
      good(e);
    }
    rng_.below(2) == 0 ? table_.on_spurious(now_, tag) : table_.on_late_original(now_, tag);
    compare();
  }
  void controller() {
    const uint32_t tag = any();
    Ev& e = evs_[tag];
    const State to = rng_.below(3) != 0   ? State::good
                     : rng_.below(2) != 0 ? State::denied
                                          : State::assumed_bad;
    if (to == State::good) {
      if (!up(e) && e.state == State::denied) e.state = State::good;  // for a moment: its port is down
      if (up(e)) e.relapses = 0;
      up(e) ? good(e) : bad(e, BadReason::port);
    } else if (to == State::assumed_bad) {
      bad(e, BadReason::controller);
      if (e.state == State::assumed_bad) e.reason = BadReason::controller;
    } else if (e.state != State::denied) {
      e.state = State::denied;
      e.reason = BadReason::controller;
      e.since = now_;
      e.probing = e.trial = false;
    }
    CHECK(table_.set_state(now_, tag, to));
    compare();
  }
  void ports() {
    const uint32_t before = ports_;
    ports_ = rng_.below(3) == 0 ? kAllPorts & (rng_.below(16)) : kAllPorts;
    for (auto& [tag, e] : evs_) {
      const bool was = (before >> e.port & 1) != 0;
      if (was && !up(e)) {
        bad(e, BadReason::port);
        e.probing = false;
      } else if (!was && up(e) && e.state == State::assumed_bad) {
        e.relapses = 0;
        if (e.reason == BadReason::port) {
          good(e);
          continue;
        }
        e.probe_at = now_;
        e.successes = e.failures = 0;
        e.probing = false;
      }
    }
    table_.set_usable_ports(now_, ports_);
    compare();
  }

  void probe() {
    if (const auto p = table_.take_probe(now_, kAllPorts)) {
      Ev& e = evs_[p->tag];
      CHECK(e.state == State::assumed_bad && !e.probing && up(e) && e.probe_at <= now_);
      for (const auto& [tag, o] : evs_) {  // the one that has waited longest
        if (o.state == State::assumed_bad && !o.probing && up(o)) CHECK(o.probe_at >= e.probe_at);
      }
      e.probing = true;
      compare();
    }
    std::vector<uint32_t> out;
    for (const auto& [tag, e] : evs_) {
      if (e.probing) out.push_back(tag);
    }
    if (out.empty()) return;
    const uint32_t tag = out[rng_.below(static_cast<uint32_t>(out.size()))];
    now_ = now_ + Duration::micros(20);
    rng_.below(4) == 0 ? unanswered(tag)
                       : answered(tag, static_cast<PathFeedback>(rng_.below(8) < 6 ? 0 : 1 + rng_.below(2)));
    compare();
  }
  void unanswered(uint32_t tag) {
    fail(tag);
    table_.on_probe_lost(now_, tag);
  }
  void fail(uint32_t tag) {
    Ev& e = evs_[tag];
    e.probing = false;
    e.successes = 0;
    e.probe_at = now_ + wait(e, e.failures);
    ++e.failures;
  }
  void answered(uint32_t tag, PathFeedback m) {
    Ev& e = evs_[tag];
    if (m == PathFeedback::always_skip) {
      fail(tag);
    } else if (++e.successes == 3) {
      good(e);
      e.trial = true;
      if (m == PathFeedback::skip_once) mark(e);
    } else {
      e.probing = false;
      e.failures = 0;
      e.probe_at = now_ + Duration::millis(1);
      for (auto& [t, o] : evs_) {  // the plane lives
        if (o.port == e.port && o.state == State::assumed_bad && !o.probing && o.relapses < 2)
          o.probe_at = std::min(o.probe_at, now_ + Duration::millis(1));
      }
    }
    table_.on_probe_ack(now_, tag, m);
  }

  void choose() {
    const uint32_t can = rng_.below(4) == 0 ? rng_.below(16) : kAllPorts;
    const std::optional<uint32_t> avoid = rng_.below(3) == 0 ? std::optional(any()) : std::nullopt;
    const auto got = table_.choose(now_, can, avoid);
    const auto open = [&](const Ev& e) { return (can >> e.port & 1) != 0 && up(e); };
    const auto fresh = [&](const Ev& e) {
      return e.state == State::good || (e.state == State::skip && now_ - e.marked >= Duration::micros(12));
    };
    const auto candidate = [&](uint32_t tag, const Ev& e) {
      return open(e) && e.active && usable(e) && !(avoid && tag == *avoid);
    };
    const bool waits =  // a busy line of a plane that works is worth more than an idle one of a bad plane
        std::any_of(evs_.begin(), evs_.end(),
                    [&](const auto& e) { return usable(e.second) && up(e.second); });
    bool any_left = false;
    std::map<uint8_t, bool> plane, plane_fresh;  // what the rotation has there
    std::map<uint8_t, bool> plane_calm;          // fresh, and not so often marked that it may wait for longer
    std::map<uint32_t, uint32_t> marks;
    for (const EvTable::Row& r : table_.rows()) marks[r.path.tag] = r.marks;
    for (const auto& [tag, e] : evs_) {
      any_left = any_left || (open(e) && (usable(e) || (!waits && e.state != State::denied)));
      if (!candidate(tag, e)) continue;
      plane[e.port] = true;
      plane_fresh[e.port] = plane_fresh[e.port] || fresh(e);
      plane_calm[e.port] = plane_calm[e.port] || (fresh(e) && marks[tag] <= kFewMarks);
    }
    CHECK_EQ(got.has_value(), any_left);
    if (got) {
      const Ev& e = evs_[got->tag];
      CHECK(open(e));
      CHECK(e.state != State::denied);
      CHECK(usable(e) || !waits);
      if (!plane.empty()) {
        CHECK(candidate(got->tag, e));
        if (last_plane_ != 0) {  // planes take turns, whatever is marked
          uint8_t due = last_plane_;
          do due = static_cast<uint8_t>(due % kPlanes + 1);
          while (!plane[due]);
          CHECK_EQ(e.port, due);
        }
        last_plane_ = e.port;
        CHECK(!fresh(e) || plane_fresh[e.port]);
        CHECK(fresh(e) || !plane_calm[e.port]);  // a marked one only where there is nothing else
      }
    }
    int passed = 0;
    for (auto& [tag, e] : evs_) {  // SKIP ends here and nowhere else: one passed over, and the one taken
      if (e.state != State::skip || table_.state(tag) != State::good) continue;
      if (!(got && got->tag == tag && fresh(e))) ++passed;
      CHECK(e.active && open(e));
      e.state = State::good;
    }
    CHECK(passed <= 1);
    compare();
  }

  void compare() {
    Instant due = Instant::never();
    std::map<uint8_t, uint32_t> active;
    std::map<uint8_t, bool> hole;
    for (const EvTable::Row& r : table_.rows()) {
      Ev& e = evs_[r.path.tag];
      CHECK(r.state == e.state);
      CHECK(r.reason == e.reason);
      CHECK_EQ(r.since.ns, e.since.ns);
      if (r.active != e.active)
        CHECK_EQ(usable(e), r.active);  // only a bad one leaves, only a usable one comes
      e.active = r.active;
      active[e.port] += r.active ? 1 : 0;
      hole[e.port] = hole[e.port] || (r.active && !usable(e));
      if (e.state == State::assumed_bad && !e.probing && up(e)) due = std::min(due, e.probe_at);
    }
    for (uint8_t p = 1; p <= kPlanes; ++p) {
      CHECK_EQ(active[p], kActive);   // spares come from the same plane
      CHECK(!(hole[p] && spare(p)));  // and no plane has a gap while it has one
    }
    CHECK_EQ(table_.next_probe_at().ns, due.ns);
    CHECK_EQ(table_.usable_active(), usable_active());
  }

  Rng rng_;
  EvTable table_;
  std::map<uint32_t, Ev> evs_;
  Instant now_{};
  uint32_t ports_ = kAllPorts;
  uint8_t last_plane_ = 0;
};

}  // namespace

TEST_CASE("the table does what the model of section 8 does") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Model m(seed);
    const int before = mrc::testing::failures();
    for (int i = 0; i < 4000 && mrc::testing::failures() == before; ++i) m.step();
    if (mrc::testing::failures() != before)
      std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
    REQUIRE(mrc::testing::failures() == before);
  }
}
