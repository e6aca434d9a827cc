// What becomes ready when, and the arithmetic between the messages.
#include <algorithm>
#include <cstring>

#include "coll/reduce.h"
#include "coll/runner_impl.h"

namespace mrc::coll {

void Runner::Impl::settle(Job& j) {
  while (!j.fresh.empty()) {
    const uint32_t step = j.fresh.back();
    j.fresh.pop_back();
    ready(j, step);
  }
}

// Nothing keeps the step from running but its message.
void Runner::Impl::ready(Job& j, uint32_t step) {
  const Step& s = j.program->steps()[step];
  const StepRun& r = j.steps[step];
  const auto queue = [&] {
    if (j.work.empty() && std::find(busy.begin(), busy.end(), j.group) == busy.end()) busy.push_back(j.group);
    j.work.push_back(step);
  };
  switch (s.kind) {
    case Kind::send:
      if (Lane* l = lane_of(j, j.program->peers()[j.program->peer_index(step)]); l != nullptr) mark(*l);
      return;
    case Kind::recv:
      if (r.at == At::nowhere) return;
      return r.at == At::in_place ? step_done(j, step) : queue();
    default:
      return queue();
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
    if (piece > 0) compute(j, s, r, j.cursor, piece);
    budget -= std::min(budget, piece);
    j.cursor += piece;
    if (j.cursor < s.bytes) return;
    j.cursor = 0;
    j.work.pop_front();
    if (r.at == At::slot) {
      Lane* l = lane_of(j, j.program->peers()[j.program->peer_index(step)]);
      if (l != nullptr) {
        l->in.release(r.where);
        mark(*l);
      }
    } else if (r.at == At::parked) {
      j.parked[r.where].reset();
    }
    step_done(j, step);
    settle(j);
  }
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
