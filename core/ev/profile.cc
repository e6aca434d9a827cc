#include "ev/profile.h"

#include <algorithm>
#include <cerrno>

#include "ev/expand.h"
#include "ev/generate.h"

namespace mrc::ev {

namespace {

constexpr uint32_t kEventMask = kStateGood | kStateAssumedBad;

template <typename T>
bool give(std::optional<T>& into, const std::optional<T>& from) {
  if (from) into = from;
  return from.has_value();
}

// Bits an EV of this format may have; with a template it is the 32-bit EV of 4.5.
uint32_t format_limit(const FormatAttr& f) { return f.address_template ? 32 : max_width(*f.mode); }

}  // namespace

// --- formats
// ---------------------------------------------------------------------------------------------------------

FormatAttr ProfileStore::query_format(uint64_t id) const {
  const auto it = formats_.find(id);
  return it == formats_.end() ? FormatAttr{} : it->second.attr;
}

base::Errno ProfileStore::check_format_attr(const FormatAttr& a) const {
  if (a.mode) {
    const auto m = static_cast<uint8_t>(*a.mode);
    if (max_width(*a.mode) == 0 || (limits_.format_modes & m) == 0) return EINVAL;
  }
  if (a.address_template) {
    if (a.mode && *a.mode != FormatMode::srv6) return EINVAL;
    if (const base::Errno e = check_template(*a.address_template)) return e;
  }
  if (a.mode && a.fields) return check_format(*a.fields, format_limit(a));
  return 0;
}

bool ProfileStore::format_in_use(uint64_t id) const {
  return std::any_of(profiles_.begin(), profiles_.end(), [id](const auto& p) {
    return p.second.attr.state == ProfileState::online && p.second.attr.fmt_id == id;
  });
}

base::Errno ProfileStore::modify_format(uint64_t id, const FormatModify& m) {
  FormatAttr a = query_format(id);
  if (m.cur_state && *m.cur_state != a.state) return EINVAL;
  const bool attributes = m.mode || m.fields || m.address_template;
  if (a.state == ProfileState::online && (attributes || m.state)) {
    if (format_in_use(id)) return EBUSY;
    if (attributes) return EINVAL;
  }
  if (attributes && m.state == ProfileState::init) return EINVAL;  // INIT forgets what it was given
  give(a.mode, m.mode);
  give(a.fields, m.fields);
  give(a.address_template, m.address_template);
  if (const base::Errno e = check_format_attr(a)) return e;
  if (m.state) {
    const bool offline_ready = a.mode.has_value();
    const bool online_ready = a.fields.has_value();
    if (const base::Errno e = base::transition(a.state, *m.state, offline_ready, online_ready, false))
      return e;
    a.state = *m.state;
    if (a.state == ProfileState::init) {
      formats_.erase(id);
      return 0;
    }
  }
  if (!attributes && !m.state) return 0;
  if (!formats_.contains(id) && formats_.size() >= limits_.max_formats) return EINVAL;
  formats_[id].attr = std::move(a);
  return 0;
}

// --- EV profiles
// -----------------------------------------------------------------------------------------------------

EvAttr ProfileStore::query_ev(uint64_t id) const {
  const auto it = profiles_.find(id);
  return it == profiles_.end() ? EvAttr{} : it->second.attr;
}

uint32_t ProfileStore::free_evs() const {
  uint64_t used = 0;
  for (const auto& [id, p] : profiles_) used += p.attr.count.value_or(0);
  return used >= limits_.max_evs ? 0 : static_cast<uint32_t>(limits_.max_evs - used);
}

const FormatAttr* ProfileStore::format_of(const EvAttr& a) const {
  if (!a.fmt_id) return nullptr;
  const auto it = formats_.find(*a.fmt_id);
  return it == formats_.end() || !it->second.attr.mode || !it->second.attr.fields ? nullptr
                                                                                  : &it->second.attr;
}

base::Errno ProfileStore::check_online_change(const Profile& p, const EvModify& m) const {
  if (p.attr.state != ProfileState::online) return 0;
  if (m.mode || m.fmt_id || m.count || m.min_active) return EINVAL;
  if ((limits_.caps & kCapEvProfileModifyOnline) != 0) return 0;
  return m.event_mask || m.fields || (m.batch && m.batch->op == EvOp::replace_ev) ? EINVAL : 0;
}

base::Errno ProfileStore::check_ev_attr(uint64_t id, const EvAttr& a) const {
  if (a.mode) {
    const auto m = static_cast<uint8_t>(*a.mode);
    if ((m != 1 && m != 2 && m != 4) || (limits_.ev_modes & m) == 0) return EINVAL;
  }
  if (a.count) {
    if (*a.count == 0 || *a.count > limits_.max_evs_per_profile) return EINVAL;
    if (*a.count > uint64_t{free_evs()} + query_ev(id).count.value_or(0)) return EINVAL;
  }
  if (a.min_active && a.count && *a.min_active > *a.count) return EINVAL;
  if (a.event_mask && (*a.event_mask & ~kEventMask) != 0) return EINVAL;
  if (a.fields) {
    if (const FormatAttr* f = format_of(a)) {
      if (const base::Errno e = check_fields(*f->fields, *a.fields, format_limit(*f))) return e;
    }
    if (compact_width(*a.fields) > limits_.max_compact_width) return E2BIG;
  }
  return 0;
}

// Stages the attributes of `m` in `p`.
base::Errno ProfileStore::take_ev_attr(uint64_t id, Profile& p, const EvModify& m) const {
  EvAttr& a = p.attr;
  const EvAttr before = a;
  give(a.mode, m.mode);
  give(a.fmt_id, m.fmt_id);
  if (give(a.count, m.count))
    a.count = *a.count - *a.count % std::max(limits_.count_alignment, 1u);  // rounded down
  give(a.min_active, m.min_active);
  give(a.event_mask, m.event_mask);
  give(a.fields, m.fields);
  if (const base::Errno e = check_ev_attr(id, a)) return e;
  const bool listed = a.mode == EvMode::explicit_list;
  p.entries.resize(listed ? a.count.value_or(0) : 0);
  p.states.resize(p.entries.size(), State::good);
  // Marks name EVs by their bits, which mean something else now.
  if (listed || a.mode != before.mode || a.fmt_id != before.fmt_id || a.fields != before.fields)
    p.marks.clear();
  return 0;
}

bool ProfileStore::ready_for_offline(const Profile& p) const {
  const EvAttr& a = p.attr;
  if (!a.mode || !a.count) return false;
  return *a.mode == EvMode::automatic || (a.fmt_id && a.fields);
}

base::Errno ProfileStore::check_online(const Profile& p) const {
  const EvAttr& a = p.attr;
  if (!a.min_active || !a.event_mask) return EINVAL;
  if (a.mode == EvMode::automatic && !a.fmt_id) return 0;
  const FormatAttr* f = format_of(a);
  if (f == nullptr || f->state != ProfileState::online) return EINVAL;
  if (a.mode == EvMode::automatic) return 0;
  // The format may have changed since the fields were given.
  if (const base::Errno e = check_fields(*f->fields, *a.fields, format_limit(*f))) return e;
  if (a.mode == EvMode::explicit_list) {
    return std::all_of(p.entries.begin(), p.entries.end(),
                       [&](const EvEntry& e) { return e.populated() && check_entry(p, e) == 0; })
               ? 0
               : EINVAL;
  }
  // GENERATED: the smallest value is the first of the walk without offset; it must be usable like all others
  // (4.1).
  EvEntry least{Generator(*a.fields).next(), 1};
  const auto value = packet_value(p, least);
  return value && (f->mode != FormatMode::udp || ev_to_u16(*value) >= 1024) ? 0 : EINVAL;
}

base::Errno ProfileStore::modify_ev(uint64_t id, EvModify& m, std::vector<EvEffect>& effects,
                                    const StateOf& state_of) {
  const auto it = profiles_.find(id);
  Profile p = it == profiles_.end() ? Profile{} : it->second;  // staged: an error leaves the store alone
  const bool attributes = m.mode || m.fmt_id || m.count || m.min_active || m.event_mask || m.fields;
  if (m.cur_state && *m.cur_state != p.attr.state) return EINVAL;
  if (m.batch && m.fields) return EINVAL;
  if (m.state == ProfileState::init && (attributes || m.batch)) return EINVAL;
  if (m.state && p.attr.state == ProfileState::online && p.users != 0) return EBUSY;
  if (const base::Errno e = check_online_change(p, m)) return e;
  const Profile before = p;
  if (const base::Errno e = take_ev_attr(id, p, m)) return e;
  if (p.attr.state == ProfileState::online && m.fields) {
    if (const base::Errno e = check_online(p)) return e;
    for (uint32_t i = 0; i < p.entries.size(); ++i) {  // the same compact bits stand for other paths now
      const auto was = path_of(before, before.entries[i], i);
      const auto now = path_of(p, p.entries[i], i);
      if (was && now) effects.push_back(EvEffect{*was, *now, p.states[i]});
    }
  }
  if (it == profiles_.end() && (attributes || m.state || m.batch) && profiles_.size() >= limits_.max_profiles)
    return EINVAL;

  base::Errno result = 0;
  if (m.batch) result = run(p, *m.batch, effects, state_of);
  const bool ops_changed = m.batch && m.batch->op <= EvOp::modify_ev_state && m.batch->count != 0;
  if (result == 0 && m.state) {
    const base::Errno ready =
        m.state == ProfileState::online && p.attr.state == ProfileState::offline ? check_online(p) : 0;
    result = ready == E2BIG
                 ? ready
                 : base::transition(p.attr.state, *m.state, ready_for_offline(p), ready == 0, p.users != 0);
    if (result == 0) p.attr.state = *m.state;
    // A batch that ran stays; attributes alone do not outlive a refused change of state.
    if (result != 0 && !ops_changed) return result;
  }
  if (p.attr.state == ProfileState::init && m.state) {
    profiles_.erase(id);
  } else if (attributes || m.state || ops_changed) {
    profiles_[id] = std::move(p);
  }
  return result;
}

// --- users
// -----------------------------------------------------------------------------------------------------------

base::Errno ProfileStore::acquire(uint64_t id) {
  const auto it = profiles_.find(id);
  if (it == profiles_.end() || it->second.attr.state != ProfileState::online) return EINVAL;
  ++it->second.users;
  return 0;
}

base::Errno ProfileStore::release(uint64_t id) {
  const auto it = profiles_.find(id);
  if (it == profiles_.end() || it->second.users == 0) return EINVAL;
  --it->second.users;
  return 0;
}

uint32_t ProfileStore::users(uint64_t id) const {
  const auto it = profiles_.find(id);
  return it == profiles_.end() ? 0 : it->second.users;
}

std::vector<uint64_t> ProfileStore::format_ids() const {
  std::vector<uint64_t> out;
  for (const auto& [id, f] : formats_) out.push_back(id);
  return out;
}

std::vector<uint64_t> ProfileStore::profile_ids() const {
  std::vector<uint64_t> out;
  for (const auto& [id, p] : profiles_) out.push_back(id);
  return out;
}

bool ProfileStore::wants_event(uint64_t id, State state) const {
  const auto it = profiles_.find(id);
  if (it == profiles_.end()) return false;
  return (it->second.attr.event_mask.value_or(0) & kEventMask & static_cast<uint32_t>(state)) != 0;
}

}  // namespace mrc::ev
