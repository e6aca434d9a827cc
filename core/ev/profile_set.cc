// The EVs that one QP draws from a profile (reference 4.6): equal planes, random inside a plane, spares per
// plane.
#include <algorithm>
#include <cerrno>
#include <set>

#include "ev/expand.h"
#include "ev/generate.h"
#include "ev/profile.h"

namespace mrc::ev {

namespace {

constexpr uint32_t kBackupShare = 5;  // one in five is a spare: a quarter of the active ones
constexpr uint64_t kMaxIndex = uint64_t{1} << 24;

// A 24-bit name for a value of a product that is too large to number.
uint32_t folded(const EvValue& v) {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (const uint8_t b : v.bytes) h = (h ^ b) * 0x100000001b3ULL;
  return static_cast<uint32_t>(h ^ (h >> 24) ^ (h >> 48)) & 0xFFFFFF;
}

// In template mode: the 32-bit EV, right aligned, of an expansion.
uint32_t native_ev(const Expansion& x) { return x.width == 0 ? 0 : ev_to_u32(x.value) >> (32 - x.width); }

template <typename T>
void shuffle(std::vector<T>& list, base::Rng& rng) {
  for (size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[rng.below(static_cast<uint32_t>(i))]);
}

}  // namespace

struct ProfileStore::Drawn {
  PathId path;
  EvValue value;  // of the packet
  State state = State::good;
};

std::optional<EvValue> ProfileStore::packet_value(const Profile& p, const EvEntry& e) const {
  const FormatAttr* f = format_of(p.attr);
  if (f == nullptr || !p.attr.fields) return std::nullopt;
  const auto x = expand(*f->fields, *p.attr.fields, e.value.bytes, compact_width(*p.attr.fields));
  if (!x.ok()) return std::nullopt;
  if (!f->address_template) return x.value().value;
  const auto a = srv6_destination(*f->address_template, native_ev(x.value()));
  if (!a.ok()) return std::nullopt;
  EvValue out;
  std::copy(a.value().bytes.begin(), a.value().bytes.end(), out.bytes.begin());
  return out;
}

std::optional<PathId> ProfileStore::path_of(const Profile& p, const EvEntry& e, uint32_t index) const {
  if (p.attr.mode == EvMode::automatic) return PathId{ev_to_u32(e.value), e.port};  // its values are tags
  const FormatAttr* f = format_of(p.attr);
  if (f == nullptr || !p.attr.fields || !has_port(e.port)) return std::nullopt;
  const auto x = expand(*f->fields, *p.attr.fields, e.value.bytes, compact_width(*p.attr.fields));
  if (!x.ok()) return std::nullopt;
  if (f->address_template) return PathId{native_ev(x.value()), e.port};
  if (p.attr.mode == EvMode::generated) {
    const auto at = rank(*p.attr.fields, e.value);
    if (!at) return std::nullopt;
    index = product(*p.attr.fields) <= kMaxIndex ? static_cast<uint32_t>(*at) : folded(e.value);
  }
  return PathId{wire_tag(*f->mode, false, x.value().value, e.port, index), e.port};
}

void ProfileStore::draw_generated(const Profile& p, base::Rng& rng, uint32_t ports,
                                  std::vector<Drawn>& out) const {
  Generator g(*p.attr.fields, rng);
  const PortTurn turn(ports, *p.attr.fields);
  if (turn.empty()) return;
  for (uint32_t k = 0; k < *p.attr.count; ++k) {
    const EvEntry e{g.next(), turn.port(k)};
    const auto path = path_of(p, e, 0);
    const auto value = packet_value(p, e);
    if (!path || !value) continue;
    const auto mark = p.marks.find(e);
    out.push_back(Drawn{*path, *value, mark == p.marks.end() ? State::good : mark->second});
  }
}

std::vector<ProfileStore::Drawn> ProfileStore::draw(const Profile& p, base::Rng& rng, uint32_t ports) const {
  std::vector<Drawn> all;
  if (p.attr.mode == EvMode::generated) {
    draw_generated(p, rng, ports, all);
  } else if (p.attr.mode == EvMode::explicit_list) {
    for (uint32_t i = 0; i < p.entries.size(); ++i) {
      const auto path = path_of(p, p.entries[i], i);
      const auto value = packet_value(p, p.entries[i]);
      if (path && value && (ports & (1u << path->port)) != 0)
        all.push_back(Drawn{*path, *value, p.states[i]});
    }
    shuffle(all, rng);
  } else {
    const FormatAttr* f = format_of(p.attr);
    const bool wide = f != nullptr && f->mode != FormatMode::udp;
    const PortTurn turn(ports, {});
    // AUTO: count is the active set, the spares come on top; all tags of the QP differ.
    const uint32_t want = *p.attr.count + *p.attr.count / (kBackupShare - 1);
    std::set<uint32_t> used;
    while (!turn.empty() && used.size() < want) {
      const uint32_t tag = invent_tag(wide, rng);
      if (!used.insert(tag).second) continue;
      Drawn d{{tag, turn.port(used.size() - 1)},
              wide ? ev_from_u32(tag) : ev_from_u16(static_cast<uint16_t>(tag)),
              State::good};
      const auto mark = p.marks.find(EvEntry{ev_from_u32(tag), d.path.port});
      if (mark != p.marks.end()) d.state = mark->second;
      all.push_back(d);
    }
  }
  return all;
}

base::Result<EvSet> ProfileStore::make_set(uint64_t id, uint64_t seed, uint32_t ports) const {
  using R = base::Result<EvSet>;
  const auto it = profiles_.find(id);
  if (it == profiles_.end() || it->second.attr.state != ProfileState::online) return R::error(EINVAL);
  const Profile& p = it->second;
  base::Rng rng(seed);
  std::map<uint8_t, std::vector<Drawn>> planes;
  for (const Drawn& d : draw(p, rng, ports & limits_.phy_port_mask & ~1u)) planes[d.path.port].push_back(d);
  // Denied EVs come last, so that they are spares while there are others.
  for (auto& [port, list] : planes) {
    std::stable_partition(list.begin(), list.end(), [](const Drawn& d) { return d.state != State::denied; });
  }
  // A reflected tag must name one path, so planes take turns in claiming the values that several of them
  // list.
  std::set<uint32_t> used;
  std::map<uint8_t, std::vector<Drawn>> taken;
  for (size_t round = 0, left = 1; left != 0; ++round) {
    left = 0;
    for (auto& [port, list] : planes) {
      while (!list.empty() && used.contains(list.front().path.tag)) list.erase(list.begin());
      if (list.empty()) continue;
      used.insert(list.front().path.tag);
      taken[port].push_back(list.front());
      list.erase(list.begin());
      ++left;
    }
  }
  if (taken.empty()) return R::error(EINVAL);

  size_t fewest = SIZE_MAX;
  for (const auto& [port, list] : taken) fewest = std::min(fewest, list.size());
  const size_t floor = (p.attr.min_active.value_or(0) + taken.size() - 1) / taken.size();
  const size_t share = std::min(fewest, std::max(fewest - fewest / kBackupShare, floor));
  EvSet set;
  set.min_active = p.attr.min_active.value_or(0);
  for (const auto& [port, list] : taken) {
    for (size_t i = 0; i < list.size(); ++i) {
      const Drawn& d = list[i];
      (i < share ? set.active : set.backup).push_back(d.path);
      (i < share ? set.active_values : set.backup_values).push_back(d.value);
      if (d.state != State::good) set.marks.push_back(EvSet::Mark{d.path.tag, d.state});
    }
  }
  return set;
}

std::optional<EvEntry> ProfileStore::entry_of(uint64_t id, PathId path) const {
  const auto it = profiles_.find(id);
  if (it == profiles_.end() || !it->second.attr.mode) return std::nullopt;
  const Profile& p = it->second;
  if (p.attr.mode == EvMode::automatic) return EvEntry{ev_from_u32(path.tag), path.port};
  const FormatAttr* f = format_of(p.attr);
  if (f == nullptr) return std::nullopt;
  for (uint32_t i = 0; i < p.entries.size(); ++i) {
    if (path_of(p, p.entries[i], i) == path) return p.entries[i];
  }
  if (p.attr.mode != EvMode::generated || !p.attr.fields) return std::nullopt;
  EvValue value;
  if (f->address_template) {
    uint32_t width = 0;
    for (const uint16_t w : *f->fields) width += w;
    value = ev_from_u32(path.tag << (32 - width));
  } else if (f->mode == FormatMode::udp) {
    value = ev_from_u16(static_cast<uint16_t>(path.tag));
  } else if (f->mode == FormatMode::stev) {
    value = ev_from_u32(path.tag);
  } else {
    // The tag numbers the product, unless that is too large: then only the QP knows the value.
    if (product(*p.attr.fields) > kMaxIndex) return std::nullopt;
    const EvEntry e{unrank(*p.attr.fields, path.tag & 0xFFFFFF), path.port};
    return path_of(p, e, 0) == path ? std::optional(e) : std::nullopt;
  }
  const auto bits = compact(*f->fields, *p.attr.fields, value);
  if (!bits || !rank(*p.attr.fields, *bits)) return std::nullopt;
  return EvEntry{*bits, path.port};
}

}  // namespace mrc::ev
