// Counts every heap block of the process, so that state per QP is measured and not added up from what the
// engine says of itself.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "bench/bench.h"

namespace {

std::atomic<int64_t> live{0};
constexpr int64_t kBlockHeader = 8;  // glibc keeps the size in front of each block

void* grab(size_t n) {
  void* p = std::malloc(n);
  if (p == nullptr) throw std::bad_alloc();
  live += static_cast<int64_t>(malloc_usable_size(p)) + kBlockHeader;
  return p;
}
void drop(void* p) {
  if (p == nullptr) return;
  live -= static_cast<int64_t>(malloc_usable_size(p)) + kBlockHeader;
  std::free(p);
}

}  // namespace

void* operator new(size_t n) { return grab(n); }
void* operator new[](size_t n) { return grab(n); }
void operator delete(void* p) noexcept { drop(p); }
void operator delete[](void* p) noexcept { drop(p); }
void operator delete(void* p, size_t) noexcept { drop(p); }
void operator delete[](void* p, size_t) noexcept { drop(p); }

namespace mrc::bench {
int64_t heap_bytes() { return live.load(); }
}  // namespace mrc::bench
