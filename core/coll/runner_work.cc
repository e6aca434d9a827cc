// What becomes ready when, and the arithmetic between the messages.
#include <algorithm>
#include <cstring>

#include "coll/reduce.h"
#include "coll/runner_impl.h"

namespace mrc::coll {

namespace {
constexpr uint64_t kHot = 64 * 1024;  // whole elements of every type
}  // namespace

void Runner::Impl::settle(Job& j) {
  while (!j.fresh.empty()) {
    const uint32_t step = j.fresh.back();
    j.fresh.pop_back();
    ready(j, step);
  }
}

void Runner::Impl::queue(Job& j, uint32_t step) {
  if (j.work.empty() && std::find(busy.begin(), busy.end(), j.group) == busy.end()) busy.push_back(j.group);
  j.work.push_back(step);
}

// Nothing keeps the step from running but its message.
void Runner::Impl::ready(Job& j, uint32_t step) {
  const Step& s = j.program->steps()[step];
  const StepRun& r = j.steps[step];
  switch (s.kind) {
    case Kind::send:
      if (Lane* l = lane_of(j, j.program->peers()[j.program->peer_index(step)]); l != nullptr) mark(*l);
      return;
    case Kind::recv:
      if (r.at == At::nowhere || r.at == At::moving) return;
      return r.at == At::in_place && !combines_long(s) ? step_done(j, step) : queue(j, step);
    default:
      return queue(j, step);
  }
}

void Runner::Impl::step_done(Job& j, uint32_t step) {
  if (j.steps[step].done) return;
  j.steps[step].done = true;
  for (const uint32_t next : j.program->dependents(step)) {
    if (--j.steps[next].waits == 0) j.fresh.push_back(next);
  }
  if (--j.left == 0) complete.emplace_back(j.group, j.number);
}

// Oldest jobs first, until the budget is used up.
void Runner::Impl::work(uint64_t& budget) {
  for (size_t i = 0; i < busy.size();) {
    Group* g = group(busy[i]);
    bool left = false;
    for (uint32_t n = g == nullptr ? 0 : g->oldest; g != nullptr && n != g->started; ++n) {
      Job* j = g->find(n);
      if (j == nullptr || j->work.empty()) continue;
      if (g->failure == nullptr) work_on(*j, budget);
      left = left || !j->work.empty();
    }
    if (left && budget == 0) return;
    if (left && g->failure == nullptr) continue;
    busy.erase(busy.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void Runner::Impl::work_on(Job& j, uint64_t& budget) {
  constexpr uint64_t kLine = 64;  // whole elements of every type
  while (!j.work.empty() && budget > 0) {
    const uint32_t step = j.work.front();
    const Step& s = j.program->steps()[step];
    StepRun& r = j.steps[step];
    const uint64_t piece = std::min(s.bytes - j.cursor, std::max(budget / kLine * kLine, kLine));
    if (r.at == At::noted || r.at == At::moving) {
      if (!pull(j, step, j.cursor, piece)) return;
    } else if (piece > 0) {
      compute(j, s, r, j.cursor, piece);
    }
    budget -= std::min(budget, piece);
    j.cursor += piece;
    if (j.cursor < s.bytes) return;
    j.cursor = 0;
    j.work.pop_front();
    const bool moved = r.at == At::moving;
    free_message(j, step);
    if (!moved) {
      step_done(j, step);
    } else if (r.waits == 0) {
      ready(j, step);
    }
    settle(j);
  }
}

// The message of a step has been used.
void Runner::Impl::free_message(Job& j, uint32_t step) {
  StepRun& r = j.steps[step];
  if (r.at == At::parked) j.parked[r.where].reset();
  const bool pulled = r.at == At::noted || r.at == At::moving;
  if (r.at != At::slot && !pulled) return;
  Lane* l = lane_of(j, j.program->peers()[j.program->peer_index(step)]);
  if (l == nullptr) return;
  l->in.release(r.at == At::slot ? r.where : j.pulls[r.where].slot);
  if (pulled) {
    l->owes_credit = true;  // its sender waits for that
    r.at = At::in_place;
  }
  mark(*l);
}

// A piece of a message that lies in its sender's memory: to where it would have landed, or in small parts, so
// that they stay in the cache, into what it is combined with.
bool Runner::Impl::pull(Job& j, uint32_t step, uint64_t from, uint64_t bytes) {
  const Step& s = j.program->steps()[step];
  Lane* l = lane_of(j, j.program->peers()[j.program->peer_index(step)]);
  const Job::Pull& p = j.pulls[j.steps[step].where];
  if (l == nullptr || l->dead) return false;
  const bool last = from + bytes == s.bytes;
  if (j.steps[step].at == At::moving) return read_peer(*l, p, from, p.to + from, bytes, last);
  hot.resize(kHot);
  for (uint64_t at = 0; at < bytes; at += kHot) {
    const uint64_t part = std::min(kHot, bytes - at);
    if (!read_peer(*l, p, from + at, hot.data(), part, last && at + part == bytes)) return false;
    const DType t = j.program->dtype();
    reduce(t, j.program->op(), j.at(s.dst_buf, s.dst + from + at), hot.data(), part / size_of(t));
    stats.bytes_reduced += part;
  }
  return true;
}

// After the last piece a look at the guard tells whether all of the message was what the sender meant: it is
// lowered before that memory is given to anything else, and no other process has it.
bool Runner::Impl::read_peer(Lane& l, const Job::Pull& p, uint64_t from, uint8_t* to, uint64_t bytes,
                             bool last) {
  int error = reach->read(l.remote.local_pid, p.from + from, to, bytes);
  uint64_t token = l.remote.token;
  if (error == 0 && last) error = reach->read(l.remote.local_pid, l.remote.guard, &token, sizeof token);
  if (error == 0 && token == l.remote.token) {
    stats.local_bytes += bytes;
    return true;
  }
  ++stats.local_refused;
  // Its memory is closed to us, as it would be to a WRITE.
  fail_lane(l, engine::Status::remote_access_error);
  return false;
}

void Runner::Impl::compute(Job& j, const Step& s, const StepRun& r, uint64_t from, uint64_t bytes) {
  uint8_t* dst = j.at(s.dst_buf, s.dst + from);
  const uint8_t* src = nullptr;
  if (r.at == At::slot) {
    src = lane_of(j, j.program->peers()[j.program->peer_of_rank(s.peer)])->memory->slot(r.where) + kHeader +
          from;
  } else if (r.at == At::parked) {
    src = j.parked[r.where].get() + from;
  } else {
    src = j.at(s.src_buf, s.src + from);
  }
  const DType t = j.program->dtype();
  const size_t count = bytes / size_of(t);
  const bool combine = s.kind == Kind::reduce || (s.kind == Kind::recv && (s.flags & kReduce) != 0);
  if (combine) {
    reduce(t, j.program->op(), dst, src, count);
    stats.bytes_reduced += bytes;
  } else if (s.kind == Kind::scale) {
    const bool premul = (s.flags & kPremul) != 0;
    scale(t, dst, src, premul ? j.factor : static_cast<double>(j.program->ranks()), !premul, count);
  } else if (dst != src) {
    std::memmove(dst, src, bytes);
  }
}

}  // namespace mrc::coll
