// CC profiles of the controller API: an algorithm and its settings under an id that QPs name. Decides what
// may change in which state (reference 12.2, 12.4); leaves controllers to the registry and QPs to the engine.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/profile_state.h"
#include "cc/controller.h"

namespace mrc::cc {

struct CcProfile {
  base::ProfileState state = base::ProfileState::init;
  std::optional<std::string> algorithm;  // "" is the API's NULL: no congestion control
  std::optional<CcConfig> config;
  uint32_t users = 0;  // QPs that hold it
};

// Members that are absent stay as they are.
struct CcProfileChange {
  std::optional<base::ProfileState> cur_state;  // asserts the present state
  std::optional<base::ProfileState> state;
  std::optional<std::string> algorithm;
  std::optional<CcConfig> config;
};

struct CcProfileLimits {
  size_t max_profiles = 64;   // ids that are not blank; one more is EINVAL
  bool modify_online = true;  // capability CC_PROFILE_MODIFY_ONLINE
};

// Any 64-bit id exists: a blank one is in INIT with nothing given. A refused change leaves everything as it
// was.
class CcProfileStore {
 public:
  explicit CcProfileStore(CcProfileLimits limits = {}) : limits_(limits) {}

  // EINVAL: wrong cur_state, no such transition, something missing for it, an unknown algorithm, settings out
  // of range, or a change that the state does not allow. EBUSY: leaving ONLINE while QPs hold it. A new
  // config of an ONLINE profile counts for QPs that take it from then on.
  base::Errno modify(uint64_t id, const CcProfileChange& change);
  [[nodiscard]] CcProfile query(uint64_t id) const;

  // For a QP: its settings, held until release. EINVAL unless ONLINE.
  base::Result<CcProfile> hold(uint64_t id);
  void release(uint64_t id);

  [[nodiscard]] std::vector<uint64_t> ids() const;  // not blank, ascending
  [[nodiscard]] const CcProfileLimits& limits() const { return limits_; }

 private:
  CcProfileLimits limits_;
  std::map<uint64_t, CcProfile> profiles_;
};

}  // namespace mrc::cc
