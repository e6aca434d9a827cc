// Asks the cache for a whole object before it is needed. A hint: for loops over many objects that do not fit
// in it.
#pragma once

#include <cstddef>

namespace mrc::base {

// Inlined by force: gcc takes a function that only prefetches for one without effect and drops its calls.
template <typename T>
[[gnu::always_inline]] inline void prefetch(const T& object) {
  const char* p = reinterpret_cast<const char*>(&object);
  for (size_t at = 0; at < sizeof(T); at += 64) __builtin_prefetch(p + at);
}

}  // namespace mrc::base
