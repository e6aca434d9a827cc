// What the micro benchmarks share: a row of the table and the stop watch.
// Decides how long to repeat; leaves what is measured to the *_bench.cc files.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace mrc::bench {

struct Row {
  std::string name;
  double value = 0;
  std::string unit;
  double limit = 0;  // 0: none; a value above it fails the run
};

struct Options {
  bool quick = false;
  [[nodiscard]] double seconds() const { return quick ? 0.05 : 1.0; }
};

using Clock = std::chrono::steady_clock;
inline double elapsed(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// Keeps the compiler from dropping a result.
template <typename T>
inline void keep(const T& v) {
  asm volatile("" : : "r,m"(v) : "memory");
}

// Seconds a call of `body`: repeats in growing batches until the batch lasts long enough to be believed.
template <typename Body>
double time_per_call(const Options& o, Body&& body) {
  for (uint64_t n = 1;; n *= 2) {
    const auto began = Clock::now();
    for (uint64_t i = 0; i < n; ++i) body();
    const double t = elapsed(began);
    if (t >= o.seconds()) return t / static_cast<double>(n);
  }
}

// Bytes the heap holds now, block overhead included.
int64_t heap_bytes();

void coll_rows(const Options& o, std::vector<Row>& out);
void wire_rows(const Options& o, std::vector<Row>& out);
void engine_rows(const Options& o, std::vector<Row>& out);

}  // namespace mrc::bench
