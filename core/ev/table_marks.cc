// Which EVs of a plane are marked more than their siblings, and for how many turns that passes them over.
// Decides by comparison alone: where a plane is full, all its EVs are marked alike, and none is better. A
// SKIP moves the packets of one turn (reference 5.4); what stays marked turn after turn is told from that
// here.
#include "ev/table_impl.h"

namespace mrc::ev {

namespace {
constexpr uint32_t kShift = 5;  // averages over about 32 packets of the EV
}  // namespace

void EvTable::Impl::tally() {
  planes = {};
  planes_in_use = 0;
  planes_changed = false;
  for (const uint16_t i : slots) {
    const Entry& e = entries[i];
    if (!usable(e)) continue;
    ++planes[e.port].usable;
    planes[e.port].marks += e.marks;
    planes_in_use |= 1u << e.port;
  }
}

void EvTable::Impl::set_marks(Entry& e, uint32_t to) {
  // Wraps where it falls; the sum does not.
  if (e.slot != kNoSlot && usable(e)) planes[e.port].marks += to - e.marks;
  e.marks = to & kAllMarked;
}

// A packet counts as unmarked when it is sent, and its mark makes up for it when it comes: so only marks have
// to be heard of, and several packets may share a SACK.
void EvTable::Impl::count_unmarked(Entry& e) {
  set_marks(e, e.marks - ((e.marks + (1u << kShift) - 1) >> kShift));
}

void EvTable::Impl::count_mark(Entry& e) {
  set_marks(e, std::min(e.marks + ((kAllMarked + 1) >> kShift), kAllMarked));
}

// Twice as many marks as the others have in the mean are no accident any more. From there on an EV gets the
// less the more it is marked, but never nothing: only its own packets tell that it is free again.
uint32_t EvTable::Impl::turns_over(const Entry& e) const {
  const Plane& p = planes[e.port];
  if (p.usable < 2) return 0;
  const uint32_t others = p.usable - 1;
  const uint32_t theirs = p.marks - std::min<uint32_t>(p.marks, e.marks);
  if (e.marks * others <= 2 * theirs + kFewMarks * others) return 0;
  return std::min(e.marks * others / (theirs + kFewMarks / 2 * others), kMaxTurnsOver);
}

uint32_t EvTable::planes_in_use() {
  if (impl_->planes_changed) impl_->tally();
  return impl_->planes_in_use;
}

bool EvTable::equal_planes() const { return impl_->equal_planes; }

}  // namespace mrc::ev
