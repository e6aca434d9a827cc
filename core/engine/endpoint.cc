// Resources and work requests of one endpoint.
#include "engine/endpoint.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/prefetch.h"
#include "engine/endpoint_impl.h"

namespace mrc::engine {

namespace {
constexpr uint32_t kFirstQpn = 16;
constexpr uint32_t kMaxQpn = 0xFFFFFF;
constexpr Duration kQpnQuarantine = Duration::seconds(10);
constexpr size_t kMaxQuarantined = 65'536;
}  // namespace

Endpoint::Impl::Impl(const EndpointConfig& c)
    : config(c),
      rng(c.seed),
      mrs(rng.fork(), c.max_mrs),
      probe_budget(c.ev_probes_per_second),
      env{config, mrs, stats, trace, probe_budget, {}, 0, 0, false, Run(config.run_bytes)},
      ops(config, env.ports, stats, rng.fork()) {
  ops.set_guide([this](uint32_t slot, const IpAddr& peer, uint8_t port) {
    Qp* qp = slot < qps.size() ? qps[slot].qp.get() : nullptr;
    return qp != nullptr && qp->has_peer_address(peer) ? qp->answer_tag(port) : std::nullopt;
  });
}

Endpoint::Endpoint(const EndpointConfig& config) : impl_(std::make_unique<Impl>(config)) {}
Endpoint::~Endpoint() = default;

base::Result<uint8_t> Endpoint::add_port(const PortConfig& port) {
  if (impl_->env.ports.size() >= kMaxPorts - 1)
    return base::Result<uint8_t>::error(ENOSPC);  // bit N of a 32-bit mask, 1-based
  if (port.addr.is_unspecified()) return base::Result<uint8_t>::error(EINVAL);
  impl_->env.ports.push_back(port);
  const auto number = static_cast<uint8_t>(impl_->env.ports.size());
  impl_->env.ports_up |= 1u << number;
  impl_->ops.set_ports_up(impl_->env.ports_up);
  return number;
}

Errno Endpoint::set_port_address(Instant now, uint8_t port, const IpAddr& addr, uint16_t udp_port) {
  Impl& m = *impl_;
  m.last_now = now;
  if (port == 0 || port > m.env.ports.size() || addr.is_unspecified() || udp_port == 0) return EINVAL;
  PortConfig& p = m.env.ports[port - 1u];
  if (addr.is_v4() != p.addr.is_v4()) return EINVAL;
  p.addr = addr;
  p.udp_port = udp_port;
  m.trace.record(now, 'm', port, udp_port);
  Event e;
  e.kind = EventKind::port_moved;
  e.at = now;
  e.port = port;
  m.push_event(e);
  return 0;
}

Errno Endpoint::move_peer(Instant now, uint32_t qpn, const PeerPort& to) {
  Impl& m = *impl_;
  m.last_now = now;
  Impl::QpSlot* s = m.slot_of(qpn);
  if (s == nullptr || !s->peer) return EINVAL;
  if (const Errno e = s->qp->move_peer(to); e != 0) return e;
  m.ops.release_peer(*s->peer);
  s->peer = m.ops.acquire_peer(s->qp->peer_ports(), s->qp->slot());
  m.trace.record(now, 'M', qpn, to.local_port);
  m.settle(now, s->qp->slot());
  return 0;
}

Errno Endpoint::set_port_up(Instant now, uint8_t port, bool up) {
  Impl& m = *impl_;
  m.last_now = now;
  if (port == 0 || port > m.env.ports.size()) return EINVAL;
  const uint32_t bit = 1u << port;
  if (((m.env.ports_up & bit) != 0) == up) return 0;
  m.env.ports_up = up ? m.env.ports_up | bit : m.env.ports_up & ~bit;
  m.trace.record(now, 'p', port, up);
  for (uint32_t slot = 0; slot < m.qps.size(); ++slot) {
    if (!m.qps[slot].qp) continue;
    m.qps[slot].qp->set_usable_ports(now);
    m.settle(now, slot);
  }
  m.ops.announce_ports(now, m.env.ports_up);
  m.settle_ops(now);
  Event e;
  e.kind = EventKind::port_local;
  e.at = now;
  e.port = port;
  e.up = up;
  m.push_event(e);
  return 0;
}

uint32_t Endpoint::ports_up() const { return impl_->env.ports_up; }

uint32_t Endpoint::alloc_pd() {
  impl_->pds.insert(impl_->next_pd);
  return impl_->next_pd++;
}

Errno Endpoint::dealloc_pd(uint32_t pd) {
  if (!impl_->pds.contains(pd)) return EINVAL;
  const auto uses = [pd](const Impl::QpSlot& s) { return s.qp && s.qp->init().pd == pd; };
  if (impl_->mrs.pd_used(pd) || std::any_of(impl_->qps.begin(), impl_->qps.end(), uses)) return EBUSY;
  impl_->pds.erase(pd);
  return 0;
}

base::Result<MrInfo> Endpoint::reg_mr(uint32_t pd, uint64_t addr, uint64_t length, uint32_t access,
                                      uint64_t iova) {
  if (!impl_->pds.contains(pd)) return base::Result<MrInfo>::error(EINVAL);
  return impl_->mrs.add(pd, addr, length, access, iova);
}

Errno Endpoint::dereg_mr(uint32_t lkey) { return impl_->mrs.remove(lkey); }

base::Result<uint32_t> Endpoint::create_cq(uint32_t cqe) {
  using R = base::Result<uint32_t>;
  if (cqe == 0) return R::error(EINVAL);
  auto free = std::find(impl_->cqs.begin(), impl_->cqs.end(), nullptr);
  if (free == impl_->cqs.end()) {
    if (impl_->cqs.size() >= impl_->config.max_cqs) return R::error(ENOMEM);
    free = impl_->cqs.insert(free, nullptr);
  }
  *free = std::make_unique<Cq>(cqe);
  return static_cast<uint32_t>(free - impl_->cqs.begin()) + 1;
}

namespace {
Cq* find_cq(const std::vector<std::unique_ptr<Cq>>& cqs, uint32_t cq) {
  return cq == 0 || cq > cqs.size() ? nullptr : cqs[cq - 1].get();
}
}  // namespace

Errno Endpoint::destroy_cq(uint32_t cq) {
  const Cq* c = find_cq(impl_->cqs, cq);
  if (c == nullptr) return EINVAL;
  if (c->users != 0) return EBUSY;
  impl_->cqs[cq - 1].reset();
  return 0;
}

Errno Endpoint::req_notify_cq(uint32_t cq, bool solicited_only) {
  Cq* c = find_cq(impl_->cqs, cq);
  if (c == nullptr) return EINVAL;
  c->arm(solicited_only);
  return 0;
}

size_t Endpoint::poll_completion(uint32_t cq, std::span<Completion> out) {
  Cq* c = find_cq(impl_->cqs, cq);
  return c == nullptr ? 0 : c->poll(out);
}

void Endpoint::take_notified_cqs(std::vector<uint32_t>& out) {
  out.insert(out.end(), impl_->armed_fired.begin(), impl_->armed_fired.end());
  impl_->armed_fired.clear();
}

base::Result<uint32_t> Endpoint::Impl::new_qpn(const QpInit& init) {
  using R = base::Result<uint32_t>;
  while (!quarantine.empty() &&
         (quarantine.front().first <= last_now || quarantine.size() > kMaxQuarantined)) {
    quarantined.erase(quarantine.front().second);
    quarantine.pop_front();
  }
  if (init.qpn) {
    if (*init.qpn < kFirstQpn || *init.qpn > kMaxQpn) return R::error(EINVAL);
    if (by_qpn.contains(*init.qpn)) return R::error(EEXIST);
    return *init.qpn;
  }
  // Random numbers: a packet for a dead predecessor meets no live QP (restart safety).
  for (int tries = 0; tries < 10'000; ++tries) {
    const uint32_t qpn = kFirstQpn + rng.below(kMaxQpn - kFirstQpn + 1);
    if (!by_qpn.contains(qpn) && !quarantined.contains(qpn)) return qpn;
  }
  return R::error(ENOMEM);
}

base::Result<uint32_t> Endpoint::create_qp(const QpInit& init) {
  using R = base::Result<uint32_t>;
  Impl& m = *impl_;
  Cq* send = find_cq(m.cqs, init.send_cq);
  Cq* recv = find_cq(m.cqs, init.recv_cq);
  if (!m.pds.contains(init.pd) || send == nullptr || recv == nullptr || init.max_send_wr == 0)
    return R::error(EINVAL);
  if (m.by_qpn.size() >= m.config.max_qps) return R::error(ENOMEM);
  const auto qpn = m.new_qpn(init);
  if (!qpn.ok()) return qpn;
  uint32_t slot = 0;
  if (m.free_slots.empty()) {
    slot = static_cast<uint32_t>(m.qps.size());
    m.qps.emplace_back();
  } else {
    slot = m.free_slots.back();
    m.free_slots.pop_back();
  }
  m.qps[slot] = Impl::QpSlot{};
  m.qps[slot].qp = std::make_unique<Qp>(m.env, slot, qpn.value(), init, m.rng.fork());
  m.by_qpn.insert(qpn.value(), slot);
  ++send->users;
  ++recv->users;
  return qpn;
}

Errno Endpoint::modify_qp(Instant now, uint32_t qpn, const QpAttr& attr) {
  Impl& m = *impl_;
  m.last_now = now;
  Impl::QpSlot* s = m.slot_of(qpn);
  if (s == nullptr) return EINVAL;
  const Errno e = s->qp->modify(now, attr);
  if (e != 0) return e;
  if (attr.state == QpState::rtr) s->peer = m.ops.acquire_peer(s->qp->peer_ports(), s->qp->slot());
  if (attr.state == QpState::reset) s->waiting = false;  // its place in the queue is nobody's
  if (attr.state == QpState::reset && s->peer) {
    m.ops.release_peer(*s->peer);
    s->peer.reset();
  }
  // Asking for ERR is no surprise to the application: no event.
  s->error_reported = attr.state == QpState::err || (s->error_reported && attr.state != QpState::reset);
  m.settle(now, s->qp->slot());
  return 0;
}

Errno Endpoint::destroy_qp(Instant now, uint32_t qpn) {
  Impl& m = *impl_;
  m.last_now = now;
  Impl::QpSlot* s = m.slot_of(qpn);
  if (s == nullptr) return EINVAL;
  const uint32_t slot = s->qp->slot();
  const QpInit init = s->qp->init();
  QpAttr reset;
  reset.state = QpState::reset;
  s->qp->modify(now, reset);  // releases the regions its work requests hold
  if (s->peer) m.ops.release_peer(*s->peer);
  --find_cq(m.cqs, init.send_cq)->users;
  --find_cq(m.cqs, init.recv_cq)->users;
  m.timers.set(slot + 1, Instant::never());
  *s = Impl::QpSlot{};
  m.free_slots.push_back(slot);
  m.by_qpn.erase(qpn);
  m.quarantine.emplace_back(now + kQpnQuarantine, qpn);
  m.quarantined.insert(qpn);
  return 0;
}

base::Result<QpAttr> Endpoint::query_qp(uint32_t qpn) const {
  const Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return base::Result<QpAttr>::error(EINVAL);
  return qp->query();
}

Errno Endpoint::post_send(Instant now, uint32_t qpn, const SendWr& wr) {
  impl_->last_now = now;
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return EINVAL;
  const Errno e = qp->post_send(now, wr);
  if (e == 0) impl_->settle(now, qp->slot());
  return e;
}

Errno Endpoint::post_recv(Instant now, uint32_t qpn, uint64_t wr_id) {
  impl_->last_now = now;
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return EINVAL;
  const Errno e = qp->post_recv(wr_id);
  if (e == 0) impl_->settle(now, qp->slot());
  return e;
}

bool Endpoint::poll_event(Event& out) {
  if (impl_->events.empty()) return false;
  out = impl_->events.front();
  impl_->events.pop_front();
  return true;
}

size_t Endpoint::pending_notices() const { return impl_->events.size() + impl_->armed_fired.size(); }

Errno Endpoint::set_ev_state(Instant now, uint32_t qpn, uint32_t tag, ev::State state) {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr || qp->table() == nullptr || state == ev::State::skip) return EINVAL;
  if (!qp->table()->set_state(now, tag, state)) return ENOENT;
  impl_->settle(now, qp->slot());
  return 0;
}

Errno Endpoint::replace_ev(Instant now, uint32_t qpn, uint32_t tag, ev::PathId with) {
  Qp* qp = impl_->find(qpn);
  if (qp == nullptr || qp->table() == nullptr || qp->peer(with.port) == nullptr) return EINVAL;
  if (!qp->table()->replace(now, tag, with)) return ENOENT;
  impl_->settle(now, qp->slot());
  return 0;
}

base::Result<uint16_t> Endpoint::send_ev_probe(Instant now, const PeerPort& peer, uint32_t tag,
                                               uint8_t dscp) {
  const auto id = impl_->ops.probe(now, peer, tag, dscp, std::nullopt, Duration::seconds(1));
  impl_->settle_ops(now);
  return id;
}

base::Result<QpStats> Endpoint::qp_stats(uint32_t qpn) const {
  const Qp* qp = impl_->find(qpn);
  if (qp == nullptr) return base::Result<QpStats>::error(EINVAL);
  return qp->stats();
}

std::vector<PathStats> Endpoint::path_stats(uint32_t qpn) const {
  std::vector<PathStats> out;
  const Qp* qp = impl_->find(qpn);
  if (qp == nullptr || qp->table() == nullptr) return out;
  for (const ev::EvTable::Row& r : qp->table()->rows()) {
    out.push_back(PathStats{r.path.tag, r.path.port, r.state, r.active, r.counters});
  }
  return out;
}

const EndpointStats& Endpoint::stats() const { return impl_->stats; }
uint64_t Endpoint::trace_digest() const { return impl_->trace.digest(); }
bool Endpoint::take_news() { return std::exchange(impl_->news, false); }

void Endpoint::prefetch(int stage) const {
  constexpr size_t kMost = 4;  // QPs; with more the guess which ones are next is too often wrong
  const Impl& m = *impl_;
  if (stage == 0) return base::prefetch(m);
  for (size_t i = 0; i < std::min(m.qps.size(), kMost); ++i) {
    const Qp* qp = m.qps[i].qp.get();
    if (qp == nullptr) continue;
    if (stage == 1) base::prefetch(*qp);
    if (stage == 2) qp->prefetch_parts();
  }
}

size_t Endpoint::qp_count() const { return impl_->by_qpn.size(); }
uint32_t Endpoint::random_psn() { return impl_->rng.below(1u << 24); }

}  // namespace mrc::engine
