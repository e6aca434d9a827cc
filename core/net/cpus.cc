#include "net/cpus.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace mrc::net {

namespace {

constexpr uint32_t kMaxCpus = 8192;  // that Linux can be built for
using Mask = std::vector<cpu_set_t>;

size_t bytes(const Mask& m) { return m.size() * sizeof(cpu_set_t); }

}  // namespace

int keep_on(std::thread& thread, std::span<const uint32_t> cpus, std::string& why) {
  if (cpus.empty()) return 0;
  const uint32_t highest = *std::max_element(cpus.begin(), cpus.end());
  if (highest >= kMaxCpus) {
    why = "no CPU has the number " + std::to_string(highest) + ": it is below " + std::to_string(kMaxCpus);
    return EINVAL;
  }
  Mask wanted(kMaxCpus / CPU_SETSIZE), got(kMaxCpus / CPU_SETSIZE);
  for (const uint32_t cpu : cpus) CPU_SET_S(cpu, bytes(wanted), wanted.data());
  int e = pthread_setaffinity_np(thread.native_handle(), bytes(wanted), wanted.data());
  // The system leaves out, without a word, what this process may not use.
  if (e == 0) e = pthread_getaffinity_np(thread.native_handle(), bytes(got), got.data());
  for (const uint32_t cpu : cpus) {
    if (e == 0 && CPU_ISSET_S(cpu, bytes(got), got.data())) continue;
    why = "cannot keep the I/O thread on CPU " + std::to_string(cpu) + ": " +
          std::strerror(e == 0 ? EINVAL : e) + "; this process may use those of `taskset -cp $$`";
    return e == 0 ? EINVAL : e;
  }
  return 0;
}

}  // namespace mrc::net
