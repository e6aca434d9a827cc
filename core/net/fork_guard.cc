#include "net/fork_guard.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>

namespace mrc::net {

namespace {

// Never destroyed: a fork may come while the process exits.
struct Guarded {
  std::mutex mutex;
  std::set<int> fds;
  std::atomic<uint32_t> generation{0};
};
Guarded& guarded();

void before_fork() { guarded().mutex.lock(); }
void after_fork_in_parent() { guarded().mutex.unlock(); }
void after_fork_in_child() {
  Guarded& g = guarded();
  for (const int fd : g.fds) ::close(fd);
  // The set is abandoned, not cleared: freeing memory is not allowed here when the parent had several
  // threads.
  new (&g.fds) std::set<int>;
  g.generation.fetch_add(1);
  g.mutex.unlock();
}

Guarded& guarded() {
  static Guarded* const g = [] {
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    return new Guarded;
  }();
  return *g;
}

}  // namespace

uint32_t fork_generation() { return guarded().generation.load(); }

void guard_fd(int fd) {
  const std::lock_guard lock(guarded().mutex);
  guarded().fds.insert(fd);
}

void unguard_fd(int fd) {
  const std::lock_guard lock(guarded().mutex);
  guarded().fds.erase(fd);
}

}  // namespace mrc::net
