// The workload: one graph of sends and computations (a DAG) whose edges are "starts after". Decides when a
// task is ready; leaves moving the bytes to the transports.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/units.h"

namespace mrc::sim {

using TaskId = uint32_t;
inline constexpr int64_t kGreedy = int64_t{1} << 62;  // never ends

struct Workload {
  std::vector<uint8_t> kind;  // 0 send, 1 compute
  std::vector<int32_t> node, peer, qp, group;
  std::vector<int64_t> size, start, delay;  // bytes, ns, ns
  std::vector<int64_t> dep_ptr;
  std::vector<int32_t> dep_idx;
  [[nodiscard]] size_t size_n() const { return kind.size(); }
};

enum class TaskStatus : uint8_t { open, done, failed };

// All times in ps until they leave by the binding; -1: not yet.
struct TaskTimes {
  std::vector<Ps> ready, posted, delivered, acked;
  std::vector<TaskStatus> status;
};

class Tasks {
 public:
  // The text says what is wrong, empty if nothing.
  std::string load(Workload w, uint32_t hosts);

  [[nodiscard]] size_t count() const { return w_.kind.size(); }
  [[nodiscard]] size_t finished() const { return finished_; }
  // Greedy flows never finish; without any other open task a run has nothing to wait for.
  [[nodiscard]] bool all_done() const { return finished_ + greedy_ >= count(); }
  [[nodiscard]] size_t greedy() const { return greedy_; }
  [[nodiscard]] const Workload& spec() const { return w_; }
  [[nodiscard]] const TaskTimes& times() const { return times_; }

  // --- for the host whose turn it is (one window at a time; see Simulation)
  // Earliest time a task of this host wants to start; kNever if none does.
  [[nodiscard]] Ps next_start(uint32_t host) const {
    const auto& q = queue_[host];
    return q.empty() ? kNever : q.front().at;
  }
  // Takes one send that is due; computations that are due finish on the way. False: none.
  bool take_send(uint32_t host, Ps now, TaskId& out);
  void on_posted(TaskId t, Ps now) {
    if (times_.posted[t] < 0) times_.posted[t] = now;
  }
  void on_delivered(TaskId t, Ps now);  // at its destination host
  void on_acked(TaskId t, Ps now);      // at its source host
  void on_failed(TaskId t, Ps now);     // its QP is in error
  // Between windows: what one host's progress means for others. Calls `wake(host, at)`.
  template <typename F>
  void settle_cross(F wake) {
    for (const Cross& c : cross_) {
      met(c.task, c.at);
      const uint32_t host = host_of(c.task);
      wake(host, next_start(host));
    }
    cross_.clear();
  }

 private:
  struct Start {
    Ps at = 0;
    TaskId task = 0;
  };
  struct Cross {
    TaskId task = 0;
    Ps at = 0;
  };
  static bool later(const Start& a, const Start& b) {
    return a.at > b.at || (a.at == b.at && a.task > b.task);
  }
  [[nodiscard]] uint32_t host_of(TaskId t) const { return static_cast<uint32_t>(w_.node[t]); }
  void met(TaskId t, Ps at);  // one dependency of t
  void put(TaskId t, Ps at);
  // Tells the tasks that wait for `t` on `host` (or, with `others`, everywhere but at `except`).
  void tell(TaskId t, Ps at, uint32_t host, bool at_host);
  void finish(TaskId t, TaskStatus s);

  Workload w_;
  TaskTimes times_;
  std::vector<uint32_t> missing_;  // open dependencies
  std::vector<int64_t> succ_ptr_;
  std::vector<TaskId> succ_idx_;
  std::vector<std::vector<Start>> queue_;  // by host: a heap
  std::vector<Cross> cross_;
  size_t finished_ = 0, greedy_ = 0;
};

}  // namespace mrc::sim
