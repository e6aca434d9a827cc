// What goes out: announcements, messages in the order of the programs, credits.
#include <cerrno>
#include <cstring>

#include "coll/runner_impl.h"

namespace mrc::coll {

namespace {
// Posted at a time on one lane: more would only make short messages wait behind it.
constexpr uint64_t kMostPosted = uint64_t{8} << 20;
}  // namespace

void Runner::Impl::mark(Lane& l) {
  if (l.dirty) return;
  l.dirty = true;
  dirty.push_back(l.id);
}

Lane* Runner::Impl::lane_of(const Job& j, const Program::Peer& plan) const {
  const Group* g = group(j.group);
  return g == nullptr ? nullptr : lane(g->lanes[plan.rank]);
}

void Runner::Impl::pump(Endpoint& e, Instant now) {
  // What is posted can make more ready, on other lanes as well.
  for (size_t i = 0; i < dirty.size(); ++i) {
    Lane* l = lane(dirty[i]);
    if (l == nullptr) continue;
    l->dirty = false;
    pump_lane(e, now, *l);
  }
  dirty.clear();
}

void Runner::Impl::pump_lane(Endpoint& e, Instant now, Lane& l) {
  Group* g = group(l.group);
  if (g == nullptr || l.dead || l.full) return;
  if (l.can_pull && !l.told_pull) l.told_pull = give_credit(e, now, l, kMayPull);
  // Eager messages leave in the order of the jobs: those of a job that the peer has not begun must not take
  // the slots that an earlier one needs.
  bool eager_turn = true;
  while (!l.to_announce.empty()) {
    Job* j = g->find(l.to_announce.front());
    if (j != nullptr && !announce(e, now, l, *j, true)) return;
    l.to_announce.pop_front();
  }
  for (uint32_t n = g->oldest; n != g->started && g->failure == nullptr; ++n) {
    Job* j = g->find(n);
    if (j == nullptr) continue;
    const uint32_t index = j->program->peer_of_rank(l.rank);
    if (index == Program::kNoPeer) continue;
    if (!pump_job(e, now, l, *g, *j, index, eager_turn)) return;
    const PeerRun& run = j->peers[index];
    eager_turn = eager_turn &&
                 (l.peer_pulls ? run.sent == j->program->peers()[index].sends.size() : run.eager_left == 0);
  }
  const uint32_t untold = l.in.untold();
  const bool owed = l.owes_credit && untold > 0;
  // What is still computed may lead to a message, which would carry it.
  if (owed && untold < kSlots / 2 && !busy.empty() && patience > 0) return owing.push_back(l.id);
  if (untold >= kSlots / 2 || owed) (void)give_credit(e, now, l, 0);
}

// False: the lane takes no more now.
bool Runner::Impl::pump_job(Endpoint& e, Instant now, Lane& l, Group& g, Job& j, uint32_t peer,
                            bool eager_turn) {
  const std::vector<uint32_t>& sends = j.program->peers()[peer].sends;
  PeerRun& run = j.peers[peer];
  while (run.sent < sends.size()) {
    const uint32_t step = sends[run.sent];
    if (j.steps[step].waits != 0) return true;
    const bool eager = (j.program->steps()[step].flags & kEager) != 0;
    if (eager || l.peer_pulls) {
      if (!eager_turn || !l.out.room()) return true;
      if (!(eager ? send_eager(e, now, l, j, step) : send_note(e, now, l, j, step))) return false;
      ++run.sent;
      if (!eager) continue;
      --run.eager_left;
      step_done(j, step);
      settle(j);
      continue;
    }
    const auto& a = l.announced[j.number % kWindow];
    if (!a || a->job != j.number) return true;
    if (l.data_bytes >= kMostPosted) return true;
    if (!send_data(e, now, l, g, j, step)) return false;
    ++run.sent;
  }
  return true;
}

bool Runner::Impl::post(Endpoint& e, Instant now, Lane& l, engine::SendWr& wr, Imm kind, uint32_t job,
                        uint32_t step) {
  ImmWord imm;
  imm.kind = kind;
  imm.job = static_cast<uint16_t>(job & kImmJobMask);
  imm.freed = l.in.freed();
  wr.opcode = reliability::WrOpcode::rdma_write_imm;
  wr.imm = imm.word();
  const Errno error = e.post_send(now, l.qpn, wr);
  if (error == ENOMEM) {
    l.full = true;
    return false;
  }
  if (error != 0) {
    fail_lane(l, engine::Status::local_qp_operation_error);
    return false;
  }
  l.in.told();
  // What has been read from a slot behind one that is in use is still owed.
  l.owes_credit = l.owes_credit && l.in.holds_back();
  l.posted.push_back({kind, job, step, wr.length});
  return true;
}

bool Runner::Impl::announce(Endpoint& e, Instant now, Lane& l, const Job& j, bool open) {
  Announcement a;
  a.job = j.number;
  a.print = j.program->print(l.rank);
  for (size_t b = 0; b < a.addr.size(); ++b) {
    if (!open || j.buf[b].write_key == 0) continue;
    const uint64_t base = b == static_cast<size_t>(Buf::output) ? j.program->base(l.rank) : 0;
    if (base >= j.buf[b].bytes) continue;
    a.addr[b] = j.buf[b].addr + base;
    a.bytes[b] = j.buf[b].bytes - base;
    a.rkey[b] = j.buf[b].write_key;
  }
  // An entry is used again when the job of its last use is over, so the peer has read it.
  const uint32_t entry = j.number % kWindow;
  uint8_t* staged = l.memory->staged_table(entry);
  std::memcpy(staged, &a, sizeof a);
  engine::SendWr wr;
  wr.addr = reinterpret_cast<uint64_t>(staged);
  wr.length = sizeof a;
  wr.lkey = l.memory->out_key();
  wr.remote_addr = l.remote.addr + uint64_t{kSlots} * kSlotBytes + entry * sizeof(Announcement);
  wr.rkey = l.remote.rkey;
  if (!post(e, now, l, wr, Imm::announce, j.number, 0)) return false;
  ++stats.announce_tx;
  return true;
}

bool Runner::Impl::send_eager(Endpoint& e, Instant now, Lane& l, Job& j, uint32_t step) {
  const Step& s = j.program->steps()[step];
  const uint32_t slot = l.out.next();
  uint8_t* staged = l.memory->staging(slot);
  const EagerHeader h{j.number, static_cast<uint32_t>(s.bytes), j.program->print(l.rank)};
  std::memcpy(staged, &h, sizeof h);
  if (s.bytes > 0) std::memcpy(staged + kHeader, j.at(s.src_buf, s.src), s.bytes);
  engine::SendWr wr;
  wr.addr = reinterpret_cast<uint64_t>(staged);
  wr.length = kHeader + h.bytes;
  wr.lkey = l.memory->out_key();
  wr.remote_addr = l.remote.addr + uint64_t{slot} * kSlotBytes + kSlotAt;
  wr.rkey = l.remote.rkey;
  if (!post(e, now, l, wr, Imm::eager, j.number, step)) return false;
  l.out.push();
  ++stats.eager_tx;
  stats.bytes_tx += s.bytes;
  return true;
}

bool Runner::Impl::send_data(Endpoint& e, Instant now, Lane& l, Group& g, Job& j, uint32_t step) {
  const Step& s = j.program->steps()[step];
  const Announcement& a = *l.announced[j.number % kWindow];
  const auto b = static_cast<size_t>(s.dst_buf);
  if (s.dst > a.bytes[b] || s.bytes > a.bytes[b] - s.dst) {
    fail_group(g, {.cause = Failure::Cause::mismatch,
                   .peer = static_cast<int32_t>(l.rank),
                   .job = j.number,
                   .ours = s.dst + s.bytes,
                   .theirs = a.bytes[b],
                   .reason = "the peer's memory is shorter than the message"});
    return false;
  }
  engine::SendWr wr;
  wr.addr = reinterpret_cast<uint64_t>(j.at(s.src_buf, s.src));
  wr.length = static_cast<uint32_t>(s.bytes);
  wr.lkey = j.buf[static_cast<size_t>(s.src_buf)].read_key;
  wr.remote_addr = a.addr[b] + s.dst;
  wr.rkey = a.rkey[b];
  if (!post(e, now, l, wr, Imm::data, j.number, step)) return false;
  l.data_bytes += s.bytes;
  ++stats.data_tx;
  stats.bytes_tx += s.bytes;
  return true;
}

// Through a slot, but only where the message is: the peer reads it from there, and frees the slot when it
// has.
bool Runner::Impl::send_note(Endpoint& e, Instant now, Lane& l, const Job& j, uint32_t step) {
  const Step& s = j.program->steps()[step];
  const uint32_t slot = l.out.next();
  uint8_t* staged = l.memory->staging(slot);
  const EagerHeader h{j.number, kPullFlag | static_cast<uint32_t>(sizeof(PullNote)),
                      j.program->print(l.rank)};
  PullNote n;
  n.from = reinterpret_cast<uint64_t>(j.at(s.src_buf, s.src));
  n.bytes = s.bytes;
  n.dst = s.dst;
  n.dst_buf = static_cast<uint32_t>(s.dst_buf);
  std::memcpy(staged, &h, sizeof h);
  std::memcpy(staged + kHeader, &n, sizeof n);
  engine::SendWr wr;
  wr.addr = reinterpret_cast<uint64_t>(staged);
  wr.length = kHeader + static_cast<uint32_t>(sizeof n);
  wr.lkey = l.memory->out_key();
  wr.remote_addr = l.remote.addr + uint64_t{slot} * kSlotBytes + kSlotAt;
  wr.rkey = l.remote.rkey;
  if (!post(e, now, l, wr, Imm::eager, j.number, step)) return false;
  l.noted.push_back({l.out.sent(), j.number, step});
  l.out.push();
  ++stats.data_tx;
  stats.bytes_tx += s.bytes;
  return true;
}

bool Runner::Impl::give_credit(Endpoint& e, Instant now, Lane& l, uint16_t about) {
  engine::SendWr wr;
  wr.remote_addr = l.remote.addr;
  wr.rkey = l.remote.rkey;
  if (!post(e, now, l, wr, Imm::credit, about, 0)) return false;
  ++stats.credit_tx;
  return true;
}

}  // namespace mrc::coll
