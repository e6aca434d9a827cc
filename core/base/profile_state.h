// The life of a controller profile, one table for all three kinds (EV format, EV, CC; reference 12.2):
// INIT -> OFFLINE -> ONLINE -> OFFLINE -> INIT. Leaves what "ready" means to each kind's store.
#pragma once

#include <cerrno>
#include <cstdint>

#include "base/result.h"

namespace mrc::base {

// Values of the API.
enum class ProfileState : uint8_t { init = 0, offline = 1, online = 2 };

// 0 when `current` may become `wanted`. `ready_for_*`: everything that state needs has been given by the end
// of this call, now or before. `in_use`: somebody needs the profile ONLINE (a QP, an ONLINE profile that
// names it). EINVAL: no such transition, or not ready. EBUSY: leaving ONLINE while in use.
constexpr Errno transition(ProfileState current, ProfileState wanted, bool ready_for_offline,
                           bool ready_for_online, bool in_use) {
  using S = ProfileState;
  if (current == S::init && wanted == S::offline) return ready_for_offline ? 0 : EINVAL;
  if (current == S::offline && wanted == S::online) return ready_for_offline && ready_for_online ? 0 : EINVAL;
  if (current == S::online && wanted == S::offline) return in_use ? EBUSY : 0;
  if (current == S::offline && wanted == S::init) return 0;
  return EINVAL;
}

}  // namespace mrc::base
