// Asks the cache for a whole object before it is needed. A hint: for loops over many objects that do not fit
// in it.
#pragma once

#include <cstddef>

namespace mrc::base {

template <typename T>
inline void prefetch(const T& object) {
  const char* p = reinterpret_cast<const char*>(&object);
  for (size_t at = 0; at < sizeof(T); at += 64) __builtin_prefetch(p + at);
}

}  // namespace mrc::base
