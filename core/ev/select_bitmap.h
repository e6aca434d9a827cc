// The default path policy (reference 5.4): planes in turn, inside a plane a reshuffled rotation, one SKIP
// cleared a walk.
#pragma once

#include <memory>

#include "ev/policy.h"

namespace mrc::ev {

std::unique_ptr<PathPolicy> make_bitmap_policy();
// Experiment: one rotation over the EVs of all planes. A plane's share is its number of EVs, not one part in
// p (paper-results A.3).
std::unique_ptr<PathPolicy> make_flat_bitmap_policy();

}  // namespace mrc::ev
