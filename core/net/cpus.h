// Keeps a thread on given CPUs. Decides what is refused; leaves who asks for it to the driver: by default
// nobody is kept anywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <thread>

namespace mrc::net {

// An errno; then `why` says which CPU cannot be had, and what to do. No CPUs: nothing to do.
int keep_on(std::thread& thread, std::span<const uint32_t> cpus, std::string& why);

}  // namespace mrc::net
