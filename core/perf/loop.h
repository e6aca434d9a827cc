// One thread that is application and transport at once: it takes completions, posts, and drives the driver.
// For drivers with a thread of their own it waits until that one has something to say.
#pragma once

#include "base/time.h"
#include "net/driver.h"

namespace mrc::perf {

class Loop {
 public:
  // `own_thread`: the driver was opened with Progress::thread.
  Loop(net::Driver& driver, uint32_t cq, bool own_thread)
      : driver_(driver), cq_(cq), own_thread_(own_thread) {}

  // Calls `f(endpoint, now)` with the engine locked. With a driver thread, the next completion ends a
  // pause().
  template <typename F>
  void with(F f) {
    driver_.with([&](engine::Endpoint& e, base::Instant now) {
      f(e, now);
      if (own_thread_) arm(e);
    });
  }
  // Lets the transport work; comes back after `most` at the latest.
  void pause(base::Duration most);

  [[nodiscard]] base::Instant now() const { return driver_.now(); }
  [[nodiscard]] uint32_t cq() const { return cq_; }
  [[nodiscard]] bool own_thread() const { return own_thread_; }

 private:
  void arm(engine::Endpoint& e);

  net::Driver& driver_;
  uint32_t cq_;
  bool own_thread_;
  std::vector<uint32_t> notified_;
};

}  // namespace mrc::perf
