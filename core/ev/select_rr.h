// Plain round robin over all EVs, blind to planes: what an oblivious spray does. For comparison and for
// tests.
#pragma once

#include <memory>

#include "ev/policy.h"

namespace mrc::ev {

std::unique_ptr<PathPolicy> make_rr_policy();

}  // namespace mrc::ev
