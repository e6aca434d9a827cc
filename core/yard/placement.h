// How far apart two cores are: the time a cache line takes from one to the other. On a virtual machine it
// changes when the hypervisor moves a virtual CPU, and with it every figure that needs two cores.
#pragma once

#include <cstdint>

namespace mrc::yard {

// One-way latency in ns between two CPUs, best of `tries` short runs (milliseconds in all); 0 when the
// process may not run on both. Throws std::invalid_argument for numbers out of range.
double core_to_core_ns(int first, int second, uint32_t tries = 3);

}  // namespace mrc::yard
