// Judges each packet by the rules that hold now. Decides drop, trim, damage, marks and delivery time;
// leaves carrying the bytes to its caller. Seeded: equal calls give equal verdicts.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/rng.h"
#include "impair/rule.h"

namespace mrc::impair {

struct Verdict {
  bool drop = false, trim = false, mark_ce = false, corrupt = false, duplicate = false;
  uint32_t corrupt_bit = 0;  // reduce modulo the packet's bits
  base::Instant deliver_at{}, duplicate_at{};
};

struct LineCounters {
  uint64_t seen = 0, dropped = 0, overflowed = 0, trimmed = 0, corrupted = 0, duplicated = 0, marked = 0,
           reordered = 0, delayed = 0;
};

class Line {
 public:
  explicit Line(uint64_t seed) : rng_(seed) {}

  uint64_t add_rule(const Rule& rule);  // id
  // In place of all rules of before; their ids in the same order.
  std::vector<uint64_t> set_rules(const std::vector<Rule>& rules);
  bool remove_rule(uint64_t id);
  void clear();
  [[nodiscard]] bool empty() const { return rules_.empty(); }

  // `bytes`: size on the wire; `ect`: the packet may be marked.
  Verdict judge(base::Instant now, Dir dir, uint8_t port, uint32_t ev, size_t bytes, bool is_data, bool ect);

  [[nodiscard]] const LineCounters& counters() const { return counters_; }
  // Harm done by one rule; zeros for an unknown id.
  [[nodiscard]] LineCounters rule_counters(uint64_t id) const;

 private:
  // FIFO of one (direction, port): when its last byte leaves, and the part of a nanosecond beyond, in units
  // of 1/rate.
  struct Link {
    base::Instant busy_until{};
    uint64_t rest = 0;
  };
  struct Live {
    uint64_t id = 0;
    Rule rule;
    LineCounters counters;
    std::array<std::array<Link, 32>, 2> links{};
  };
  // What a rule looks at.
  struct Offer {
    base::Instant now;
    Dir dir;
    uint8_t port;
    uint32_t ev;
    size_t bytes;
    bool is_data, ect;
  };
  static bool applies(const Rule& r, const Offer& o);
  void expire(base::Instant now);
  void apply(Live& live, const Offer& o, Verdict& v);
  void through_link(Live& live, const Offer& o, Verdict& v);
  void total(const Verdict& v, base::Instant now);

  base::Rng rng_;
  std::vector<Live> rules_;
  LineCounters counters_;
  uint64_t next_id_ = 1;
};

}  // namespace mrc::impair
