// Where a frame to a host on the same link goes: interface and link addresses. Decides nothing; asks the
// kernel.
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>

namespace mrc::yard {

using LinkAddress = std::array<uint8_t, 6>;

struct NextHop {
  int interface = 0;
  LinkAddress own{}, peer{};
};

// The way from `source`, an address of this host, to `peer`. Needs a neighbour entry: something was sent
// there before. Waits up to a second for it. Throws std::system_error.
NextHop next_hop(const in6_addr& source, const in6_addr& peer);

}  // namespace mrc::yard
