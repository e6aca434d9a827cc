// Short words for stories about profiles: one format, one explicit profile, one operation a line.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "ev/profile.h"
#include "testing/check.h"

namespace mrc::ev::stories {

using S = ProfileState;

inline const Fields kTwo{{16, 0, 1, 15, 0x0F}, {16, 0, 0, 255, 0xFF}};  // 12 compact bits
inline EvEntry entry(uint32_t compact, uint8_t port) { return {ev_from_u32(compact << 20), port}; }

inline int format(ProfileStore& s, uint64_t id, std::optional<S> state, std::optional<FormatMode> mode = {},
                  std::optional<FormatWidths> fields = {}) {
  FormatModify m;
  m.state = state;
  m.mode = mode;
  m.fields = std::move(fields);
  return s.modify_format(id, m);
}
inline void online_format(ProfileStore& s, uint64_t id = 1, FormatMode mode = FormatMode::stev) {
  REQUIRE(format(s, id, S::offline, mode,
                 mode == FormatMode::udp ? FormatWidths{16} : FormatWidths{16, 16}) == 0);
  REQUIRE(format(s, id, S::online) == 0);
}
inline EvModify attributes(EvMode mode, uint32_t count) {
  EvModify m;
  m.mode = mode;
  m.count = count;
  m.min_active = 1;
  m.event_mask = 0;
  if (mode != EvMode::automatic) {
    m.fmt_id = 1;
    m.fields = kTwo;
  }
  return m;
}
inline int modify(ProfileStore& s, uint64_t id, EvModify m, std::vector<EvEffect>* effects = nullptr,
                  const StateOf& of = {}) {
  std::vector<EvEffect> own;
  return s.modify_ev(id, m, effects != nullptr ? *effects : own, of);
}
inline int go(ProfileStore& s, uint64_t id, S state) {
  EvModify m;
  m.state = state;
  return modify(s, id, m);
}
struct Ran {
  int error;
  EvBatch batch;
  std::vector<EvEffect> effects;
};
inline Ran run(ProfileStore& s, uint64_t id, EvOp op, std::vector<EvOpEntry> entries,
               const StateOf& of = {}) {
  EvModify m;
  m.batch = EvBatch{op, std::move(entries), 0};
  Ran r{};
  r.error = s.modify_ev(id, m, r.effects, of);
  r.batch = *m.batch;
  return r;
}
inline EvOpEntry fill(const EvEntry& with, uint32_t state = kStateGood) {
  return {EvEntry{}, with, state, false};
}

// An explicit profile of `count` EVs over two ports, ONLINE.
inline ProfileStore explicit_store(uint32_t count = 8) {
  ProfileStore s;
  online_format(s);
  EvModify m = attributes(EvMode::explicit_list, count);
  m.state = S::offline;
  REQUIRE(modify(s, 7, m) == 0);
  std::vector<EvOpEntry> all;
  for (uint32_t i = 0; i < count; ++i) all.push_back(fill(entry(0x100 + i, static_cast<uint8_t>(1 + i % 2))));
  REQUIRE(run(s, 7, EvOp::replace_ev, all).error == 0);
  REQUIRE(go(s, 7, S::online) == 0);
  return s;
}

}  // namespace mrc::ev::stories
