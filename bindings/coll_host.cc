#include "coll_host.h"

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

namespace mrc::bindings {

using base::Duration;
using base::Instant;
using coll::JobState;

namespace {

// The kernel copies, if it lets us: same user, and no security module against it.
class ProcessReach final : public coll::Reach {
 public:
  int read(uint32_t pid, uint64_t from, void* to, uint64_t bytes) override {
    auto* at = static_cast<uint8_t*>(to);
    while (bytes > 0) {
      const iovec local{at, bytes};
      const iovec remote{reinterpret_cast<void*>(from), bytes};  // NOLINT: an address over there
      const ssize_t n = process_vm_readv(static_cast<pid_t>(pid), &local, 1, &remote, 1, 0);
      if (n <= 0) return n < 0 ? errno : EFAULT;
      at += n;
      from += static_cast<uint64_t>(n);
      bytes -= static_cast<uint64_t>(n);
    }
    return 0;
  }
};

}  // namespace

std::shared_ptr<CollHost> CollHost::open(const std::shared_ptr<net::Driver>& driver) {
  std::shared_ptr<CollHost> host(new CollHost(driver));
  host->event_fd_ = net::Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!host->event_fd_)
    throw ErrnoError(EMFILE, "no descriptor for collectives; raise the limit of open files (ulimit -n)");
  driver->with([&](engine::Endpoint& e, Instant) {
    host->runner_ = std::make_unique<coll::Runner>(e, std::make_unique<ProcessReach>());
  });
  if (const int error = driver->set_client(host); error != 0)
    throw ErrnoError(error, error == EBUSY ? "this driver runs collectives already; use that runner"
                                           : "the driver is closed");
  return host;
}

void CollHost::close() {
  if (closed_.exchange(true)) return;
  driver_->with([this](engine::Endpoint& e, Instant now) {
    // We stay the driver's client until it closes: memory that a queue pair still reads is freed only then.
    if (stopped_) return;
    runner_->close(e, now);
    publish();
  });
}

void CollHost::require_open() const {
  if (closed_.load()) throw ErrnoError(EBADF, "the collective runner is closed");
}

std::shared_ptr<CollTask> CollHost::submit(uint32_t group,
                                           const std::shared_ptr<const coll::Program>& program,
                                           coll::Memory input, coll::Memory output, double factor) {
  auto task = std::make_shared<CollTask>();
  const int error = locked(true, [&](coll::Runner& r, engine::Endpoint& e, Instant now) {
    const auto job = r.submit(e, now, group, program, input, output, factor);
    if (!job.ok()) return job.error();
    task->id = job.value();
    task->bytes = program->traffic();
    running_[task->id] = task;
    return 0;
  });
  if (error == ECANCELED) throw ErrnoError(error, "the group has failed or was aborted");
  if (error != 0) throw ErrnoError(error, "no such group, or the program or the buffers do not fit it");
  return task;
}

bool CollHost::step(engine::Endpoint& e, Instant now) {
  const bool more = runner_->step(e, now);
  publish();
  return more;
}

void CollHost::on_stop(const std::string& why) {
  stopped_ = true;
  runner_->drop_all(why);
  publish();
}

void CollHost::publish() {
  runner_->take_finished(batch_);
  if (batch_.empty()) return;
  bool tell = false;
  const std::lock_guard lock(mutex_);
  for (coll::Finished& f : batch_) {
    auto node = running_.extract(f.id);
    if (node.empty()) continue;
    CollTask& task = *node.mapped();
    task.failure_ = std::move(f.failure);
    task.state_.store(f.state, std::memory_order_release);
    if (!task.watched_) continue;
    watched_over_.push_back(f.id);
    tell = true;
  }
  if (sleepers_ > 0) over_.notify_all();
  const uint64_t one = 1;
  if (tell) [[maybe_unused]]
    const ssize_t n = ::write(event_fd_.get(), &one, sizeof one);
}

JobState CollHost::wait(const CollTask& task, Duration limit) {
  // Another thread may run the loop; when it leaves, its place is free for us.
  constexpr auto kTurn = std::chrono::milliseconds(2);
  const Instant deadline = limit.ns < 0 ? Instant::never() : driver_->now() + limit;
  while (!task.over() && driver_->now() < deadline) {
    if (driver_->help([&task] { return task.over(); }, deadline)) {
      if (task.over() || closed_.load()) break;
      if (!driver_->failure().empty()) break;
      continue;
    }
    std::unique_lock lock(mutex_);
    ++sleepers_;
    if (!task.over()) over_.wait_for(lock, kTurn);
    --sleepers_;
  }
  return task.state();
}

bool CollHost::watch(CollTask& task) {
  const std::lock_guard lock(mutex_);
  if (task.over()) return false;
  task.watched_ = true;
  return true;
}

std::vector<uint64_t> CollHost::take_finished() {
  const std::lock_guard lock(mutex_);
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(event_fd_.get(), &count, sizeof count);
  return std::exchange(watched_over_, {});
}

coll::Runner::Progress CollHost::progress(uint64_t job) {
  return with([job](coll::Runner& r, engine::Endpoint&, Instant) { return r.progress(job); });
}

}  // namespace mrc::bindings
