// EV operations on a profile (reference 12.3): entry by entry, stopping at the first error.
#include <algorithm>
#include <cerrno>

#include "ev/expand.h"
#include "ev/generate.h"
#include "ev/profile.h"

namespace mrc::ev {

namespace {

std::optional<State> state_from(uint32_t api) {
  switch (api) {
    case kStateGood:
      return State::good;
    case kStateAssumedBad:
      return State::assumed_bad;
    case kStateDenied:
      return State::denied;
    default:
      return std::nullopt;
  }
}

}  // namespace

base::Errno ProfileStore::run(Profile& p, EvBatch& b, std::vector<EvEffect>& effects,
                              const StateOf& state_of) const {
  b.count = 0;
  if (b.op > EvOp::query_ev_array) return EINVAL;
  if (!p.attr.mode || !p.attr.count) return EINVAL;  // there is no array yet
  if (limits_.op_max_entries != 0 && b.entries.size() > limits_.op_max_entries) return E2BIG;
  if (b.op == EvOp::query_ev_array) return query_array(p, b);
  for (EvOpEntry& e : b.entries) {
    base::Errno error = EINVAL;
    switch (b.op) {
      case EvOp::replace_ev:
        error = replace(p, e, effects);
        break;
      case EvOp::modify_ev_state:
        error = modify_state(p, e, effects, state_of);
        break;
      case EvOp::query_ev_state:
        error = query_state(p, e, state_of);
        break;
      case EvOp::query_ev_array:
        break;
    }
    if (error != 0) return error;
    ++b.count;
  }
  return 0;
}

// What can be said of an entry by what is known so far; going ONLINE asks again.
base::Errno ProfileStore::check_entry(const Profile& p, const EvEntry& e) const {
  if (!has_port(e.port)) return EINVAL;
  if (!p.attr.fields) return 0;
  for (uint32_t i = compact_width(*p.attr.fields); i < e.value.bytes.size() * 8; ++i) {
    if (bit(e.value.bytes, i)) return EINVAL;  // bits that nothing would expand
  }
  const FormatAttr* f = format_of(p.attr);
  if (f == nullptr) return 0;
  const auto value = packet_value(p, e);
  if (!value) return EINVAL;
  return f->mode == FormatMode::udp && ev_to_u16(*value) < 1024 ? EINVAL : 0;  // 4.1
}

base::Errno ProfileStore::replace(Profile& p, const EvOpEntry& e, std::vector<EvEffect>& effects) const {
  const auto state = state_from(e.state);
  if (p.attr.mode != EvMode::explicit_list || !state) return EINVAL;
  if (const base::Errno error = check_entry(p, e.ev_new)) return error;
  bool found = false;
  for (uint32_t i = 0; i < p.entries.size(); ++i) {
    if (p.entries[i] != e.ev) continue;
    const auto was = path_of(p, p.entries[i], i);
    p.entries[i] = e.ev_new;
    p.states[i] = *state;
    const auto now = path_of(p, e.ev_new, i);
    if (p.attr.state == ProfileState::online && was && now) effects.push_back(EvEffect{*was, *now, *state});
    found = true;
    if (!e.all_copies) break;
  }
  return found ? 0 : ENOENT;
}

base::Errno ProfileStore::modify_state(Profile& p, const EvOpEntry& e, std::vector<EvEffect>& effects,
                                       const StateOf& state_of) const {
  const auto state = state_from(e.state);
  if (!state || !has_port(e.ev.port)) return EINVAL;
  const auto tell = [&](uint32_t index) {
    const auto path = path_of(p, e.ev, index);
    if (p.attr.state == ProfileState::online && path) effects.push_back(EvEffect{*path, *path, *state});
  };
  // "Any but DENIED" may be told to be bad; DENIED is left only by GOOD (section 8).
  const auto next = [&](State old) {
    return old == State::denied && *state == State::assumed_bad ? old : *state;
  };
  if (p.attr.mode == EvMode::explicit_list) {
    bool found = false;
    for (uint32_t i = 0; i < p.entries.size(); ++i) {
      if (p.entries[i] != e.ev) continue;
      p.states[i] = next(p.states[i]);
      tell(i);
      found = true;
      if (!e.all_copies) break;
    }
    return found ? 0 : ENOENT;
  }
  // The device made these EVs: known are those of the product, and of AUTO those that a QP holds.
  if (p.attr.mode == EvMode::generated) {
    if (!p.attr.fields || !rank(*p.attr.fields, e.ev.value)) return ENOENT;
  } else {
    const auto path = path_of(p, e.ev, 0);
    if (!p.marks.contains(e.ev) && !(path && state_of && state_of(*path))) return ENOENT;
  }
  const auto mark = p.marks.find(e.ev);
  if (mark == p.marks.end() && *state != State::good && p.marks.size() >= limits_.max_evs) return E2BIG;
  const State to = next(mark == p.marks.end() ? State::good : mark->second);
  if (to == State::good) {
    p.marks.erase(e.ev);
  } else {
    p.marks[e.ev] = to;
  }
  tell(0);
  return 0;
}

// DENIED by decree, ASSUMED_BAD when a QP holds it so, else GOOD; without QPs what the controller said last.
base::Errno ProfileStore::query_state(const Profile& p, EvOpEntry& e, const StateOf& state_of) const {
  State decreed = State::good;
  uint32_t index = 0;
  if (p.attr.mode == EvMode::explicit_list) {
    const auto it = std::find(p.entries.begin(), p.entries.end(), e.ev);
    if (it == p.entries.end()) return ENOENT;
    if (!it->populated()) {
      e.state = kStateUnknown;
      return 0;
    }
    index = static_cast<uint32_t>(it - p.entries.begin());
    decreed = p.states[index];
  } else if (const auto mark = p.marks.find(e.ev); mark != p.marks.end()) {
    decreed = mark->second;
  } else if (p.attr.mode == EvMode::generated &&
             (!has_port(e.ev.port) || !p.attr.fields || !rank(*p.attr.fields, e.ev.value))) {
    return ENOENT;
  }
  const auto path = path_of(p, e.ev, index);
  const auto held = path && state_of ? state_of(*path) : std::nullopt;
  if (p.attr.mode == EvMode::automatic && !held && decreed == State::good) return ENOENT;
  if (decreed != State::denied && held)
    decreed = *held == State::assumed_bad ? State::assumed_bad : State::good;
  e.state = static_cast<uint32_t>(decreed);
  return 0;
}

// GENERATED shows the start of its product; each QP draws its own part of it. AUTO has no array.
base::Errno ProfileStore::query_array(const Profile& p, EvBatch& b) const {
  const bool generated = p.attr.mode == EvMode::generated && p.attr.fields;
  b.count = generated ? *p.attr.count : static_cast<uint32_t>(p.entries.size());
  if (b.entries.size() < b.count) return E2BIG;
  b.entries.resize(b.count);
  if (!generated) {
    for (uint32_t i = 0; i < b.count; ++i) b.entries[i].ev = p.entries[i];
    return 0;
  }
  Generator g(*p.attr.fields);
  const PortTurn turn(limits_.phy_port_mask, *p.attr.fields);
  for (uint32_t i = 0; i < b.count; ++i)
    b.entries[i].ev = EvEntry{g.next(), turn.empty() ? uint8_t{0} : turn.port(i)};
  return 0;
}

}  // namespace mrc::ev
