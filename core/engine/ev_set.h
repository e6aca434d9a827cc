// AUTO mode: the EVs of a QP without a profile (reference 4.6), an equal number per plane.
#pragma once

#include <vector>

#include "base/rng.h"
#include "engine/types.h"

namespace mrc::engine {

// `count` active EVs over the planes of `peers` and a quarter as many backups, drawn without coordination. A
// port with auto_tags (a UDP driver's source ports or flow labels) offers those only; the others get random
// values.
EvSetSpec auto_ev_set(const std::vector<PortConfig>& ports, const std::vector<PeerPort>& peers,
                      uint32_t count, base::Rng& rng);

}  // namespace mrc::engine
