#include "yard/placement.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <thread>

#include "yard/socket.h"

namespace mrc::yard {
namespace {

constexpr uint32_t kRounds = 10'000, kWarm = 200;
constexpr double kGiveUp = 0.5;  // the other core never answers

bool pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(cpu), &set);
  return pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
}

struct Line {
  alignas(128) std::atomic<uint32_t> turn{0};
};

// Waits for turn `wanted`; false when it does not come.
bool await_turn(const Line& line, uint32_t wanted) {
  uint32_t spins = 0;
  double since = 0;
  while (line.turn.load(std::memory_order_acquire) != wanted) {
    if (++spins % 65536 != 0) continue;
    const double now = seconds_now();
    if (since == 0) since = now;
    if (now - since > kGiveUp) return false;
  }
  return true;
}

// Takes the even turns (`mine` 0) or the odd ones, and returns the time of all but the first ones; 0: not to
// be had.
double rally(Line& line, int cpu, uint32_t mine) {
  if (!pin(cpu)) return 0;
  double start = 0;
  for (uint32_t i = mine; i < 2 * kRounds; i += 2) {
    if (!await_turn(line, i)) return 0;
    if (i == kWarm + mine) start = seconds_now();
    line.turn.store(i + 1, std::memory_order_release);
  }
  return seconds_now() - start;
}

double once(int first, int second) {
  Line line;
  double there = 0, back = 0;
  std::thread b([&] { there = rally(line, second, 1); });
  std::thread a([&] { back = rally(line, first, 0); });
  a.join();
  b.join();
  if (there == 0 || back == 0) return 0;
  return back / (2 * kRounds - kWarm) * 1e9;
}

}  // namespace

double core_to_core_ns(int first, int second, uint32_t tries) {
  if (first < 0 || second < 0 || first >= CPU_SETSIZE || second >= CPU_SETSIZE || first == second) {
    throw std::invalid_argument("two different CPU numbers are needed");
  }
  double best = 0;
  for (uint32_t i = 0; i < std::clamp<uint32_t>(tries, 1, 100); ++i) {
    const double ns = once(first, second);
    if (ns > 0 && (best == 0 || ns < best)) best = ns;
  }
  return best;
}

}  // namespace mrc::yard
