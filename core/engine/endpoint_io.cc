// Datagrams and time through one endpoint: demultiplexing, checks 9 to 11 of reference 2.17, fairness,
// timers.
#include <algorithm>
#include <utility>

#include "base/prefetch.h"
#include "engine/endpoint_impl.h"

namespace mrc::engine {

using wire::DropReason;
using wire::Opcode;

Qp* Endpoint::Impl::find(uint32_t qpn) const {
  const uint32_t* slot = by_qpn.find(qpn);
  return slot == nullptr ? nullptr : qps[*slot].qp.get();
}

Endpoint::Impl::QpSlot* Endpoint::Impl::slot_of(uint32_t qpn) {
  const uint32_t* slot = by_qpn.find(qpn);
  return slot == nullptr ? nullptr : &qps[*slot];
}

void Endpoint::Impl::push_event(const Event& e) {
  news = true;
  if (events.size() >= kMaxEvents) {
    ++stats.events_dropped;
    events.back().dropped += 1;  // the last one kept tells how many are missing behind it
    return;
  }
  events.push_back(e);
}

void Endpoint::Impl::drain_completions(Instant now, Qp& qp) {
  Completion c;
  bool solicited = false;
  while (qp.pop_completion(c, solicited)) {
    const bool send = c.opcode == WcOpcode::rdma_write;
    const uint32_t handle = send ? qp.init().send_cq : qp.init().recv_cq;
    Cq& cq = *cqs[handle - 1];
    trace.record(now, 'c', c.qpn, c.wr_id, static_cast<uint8_t>(c.status));
    const bool was_overrun = cq.overrun();
    news = true;
    if (!cq.push(c, solicited) && !was_overrun) {
      Event e;
      e.kind = EventKind::cq_overrun;
      e.at = now;
      e.cq = handle;
      e.qpn = c.qpn;
      push_event(e);
      qp.enter_error(now, Status::local_qp_operation_error, 0);
    }
    if (cq.take_fired()) armed_fired.push_back(handle);
  }
}

void Endpoint::Impl::drain_ev_events(Qp& qp) {
  if (qp.table() == nullptr || !qp.table()->has_events()) return;
  ev_scratch.clear();
  qp.table()->take_events(ev_scratch);
  for (const ev::StateEvent& s : ev_scratch) {
    trace.record(s.at, 'v', qp.qpn(), s.tag, static_cast<uint8_t>(s.state));
    Event e;
    e.kind = EventKind::ev_state;
    e.at = s.at;
    e.qpn = qp.qpn();
    e.port = s.port;
    e.ev = s;
    push_event(e);
  }
}

void Endpoint::Impl::settle(Instant now, uint32_t slot) {
  QpSlot& s = qps[slot];
  Qp& qp = *s.qp;
  drain_completions(now, qp);
  drain_ev_events(qp);
  if (qp.state() == QpState::err && !s.error_reported) {
    s.error_reported = true;
    Event e;
    e.kind = EventKind::qp_error;
    e.at = now;
    e.qpn = qp.qpn();
    e.status = qp.error_cause();
    push_event(e);
  }
  timers.set(slot + 1, qp.deadline());
  if (untimed == slot) untimed = kNoSlot;  // that was its turn
  if (qp.may_send(now)) scheduler.ready(slot);
  if (qp.share() == nullptr) return;
  qp.count_share();
  env.shares.wake(*qp.share(), [this](const Share& of, uint32_t waiting) { wake_waiting(of, waiting); });
}

void Endpoint::Impl::wake_waiting(const Share& share, uint32_t slot) {
  // The slot may be another QP's by now, or its QP lead elsewhere.
  if (slot >= qps.size() || !qps[slot].qp || qps[slot].qp->share() != &share) return;
  look_ahead(share.waiting.size(), [&share](size_t k) { return share.waiting[k]; });
  qps[slot].waiting = false;
  qps[slot].qp->begin_turn();
  scheduler.ready(slot);
}

// What became of an EV probe. A path that is dead is so for all QPs that share the peer.
void Endpoint::Impl::tell_reverse(Instant now, uint32_t slot, const OpsOutcome& o) {
  if (slot >= qps.size() || !qps[slot].qp) return;
  Qp& asked = *qps[slot].qp;
  const bool answered = o.kind == OpsOutcome::Kind::probe_answer;
  asked.on_reverse_probe(now, o.path, o.sent_at, answered);
  if (answered || asked.share() == nullptr || asked.share()->members < 2) return;
  for (const QpSlot& s : qps) {
    if (s.qp && s.qp.get() != &asked && s.qp->share() == asked.share()) s.qp->forget_reverse(o.path.tag);
  }
}

void Endpoint::Impl::settle_ops(Instant now) {
  OpsOutcome o;
  while (ops.take_outcome(o)) {
    if (o.kind == OpsOutcome::Kind::port_status) {
      Event e;
      e.kind = EventKind::port_remote;
      e.at = now;
      e.ev.tag = o.port_mask;
      push_event(e);
      for (uint32_t slot = 0; slot < qps.size(); ++slot) {
        if (!qps[slot].qp || !qps[slot].qp->leads_to(o.from, o.from_udp_port)) continue;
        qps[slot].qp->on_peer_ports(now, o.port_mask);
        settle(now, slot);
      }
      continue;
    }
    const bool answered = o.kind == OpsOutcome::Kind::probe_answer;
    if (o.qp_slot) {
      tell_reverse(now, *o.qp_slot, o);
      continue;
    }
    Event e;
    e.kind = EventKind::endpoint_response;
    e.at = now;
    e.request_id = o.request_id;
    e.port = answered ? o.arrival_port : 0;  // 0: no answer in time
    e.up = answered;
    e.rtt = o.rtt;
    push_event(e);
  }
  timers.set(kOpsTimer, ops.deadline());
}

void Endpoint::Impl::receive_trimmed(Instant now, const wire::DatagramMeta& meta, base::ByteView bytes,
                                     bool lasthop) {
  wire::Packet p;
  const DropReason r = wire::parse_trimmed(bytes, p);
  if (r != DropReason::none) return drop(r);
  Qp* qp = find(p.bth.dqp);
  if (qp == nullptr || !qp->may_receive()) return drop(DropReason::bad_qpn);
  if (!qp->knows_peer(meta.src, meta.port)) return drop(DropReason::bad_peer);
  qp->on_trimmed(now, meta, p, lasthop);
  settle_later(now, qp->slot());
}

bool Endpoint::Impl::is_unsealed(const wire::DatagramMeta& meta, base::ByteView bytes) const {
  constexpr size_t kIcrcBytes = 4;
  if (meta.elided_payload > 0 || bytes.size() < wire::kBthBytes + kIcrcBytes) return false;
  // Anything but 0 is checked whatever was agreed: what a QP with an iCRC lost its way with stays out.
  if (wire::load_icrc(bytes.data() + bytes.size() - kIcrcBytes) != 0) return false;
  wire::Bth bth;
  if (!wire::parse_bth(bytes, bth)) return false;
  const Qp* qp = find(bth.dqp);
  return qp != nullptr && !qp->sealed();
}

void Endpoint::Impl::receive(Instant now, const wire::DatagramMeta& meta, base::ByteView bytes) {
  wire::Packet p;
  DropReason r = DropReason::none;
  if (is_unsealed(meta, bytes)) {
    wire::DatagramMeta agreed = meta;
    agreed.icrc_verified = true;
    r = wire::parse_datagram(agreed, bytes, p);
  } else {
    r = wire::parse_datagram(meta, bytes, p, &icrc_prefix);
  }
  if (r != DropReason::none) return drop(r);
  const auto op = static_cast<Opcode>(p.bth.opcode);
  const bool endpoint_op = op == Opcode::endpoint_request || op == Opcode::endpoint_response;
  if ((p.bth.dqp == wire::kEndpointQpn) != endpoint_op) return drop(DropReason::bad_qpn);
  Qp* qp = endpoint_op ? nullptr : find(p.bth.dqp);
  if (!endpoint_op && (qp == nullptr || !qp->may_receive())) return drop(DropReason::bad_qpn);
  if (!wire::pkey_matches(p.bth.p_key, config.p_key)) return drop(DropReason::bad_pkey);
  if (endpoint_op) {
    op == Opcode::endpoint_request ? ops.on_request(now, meta, p) : ops.on_response(now, meta, p);
    return settle_ops(now);
  }
  if (!qp->knows_peer(meta.src, meta.port)) return drop(DropReason::bad_peer);
  if (wire::is_data(op)) ++stats.data_rx;
  trace.record(now, 'r', p.bth.dqp, p.bth.opcode, p.bth.psn, meta.port);
  const auto size = static_cast<uint32_t>(bytes.size() + meta.elided_payload);
  const uint32_t tail = meta.elided_payload > 0 ? p.bth.pad + 4u : 0;  // elided with the payload
  qp->on_packet(now, meta, p, 8 + size + tail + 40);
  settle_later(now, qp->slot());
}

void Endpoint::Impl::settle_later(Instant now, uint32_t slot) {
  if (slot == unsettled) return;
  settle_pending(now);
  unsettled = slot;
}

void Endpoint::Impl::settle_pending(Instant now) {
  if (unsettled == kNoSlot) return;
  settle(now, std::exchange(unsettled, kNoSlot));
}

void Endpoint::handle_datagram(Instant now, const wire::DatagramMeta& meta, base::ByteView bytes) {
  impl_->handle(now, meta, bytes);
  impl_->settle_pending(now);
}

void Endpoint::handle_datagrams(Instant now, std::span<const Datagram> batch) {
  constexpr size_t kApart = 2;  // packets between two stages
  const bool many = impl_->by_qpn.size() > 1;
  for (size_t i = 0; i < batch.size(); ++i) {
    for (size_t stage = 0; many && stage < Impl::kStages; ++stage)
      impl_->prefetch_of(batch, i + (Impl::kStages - stage) * kApart, stage);
    impl_->handle(now, batch[i].meta, batch[i].bytes);
  }
  impl_->settle_pending(now);
}

void Endpoint::Impl::prefetch_stage(uint32_t slot, size_t stage) const {
  if (slot >= qps.size() || !qps[slot].qp) return;
  const Qp& qp = *qps[slot].qp;
  if (stage == 0) return base::prefetch(qp);
  stage == 1 ? qp.prefetch_parts() : qp.prefetch_queues();
}

void Endpoint::Impl::prefetch_of(std::span<const Datagram> batch, size_t at, size_t stage) const {
  if (at >= batch.size() || batch[at].bytes.size() < wire::kBthBytes) return;
  const uint32_t qpn = wire::dest_qpn(batch[at].bytes);
  // The one before it is of the same QP as a rule.
  if (at > 0 && batch[at - 1].bytes.size() >= wire::kBthBytes && wire::dest_qpn(batch[at - 1].bytes) == qpn)
    return;
  if (const uint32_t* slot = by_qpn.find(qpn)) prefetch_stage(*slot, stage);
}

void Endpoint::Impl::handle(Instant now, const wire::DatagramMeta& meta, base::ByteView bytes) {
  Impl& m = *this;
  m.last_now = now;
  ++m.stats.datagrams_rx;
  if (meta.port == 0 || meta.port > m.env.ports.size()) return m.drop(DropReason::not_receiving);
  m.stats.port_rx_bytes[meta.port] += bytes.size() + meta.elided_payload;
  const wire::TrimClass trim = wire::trim_class(meta.dscp, m.config.dscps);
  if (trim != wire::TrimClass::none)
    return m.receive_trimmed(now, meta, bytes, trim == wire::TrimClass::trimmed_lasthop);
  m.receive(now, meta, bytes);
}

void Endpoint::Impl::start_reverse_probe(Instant now, Qp& qp) {
  auto path = qp.take_reverse_probe(now);
  for (int i = 0; path && i < Qp::kReverseProbesAtOnce; ++i) {
    const PeerPort* to = qp.peer(path->port);
    if (to == nullptr) return;
    const auto id = ops.probe(now, *to, path->tag, config.dscps.no_trim, qp.slot(), qp.reverse_patience());
    (void)id;  // EAGAIN: too many open already; the next interval tries again
    path = qp.more_reverse_probe(now);
  }
}

void Endpoint::handle_timeout(Instant now) {
  Impl& m = *impl_;
  m.last_now = now;
  // Each due timer once, even when its new deadline is due again: the work of a call is bounded.
  m.due.clear();
  m.retime();
  while (m.timers.next() <= now) {
    m.due.push_back(m.timers.front());
    m.timers.set(m.timers.front(), Instant::never());
  }
  for (const uint32_t id : m.due) {
    if (id == Impl::kOpsTimer) {
      m.ops.on_deadline(now);
      m.settle_ops(now);
      continue;
    }
    const uint32_t slot = id - 1;
    if (!m.qps[slot].qp) continue;
    m.qps[slot].qp->on_deadline(now);
    m.start_reverse_probe(now, *m.qps[slot].qp);
    m.settle(now, slot);
  }
  m.timers.set(Impl::kOpsTimer, m.ops.deadline());
  if (m.env.restore_cwnd && now >= m.restore_until) m.env.restore_cwnd = false;
}

void Endpoint::Impl::count_tx(const Transmit& t) {
  ++stats.datagrams_tx;
  if (t.is_data) ++stats.data_tx;
  stats.port_tx_bytes[t.meta.port] += t.head_len + t.payload_len + t.pad + 4;
}

// Several packets in a row of one QP are cheaper than one of each; the number is bounded, and so is the wait
// of the others.
void Endpoint::Impl::reschedule(uint32_t slot, const Transmit& t) {
  if (t.is_data) env.run.measure(last_now, t.payload_len);
  if (!env.run.used() || !t.is_data || slot != turn_slot || ++turn_packets >= kTurnPackets) {
    turn_slot = slot;
    turn_packets = 0;
    scheduler.ready(slot);
  } else {
    scheduler.again(slot);
  }
}

bool Endpoint::poll_transmit(Instant now, uint32_t ports, base::MutByteView head, Transmit& out) {
  Impl& m = *impl_;
  m.last_now = now;
  // Even without any port the ready QPs must learn that they are blocked: what only sending can serve would
  // otherwise stay due, and a driver whose sockets are all full would spin.
  ports &= m.env.ports_up;
  if ((ports & ~m.last_ports) != 0) m.scheduler.unblock();
  m.last_ports = ports;
  if (m.ops.wants_to_send() && m.ops.transmit(ports, head, out)) {
    m.count_tx(out);
    m.trace.record(now, 'o', out.tag, out.head_len);
    return true;
  }
  for (;;) {
    // Whoever was woken and could not use its turn leaves it to the next one.
    if (m.scheduler.empty())
      m.env.shares.wake_all([&m](const Share& of, uint32_t waiting) { m.wake_waiting(of, waiting); });
    if (m.scheduler.empty()) return false;
    const uint32_t slot = m.scheduler.pop();
    if (!m.qps[slot].qp) continue;
    if (slot != m.turn_slot) m.look_ahead(m.scheduler.size(), [&m](size_t k) { return m.scheduler.peek(k); });
    Qp& qp = *m.qps[slot].qp;
    const TxResult r = qp.transmit(now, ports, head, out);
    if (r == TxResult::no_port) m.scheduler.blocked(slot);
    if (r == TxResult::sent) m.reschedule(slot, out);
    if (r == TxResult::no_room && !std::exchange(m.qps[slot].waiting, true))
      m.env.shares.wait(*qp.share(), slot);
    if (r == TxResult::sent) qp.count_share();
    m.retime_later(slot);
    if (r != TxResult::sent) continue;
    m.count_tx(out);
    m.trace.record(now, 's', out.qpn, out.tag, out.payload_len);
    return true;
  }
  return false;
}

void Endpoint::end_run() { impl_->env.run.end(); }

void Endpoint::Impl::retime_later(uint32_t slot) {
  if (slot == untimed) return;
  retime();
  untimed = slot;
}

void Endpoint::Impl::retime() {
  if (untimed == kNoSlot) return;
  const uint32_t slot = std::exchange(untimed, kNoSlot);
  if (qps[slot].qp) timers.set(slot + 1, qps[slot].qp->deadline());
}

Instant Endpoint::poll_timeout() const {
  impl_->retime();
  return impl_->timers.next();
}

void Endpoint::on_send_failed(Instant now, const Transmit& t) {
  Qp* qp = impl_->find(t.qpn);
  if (qp == nullptr) return;
  qp->on_send_failed(now, t);
  impl_->settle(now, qp->slot());
}

void Endpoint::on_sent_late(Instant now, const Transmit& t) {
  Qp* qp = t.is_data ? impl_->find(t.qpn) : nullptr;
  if (qp != nullptr) qp->on_sent_late(now, t);
}

void Endpoint::set_receive_pressure(uint8_t percent) {
  Impl& m = *impl_;
  const uint8_t pen = percent > 90 ? 127 : percent > 50 ? 64 : 0;  // 7.8
  if (pen == 0 && m.env.rcv_cwnd_pen != 0) {
    m.env.restore_cwnd = true;
    m.restore_until = m.last_now + Duration::millis(2);
  }
  if (pen != 0) m.env.restore_cwnd = false;
  m.env.rcv_cwnd_pen = pen;
}

}  // namespace mrc::engine
