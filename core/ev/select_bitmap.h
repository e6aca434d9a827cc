// The default path policy (reference 5.4): planes in turn, inside a plane a reshuffled rotation, one SKIP
// cleared a walk.
#pragma once

#include <memory>

#include "ev/policy.h"

namespace mrc::ev {

std::unique_ptr<PathPolicy> make_bitmap_policy();

}  // namespace mrc::ev
