// Collectives on a driver: the runner as the driver's client, jobs that any thread may wait for, and a
// descriptor for those that nobody waits for. Knows nothing of Python. Decides who sleeps and who is woken;
// leaves the collectives to coll::Runner.
#pragma once

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "coll/runner.h"
#include "errno_error.h"
#include "net/driver.h"
#include "net/fd.h"

namespace mrc::bindings {

// One collective, as the application sees it.
class CollTask {
 public:
  uint64_t id = 0, bytes = 0;

  [[nodiscard]] coll::JobState state() const { return state_.load(std::memory_order_acquire); }
  [[nodiscard]] bool over() const { return state() != coll::JobState::pending; }
  // Null while it runs and when it went well.
  [[nodiscard]] std::shared_ptr<const coll::Failure> failure() const { return over() ? failure_ : nullptr; }

 private:
  friend class CollHost;
  std::atomic<coll::JobState> state_{coll::JobState::pending};
  std::shared_ptr<const coll::Failure> failure_;  // written before state_
  bool watched_ = false;                          // guarded by CollHost::mutex_
};

class CollHost final : public net::Client, public std::enable_shared_from_this<CollHost> {
 public:
  // Throws ErrnoError: EBUSY when the driver has a client.
  static std::shared_ptr<CollHost> open(const std::shared_ptr<net::Driver>& driver);
  // All jobs fail. Idempotent.
  void close();

  // Runs `f(runner, endpoint, now)` with the engine locked. Throws ErrnoError (EBADF) once closed.
  template <typename F>
  auto with(F f) {
    return locked(false, std::move(f));
  }
  // Throws ErrnoError. What the job sends first leaves before this returns.
  std::shared_ptr<CollTask> submit(uint32_t group, const std::shared_ptr<const coll::Program>& program,
                                   coll::Memory input, coll::Memory output, double factor);
  // Until the task is over or the time ran out (negative: no limit), running the driver's loop meanwhile.
  coll::JobState wait(const CollTask& task, base::Duration limit);
  // False: it is over. Otherwise its id comes from take_finished(), and event_fd() tells.
  bool watch(CollTask& task);
  std::vector<uint64_t> take_finished();
  [[nodiscard]] int event_fd() const { return event_fd_.get(); }
  coll::Runner::Progress progress(uint64_t job);

  bool step(engine::Endpoint& e, base::Instant now) override;
  void on_stop(const std::string& why) override;

 private:
  explicit CollHost(std::shared_ptr<net::Driver> driver) : driver_(std::move(driver)) {}
  void publish();  // with the engine locked: tasks of finished jobs
  void require_open() const;
  template <typename F>
  auto locked(bool flush, F f);

  std::shared_ptr<net::Driver> driver_;
  std::unique_ptr<coll::Runner> runner_;                             // guarded by the engine's lock
  std::unordered_map<uint64_t, std::shared_ptr<CollTask>> running_;  // guarded by the engine's lock
  std::vector<coll::Finished> batch_;                                // guarded by the engine's lock
  bool stopped_ = false;                                             // guarded by the engine's lock
  std::atomic<bool> closed_{false};
  net::Fd event_fd_;

  std::mutex mutex_;
  std::condition_variable over_;
  int sleepers_ = 0;                    // guarded by mutex_
  std::vector<uint64_t> watched_over_;  // guarded by mutex_
};

template <typename F>
auto CollHost::locked(bool flush, F f) {
  require_open();
  using R = std::invoke_result_t<F&, coll::Runner&, engine::Endpoint&, base::Instant>;
  std::optional<R> out;
  const auto body = [&](engine::Endpoint& e, base::Instant now) {
    if (stopped_) return;
    out.emplace(f(*runner_, e, now));
    publish();
  };
  if (flush) {
    driver_->with_flush(body);
  } else {
    driver_->with(body);
  }
  if (!out) require_open();
  if (!out) throw ErrnoError(EBADF, "the driver is closed");
  return std::move(*out);
}

}  // namespace mrc::bindings
