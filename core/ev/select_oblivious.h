// A spray that learns nothing, for comparison: every packet takes an EV at random, whatever marks, trims and
// losses said, and a retransmission may take the one it was lost on. Only EVs that the table has taken out of
// use are left out (TableConfig.demotion = false keeps it from doing so).
#pragma once

#include <memory>

#include "ev/policy.h"

namespace mrc::ev {

std::unique_ptr<PathPolicy> make_oblivious_policy();

}  // namespace mrc::ev
