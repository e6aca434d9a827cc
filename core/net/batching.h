// How datagrams travel between a driver and the kernel.
#pragma once

#include <cstdint>

namespace mrc::net {

// `runs`: those of one EV cross the border as one (UDP_SEGMENT and UDP_GRO), where the kernel can; `single`:
// one by one, several a system call.
enum class Batching : uint8_t { runs, single };

}  // namespace mrc::net
