// EV-format and EV profiles of a node (reference 12.1 to 12.3): their INIT/OFFLINE/ONLINE life, what each
// state needs, EV operations, and the EV set that a QP draws from a profile (4.6). Leaves the health of EVs
// to table.h and telling the QPs to the caller: operations say which tags they changed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/profile_state.h"
#include "base/result.h"
#include "ev/format.h"
#include "ev/policy.h"
#include "ev/srv6_template.h"
#include "ev/table.h"
#include "ev/value.h"

namespace mrc::ev {

using base::ProfileState;

// Values of the API.
enum class EvMode : uint8_t { automatic = 1, explicit_list = 2, generated = 4 };
enum class EvOp : uint8_t { replace_ev, modify_ev_state, query_ev_state, query_ev_array };
inline constexpr uint32_t kStateGood = 1, kStateAssumedBad = 2, kStateDenied = 4, kStateUnknown = 1u << 31;
inline constexpr uint32_t kCapEvProfileModifyOnline = 1u << 0, kCapEvEvent = 1u << 2;

// What the device can do (device query, 12.1).
struct StoreLimits {
  uint32_t max_formats = 64, max_profiles = 64;
  uint32_t max_evs = 65536, max_evs_per_profile = 4096;  // reserved by ev_count
  uint32_t count_alignment = 1;
  uint32_t max_compact_width = 256;
  uint8_t format_modes = 0x0F, ev_modes = 0x07;
  uint32_t op_max_entries = 0;          // 0: no cap
  uint32_t phy_port_mask = 0xFFFFFFFE;  // bit N = port N
  uint32_t caps = kCapEvProfileModifyOnline | kCapEvEvent;
};

// Only engaged members count, here and below.
struct FormatModify {
  std::optional<ProfileState> state, cur_state;
  std::optional<FormatMode> mode;
  std::optional<FormatWidths> fields;
  std::optional<Srv6Template> address_template;  // SRv6 only: EVs are 32-bit and expand to this (4.5)
};
struct FormatAttr {
  ProfileState state = ProfileState::init;
  std::optional<FormatMode> mode;
  std::optional<FormatWidths> fields;
  std::optional<Srv6Template> address_template;
};

struct EvOpEntry {
  EvEntry ev;                   // compact bits of the profile's fields and the port; out for query_ev_array
  EvEntry ev_new;               // replace_ev
  uint32_t state = kStateGood;  // in or out
  bool all_copies = false;
};
struct EvBatch {
  EvOp op = EvOp::query_ev_array;
  std::vector<EvOpEntry> entries;  // query_ev_array: their number is the room there is
  uint32_t count = 0;              // out: entries done; query_ev_array: entries there are, also with E2BIG
};
struct EvModify {
  std::optional<ProfileState> state, cur_state;
  std::optional<EvMode> mode;
  std::optional<uint64_t> fmt_id;
  std::optional<uint32_t> count, min_active, event_mask;
  std::optional<Fields> fields;  // with `batch`: EINVAL
  std::optional<EvBatch> batch;  // runs after the attributes and before the change of state
};
struct EvAttr {
  ProfileState state = ProfileState::init;
  std::optional<EvMode> mode;
  std::optional<uint64_t> fmt_id;
  std::optional<uint32_t> count, min_active, event_mask;  // count as adjusted
  std::optional<Fields> fields;
};

// What the QPs of a profile must hear: EvTable::replace when `was` differs from `now`, then
// EvTable::set_state.
struct EvEffect {
  PathId was, now;
  State state = State::good;
};

// State of a tag over the QPs that hold it: ASSUMED_BAD when one of them does, GOOD otherwise, nullopt when
// none holds it.
using StateOf = std::function<std::optional<State>(PathId)>;

// The EVs of one QP. Values are packet values, in the order of the paths; marks are what the controller
// decreed.
struct EvSet {
  std::vector<PathId> active, backup;
  std::vector<EvValue> active_values, backup_values;
  struct Mark {
    uint32_t tag = 0;
    State state = State::good;
  };
  std::vector<Mark> marks;
  uint32_t min_active = 0;
};

class ProfileStore {
 public:
  explicit ProfileStore(const StoreLimits& limits = {}) : limits_(limits) {}

  // EINVAL, E2BIG, EBUSY (an ONLINE EV profile names it). On error nothing changes.
  base::Errno modify_format(uint64_t id, const FormatModify& m);
  [[nodiscard]] FormatAttr query_format(uint64_t id) const;  // INIT and empty for an id never used

  // EINVAL, E2BIG, ENOENT, EBUSY (QPs use it). On error nothing changes, but a batch that stopped keeps its
  // entries before the bad one, and the attributes given with it. `effects` grows by what QPs must hear.
  base::Errno modify_ev(uint64_t id, EvModify& m, std::vector<EvEffect>& effects,
                        const StateOf& state_of = {});
  [[nodiscard]] EvAttr query_ev(uint64_t id) const;

  // A QP starts or stops using a profile. EINVAL: not ONLINE, or not in use.
  base::Errno acquire(uint64_t id);
  base::Errno release(uint64_t id);
  [[nodiscard]] uint32_t users(uint64_t id) const;

  // The EVs for one QP: equal numbers per port of `ports`, drawn by `seed`, backups a quarter of the active
  // ones. A tag occurs once, whatever the array repeats. EINVAL: not ONLINE, or no EV on these ports.
  [[nodiscard]] base::Result<EvSet> make_set(uint64_t id, uint64_t seed, uint32_t ports) const;

  // Does the profile ask for events of this state (12.5)?
  [[nodiscard]] bool wants_event(uint64_t id, State state) const;
  // How the controller names a path of this profile; nullopt: not one of its EVs.
  [[nodiscard]] std::optional<EvEntry> entry_of(uint64_t id, PathId path) const;

  // Ids that are not in INIT, or hold attributes already; ascending.
  [[nodiscard]] std::vector<uint64_t> format_ids() const;
  [[nodiscard]] std::vector<uint64_t> profile_ids() const;
  [[nodiscard]] const StoreLimits& limits() const { return limits_; }
  [[nodiscard]] uint32_t free_evs() const;

 private:
  struct Format {
    FormatAttr attr;
  };
  struct Profile {
    EvAttr attr;
    std::vector<EvEntry> entries;    // explicit_list: count of them
    std::vector<State> states;       // one an entry
    std::map<EvEntry, State> marks;  // other modes: what is not GOOD
    uint32_t users = 0;
  };

  [[nodiscard]] base::Errno check_format_attr(const FormatAttr& a) const;
  [[nodiscard]] bool format_in_use(uint64_t id) const;
  [[nodiscard]] const FormatAttr* format_of(const EvAttr& a) const;
  [[nodiscard]] base::Errno check_online_change(const Profile& p, const EvModify& m) const;
  [[nodiscard]] base::Errno take_ev_attr(uint64_t id, Profile& p, const EvModify& m) const;
  [[nodiscard]] base::Errno check_ev_attr(uint64_t id, const EvAttr& a) const;
  [[nodiscard]] bool ready_for_offline(const Profile& p) const;
  [[nodiscard]] base::Errno check_online(const Profile& p) const;

  base::Errno run(Profile& p, EvBatch& b, std::vector<EvEffect>& effects, const StateOf& state_of) const;
  base::Errno replace(Profile& p, const EvOpEntry& e, std::vector<EvEffect>& effects) const;
  base::Errno modify_state(Profile& p, const EvOpEntry& e, std::vector<EvEffect>& effects,
                           const StateOf& state_of) const;
  base::Errno query_state(const Profile& p, EvOpEntry& e, const StateOf& state_of) const;
  base::Errno query_array(const Profile& p, EvBatch& b) const;
  [[nodiscard]] base::Errno check_entry(const Profile& p, const EvEntry& e) const;
  [[nodiscard]] bool has_port(uint8_t port) const {
    return port != 0 && port < 32 && (limits_.phy_port_mask & (1u << port)) != 0;
  }

  // Packet value and tag of an entry; nullopt until format and fields are known and fit it.
  [[nodiscard]] std::optional<EvValue> packet_value(const Profile& p, const EvEntry& e) const;
  [[nodiscard]] std::optional<PathId> path_of(const Profile& p, const EvEntry& e, uint32_t index) const;

  struct Drawn;
  [[nodiscard]] std::vector<Drawn> draw(const Profile& p, base::Rng& rng, uint32_t ports) const;
  void draw_generated(const Profile& p, base::Rng& rng, uint32_t ports, std::vector<Drawn>& out) const;

  StoreLimits limits_;
  std::map<uint64_t, Format> formats_;
  std::map<uint64_t, Profile> profiles_;
};

}  // namespace mrc::ev
