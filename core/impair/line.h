// Judges each packet by the rules that hold now. Decides drop, trim, damage, marks and delivery time;
// leaves carrying the bytes to its caller. Seeded: equal calls give equal verdicts.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "base/rng.h"
#include "impair/rule.h"

namespace mrc::impair {

struct Verdict {
  bool drop = false, trim = false, mark_ce = false, corrupt = false, duplicate = false;
  uint32_t corrupt_bit = 0;              // reduce modulo the packet's bits
  base::Instant deliver_at{}, duplicate_at{};
};

struct LineCounters {
  uint64_t seen = 0, dropped = 0, overflowed = 0, trimmed = 0, corrupted = 0, duplicated = 0, marked = 0, reordered = 0, delayed = 0;
};

class Line {
 public:
  explicit Line(uint64_t seed) : rng_(seed) {}

  uint64_t add_rule(const Rule& rule);   // id
  bool remove_rule(uint64_t id);
  void clear();
  [[nodiscard]] bool empty() const { return rules_.empty(); }

  // `bytes`: size on the wire; `ect`: the packet may be marked.
  Verdict judge(base::Instant now, Dir dir, uint8_t port, uint32_t ev, size_t bytes, bool is_data, bool ect);

  [[nodiscard]] const LineCounters& counters() const { return counters_; }
  // Harm done by one rule; zeros for an unknown id.
  [[nodiscard]] LineCounters rule_counters(uint64_t id) const;

 private:
  struct Live {
    uint64_t id = 0;
    Rule rule;
    LineCounters counters;
    // FIFO state per (direction, port): when the last byte leaves the link.
    std::array<std::array<base::Instant, 32>, 2> busy_until{};
  };
  static bool applies(const Rule& r, base::Instant now, Dir dir, uint8_t port, uint32_t ev, bool is_data);
  void expire(base::Instant now);
  void apply(Live& live, base::Instant now, Dir dir, uint8_t port, size_t bytes, bool is_data, bool ect, Verdict& v);
  void through_link(Live& live, base::Instant now, Dir dir, uint8_t port, size_t bytes, bool is_data, bool ect, Verdict& v);

  base::Rng rng_;
  std::vector<Live> rules_;
  LineCounters counters_;
  uint64_t next_id_ = 1;
};

}  // namespace mrc::impair
