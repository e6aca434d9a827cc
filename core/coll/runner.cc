// Lanes, groups, and the life of a job from submit to its end. Messages: runner_in.cc, runner_out.cc;
// arithmetic: runner_work.cc.
#include "coll/runner.h"

#include <algorithm>
#include <cerrno>

#include "coll/runner_impl.h"

namespace mrc::coll {

namespace {
constexpr uint32_t kCqEntries = 1u << 22;  // memory follows use
constexpr int kPatience = 4;               // steps that a credit waits for a message to go with
constexpr int kRounds = 4;                 // of posting and arithmetic in a step
}  // namespace

Runner::Impl::Impl(Endpoint& e, std::unique_ptr<Reach> r)
    : reach(std::move(r)), pd(e.alloc_pd()), cq(e.create_cq(kCqEntries).value()) {}

Runner::Runner(Endpoint& e, std::unique_ptr<Reach> reach)
    : impl_(std::make_unique<Impl>(e, std::move(reach))) {}
Runner::~Runner() = default;
uint32_t Runner::pd() const { return impl_->pd; }
uint32_t Runner::cq() const { return impl_->cq; }
const RunnerStats& Runner::stats() const { return impl_->stats; }

Lane* Runner::Impl::lane(uint32_t id) const {
  const auto it = lanes.find(id);
  return it == lanes.end() ? nullptr : it->second.get();
}
Group* Runner::Impl::group(uint32_t id) const {
  const auto it = groups.find(id);
  return it == groups.end() ? nullptr : it->second.get();
}

base::Result<uint32_t> Runner::open_lane_memory(Endpoint& e) {
  auto memory = std::make_unique<LaneMemory>();
  uint64_t token = 1;
  for (int i = 0; i < 3; ++i) token = (token << 24) ^ e.random_psn();
  if (const Errno error = memory->open(e, impl_->pd, token); error != 0) {
    (void)memory->close(e);
    return base::Result<uint32_t>::error(error);
  }
  const uint32_t id = ++impl_->last_id;
  impl_->memories[id] = std::move(memory);
  return id;
}

RemoteMemory Runner::lane_memory(uint32_t id) const {
  const auto it = impl_->memories.find(id);
  return it == impl_->memories.end() ? RemoteMemory{} : it->second->face();
}

Errno Runner::close_lane_memory(Endpoint& e, uint32_t id) {
  auto node = impl_->memories.extract(id);
  if (node.empty()) return EINVAL;
  impl_->closing.push_back(std::move(node.mapped()));
  impl_->sweep(e);
  return 0;
}

base::Result<uint32_t> Runner::add_lane(Endpoint& e, Instant now, uint32_t qpn, uint32_t memory,
                                        const RemoteMemory& remote) {
  using R = base::Result<uint32_t>;
  Impl& m = *impl_;
  const auto it = m.memories.find(memory);
  if (it == m.memories.end() || m.lane_of_qpn.contains(qpn)) return R::error(EINVAL);
  // Both ends are one version of this room, or they cannot talk.
  if (remote.slots != kSlots || remote.slot_bytes != kSlotBytes || remote.table != kWindow)
    return R::error(EINVAL);
  for (uint32_t i = 0; i < kRecvDepth; ++i) {
    if (const Errno error = e.post_recv(now, qpn, 0); error != 0) return R::error(error);
  }
  auto l = std::make_unique<Lane>();
  l->id = ++m.last_id;
  l->qpn = qpn;
  l->memory = std::move(it->second);
  l->remote = remote;
  if (remote.local_pid != 0 && m.reach != nullptr) {
    uint64_t there = 0;
    const bool read = m.reach->read(remote.local_pid, remote.guard, &there, sizeof there) == 0;
    l->can_pull = read && there == remote.token && there != 0;
    if (!l->can_pull) ++m.stats.local_refused;
  }
  m.memories.erase(it);
  m.lane_of_qpn.insert(qpn, l->id);
  const uint32_t id = l->id;
  m.lanes[id] = std::move(l);
  return id;
}

Instant Runner::heard(uint32_t id) const {
  const Lane* l = impl_->lane(id);
  return l == nullptr ? Instant::never() : l->heard;
}

Errno Runner::close_lane(Endpoint& e, Instant now, uint32_t id) {
  Impl& m = *impl_;
  Lane* l = m.lane(id);
  if (l == nullptr) return EINVAL;
  if (Group* g = m.group(l->group); g != nullptr) {
    m.fail_group(*g, {.cause = Failure::Cause::closed,
                      .peer = static_cast<int32_t>(l->rank),
                      .reason = "its lane was closed"});
    m.reap(e, now);
    g->lanes[l->rank] = 0;
  }
  m.lane_of_qpn.erase(l->qpn);
  l->memory->lower_guard();
  m.closing.push_back(std::move(l->memory));
  m.lanes.erase(id);
  m.sweep(e);
  return 0;
}

base::Result<uint32_t> Runner::new_group(const std::vector<int64_t>& lanes, uint32_t rank) {
  using R = base::Result<uint32_t>;
  Impl& m = *impl_;
  if (lanes.empty() || lanes.size() > Program::kMaxRanks || rank >= lanes.size()) return R::error(EINVAL);
  auto g = std::make_unique<Group>();
  g->rank = rank;
  for (size_t r = 0; r < lanes.size(); ++r) {
    const bool own = r == rank;
    const Lane* l = lanes[r] < 0 || lanes[r] > UINT32_MAX ? nullptr : m.lane(static_cast<uint32_t>(lanes[r]));
    if (own != (lanes[r] < 0) || (!own && (l == nullptr || l->group != Lane::kNoGroup)))
      return R::error(EINVAL);
    if (l != nullptr && std::count(lanes.begin(), lanes.end(), lanes[r]) != 1) return R::error(EINVAL);
    g->lanes.push_back(l == nullptr ? 0 : l->id);
  }
  g->id = ++m.last_id;
  for (size_t r = 0; r < lanes.size(); ++r) {
    Lane* l = m.lane(g->lanes[r]);
    if (l == nullptr) continue;
    l->group = g->id;
    l->rank = static_cast<uint32_t>(r);
    m.mark(*l);
    if (l->dead)
      m.fail_group(*g, {.cause = Failure::Cause::lane, .peer = static_cast<int32_t>(r), .status = l->status});
  }
  const uint32_t id = g->id;
  m.groups[id] = std::move(g);
  return id;
}

Errno Runner::abort(Endpoint& e, Instant now, uint32_t id, const std::string& reason) {
  Group* g = impl_->group(id);
  if (g == nullptr) return EINVAL;
  impl_->fail_group(*g, {.cause = Failure::Cause::aborted, .reason = reason});
  impl_->reap(e, now);
  return 0;
}

Errno Runner::close_group(Endpoint& e, Instant now, uint32_t id) {
  if (const Errno error = abort(e, now, id, "the group was closed"); error != 0) return error;
  for (const uint32_t l : impl_->group(id)->lanes) {
    if (Lane* lane = impl_->lane(l); lane != nullptr) {
      lane->group = Lane::kNoGroup;
      lane->dead = true;  // its counts belong to what is over
    }
  }
  impl_->groups.erase(id);
  return 0;
}

base::Result<uint64_t> Runner::submit(Endpoint& e, Instant now, uint32_t id,
                                      std::shared_ptr<const Program> program, Memory input, Memory output,
                                      double factor) {
  using R = base::Result<uint64_t>;
  Impl& m = *impl_;
  Group* g = m.group(id);
  if (g == nullptr || program == nullptr || program->ranks() != g->lanes.size()) return R::error(EINVAL);
  if (input.bytes < program->input_bytes() || output.bytes < program->output_bytes()) return R::error(EINVAL);
  if (program->peer_of_rank(g->rank) != Program::kNoPeer) return R::error(EINVAL);
  if (g->failure != nullptr) return R::error(ECANCELED);
  auto j = std::make_unique<Job>();
  j->id = ++m.last_job;
  j->group = id;
  j->number = g->next++;
  j->program = std::move(program);
  j->factor = factor;
  j->buf[0] = {input.addr, j->program->input_bytes(), 0, 0};
  j->buf[1] = {output.addr, j->program->output_bytes(), 0, 0};
  m.live[j->id] = {id, j->number};
  ++m.stats.jobs;
  const uint64_t job = j->id;
  g->queued.push_back(std::move(j));
  m.start(e, *g);
  m.advance(e, now);
  return job;
}

bool Runner::step(Endpoint& e, Instant now) {
  impl_->take_completions(e, now);
  return impl_->advance(e, now);
}

// True: arithmetic is left.
bool Runner::Impl::advance(Endpoint& e, Instant now) {
  uint64_t budget = kBudget;
  patience = owing.empty() ? kPatience : std::max(patience - 1, 0);
  for (int i = 0; i < kRounds; ++i) {
    pump(e, now);
    if (budget > 0) work(budget);
    if (busy.empty() || patience == 0) pay();
    reap(e, now);
    if (dirty.empty() && (busy.empty() || budget == 0)) break;
  }
  if (!closing.empty() || !closing_keys.empty()) sweep(e);
  return !dirty.empty() || !busy.empty() || !owing.empty();
}

// Lanes whose credits waited have their turn.
void Runner::Impl::pay() {
  for (const uint32_t id : owing) {
    if (Lane* l = lane(id); l != nullptr) mark(*l);
  }
  owing.clear();
}

Errno Runner::Impl::reg(Endpoint& e, Job& j, Buf b) {
  Region& r = j.buf[static_cast<size_t>(b)];
  if (r.bytes == 0) return 0;
  if (j.program->sent_from(b)) {
    const auto mr = e.reg_mr(pd, r.addr, r.bytes, 0, r.addr);
    if (!mr.ok()) return mr.error();
    r.read_key = mr.value().lkey;
  }
  if (!j.program->remote(b)) return 0;
  const auto mr =
      e.reg_mr(pd, r.addr, r.bytes, engine::Access::local_write | engine::Access::remote_write, r.addr);
  if (!mr.ok()) return mr.error();
  r.write_key = mr.value().rkey;
  return 0;
}

void Runner::Impl::start(Endpoint& e, Group& g) {
  while (!g.queued.empty() && g.queued.front()->number - g.oldest < kWindow && g.failure == nullptr) {
    const uint32_t number = g.queued.front()->number;
    g.running[number % kWindow] = std::move(g.queued.front());
    g.queued.pop_front();
    g.started = number + 1;
    Job& j = *g.running[number % kWindow];
    const Program& p = *j.program;
    if (p.scratch_bytes() > 0) {
      j.scratch = scratch.take(p.scratch_bytes());
      j.buf[2] = {reinterpret_cast<uint64_t>(j.scratch.get()), p.scratch_bytes(), 0, 0};
    }
    for (const Buf b : {Buf::input, Buf::output, Buf::scratch}) {
      if (reg(e, j, b) == 0) continue;
      return fail_group(
          g,
          {.cause = Failure::Cause::protocol, .job = number, .reason = "no room for another memory region"});
    }
    j.left = static_cast<uint32_t>(p.steps().size());
    j.steps.resize(j.left);
    for (uint32_t i = 0; i < j.left; ++i) j.steps[i].waits = p.waits()[i];
    j.peers.resize(p.peers().size());
    for (size_t i = 0; i < j.peers.size(); ++i) j.peers[i].eager_left = p.peers()[i].eager_sends;
    enter(g, j);
  }
}

void Runner::Impl::enter(Group& g, Job& j) {
  for (const Program::Peer& peer : j.program->peers()) {
    Lane* l = lane_of(j, peer);
    if (l == nullptr) continue;
    if (peer.announce && !l->notes_seen) l->to_announce.push_back(j.number);
    mark(*l);
  }
  if (j.left == 0) complete.emplace_back(g.id, j.number);
  j.fresh = j.program->roots();
  settle(j);
  // What came before we did.
  for (const Program::Peer& peer : j.program->peers()) {
    Lane* l = lane_of(j, peer);
    if (l == nullptr) continue;
    if (!check_print(g, j, *l)) return;
    take_early(g, j, *l);
    if (g.failure != nullptr) return;
  }
}

void Runner::Impl::dereg(Endpoint& e, uint32_t key) {
  if (key != 0 && e.dereg_mr(key) == EBUSY) closing_keys.push_back(key);
}

void Runner::Impl::release(Endpoint& e, Job& j) {
  for (Region& r : j.buf) {
    dereg(e, r.write_key);
    dereg(e, r.read_key);
  }
  scratch.give(std::move(j.scratch), j.program->scratch_bytes());
  live.erase(j.id);
}

void Runner::Impl::fail_group(Group& g, Failure why) {
  if (g.failure != nullptr) return;
  g.failure = std::make_shared<const Failure>(std::move(why));
  broken.push_back(g.id);
}

void Runner::Impl::fail_lane(Lane& l, engine::Status status) {
  if (l.dead) return;
  l.dead = true;
  l.status = status;
  ++stats.lanes_failed;
  if (Group* g = group(l.group); g != nullptr)
    fail_group(*g, {.cause = Failure::Cause::lane,
                    .peer = static_cast<int32_t>(l.rank),
                    .status = status,
                    .job = g->oldest});
}

// The queue pair must not send from memory that is no longer ours to read.
void Runner::Impl::stop_reading(Endpoint& e, Instant now, Lane& l) {
  if (l.data_bytes == 0) return;
  l.dead = true;
  engine::QpAttr a;
  a.state = engine::QpState::err;
  (void)e.modify_qp(now, l.qpn, a);
  l.posted.clear();
  l.data_bytes = 0;
}

// What is over leaves: jobs that are done, and all jobs of groups that failed.
void Runner::Impl::reap(Endpoint& e, Instant now) {
  while (!broken.empty()) {
    const uint32_t id = broken.back();
    broken.pop_back();
    if (Group* g = group(id); g != nullptr) bury(e, now, *g);
  }
  while (!complete.empty()) {
    const auto [id, number] = complete.back();
    complete.pop_back();
    Group* g = group(id);
    Job* j = g == nullptr ? nullptr : g->find(number);
    if (j == nullptr) continue;
    release(e, *j);
    finished.push_back({j->id, JobState::done, nullptr});
    ++stats.jobs_done;
    g->past[number % kWindow] = {number, j->program};
    g->running[number % kWindow].reset();
    while (g->oldest != g->started && g->running[g->oldest % kWindow] == nullptr) ++g->oldest;
    start(e, *g);
  }
}

void Runner::Impl::bury(Endpoint& e, Instant now, Group& g) {
  for (const uint32_t id : g.lanes) {
    Lane* l = lane(id);
    if (l == nullptr) continue;
    // A peer that runs another program must not wait for ever for what ours does not send.
    const Job* j = g.find(g.failure->job);
    const bool differs = g.failure->cause == Failure::Cause::mismatch &&
                         g.failure->peer == static_cast<int32_t>(l->rank) && j != nullptr;
    if (differs && !l->dead) (void)announce(e, now, *l, *j, false);
    l->memory->lower_guard();
    stop_reading(e, now, *l);
    l->to_announce.clear();
    l->noted.clear();
  }
  const JobState state = g.failure->cause == Failure::Cause::aborted ? JobState::aborted : JobState::failed;
  const auto end = [&](std::unique_ptr<Job>& j) {
    if (j == nullptr) return;
    release(e, *j);
    finished.push_back({j->id, state, g.failure});
    ++stats.jobs_failed;
    j.reset();
  };
  for (auto& j : g.running) end(j);
  for (auto& j : g.queued) end(j);
  g.queued.clear();
  g.oldest = g.started = g.next;
}

void Runner::Impl::sweep(Endpoint& e) {
  std::erase_if(closing, [&e](const auto& memory) { return memory == nullptr || memory->close(e); });
  std::erase_if(closing_keys, [&e](uint32_t key) { return e.dereg_mr(key) != EBUSY; });
}

void Runner::take_finished(std::vector<Finished>& out) {
  out.clear();
  out.swap(impl_->finished);
}

std::shared_ptr<const Failure> Runner::failure_of(uint32_t id) const {
  const Group* g = impl_->group(id);
  return g == nullptr ? nullptr : g->failure;
}

Runner::Progress Runner::progress(uint64_t id) const {
  Progress out;
  const auto it = impl_->live.find(id);
  if (it == impl_->live.end()) return out;
  const Group* g = impl_->group(it->second.first);
  const Job* j = g == nullptr ? nullptr : g->find(it->second.second);
  if (j == nullptr) return out;
  const Program& p = *j->program;
  out.total = static_cast<uint32_t>(p.steps().size());
  out.done = out.total - j->left;
  for (size_t i = 0; i < p.peers().size(); ++i) {
    const Program::Peer& plan = p.peers()[i];
    const PeerRun& run = j->peers[i];
    const bool expects = run.arrived < plan.recvs.size() && j->steps[plan.recvs[run.arrived]].waits == 0;
    const auto unsent = [&](uint32_t s) { return j->steps[s].waits == 0 && !j->steps[s].done; };
    if (expects || std::any_of(plan.sends.begin(), plan.sends.end(), unsent))
      out.waiting_for.push_back(plan.rank);
  }
  return out;
}

void Runner::close(Endpoint& e, Instant now) {
  Impl& m = *impl_;
  for (auto& [id, g] : m.groups)
    m.fail_group(*g, {.cause = Failure::Cause::closed, .reason = "the runner was closed"});
  m.reap(e, now);
  while (!m.lanes.empty()) (void)close_lane(e, now, m.lanes.begin()->first);
  while (!m.memories.empty()) (void)close_lane_memory(e, m.memories.begin()->first);
}

void Runner::drop_all(const std::string& reason) {
  Impl& m = *impl_;
  const auto why =
      std::make_shared<const Failure>(Failure{.cause = Failure::Cause::closed, .reason = reason});
  for (auto& [id, g] : m.groups) {
    if (g->failure == nullptr) g->failure = why;
    for (auto& j : g->running) {
      if (j != nullptr) m.finished.push_back({j->id, JobState::failed, why});
      j.reset();
    }
    for (auto& j : g->queued) m.finished.push_back({j->id, JobState::failed, why});
    g->queued.clear();
    g->oldest = g->started = g->next;
  }
  for (auto& [id, l] : m.lanes) l->memory->lower_guard();
  m.live.clear();
  m.dirty.clear();
  m.busy.clear();
  m.owing.clear();
}

}  // namespace mrc::coll
