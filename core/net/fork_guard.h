// What fork() does to a driver: the child has its memory and descriptors but not its thread. Decides that the
// child's copies of all descriptors are closed at once, so that no child keeps a port or a link of its parent
// alive (B36, B37).
#pragma once

#include <cstdint>

namespace mrc::net {

// Grows by one in every child; an object that remembers another value belongs to an ancestor.
uint32_t fork_generation();

void guard_fd(int fd);  // close it in children
void unguard_fd(int fd);

}  // namespace mrc::net
