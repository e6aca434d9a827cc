// What arrives: completions, and the messages of peers. Everything in a message is checked before it is used.
#include <algorithm>
#include <array>
#include <cstring>

#include "coll/runner_impl.h"

namespace mrc::coll {

void Runner::Impl::take_completions(Endpoint& e, Instant now) {
  std::array<engine::Completion, 64> some;
  size_t n = 0;
  do {
    n = e.poll_completion(cq, some);
    for (size_t i = 0; i < n; ++i) on_completion(e, now, some[i]);
  } while (n == some.size());
}

void Runner::Impl::on_completion(Endpoint& e, Instant now, const engine::Completion& c) {
  const uint32_t* id = lane_of_qpn.find(c.qpn);
  Lane* l = id == nullptr ? nullptr : lane(*id);
  if (l == nullptr) {
    ++stats.drop_stray;
    return;
  }
  if (c.status != engine::Status::success) return fail_lane(*l, c.status);
  l->heard = now;
  if (l->dead) return;
  if (c.opcode == engine::WcOpcode::rdma_write) return on_sent(*l);
  if (e.post_recv(now, l->qpn, 0) != 0) return fail_lane(*l, engine::Status::local_qp_operation_error);
  const ImmWord imm = ImmWord::of(c.imm);
  if (!l->out.on_freed(imm.freed)) ++stats.drop_malformed;
  if (!l->noted.empty()) complete_noted(*l);
  mark(*l);
  switch (imm.kind) {
    case Imm::eager:
      return on_eager(*l, c.byte_len);
    case Imm::data:
      return on_data(*l, imm.job, c.byte_len);
    case Imm::announce:
      return on_announcement(*l, imm.job);
    case Imm::credit:
      ++stats.credit_rx;
      l->peer_pulls = l->peer_pulls || (imm.job == kMayPull && l->remote.local_pid != 0);
  }
}

void Runner::Impl::on_sent(Lane& l) {
  l.full = false;
  mark(l);
  if (l.posted.empty()) return;
  const Lane::Posted what = l.posted.front();
  l.posted.pop_front();
  if (what.kind != Imm::data) return;
  l.data_bytes -= what.bytes;
  Group* g = group(l.group);
  Job* j = g == nullptr || g->failure != nullptr ? nullptr : g->find(what.job);
  if (j == nullptr) return;
  step_done(*j, what.step);
  settle(*j);
}

// The peer has read what it was told of.
void Runner::Impl::complete_noted(Lane& l) {
  Group* g = group(l.group);
  while (!l.noted.empty() && l.out.is_freed(l.noted.front().slot)) {
    const Lane::Noted what = l.noted.front();
    l.noted.pop_front();
    Job* j = g == nullptr || g->failure != nullptr ? nullptr : g->find(what.job);
    if (j == nullptr) continue;
    step_done(*j, what.step);
    settle(*j);
  }
}

void Runner::Impl::on_eager(Lane& l, uint32_t length) {
  const auto slot = l.in.arrive();
  if (!slot) {
    ++stats.drop_malformed;
    return;
  }
  EagerHeader h;
  std::memcpy(&h, l.memory->slot(*slot), sizeof h);
  const bool note = (h.bytes & kPullFlag) != 0;
  h.bytes &= ~kPullFlag;
  const bool fits = note ? l.can_pull && h.bytes == sizeof(PullNote) : h.bytes <= kEagerMax;
  if (length < kHeader || h.bytes != length - kHeader || !fits) {
    ++stats.drop_malformed;
    return l.in.release(*slot);
  }
  Lane::Arrival m{.job = h.job, .slot = *slot, .bytes = h.bytes, .print = h.print};
  if (note) {
    PullNote n;
    std::memcpy(&n, l.memory->slot(*slot) + kHeader, sizeof n);
    m.bytes = static_cast<uint32_t>(std::min(n.bytes, kMessageMax + 1));
    m.pull = n;
    l.notes_seen = true;
  }
  ++(note ? stats.data_rx : stats.eager_rx);
  stats.bytes_rx += m.bytes;
  Group* g = group(l.group);
  if (g != nullptr && g->failure != nullptr) return l.in.release(*slot);
  Job* j = g == nullptr ? nullptr : g->find(m.job);
  if (j != nullptr) {
    arrive(*g, *j, l, m, note ? At::noted : At::slot);
    return park_some(*g, l);
  }
  // Later jobs in order, and none that is over.
  const uint32_t least = !l.early.empty() ? l.early.back().job : (g == nullptr ? 0 : g->started);
  if (static_cast<int32_t>(m.job - least) < 0) {
    ++stats.drop_late;
    l.in.release(*slot);
    // A job is done when all its messages are there: one more means that the peer runs another program.
    if (g != nullptr)
      fail_group(*g, {.cause = Failure::Cause::mismatch,
                      .peer = static_cast<int32_t>(l.rank),
                      .job = m.job,
                      .ours = g->past_print(m.job, l.rank),
                      .theirs = m.print,
                      .reason = "a message that the program does not have"});
    return;
  }
  l.early.push_back(m);
}

void Runner::Impl::on_data(Lane& l, uint16_t job, uint32_t length) {
  Group* g = group(l.group);
  Job* j = nullptr;
  uint32_t number = 0;
  if (g != nullptr && g->failure == nullptr) {
    number = g->oldest + ((job - g->oldest) & kImmJobMask);
    j = g->find(number);
  }
  if (j == nullptr) {
    ++stats.drop_late;
    return;
  }
  ++stats.data_rx;
  stats.bytes_rx += length;
  arrive(*g, *j, l, {.job = number, .bytes = length, .print = j->program->print(l.rank)}, At::in_place);
}

void Runner::Impl::on_announcement(Lane& l, uint16_t job) {
  Announcement a;
  std::memcpy(&a, l.memory->table(job % kWindow), sizeof a);
  Group* g = group(l.group);
  if ((a.job & kImmJobMask) != job) {
    ++stats.drop_malformed;
    return;
  }
  if (g != nullptr && static_cast<int32_t>(a.job - g->oldest) < 0) {
    ++stats.drop_late;
    return;
  }
  ++stats.announce_rx;
  l.announced[a.job % kWindow] = a;
  Job* j = g == nullptr || g->failure != nullptr ? nullptr : g->find(a.job);
  if (j != nullptr) check_print(*g, *j, l);
}

// False: the peer runs another program than we do.
bool Runner::Impl::check_print(Group& g, const Job& j, const Lane& l) {
  const auto& a = l.announced[j.number % kWindow];
  if (!a || a->job != j.number || a->print == j.program->print(l.rank)) return true;
  fail_group(g, {.cause = Failure::Cause::mismatch,
                 .peer = static_cast<int32_t>(l.rank),
                 .job = j.number,
                 .ours = j.program->print(l.rank),
                 .theirs = a->print});
  return false;
}

void Runner::Impl::take_early(Group& g, Job& j, Lane& l) {
  while (!l.early.empty() && g.failure == nullptr &&
         static_cast<int32_t>(l.early.front().job - j.number) <= 0) {
    const Lane::Arrival m = l.early.front();
    l.early.pop_front();
    if (m.job == j.number) {
      arrive(g, j, l, m, m.pull ? At::noted : At::slot);
    } else {
      ++stats.drop_late;
      l.in.release(m.slot);
    }
  }
}

void Runner::Impl::arrive(Group& g, Job& j, Lane& l, const Lane::Arrival& m, At at) {
  const Program& p = *j.program;
  const uint32_t index = p.peer_of_rank(l.rank);
  Failure why{.cause = Failure::Cause::mismatch, .peer = static_cast<int32_t>(l.rank), .job = j.number};
  why.ours = p.print(l.rank);
  why.theirs = m.print;
  const bool expected = index != Program::kNoPeer && j.peers[index].arrived < p.peers()[index].recvs.size();
  if (m.print == p.print(l.rank) && expected) {
    const uint32_t step = p.peers()[index].recvs[j.peers[index].arrived];
    const Step& s = p.steps()[step];
    const bool kind_fits = ((s.flags & kEager) != 0) == (at == At::slot);
    if (kind_fits && s.bytes == m.bytes && (at != At::noted || take_note(j, l, step, m))) {
      ++j.peers[index].arrived;
      StepRun& r = j.steps[step];
      r.at = at;
      if (at != At::noted) r.where = m.slot;
      if (at != At::in_place) l.owner[m.slot] = {j.number, step};
      if (at == At::noted && !combines_long(s)) {
        move(j, step);
      } else if (r.waits == 0) {
        ready(j, step);
      }
      return settle(j);
    }
    why.ours = s.bytes;
    why.theirs = m.bytes;
    why.reason = "a message of another kind or length than expected";
  } else if (!expected) {
    why.reason = "a message that the program does not have";
  }
  if (at != At::in_place) l.in.release(m.slot);
  fail_group(g, std::move(why));
}

// What is noted is read at once, as it would have been written at once.
void Runner::Impl::move(Job& j, uint32_t step) {
  j.steps[step].at = At::moving;
  queue(j, step);
}

bool Runner::Impl::take_note(Job& j, const Lane& l, uint32_t step, const Lane::Arrival& m) {
  const PullNote& n = *m.pull;
  if (n.dst_buf >= static_cast<uint32_t>(Buf::count_) || !j.program->remote(static_cast<Buf>(n.dst_buf)))
    return false;
  const Region& r = j.buf[n.dst_buf];
  const uint64_t base = n.dst_buf == static_cast<uint32_t>(Buf::output) ? j.program->base(l.rank) : 0;
  if (base > r.bytes || n.dst > r.bytes - base || n.bytes > r.bytes - base - n.dst) return false;
  j.steps[step].where = static_cast<uint32_t>(j.pulls.size());
  j.pulls.push_back({n.from, reinterpret_cast<uint8_t*>(r.addr + base + n.dst), m.slot});
  return true;
}

// Slots are few, and a message may have to wait for later ones: what is in the way moves out.
void Runner::Impl::park_some(Group& g, Lane& l) {
  while (l.in.used() > kSlots / 2 && g.failure == nullptr) {
    const uint32_t slot = l.in.oldest();
    const Lane::Owner owner = l.owner[slot];
    Job* j = g.find(owner.job);
    if (j == nullptr || owner.step >= j->steps.size()) return;
    StepRun& r = j->steps[owner.step];
    if (r.at == At::noted && j->pulls[r.where].slot == slot && r.waits != 0) {
      ++stats.parked;
      return move(*j, owner.step);
    }
    if (r.at != At::slot || r.where != slot || r.waits == 0) return;  // about to be used
    const uint64_t bytes = j->program->steps()[owner.step].bytes;
    auto copy = std::make_unique<uint8_t[]>(bytes);
    if (bytes > 0) std::memcpy(copy.get(), l.memory->slot(slot) + kHeader, bytes);
    r.at = At::parked;
    r.where = static_cast<uint32_t>(j->parked.size());
    j->parked.push_back(std::move(copy));
    l.in.release(slot);
    ++stats.parked;
  }
}

}  // namespace mrc::coll
