// What a packet, a failed send or a timer means for one QP.
#include <algorithm>
#include <bit>
#include <cerrno>

#include "engine/qp.h"

namespace mrc::engine {

using base::Psn;
using wire::Opcode;

namespace {

ev::BadReason bad_reason(reliability::LossCause cause) {
  switch (cause) {
    case reliability::LossCause::timeout:
      return ev::BadReason::timeout;
    case reliability::LossCause::probe:
      return ev::BadReason::probe;
    case reliability::LossCause::inferred:
      break;
  }
  return ev::BadReason::loss;
}

ev::PathFeedback feedback_of(uint8_t m) {
  // m = 3 is reserved: reliability and CC information only (reference 2.18).
  return m == 1   ? ev::PathFeedback::skip_once
         : m == 2 ? ev::PathFeedback::always_skip
                  : ev::PathFeedback::none;
}

reliability::SackView view_of(const wire::Packet& p) {
  reliability::SackView v;
  v.cack = Psn(p.seth.cack_psn);
  v.bitmap_base = v.cack + p.seth.sack_offset;
  v.bitmap = p.seth.sack_bitmap;
  v.has_cc = p.seth.cc_type == 0;
  v.rcvd_bytes = p.cc.rcvd_bytes;
  v.mpr = p.seth.mpr;
  if (!p.seth.pr) v.trigger = v.cack + p.seth.ack_psn_offset;
  v.rtx_echo = p.bth.rtx;
  v.echo_timestamp = p.cc.tx_timestamp;
  return v;
}

}  // namespace

void Qp::on_packet(Instant now, const wire::DatagramMeta& meta, const wire::Packet& p, uint32_t nominal) {
  const bool ce = meta.ecn == 3;
  const auto op = static_cast<Opcode>(p.bth.opcode);
  switch (op) {
    case Opcode::sack:
      on_sack(now, meta, p);
      break;
    case Opcode::nack:
      on_nack(now, p);
      break;
    case Opcode::transport_ack:
      on_ack(now, p);
      break;
    case Opcode::reliability_probe:
      last_rx_port_ = meta.port;
      rsp_->on_probe(now, p, wire::reflected_entropy(meta), ce);
      break;
    default:
      last_rx_port_ = meta.port;
      ++rx_since_probe_;
      last_data_at_ = now;
      if (reverse_due_ > now) hasten_reverse_probe(now);
      rsp_->on_data(now, p, wire::reflected_entropy(meta), ce, nominal, *this);
      after_responder(now);
      break;
  }
}

void Qp::on_trimmed(Instant now, const wire::DatagramMeta& meta, const wire::Packet& p, bool lasthop) {
  last_rx_port_ = meta.port;
  rsp_->on_trimmed(now, p, wire::reflected_entropy(meta), lasthop);
}

reliability::Placement::Outcome Qp::place(uint64_t va, uint32_t rkey, base::ByteView payload,
                                          uint32_t length) {
  if (attr_.access_flags && (*attr_.access_flags & Access::remote_write) == 0) return Outcome::access_error;
  const Region* r = env_.mrs.remote_write(rkey, init_.pd, va, length);
  if (r == nullptr) return Outcome::access_error;
  // A phantom region or an elided payload has no bytes to move (simulator).
  if (r->addr != 0 && payload.size() == length) {
    std::copy(payload.begin(), payload.end(), reinterpret_cast<uint8_t*>(r->addr + (va - r->iova)));
  }
  return Outcome::ok;
}

void Qp::after_responder(Instant now) {
  // A NAK is waiting to be sent: the QP goes to ERR now, the responder keeps only the NAK alive (6.10).
  if (rsp_->fatal() && state_ != QpState::err) enter_error(now, Status::remote_operation_error, 0);
}

void Qp::sync_timing() {
  const cc::Snapshot s = cc_->snapshot();
  const Duration floor = attr_.base_rtt.value_or(Duration{});
  reliability::Timing t;
  t.base_rtt = s.base_rtt;
  t.target_delay = s.target_qdelay;
  t.srtt = rtt_.has_sample() ? rtt_.srtt() : std::max(s.base_rtt, floor);
  t.rttvar = rtt_.rttvar();
  t.rtt_peak = rtt_.peak();
  t.cwnd = s.cwnd;
  t.max_wnd = s.max_wnd;
  req_->set_timing(t);
  // The table's timers follow the measured RTT; small changes are not worth a walk.
  const Duration moved = s.base_rtt - told_base_rtt_;
  if (std::max(moved, -moved) * 8 > told_base_rtt_) {
    told_base_rtt_ = s.base_rtt;
    table_->set_rtt(s.base_rtt, s.target_qdelay);
  }
}

void Qp::note_feedback(Instant now, uint32_t tag, bool good) {
  const std::optional<uint8_t> port = table_->port_of(tag);
  if (!port) return;
  heard_[*port & 31] = now;
  if (good) prove(now, ev::PathId{tag, *port});
}

void Qp::prove(Instant now, ev::PathId path) {
  reverse_->proven(now, path);
  if (share_ != nullptr) share_->proven(now, path);
}

void Qp::on_sack(Instant now, const wire::DatagramMeta& meta, const wire::Packet& p) {
  if (state_ != QpState::rts) return;
  ++sacks_rx_;
  if (!p.seth.pr) table_->expect(p.seth.entropy, 0);
  sync_timing();
  effects_.clear();
  if (!p.seth.pr) table_->expect(p.seth.entropy, 1);
  const auto probe = p.seth.pr ? probes_.answered(p.seth.probe_id, p.seth.entropy) : std::optional<Probe>{};
  if (probe) req_->on_peer_alive(probe->sent_at);
  req_->on_sack(now, view_of(p), effects_);
  if (!effects_.valid) {
    ++env_.stats.drops[static_cast<size_t>(wire::DropReason::bad_ack)];
    return;
  }
  const ev::PathFeedback m = feedback_of(p.seth.m);
  const bool delayed = p.seth.m == 0 && too_slow(now, effects_.rtt);
  if (p.seth.m == 1) ecn_seen_at_ = now;
  if (p.seth.pr) {
    if (probe) {
      ++probe_answers_;
      const Duration rtt = now - probe->sent_at;
      rtt_.sample(rtt);
      table_->on_probe_ack(now, probe->tag, m);
      req_->on_probe_answer(now, probe->sent_at, probe->port, rtt, effects_);
      note_feedback(now, probe->tag, m == ev::PathFeedback::none);
    }
  } else {
    if (!table_->on_feedback(now, p.seth.entropy, m)) ++unknown_ev_;
    if (delayed) table_->on_delayed(now, p.seth.entropy);
    if (table_->on_trial(p.seth.entropy) && req_->was_full(Psn(p.seth.cack_psn) + p.seth.ack_psn_offset))
      table_->on_full_arrived(p.seth.entropy);
    note_feedback(now, p.seth.entropy, p.seth.m == 0);
    feedback_since_probe_ = true;
  }
  if (effects_.rtt) rtt_.sample(*effects_.rtt);
  for (const uint32_t tag : effects_.spurious_tags) table_->on_spurious(now, tag);
  if (effects_.late_original) table_->on_late_original(now, p.seth.entropy);
  if (p.seth.cc_type == 0) {
    cc::AckEvent e;
    e.now = now;
    e.newly_bytes = effects_.newly_bytes;
    e.ecn = p.seth.m == 1;
    e.rtt = effects_.rtt;
    e.rcv_cwnd_pen = p.cc.rcv_cwnd_pen;
    if (p.cc.rcv_cwnd_pen > 0) pressed_at_ = now;
    e.restore_cwnd = p.cc.restore_cwnd;
    e.delayed = delayed;
    e.spurious_bytes = effects_.spurious_nominal;
    cc_->on_ack(e);
  }
  (void)meta;
  apply_effects(now);
}

// Marks tell congestion better than delay does: while a fabric sends them, delay is not asked.
bool Qp::too_slow(Instant now, const std::optional<Duration>& rtt) const {
  if (!attr_.delay_mark || attr_.delay_mark->ns <= 0 || !rtt) return false;
  if (now - ecn_seen_at_ < kEcnWorks) return false;
  return *rtt - cc_->snapshot().base_rtt > *attr_.delay_mark;
}

void Qp::on_nack(Instant now, const wire::Packet& p) {
  if (state_ != QpState::rts) return;
  ++nacks_rx_;
  sync_timing();
  reliability::NackView v;
  v.reason = static_cast<wire::NackReason>(p.neth.nack_reason);
  v.psn = Psn(p.neth.nack_psn);
  v.entropy = p.neth.entropy;
  v.echo_timestamp = p.neth.tx_timestamp;
  effects_.clear();
  req_->on_nack(now, v, effects_);
  const bool trimmed = v.reason == wire::NackReason::trimmed;
  const bool lasthop = v.reason == wire::NackReason::trimmed_lasthop;
  if (trimmed && !table_->on_trimmed(now, v.entropy)) ++unknown_ev_;
  cc::NackEvent e;
  e.now = now;
  e.nominal = effects_.nack_counted ? effects_.nack_nominal : 0;
  e.kind = trimmed ? cc::NackKind::trimmed : lasthop ? cc::NackKind::trimmed_lasthop : cc::NackKind::other;
  e.rtt = effects_.rtt;
  // A NACK for nothing outstanding (late, repeated or forged) must not move the window (5.8).
  if (effects_.nack_counted) cc_->on_nack(e);
  apply_effects(now);
}

void Qp::on_ack(Instant now, const wire::Packet& p) {
  if (state_ != QpState::rts) return;
  maybe_done_ = true;
  ++acks_rx_;
  sync_timing();
  effects_.clear();
  req_->on_transport_ack(now, Psn(p.bth.psn), p.aeth.syndrome, effects_);
  if (!effects_.valid) {
    ++env_.stats.drops[static_cast<size_t>(wire::DropReason::bad_ack)];
    return;
  }
  apply_effects(now);
}

void Qp::apply_effects(Instant now) {
  for (const reliability::Loss& l : effects_.losses) {
    env_.trace.record(now, 'l', qpn_, l.psn.value, l.tag);
    if (l.blames_path && now - pressed_at_ > kPressureMemory)
      table_->on_loss(now, l.tag, bad_reason(l.cause), l.sent_at);
    const bool failure = l.blames_path && l.sent_at > heard_[l.port & 31];
    cc_->on_loss(cc::LossEvent{now, l.nominal, l.cause == reliability::LossCause::timeout, failure});
  }
  cc_->on_outstanding(req_->outstanding_nominal());
  if (effects_.fatal) enter_error(now, Status::success, 0);  // completions are queued already
}

void Qp::on_send_failed(Instant now, const Transmit& t) {
  if (state_ != QpState::rts || !t.is_data) return;
  // 5.11: the packet counts as sent and will be found lost; the EV is left at once.
  table_->on_loss(now, t.tag, ev::BadReason::loss, now);
}

void Qp::on_sent_late(Instant now, const Transmit& t) {
  if (state_ == QpState::rts) req_->on_sent_late(now, Psn(t.psn), t.tag);
}

Instant Qp::deadline() const {
  if (!rsp_) return Instant::never();
  Instant at = std::min(rsp_->next_timeout(), reverse_due_);
  if (state_ != QpState::rts) return at;
  at = std::min({at, req_->next_timeout(), probes_.next_expiry()});
  // What only transmit() can serve and already tried in vain waits for an event or a free port instead.
  // Without a usable port nothing can be served at all; set_usable_ports brings the QP back.
  const auto pending = [this](Instant due) {
    return usable_ports_ != 0 && due > tried_at_ ? due : Instant::never();
  };
  at = std::min(
      {at, pending(req_->next_release()), pending(req_->next_probe_at()), pending(table_->next_probe_at())});
  return std::min({at, pending(budget_retry_), pending(balance_.retry_at())});
}

void Qp::on_deadline(Instant now) {
  if (!rsp_) return;
  if (rsp_->next_timeout() <= now) {
    rsp_->on_timeout(now);
    after_responder(now);
  }
  if (state_ != QpState::rts) return;
  while (const auto p = probes_.expired(now)) {
    if (!p->tail) table_->on_probe_lost(now, p->tag);
  }
  if (req_->next_timeout() <= now) {
    sync_timing();
    effects_.clear();
    req_->on_timeout(now, effects_);
    env_.trace.record(now, 't', qpn_, req_->retry_used());
    apply_effects(now);
  }
}

Duration Qp::reverse_patience() const {
  constexpr int64_t kUnknownRtts = 3, kIntervals = 5;
  const Duration rtt = reverse_rtt();
  const Duration seen =
      reverse_rtt_.has_sample() ? reverse_rtt_.srtt() * 2 + reverse_rtt_.rttvar() * 4 : rtt * kUnknownRtts;
  const Duration least = attr_.reverse_probe_min.value_or(kMinReverseProbeInterval) * kIntervals;
  return std::max({seen, rtt, least});
}

Duration Qp::reverse_rtt() const {
  return rtt_.has_sample() ? rtt_.srtt() : attr_.base_rtt.value_or(Duration::micros(12));
}

// The next EV probe is due at once when nothing was due, and earlier where much arrives.
void Qp::hasten_reverse_probe(Instant now) {
  if (state_ == QpState::err) return;
  if (reverse_due_.is_never()) {
    reverse_due_ = now;
    return;
  }
  if (rx_since_probe_ < kPacketsAProbe || feedback_since_probe_) return;
  if (share_ != nullptr && share_->members > 1 && share_->probe_free > now) return;
  reverse_due_ = std::max(now, std::min(reverse_due_, reverse_asked_ + reverse_least()));
}

Duration Qp::reverse_least() const {
  const auto planes = std::max(std::popcount(usable_ports_), 1);
  return std::max(reverse_rtt() / planes, attr_.reverse_probe_min.value_or(kMinReverseProbeInterval));
}

Instant Qp::reverse_turn(Instant now, Duration interval) {
  if (share_ == nullptr || share_->members < 2) return now + interval;
  // A turn that was given and has not come yet stays: with a second one, the others' would be ever later.
  if (reverse_turn_ <= now) reverse_turn_ = share_->probe_turn = std::max(share_->probe_turn, now) + interval;
  return reverse_turn_;
}

uint32_t Qp::reverse_planes() {
  if (share_ == nullptr || share_->members < 2 || usable_ports_ == 0) return usable_ports_;
  do {
    share_->probe_plane = (share_->probe_plane + 1) & 31;
  } while ((usable_ports_ & (1u << share_->probe_plane)) == 0);
  return 1u << share_->probe_plane;
}

std::optional<ev::PathId> Qp::take_reverse_probe(Instant now) {
  if (reverse_due_ > now || !rsp_ || state_ == QpState::err) return std::nullopt;
  // 6.13: an RTT with receipts and without feedback on own data calls for one EV probe.
  if (rx_since_probe_ != 0) doubt_probes_ = 0;
  const bool doubt = (reverse_->in_doubt() & usable_ports_) != 0 && doubt_probes_ < kProbesInDoubt;
  looking_ = doubt && now - last_data_at_ >= reverse_patience();
  const bool wanted = (rx_since_probe_ != 0 && !feedback_since_probe_) || looking_;
  const bool quiet = rx_since_probe_ == 0 && !doubt;
  const Duration interval =
      std::max(reverse_rtt(), attr_.reverse_probe_min.value_or(kMinReverseProbeInterval));
  reverse_due_ = quiet ? Instant::never() : reverse_turn(now, interval);
  // Another QP has just asked.
  if (wanted && share_ != nullptr && share_->members > 1 && share_->probe_free > now) return std::nullopt;
  if (looking_) ++doubt_probes_;
  rx_since_probe_ = 0;
  feedback_since_probe_ = false;
  reverse_asked_ = now;
  if (!wanted) return std::nullopt;
  if (share_ != nullptr) share_->probe_free = now + reverse_least();
  return reverse_->probe_candidate(now, *table_, reverse_planes(), rng_);
}

std::optional<ev::PathId> Qp::more_reverse_probe(Instant now) {
  const uint32_t planes = reverse_->in_doubt() & usable_ports_;
  if (planes == 0 || !looking_) return std::nullopt;
  return reverse_->probe_candidate(now, *table_, planes, rng_);
}

void Qp::on_reverse_probe(Instant now, ev::PathId path, Instant sent_at, bool answered) {
  if (!reverse_) return;
  if (answered) {
    prove(now, path);
    reverse_rtt_.sample(now - sent_at);
    peer_answered_ = std::max(peer_answered_, sent_at);
    table_->on_ev_probe_ack(path.tag);
    return;
  }
  reverse_->lost(path.tag);
  if (share_ != nullptr) share_->lost(path.tag);
  // Only a QP that may send can find out that it is good again.
  if (state_ == QpState::rts && !reverse_->fixed())
    table_->on_ev_probe_lost(now, path.tag, peer_answered_ > sent_at);
}

void Qp::forget_reverse(uint32_t tag) {
  if (reverse_) reverse_->forget(tag);
}

std::optional<uint32_t> Qp::answer_tag(uint8_t port) {
  if (!reverse_ || (usable_ports_ & (1u << port)) == 0) return std::nullopt;
  if (const auto slot = reverse_->of(port)) return slot->tag;
  const auto path = table_->another(1u << port, std::nullopt);
  return path ? std::optional(path->tag) : std::nullopt;
}

bool Qp::may_receive() const {
  if (state_ == QpState::rtr || state_ == QpState::rts) return true;
  return state_ == QpState::err && rsp_ && rsp_->fatal();  // repeats its NAK
}

const PeerPort* Qp::peer(uint8_t port) const {
  const auto it =
      std::find_if(peers_.begin(), peers_.end(), [port](const PeerPort& p) { return p.local_port == port; });
  return it == peers_.end() ? nullptr : &*it;
}

bool Qp::knows_peer(const IpAddr& src, uint8_t port) const {
  const PeerPort* p = peer(port);
  return (p != nullptr && p->addr == src) || has_peer_address(src);
}

bool Qp::has_peer_address(const IpAddr& src) const {
  return std::any_of(peers_.begin(), peers_.end(), [&](const PeerPort& q) { return q.addr == src; });
}

bool Qp::leads_to(const IpAddr& addr, uint16_t udp_port) const {
  return std::any_of(peers_.begin(), peers_.end(),
                     [&](const PeerPort& q) { return q.addr == addr && q.udp_port == udp_port; });
}

}  // namespace mrc::engine
