// When ASSUMED_BAD EVs are probed and what the answers do (reference 8, "Probing"; D-12, D-27).
#include <algorithm>

#include "ev/table_impl.h"

namespace mrc::ev {

// EVs that died together would be probed together ever more rarely; the first that finds its path again wakes
// the others. So each waits for its own part of a longer time, between half of it and all.
base::Duration EvTable::Impl::probe_wait(const Entry& e, uint8_t doublings) const {
  base::Duration wait = config.probe_interval;
  for (uint8_t i = 0; i < doublings && wait < config.probe_backoff_cap; ++i) wait = wait * 2;
  wait = std::min(wait, config.probe_backoff_cap);
  const uint32_t part = doublings == 0 ? 0 : (e.tag * 0x9e3779b9U) >> 16;
  return wait - wait * part / 0x20000;
}

void EvTable::Impl::schedule_first_probe(base::Instant now, Entry& e) {
  e.timer = now + config.base_rtt + config.target_delay;
  // What answers probes and loses data is tried again ever later.
  if (e.relapses >= kRelapsesFree) e.timer = e.timer + probe_wait(e, e.relapses);
}

void EvTable::Impl::refresh_next_probe() {
  next_probe = base::Instant::never();
  for (const Entry& e : entries) {
    if (e.state != State::assumed_bad || e.probing || (usable_ports & (1u << e.port)) == 0) continue;
    next_probe = std::min(next_probe, e.timer);
  }
}

base::Instant EvTable::next_probe_at() const { return impl_->next_probe; }

bool EvTable::probe_due(base::Instant now, uint32_t ports) const {
  const Impl& m = *impl_;
  return m.next_probe <= now && std::any_of(m.entries.begin(), m.entries.end(), [&](const Entry& e) {
           return e.state == State::assumed_bad && !e.probing && e.timer <= now &&
                  (ports & m.usable_ports & (1u << e.port)) != 0;
         });
}

std::optional<PathId> EvTable::take_probe(base::Instant now, uint32_t ports) {
  Impl& m = *impl_;
  if (m.next_probe > now) return std::nullopt;
  Entry* due = nullptr;
  for (Entry& e : m.entries) {
    if (e.state != State::assumed_bad || e.probing || e.timer > now ||
        (ports & m.usable_ports & (1u << e.port)) == 0)
      continue;
    if (due == nullptr || e.timer < due->timer) due = &e;
  }
  if (due == nullptr) return std::nullopt;
  due->probing = true;
  ++due->probes;
  m.refresh_next_probe();
  return PathId{due->tag, due->port};
}

void EvTable::on_probe_ack(base::Instant now, uint32_t tag, PathFeedback m) {
  Impl& t = *impl_;
  Entry* e = const_cast<Entry*>(t.find_exact(tag));  // NOLINT: entries is ours
  if (e == nullptr) return;
  ++e->probe_acks;
  e->probing = false;
  if (e->state != State::assumed_bad) {
    // A tail probe on a healthy EV: its mark counts like that of data.
    if (t.usable(*e) && m == PathFeedback::skip_once && t.config.ecn_steering) t.mark_skip(now, *e);
    if (t.usable(*e) && m == PathFeedback::always_skip) t.to_bad(now, *e, BadReason::always_skip, false);
    t.refresh_next_probe();
    return;
  }
  if ((t.usable_ports & (1u << e->port)) == 0) return;  // a late answer; the port has gone down since
  if (m == PathFeedback::always_skip) {
    e->successes = 0;
    e->timer = now + t.probe_wait(*e, e->backoff);
    if (e->backoff < 63) ++e->backoff;
  } else if (++e->successes >= t.config.probe_successes) {
    t.to_good(now, *e, m == PathFeedback::skip_once);
    t.set_trial(*e, true);
  } else {
    e->backoff = 0;
    e->timer = now + t.config.probe_interval;
    // The plane lives: its other EVs need not wait out a long back-off.
    for (Entry& o : t.entries) {
      if (o.port == e->port && o.state == State::assumed_bad && !o.probing && o.relapses < kRelapsesFree)
        o.timer = std::min(o.timer, now + t.config.probe_interval);
    }
  }
  t.refresh_next_probe();
}

void EvTable::on_ev_probe_ack(uint32_t tag) {
  Entry* e = const_cast<Entry*>(impl_->find_exact(tag));  // NOLINT: entries is ours
  if (e != nullptr) e->unanswered = 0;
}

void EvTable::on_ev_probe_lost(base::Instant now, uint32_t tag, bool blame) {
  constexpr uint8_t kInARow = 2;
  Entry* e = const_cast<Entry*>(impl_->find_exact(tag));  // NOLINT: entries is ours
  if (e == nullptr || !impl_->usable(*e)) return;
  e->unanswered = static_cast<uint8_t>(std::min(e->unanswered + 1, 3)) & 3;
  if (!blame || e->unanswered < kInARow) return;
  e->unanswered = 0;
  impl_->to_bad(now, *e, BadReason::probe, true);
}

void EvTable::on_probe_lost(base::Instant now, uint32_t tag) {
  Impl& t = *impl_;
  Entry* e = const_cast<Entry*>(t.find_exact(tag));  // NOLINT: entries is ours
  if (e == nullptr || e->state != State::assumed_bad) return;
  e->probing = false;
  e->successes = 0;
  e->timer = now + t.probe_wait(*e, e->backoff);
  if (e->backoff < 63) ++e->backoff;
  t.refresh_next_probe();
}

}  // namespace mrc::ev
