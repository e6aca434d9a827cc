// Loading a workload and following its edges.
#include "sim/tasks.h"

#include <algorithm>

namespace mrc::sim {

namespace {
constexpr int32_t kMaxQpIndex = 1 << 16;
}

std::string Tasks::load(Workload w, uint32_t hosts) {
  const size_t n = w.kind.size();
  if (n >= UINT32_MAX / 2) return "more than 2^31 tasks";
  const bool even = w.node.size() == n && w.peer.size() == n && w.qp.size() == n && w.group.size() == n &&
                    w.size.size() == n && w.start.size() == n && w.delay.size() == n &&
                    w.dep_ptr.size() == n + 1;
  if (!even || w.dep_ptr[0] != 0 || w.dep_ptr[n] != static_cast<int64_t>(w.dep_idx.size()))
    return "the columns of the workload have different lengths";
  for (size_t i = 0; i < n; ++i) {
    const std::string which = "task " + std::to_string(i);
    if (w.node[i] < 0 || static_cast<uint32_t>(w.node[i]) >= hosts) return which + ": no such host";
    if (w.kind[i] > 1) return which + ": kind is 0 (send) or 1 (compute)";
    if (w.start[i] < 0 || w.delay[i] < 0 || w.size[i] < 0) return which + ": negative size or time";
    if (w.start[i] > kNever / kPsPerNs / 2 || w.delay[i] > kNever / kPsPerNs / 2)
      return which + ": beyond 53 days";
    if (w.kind[i] == 0) {
      if (w.peer[i] < 0 || static_cast<uint32_t>(w.peer[i]) >= hosts) return which + ": no such destination";
      if (w.peer[i] == w.node[i]) return which + ": sends to itself; a host's own copy is a compute task";
    }
    if (w.dep_ptr[i + 1] < w.dep_ptr[i] || w.dep_ptr[i + 1] > w.dep_ptr[n])
      return which + ": its part of dep_idx ends before it begins, or beyond the end";
    if (w.qp[i] < -1 || w.qp[i] >= kMaxQpIndex) return which + ": its QP is -1 (in turn) or 0 to 65535";
    for (auto k = w.dep_ptr[i]; k < w.dep_ptr[i + 1]; ++k) {
      const int32_t d = w.dep_idx[static_cast<size_t>(k)];
      if (d < 0 || static_cast<size_t>(d) >= n) return which + ": waits for a task that does not exist";
    }
  }
  w_ = std::move(w);
  times_.ready.assign(n, -1);
  times_.posted = times_.delivered = times_.acked = times_.ready;
  times_.status.assign(n, TaskStatus::open);
  missing_.assign(n, 0);
  succ_ptr_.assign(n + 1, 0);
  for (const int32_t d : w_.dep_idx) ++succ_ptr_[static_cast<size_t>(d) + 1];
  for (size_t i = 0; i < n; ++i) succ_ptr_[i + 1] += succ_ptr_[i];
  succ_idx_.resize(w_.dep_idx.size());
  std::vector<int64_t> at(succ_ptr_.begin(), succ_ptr_.end() - 1);
  queue_.assign(hosts, {});
  for (size_t i = 0; i < n; ++i) {
    missing_[i] = static_cast<uint32_t>(w_.dep_ptr[i + 1] - w_.dep_ptr[i]);
    for (auto k = w_.dep_ptr[i]; k < w_.dep_ptr[i + 1]; ++k)
      succ_idx_[static_cast<size_t>(at[static_cast<size_t>(w_.dep_idx[static_cast<size_t>(k)])]++)] =
          static_cast<TaskId>(i);
    if (w_.kind[i] == 0 && w_.size[i] >= kGreedy) ++greedy_;
    if (missing_[i] == 0) put(static_cast<TaskId>(i), 0);
  }
  return {};
}

// All dependencies of `t` were met at `at`.
void Tasks::put(TaskId t, Ps at) {
  const Ps ready = std::max(at, from_ns(w_.start[t]));
  times_.ready[t] = ready;
  auto& q = queue_[host_of(t)];
  q.push_back({ready + from_ns(w_.delay[t]), t});
  std::push_heap(q.begin(), q.end(), later);
}

void Tasks::met(TaskId t, Ps at) {
  if (--missing_[t] == 0) put(t, at);
}

bool Tasks::take_send(uint32_t host, Ps now, TaskId& out) {
  auto& q = queue_[host];
  while (!q.empty() && q.front().at <= now) {
    std::pop_heap(q.begin(), q.end(), later);
    const Start s = q.back();
    q.pop_back();
    if (w_.kind[s.task] == 0) {
      out = s.task;
      return true;
    }
    times_.posted[s.task] = times_.ready[s.task];
    times_.delivered[s.task] = times_.acked[s.task] = s.at;
    finish(s.task, TaskStatus::done);
    tell(s.task, s.at, host, true);
    tell(s.task, s.at, host, false);
  }
  return false;
}

void Tasks::tell(TaskId t, Ps at, uint32_t host, bool at_host) {
  for (auto k = succ_ptr_[t]; k < succ_ptr_[t + 1]; ++k) {
    const TaskId next = succ_idx_[static_cast<size_t>(k)];
    if ((host_of(next) == host) != at_host) continue;
    if (at_host) {
      met(next, at);
    } else {
      cross_.push_back({next, at});
    }
  }
}

void Tasks::finish(TaskId t, TaskStatus s) {
  if (times_.status[t] != TaskStatus::open) return;
  times_.status[t] = s;
  ++finished_;
}

void Tasks::on_delivered(TaskId t, Ps now) {
  if (times_.delivered[t] >= 0) return;
  times_.delivered[t] = now;
  if (times_.acked[t] >= 0) finish(t, TaskStatus::done);
  tell(t, now, static_cast<uint32_t>(w_.peer[t]), true);
}

void Tasks::on_acked(TaskId t, Ps now) {
  if (times_.acked[t] >= 0) return;
  times_.acked[t] = now;
  if (times_.delivered[t] >= 0) finish(t, TaskStatus::done);
  // Whoever is not the destination learns of it from the sender: the sender's own tasks at once, others with
  // the next window.
  const auto peer = static_cast<uint32_t>(w_.peer[t]);
  for (auto k = succ_ptr_[t]; k < succ_ptr_[t + 1]; ++k) {
    const TaskId next = succ_idx_[static_cast<size_t>(k)];
    if (host_of(next) == peer) continue;
    if (host_of(next) == host_of(t)) {
      met(next, now);
    } else {
      cross_.push_back({next, now});
    }
  }
}

void Tasks::on_failed(TaskId t, Ps) {
  if (times_.status[t] == TaskStatus::open && w_.size[t] >= kGreedy) --greedy_;
  finish(t, TaskStatus::failed);
}

}  // namespace mrc::sim
