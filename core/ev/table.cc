#include "ev/table.h"

#include <algorithm>
#include <bit>

#include "base/prefetch.h"
#include "ev/table_impl.h"

namespace mrc::ev {

namespace {
constexpr size_t kMaxEvents = 1024;
constexpr uint32_t swap_halves(uint32_t v) { return (v << 16) | (v >> 16); }
}  // namespace

EvTable::EvTable(std::vector<PathId> active, std::vector<PathId> backup, const TableConfig& config,
                 std::unique_ptr<PathPolicy> policy, base::Rng rng)
    : impl_(std::make_unique<Impl>(config, std::move(policy), rng)) {
  Impl& m = *impl_;
  if (config.any_port_spares) {
    // The first good one is taken: no plane may always be the first.
    for (size_t i = backup.size(); i > 1; --i)
      std::swap(backup[i - 1], backup[m.rng.below(static_cast<uint32_t>(i))]);
  }
  m.entries.reserve(active.size() + backup.size());
  for (const PathId& p : active) {
    Entry e;
    e.tag = p.tag;
    e.port = p.port & 31;
    e.slot = static_cast<uint16_t>(m.slots.size());
    m.slots.push_back(static_cast<uint16_t>(m.entries.size()));
    m.entries.push_back(e);
  }
  for (const PathId& p : backup) {
    Entry e;
    e.tag = p.tag;
    e.port = p.port & 31;
    m.entries.push_back(e);
  }
  m.min_active =
      config.min_active != 0 ? config.min_active : std::max(static_cast<uint32_t>(active.size() / 4), 1u);
  m.index();
  m.policy->reset(m, m.rng);
  m.equal_planes = m.policy->equal_planes() && !config.any_port_spares;
}

EvTable::~EvTable() = default;

void EvTable::Impl::index() {
  by_tag.assign(std::bit_ceil(entries.size() * 3 / 2 + 1), kNoSlot);
  for (size_t i = 0; i < entries.size(); ++i) {
    size_t at = home(entries[i].tag);
    while (by_tag[at] != kNoSlot) at = (at + 1) & (by_tag.size() - 1);
    by_tag[at] = static_cast<uint16_t>(i);
  }
}

const Entry* EvTable::Impl::find_exact(uint32_t tag) const {
  if (last_found < entries.size() && entries[last_found].tag == tag) return &entries[last_found];
  for (size_t at = home(tag); by_tag[at] != kNoSlot; at = (at + 1) & (by_tag.size() - 1)) {
    if (entries[by_tag[at]].tag != tag) continue;
    last_found = by_tag[at];
    return &entries[last_found];
  }
  return nullptr;
}

Entry* EvTable::Impl::find(uint32_t tag) {
  const Entry* e = find_exact(swapped_halves ? swap_halves(tag) : tag);
  if (e == nullptr) {
    // D-04: look the other order up too, and remember which one this peer uses.
    e = find_exact(swapped_halves ? tag : swap_halves(tag));
    if (e != nullptr) swapped_halves = !swapped_halves;
  }
  return const_cast<Entry*>(e);  // NOLINT(cppcoreguidelines-pro-type-const-cast): entries is ours
}

uint32_t EvTable::Impl::usable_active() const {
  return static_cast<uint32_t>(
      std::count_if(slots.begin(), slots.end(), [this](uint16_t i) { return usable(entries[i]); }));
}

void EvTable::Impl::emit(base::Instant now, const Entry& e) {
  if (events.size() >= kMaxEvents) {
    ++events_dropped;
    return;
  }
  events.push_back(StateEvent{now, e.tag, e.port, e.state == State::skip ? State::good : e.state, e.reason});
}

void EvTable::Impl::mark_skip(base::Instant now, Entry& e) {
  e.state = State::skip;
  e.timer = now;
}

void EvTable::Impl::to_good(base::Instant now, Entry& e, bool as_skip) {
  planes_changed = true;
  const bool change = !usable(e);
  e.state = State::good;
  e.reason = BadReason::none;
  e.probing = false;
  e.successes = e.backoff = e.losses = 0;
  set_trial(e, false);
  e.timer = {};
  if (change) {
    e.since = now;
    emit(now, e);
    fill_hole(e);
  }
  if (as_skip && config.ecn_steering) mark_skip(now, e);
  refresh_next_probe();
}

uint16_t EvTable::Impl::good_backup(uint8_t port) const {
  uint16_t skipping = kNoSlot;
  for (size_t i = 0; i < entries.size(); ++i) {
    const Entry& e = entries[i];
    if (e.slot != kNoSlot || !fits(e.port, port) || !usable(e)) continue;
    if (e.state == State::good) return static_cast<uint16_t>(i);
    if (skipping == kNoSlot) skipping = static_cast<uint16_t>(i);
  }
  return skipping;
}

bool EvTable::Impl::swap_out(Entry& e) {
  planes_changed = true;
  if (e.slot == kNoSlot) return false;
  const uint16_t spare = good_backup(e.port);
  if (spare == kNoSlot) return false;
  entries[spare].slot = e.slot;
  slots[e.slot] = spare;
  e.slot = kNoSlot;
  if (entries[spare].port != e.port) policy->reset(*this, rng);
  return true;
}

void EvTable::Impl::fill_hole(Entry& e) {
  planes_changed = true;
  if (e.slot != kNoSlot) return;
  for (const uint16_t i : slots) {
    Entry& held = entries[i];
    if (!fits(held.port, e.port) || usable(held)) continue;
    e.slot = held.slot;
    slots[e.slot] = static_cast<uint16_t>(&e - entries.data());
    held.slot = kNoSlot;
    if (held.port != e.port) policy->reset(*this, rng);
    return;
  }
}

void EvTable::Impl::to_bad(base::Instant now, Entry& e, BadReason why, bool floor) {
  if (!usable(e)) return;
  if (!config.demotion && why != BadReason::port && why != BadReason::controller) return;
  if (floor && e.slot != kNoSlot) {
    const bool replaced = good_backup(e.port) != kNoSlot;
    if (!replaced && usable_active() <= min_active) return mark_skip(now, e);
  }
  e.state = State::assumed_bad;
  e.reason = why;
  e.since = now;
  e.probing = false;
  e.successes = e.backoff = e.losses = 0;
  e.marks = e.passed = 0;
  planes_changed = true;
  set_trial(e, false);
  schedule_first_probe(now, e);
  emit(now, e);
  if (why != BadReason::port) swap_out(e);  // a dead plane has no good spare either
  refresh_next_probe();
}

void EvTable::Impl::forgive(base::Instant now, Entry* e) {
  if (e == nullptr || e->state != State::assumed_bad) return;
  if (e->reason != BadReason::loss && e->reason != BadReason::relapse) return;
  e->relapses = 0;
  to_good(now, *e, false);
}

std::optional<PathId> EvTable::choose(base::Instant now, uint32_t ports, std::optional<uint32_t> avoid) {
  Impl& m = *impl_;
  ports &= m.usable_ports;
  if (ports == 0) return std::nullopt;
  m.view_now = now;
  if (m.planes_changed) m.tally();
  if (const auto slot = m.policy->next(m, ports, avoid, m.rng)) {
    Entry& e = m.entries[m.slots[*slot]];
    if (e.state == State::skip && m.skip_over(e)) e.state = State::good;
    m.last_sent = m.slots[*slot];
    return PathId{e.tag, e.port};
  }
  // 5.4 step 6, D-33: a GOOD spare, a SKIP one, the one that has been bad longest; the avoided one only when
  // alone.
  const Entry* best = nullptr;
  const auto rank = [&](const Entry& e) {
    const int state = e.state == State::good && e.slot == kNoSlot ? 0 : m.usable(e) ? 1 : 2;
    return (avoid && e.tag == *avoid ? 3 : 0) + state;
  };
  const auto age = [](const Entry& e) { return e.state == State::skip ? e.timer : e.since; };
  // A plane whose EVs are all bad is no way out while another one is only busy.
  const bool waits = std::any_of(m.entries.begin(), m.entries.end(), [&](const Entry& e) {
    return m.usable(e) && (m.usable_ports & (1u << e.port)) != 0;
  });
  for (const Entry& e : m.entries) {
    if (e.state == State::denied || (ports & (1u << e.port)) == 0) continue;
    if (waits && !m.usable(e)) continue;
    if (best == nullptr || rank(e) < rank(*best) || (rank(e) == rank(*best) && age(e) < age(*best)))
      best = &e;
  }
  if (best == nullptr) return std::nullopt;
  return PathId{best->tag, best->port};
}

std::optional<PathId> EvTable::another(uint32_t ports, std::optional<uint32_t> avoid) {
  Impl& m = *impl_;
  if (m.entries.empty()) return std::nullopt;
  const size_t start = m.rng.below(static_cast<uint32_t>(m.entries.size()));
  for (size_t i = 0; i < m.entries.size(); ++i) {
    const Entry& e = m.entries[(start + i) % m.entries.size()];
    if (e.tag != avoid && m.usable(e) && (ports & m.usable_ports & (1u << e.port)) != 0)
      return PathId{e.tag, e.port};
  }
  return std::nullopt;
}

std::optional<PathId> EvTable::choose_run(base::Instant now, uint32_t ports, uint32_t run) {
  Impl& m = *impl_;
  if (m.run_left > 0) {
    const Entry& e = m.entries[m.run_entry];
    if (e.state == State::good && e.slot != kNoSlot && (ports & m.usable_ports & (1u << e.port)) != 0) {
      --m.run_left;
      return PathId{e.tag, e.port};
    }
    m.run_left = 0;
  }
  const auto path = choose(now, ports, std::nullopt);
  if (!path || run <= 1) return path;
  const Entry* e = m.find_exact(path->tag);
  m.run_entry = static_cast<uint16_t>(e - m.entries.data());
  m.run_left = run - 1;
  return path;
}

bool EvTable::is_good(PathId path) const {
  const Impl& m = *impl_;
  const Entry* last = &m.entries[m.last_sent];
  const Entry* e = last->tag == path.tag ? last : m.find_exact(path.tag);
  return e != nullptr && e->port == path.port && e->state == State::good && e->slot != kNoSlot;
}

void EvTable::on_sent(base::Instant now, uint32_t tag) {
  (void)now;
  Impl& m = *impl_;
  if (m.entries[m.last_sent].tag != tag) {
    const Entry* found = m.find_exact(tag);
    if (found == nullptr) return;
    m.last_sent = static_cast<uint16_t>(found - m.entries.data());
  }
  Entry& e = m.entries[m.last_sent];
  ++e.sent;
  if (e.marks != 0) m.count_unmarked(e);
}

bool EvTable::on_feedback(base::Instant now, uint32_t tag, PathFeedback m) {
  Entry* e = impl_->find(tag);
  if (e == nullptr) return false;
  if (m == PathFeedback::skip_once) {
    ++e->ecn;
    if (!impl_->config.ecn_steering) return true;
  }
  if (e->slot != kNoSlot)
    impl_->policy->feedback(e->slot,
                            m == PathFeedback::none ? PathPolicy::Signal::ok : PathPolicy::Signal::ecn);
  if (!impl_->usable(*e)) return true;  // late feedback on ASSUMED_BAD, or DENIED
  if (m == PathFeedback::skip_once) {
    impl_->mark_skip(now, *e);
    impl_->count_mark(*e);
  }
  if (m == PathFeedback::always_skip) impl_->to_bad(now, *e, BadReason::always_skip, false);
  return true;
}

bool EvTable::on_trimmed(base::Instant now, uint32_t tag) {
  Entry* e = impl_->find(tag);
  if (e == nullptr) return false;
  ++e->trimmed;
  if (e->slot != kNoSlot) impl_->policy->feedback(e->slot, PathPolicy::Signal::trimmed);
  if (!impl_->usable(*e)) return true;
  impl_->mark_skip(now, *e);
  if (impl_->config.ecn_steering) impl_->count_mark(*e);
  return true;
}

void EvTable::on_delayed(base::Instant now, uint32_t tag) {
  Entry* e = impl_->find(tag);
  if (e == nullptr || e->state != State::good || !impl_->config.ecn_steering) return;
  if (e->slot != kNoSlot) impl_->policy->feedback(e->slot, PathPolicy::Signal::ecn);
  impl_->mark_skip(now, *e);
  impl_->count_mark(*e);
}

bool EvTable::on_loss(base::Instant now, uint32_t tag, BadReason why, base::Instant sent_at) {
  Impl& m = *impl_;
  Entry* e = const_cast<Entry*>(m.find_exact(tag));  // NOLINT: our own tag, not a reflected one
  if (e == nullptr) return false;
  ++e->lost;
  if (e->slot != kNoSlot) m.policy->feedback(e->slot, PathPolicy::Signal::lost);
  if (!m.usable(*e) || sent_at < e->since) return true;
  if (m.config.bad_after > 1) {
    // Without trimming a congestion drop looks like a failure: ask for more than one within the window.
    const auto at = static_cast<uint32_t>(now.ns >> 10);
    const bool recent = e->losses > 0 && int64_t{at - e->last_loss} <= m.config.bad_window.ns >> 10;
    e->losses = static_cast<uint8_t>(recent ? std::min(e->losses + 1, 255) : 1);
    e->last_loss = at;
    if (e->losses < m.config.bad_after) return true;
  }
  m.to_bad(now, *e, m.note_relapse(*e, why), true);
  return true;
}

BadReason EvTable::Impl::note_relapse(Entry& e, BadReason why) {
  if (e.trial == 0) return why;
  set_trial(e, false);
  if (e.relapses < kMaxRelapses) ++e.relapses;
  return e.relapses >= kRelapsesNamed ? BadReason::relapse : why;
}

bool EvTable::on_trial(uint32_t tag) const {
  if (impl_->trials == 0) return false;
  const Entry* e = impl_->find(tag);
  return e != nullptr && e->trial != 0;
}

void EvTable::on_full_arrived(uint32_t tag) {
  Entry* e = impl_->find(tag);
  if (e == nullptr) return;
  impl_->set_trial(*e, false);
  e->relapses = 0;
}

void EvTable::on_spurious(base::Instant now, uint32_t tag) {
  Entry* e = const_cast<Entry*>(impl_->find_exact(tag));  // NOLINT: our own tag, not a reflected one
  impl_->forgive(now, e);
}

void EvTable::on_late_original(base::Instant now, uint32_t tag) { impl_->forgive(now, impl_->find(tag)); }

void EvTable::set_usable_ports(base::Instant now, uint32_t ports) {
  Impl& m = *impl_;
  const uint32_t down = m.usable_ports & ~ports;
  const uint32_t up = ports & ~m.usable_ports;
  m.usable_ports = ports;
  for (Entry& e : m.entries) {
    if ((down & (1u << e.port)) != 0) {
      m.to_bad(now, e, BadReason::port, false);
      e.probing = false;
    } else if ((up & (1u << e.port)) != 0 && e.state == State::assumed_bad && e.reason != BadReason::port) {
      // What was bad before its port is probed at once, with a fresh back-off.
      e.timer = now;
      e.backoff = e.successes = 0;
      e.relapses = 0;
      e.probing = false;
    }
  }
  // Nothing was known against the others. Spares come last: places stay with who had them.
  for (const bool spare : {false, true}) {
    for (Entry& e : m.entries) {
      const bool back =
          (up & (1u << e.port)) != 0 && e.state == State::assumed_bad && e.reason == BadReason::port;
      if (!back || (e.slot == kNoSlot) != spare) continue;
      e.relapses = 0;
      m.to_good(now, e, false);
    }
  }
  m.refresh_next_probe();
}

bool EvTable::set_state(base::Instant now, uint32_t tag, State state) {
  Impl& m = *impl_;
  Entry* e = const_cast<Entry*>(m.find_exact(tag));  // NOLINT: entries is ours
  if (e == nullptr) return false;
  if (state == State::good) {
    // Allowed again on a port that is down: what the port going down would have made of it.
    const bool up = (m.usable_ports & (1u << e->port)) != 0;
    if (!up && e->state == State::denied) e->state = State::good;
    if (up) e->relapses = 0;
    up ? m.to_good(now, *e, false) : m.to_bad(now, *e, BadReason::port, false);
  } else if (state == State::denied && e->state != State::denied) {
    e->state = State::denied;
    e->reason = BadReason::controller;
    e->since = now;
    e->probing = false;
    e->marks = e->passed = 0;
    m.planes_changed = true;
    m.set_trial(*e, false);
    m.emit(now, *e);
    m.swap_out(*e);
    m.refresh_next_probe();
  } else if (state == State::assumed_bad) {
    m.to_bad(now, *e, BadReason::controller, false);  // no effect on DENIED
    // For one that was bad already: its port coming up is not enough any more.
    if (e->state == State::assumed_bad) e->reason = BadReason::controller;
  }
  return true;
}

bool EvTable::replace(base::Instant now, uint32_t tag, PathId with) {
  Impl& m = *impl_;
  Entry* e = const_cast<Entry*>(m.find_exact(tag));  // NOLINT: entries is ours
  if (e == nullptr || with.port > 31) return false;
  const Entry* other = m.find_exact(with.tag);
  if (other != nullptr && other != e) return false;  // a reflected tag names one path
  const uint16_t slot = e->slot;
  m.set_trial(*e, false);
  *e = Entry{};
  e->tag = with.tag;
  e->port = with.port;
  e->slot = slot;
  e->since = now;
  m.index();
  m.planes_changed = true;
  if ((m.usable_ports & (1u << e->port)) == 0) {
    m.to_bad(now, *e, BadReason::port, false);
  } else {
    m.fill_hole(*e);
  }
  m.policy->reset(m, m.rng);
  m.refresh_next_probe();
  return true;
}

void EvTable::set_rtt(base::Duration base_rtt, base::Duration target_delay) {
  impl_->config.base_rtt = base_rtt;
  impl_->config.target_delay = target_delay;
}

std::optional<State> EvTable::state(uint32_t tag) const {
  const Entry* e = impl_->find_exact(tag);
  return e == nullptr ? std::nullopt : std::optional(e->state);
}

std::optional<uint8_t> EvTable::port_of(uint32_t tag) const {
  const Entry* e = impl_->find_exact(tag);
  return e == nullptr ? std::nullopt : std::optional(e->port);
}

std::vector<EvTable::Row> EvTable::rows() const {
  const Impl& m = *impl_;
  std::vector<Row> out;
  const auto add = [&](const Entry& e) {
    out.push_back(Row{{e.tag, e.port},
                      e.state,
                      e.reason,
                      e.slot != kNoSlot,
                      e.since,
                      {e.sent, e.ecn, e.trimmed, e.lost, e.probes, e.probe_acks},
                      e.marks});
  };
  for (const uint16_t i : m.slots) add(m.entries[i]);
  for (const Entry& e : m.entries) {
    if (e.slot == kNoSlot) add(e);
  }
  return out;
}

uint32_t EvTable::count(State s) const {
  return static_cast<uint32_t>(std::count_if(impl_->entries.begin(), impl_->entries.end(),
                                             [s](const Entry& e) { return e.state == s; }));
}
uint32_t EvTable::active() const { return static_cast<uint32_t>(impl_->slots.size()); }
uint32_t EvTable::usable_active() const { return impl_->usable_active(); }
bool EvTable::has_events() const { return !impl_->events.empty(); }
uint64_t EvTable::events_dropped() const { return impl_->events_dropped; }

void EvTable::take_events(std::vector<StateEvent>& out) {
  out.insert(out.end(), impl_->events.begin(), impl_->events.end());
  impl_->events.clear();
}

void EvTable::prefetch() const { base::prefetch(*impl_); }
void EvTable::prefetch_index() const {
  __builtin_prefetch(impl_->by_tag.data());
  __builtin_prefetch(impl_->entries.data() + impl_->last_sent, 1);
}

void EvTable::expect(uint32_t tag, int step) const {
  const Impl& m = *impl_;
  const uint16_t* place = &m.by_tag[m.home(m.swapped_halves ? swap_halves(tag) : tag)];
  if (step == 0) return __builtin_prefetch(place);
  if (*place != kNoSlot) __builtin_prefetch(&m.entries[*place], 1);
}

size_t EvTable::memory_bytes() const {
  const Impl& m = *impl_;
  // Policy: ring positions of every active slot, and its fixed part.
  return sizeof(Impl) + m.entries.capacity() * sizeof(Entry) +
         (m.slots.capacity() + m.by_tag.capacity() + m.slots.size()) * sizeof(uint16_t) +
         m.events.capacity() * sizeof(StateEvent) + 256;
}

}  // namespace mrc::ev
