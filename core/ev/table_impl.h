// Entries and indices behind EvTable, shared by its files. Private to core/ev.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "ev/table.h"

namespace mrc::ev {

inline constexpr uint16_t kNoSlot = 0xFFFF;
inline constexpr uint32_t kAllMarked = 2047, kMaxTurnsOver = 31;
inline constexpr uint32_t kFewMarks = 64;  // 3 %: too few to tell EVs apart
// The first relapse may be chance; of so many in a row the reason is said; more are not counted.
inline constexpr uint8_t kRelapsesFree = 2, kRelapsesNamed = 3, kMaxRelapses = 31;

// One cache line: every packet reads the state of another EV and counts there.
struct alignas(64) Entry {
  uint32_t tag = 0;
  uint8_t port = 0;
  State state = State::good;
  BadReason reason = BadReason::none;
  bool probing = false;        // one probe is outstanding
  uint8_t successes = 0;       // probe answers in a row
  uint8_t backoff = 0;         // doublings of the probe interval
  uint8_t losses = 0;          // within bad_window
  uint8_t unanswered : 2 = 0;  // EV probes in a row
  uint8_t relapses : 5 = 0;    // trials in a row that ended with a loss
  uint8_t trial : 1 = 0;       // GOOD by the word of probes alone
  uint16_t slot = kNoSlot;     // position in the active set; kNoSlot: backup
  uint16_t marks : 11 = 0;     // how many of its packets were marked of late, in 1/2048
  uint16_t passed : 5 = 0;     // turns passed over for that since its last packet
  base::Instant since{};       // last change between GOOD, ASSUMED_BAD and DENIED
  base::Instant timer{};       // SKIP: when it was set; ASSUMED_BAD: next probe
  uint64_t sent = 0;
  uint32_t ecn = 0, trimmed = 0, lost = 0, probes = 0, probe_acks = 0;
  uint32_t last_loss = 0;  // in 1024 ns, wraps after 73 minutes; 64 bits more an EV would be felt per QP
};

struct EvTable::Impl final : SlotView {
  TableConfig config;
  std::unique_ptr<PathPolicy> policy;
  base::Rng rng;
  std::vector<Entry> entries;
  std::vector<uint16_t> slots;   // active set: slot -> entry
  std::vector<uint16_t> by_tag;  // tag -> entry: open addressing, kNoSlot = empty
  uint32_t min_active = 0;
  uint32_t usable_ports = UINT32_MAX;
  bool swapped_halves = false;  // D-04: this peer reflects the halves the other way round
  base::Instant next_probe = base::Instant::never();
  std::vector<StateEvent> events;
  uint64_t events_dropped = 0;
  // Of each plane: the EVs of the active set in GOOD or SKIP, and the sum of their marks. Counted again when
  // the set has changed.
  struct Plane {
    uint32_t usable = 0, marks = 0;
  };
  std::array<Plane, 32> planes{};
  uint32_t planes_in_use = 0;
  bool planes_changed = true;
  bool equal_planes = false;
  base::Instant view_now{};  // time of the choose() under way
  uint16_t run_entry = 0;    // EV of the run under way
  uint32_t run_left = 0;     // its packets still to come
  uint16_t last_sent = 0;    // entry the last packet went out on
  // Entry asked for last: feedback on a packet asks several times for the same one.
  mutable uint16_t last_found = 0;
  uint32_t trials = 0;  // entries on trial

  Impl(const TableConfig& c, std::unique_ptr<PathPolicy> p, base::Rng r)
      : config(c), policy(std::move(p)), rng(r) {}

  // SlotView
  [[nodiscard]] size_t size() const override { return slots.size(); }
  [[nodiscard]] PathId path(size_t slot) const override {
    return {entries[slots[slot]].tag, entries[slots[slot]].port};
  }
  [[nodiscard]] bool good(size_t slot) const override {
    const Entry& e = entries[slots[slot]];
    return e.state == State::good || (e.state == State::skip && skip_over(e));
  }
  void expect(size_t slot) const override { __builtin_prefetch(&entries[slots[slot]], 1); }
  [[nodiscard]] bool skip(size_t slot) const override {
    const Entry& e = entries[slots[slot]];
    return e.state == State::skip && !skip_over(e);
  }
  void clear_skip(size_t slot) override { entries[slots[slot]].state = State::good; }
  [[nodiscard]] bool held(size_t slot) const override {
    const Entry& e = entries[slots[slot]];
    return e.marks > kFewMarks && e.passed < turns_over(e);
  }
  bool pass_held(size_t slot) override {
    Entry& e = entries[slots[slot]];
    if (e.marks <= kFewMarks) return false;
    const bool over = e.passed < turns_over(e);
    e.passed = over ? (e.passed + 1u) & kMaxTurnsOver : 0u;
    return over;
  }
  // D-25: a mark is stale after about one base RTT.
  [[nodiscard]] bool skip_over(const Entry& e) const { return view_now - e.timer >= config.base_rtt; }

  // Marks (table_marks.cc): how many turns in a row an EV is passed over that is marked more than the others
  // of its plane; 0 for those that are marked alike.
  [[nodiscard]] uint32_t turns_over(const Entry& e) const;
  void count_mark(Entry& e);
  void count_unmarked(Entry& e);
  void set_marks(Entry& e, uint32_t to);
  void tally();

  // An EV of `port` may stand in for one of `of`.
  [[nodiscard]] bool fits(uint8_t port, uint8_t of) const { return port == of || config.any_port_spares; }
  [[nodiscard]] bool usable(const Entry& e) const { return e.state == State::good || e.state == State::skip; }
  Entry* find(uint32_t tag);
  [[nodiscard]] const Entry* find_exact(uint32_t tag) const;
  [[nodiscard]] size_t home(uint32_t tag) const {
    uint64_t z = (tag + 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    return static_cast<size_t>(z ^ (z >> 32)) & (by_tag.size() - 1);
  }
  void index();
  [[nodiscard]] uint32_t usable_active() const;
  void emit(base::Instant now, const Entry& e);

  void to_good(base::Instant now, Entry& e, bool as_skip);
  // Leaves rotation. `floor`: refused (SKIP instead) where ev_min_active would be undercut.
  void to_bad(base::Instant now, Entry& e, BadReason why, bool floor);
  void mark_skip(base::Instant now, Entry& e);
  void set_trial(Entry& e, bool on) {
    trials += static_cast<uint32_t>(on) - e.trial;
    e.trial = on;
  }
  // Data was lost that retires `e`: the reason for which it does.
  [[nodiscard]] BadReason note_relapse(Entry& e, BadReason why);
  // A loss that retired `e` was none.
  void forgive(base::Instant now, Entry* e);
  // A spare of the same plane takes the slot of `e`, if there is one.
  bool swap_out(Entry& e);
  // A backup that became GOOD fills a slot of its plane that holds a bad EV.
  void fill_hole(Entry& e);
  // A spare of the plane, a GOOD one first; one in SKIP counts as GOOD everywhere but in the rotation
  // (section 8).
  [[nodiscard]] uint16_t good_backup(uint8_t port) const;
  void schedule_first_probe(base::Instant now, Entry& e);
  void refresh_next_probe();
  [[nodiscard]] base::Duration probe_wait(const Entry& e, uint8_t doublings) const;
};

}  // namespace mrc::ev
