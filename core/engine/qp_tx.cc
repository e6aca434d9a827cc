// What one QP sends next, and on which path.
#include <algorithm>
#include <utility>

#include "engine/qp.h"

namespace mrc::engine {

using wire::Opcode;

namespace {
constexpr uint8_t kEct0 = 2;
constexpr int64_t kRunOverhead = 40;     // of a middle packet: BTH, TSETH, METH, RETH and iCRC
constexpr uint32_t kUdpAndPad = 8 + 40;  // nominal size = UDP length + 40 (7.3)
}  // namespace

bool Qp::may_send(Instant now) const {
  if (!rsp_) return false;
  if (rsp_->has_control()) return true;
  return state_ == QpState::rts && (req_->queued() > 0 || table_->next_probe_at() <= now);
}

TxResult Qp::transmit(Instant now, uint32_t ports, base::MutByteView head, Transmit& out) {
  if (!rsp_) return TxResult::nothing;
  const TxResult result = try_transmit(now, ports, head, out);
  if (result != TxResult::sent) tried_at_ = now;
  if (result == TxResult::nothing) end_turn();  // a turn outlasts a full socket
  return result;
}

TxResult Qp::try_transmit(Instant now, uint32_t ports, base::MutByteView head, Transmit& out) {
  const TxResult control = send_control(now, ports, head, out);
  if (control == TxResult::sent || state_ != QpState::rts) return control;
  const TxResult probe = send_probe(now, ports, head, out);
  if (probe == TxResult::sent) return probe;
  const TxResult data = send_data(now, ports, head, out);
  if (data == TxResult::sent) return data;
  if (data == TxResult::no_room) return data;
  const bool waiting =
      control == TxResult::no_port || probe == TxResult::no_port || data == TxResult::no_port;
  return waiting ? TxResult::no_port : TxResult::nothing;
}

void Qp::fill(const wire::Packet& p, ev::PathId path, uint8_t dscp, uint8_t ecn, base::MutByteView head,
              Transmit& out) {
  const PeerPort& to = *peer(path.port);
  const PortConfig& from = env_.ports[path.port - 1u];
  out = Transmit{};
  out.meta.src = from.addr;
  out.meta.dst = to.addr;
  out.via = to.via(path.tag);
  out.meta.src_port = static_cast<uint16_t>(path.tag);
  out.meta.dst_port = to.udp_port;
  out.meta.flow_label = to.addr.is_v4() ? 0 : path.tag >> 16;  // D-04, D-20
  out.meta.dscp = dscp;
  out.meta.ecn = ecn;
  out.meta.port = path.port;
  out.tag = path.tag;
  out.qpn = qpn_;
  out.icrc = sealed();
  out.head_len = static_cast<uint32_t>(wire::emit_headers(p, head.data()));
}

std::optional<ev::PathId> Qp::common_path(uint8_t port) const {
  if (share_ == nullptr || share_->members < 2 || reverse_->fixed()) return std::nullopt;
  const auto tag = share_->answer_tag(port);
  // Not every QP must have every EV.
  if (!tag || table_->port_of(*tag) != port) return std::nullopt;
  return ev::PathId{*tag, port};
}

std::optional<ev::PathId> Qp::control_path(Instant now, uint32_t ports) {
  const uint32_t usable = ports & usable_ports_;
  if (usable == 0) return std::nullopt;
  if (const auto slot = reverse_->choose(last_rx_port_, usable)) {
    const auto common = common_path(slot->port);
    return common ? common : slot;
  }
  if ((usable & (1u << last_rx_port_)) != 0) {
    if (const auto common = common_path(last_rx_port_)) return common;
  }
  // Nothing proven yet: answer on the plane the question came by, if it can be used.
  const uint32_t same_plane = usable & (1u << last_rx_port_);
  std::optional<ev::PathId> path;
  if (same_plane != 0) path = table_->choose(now, same_plane, std::nullopt);
  if (!path) path = table_->choose(now, usable, std::nullopt);
  if (path && reverse_->fixed()) reverse_->proven(now, *path);
  return path;
}

TxResult Qp::send_control(Instant now, uint32_t ports, base::MutByteView head, Transmit& out) {
  if (!rsp_->has_control()) return TxResult::nothing;
  const auto path = control_path(now, ports);
  if (!path) return TxResult::no_port;
  wire::Packet p;
  uint32_t trigger = 0;
  rsp_->set_pressure(env_.rcv_cwnd_pen, env_.restore_cwnd);
  if (!rsp_->take_control(now, p, trigger)) return TxResult::nothing;
  const uint32_t dest = *attr_.dest_qpn;
  p.bth.dqp = dest;
  p.bth.p_key = env_.config.p_key;
  // D-11: low halves of the sender's and the receiver's QPN; never checked.
  p.seth.spdcid = p.neth.spdcid = static_cast<uint16_t>(qpn_);
  p.seth.dpdcid = p.neth.dpdcid = static_cast<uint16_t>(dest);
  fill(p, *path, env_.config.dscps.control, 0, head, out);
  return TxResult::sent;
}

uint8_t Qp::data_dscp(bool rtx) const {
  const wire::Dscps& d = env_.config.dscps;
  if (!trimming_) return d.no_trim;
  return rtx ? d.trimmable_retx : d.trimmable;
}

void Qp::emit_probe(Instant now, ev::PathId path, bool tail, base::MutByteView head, Transmit& out) {
  // 5.10: no answer within max(3 srtt, 1 ms) is a failed probe; a software host asks for more patience.
  const Duration patience =
      std::max({rtt_.srtt() * 3, Duration::millis(1), attr_.min_ack_timeout.value_or(Duration{})});
  wire::Packet p;
  p.bth.opcode = static_cast<uint8_t>(Opcode::reliability_probe);
  p.bth.dqp = *attr_.dest_qpn;
  p.bth.p_key = env_.config.p_key;
  p.peth.probe_id = probes_.add(now, path.tag, path.port, tail, patience);
  p.peth.spdcid = static_cast<uint16_t>(qpn_);
  p.peth.dpdcid = static_cast<uint16_t>(*attr_.dest_qpn);
  p.peth.tx_timestamp = base::timestamp16(now);
  fill(p, path, data_dscp(false), kEct0, head, out);
  ++probes_tx_;
}

// The plane of what has been out longest, on another of its paths: an answer from there tells a hole from a
// queue at once. The second probe of a pair takes another plane, which may be all that lives.
std::optional<ev::PathId> Qp::tail_path(Instant now, uint32_t usable) {
  if (const auto way = req_->longest_out()) {
    if (const auto path = table_->another(usable & (1u << way->port), way->tag)) return path;
  }
  return table_->choose(now, usable, std::nullopt);
}

TxResult Qp::send_probe(Instant now, uint32_t ports, base::MutByteView head, Transmit& out) {
  const uint32_t usable = ports & usable_ports_;
  if (req_->next_probe_at() <= now) {
    const auto path = tail_path(now, usable);
    if (!path) return TxResult::no_port;
    req_->on_probe_sent(now);
    tail_second_ = ~(1u << path->port);
    emit_probe(now, *path, true, head, out);
    return TxResult::sent;
  }
  if (const uint32_t others = std::exchange(tail_second_, 0) & usable; others != 0) {
    if (const auto path = table_->another(others, std::nullopt)) {
      emit_probe(now, *path, true, head, out);
      return TxResult::sent;
    }
  }
  if (table_->next_probe_at() <= now) {
    // The EV's port is full: the QP must be asked again when it is not, a timer will not come back to it.
    if (!table_->probe_due(now, usable)) return TxResult::no_port;
    budget_retry_ = Instant::never();
    if (!env_.probe_budget.take(now)) {
      budget_retry_ = now + Duration::millis(1);
      return TxResult::nothing;
    }
    if (const auto path = table_->take_probe(now, usable)) {
      emit_probe(now, *path, false, head, out);
      return TxResult::sent;
    }
  }
  return TxResult::nothing;
}

// New data: on the run under way where this QP may, else on the next EV of its own.
std::optional<ev::PathId> Qp::data_path(Instant now, uint32_t usable, int64_t nominal) {
  const uint32_t own = attr_.ev_run.value_or(0);
  if (own != 0) return table_->choose_run(now, usable, own);
  Run& run = env_.run;
  if (!run.used()) return table_->choose(now, usable, std::nullopt);
  const ev::PathId open = run.path();
  const bool fits = run.has_room(nominal) && (usable & (1u << open.port)) != 0;
  if (fits && peer(open.port)->addr == run.to() && table_->is_good(open)) {
    run.add(nominal);
    return open;
  }
  const auto path = table_->choose(now, usable, std::nullopt);
  if (path) {
    run.start(*path, peer(path->port)->addr, table_->active());
    run.add(nominal);
  }
  return path;
}

// Not where packets leave in runs: those lines belong to a kernel, take what they take, and waiting for one
// of them costs the others most of their rate (`softmrc bench transport --only four_paths_9000`).
bool Qp::keeps_level() const { return table_->equal_planes() && !env_.run.used(); }

uint32_t Qp::repair_planes(const reliability::PlannedPacket& plan) const {
  if (plan.repair_port == 0 || balance_.stuck(plan.repair_port) || !keeps_level()) return 0;
  return (1u << plan.repair_port) & usable_ports_ & table_->planes_in_use();
}

uint32_t Qp::level_planes(Instant now, uint32_t usable) {
  if (!keeps_level()) return usable;
  balance_.count(usable_ports_ & table_->planes_in_use());
  const uint32_t level = usable & ~balance_.too_far_ahead();
  if (level != 0 || usable == 0 || !balance_.refused(now, balance_.last())) return level;
  return usable;
}

std::optional<reliability::PlannedPacket> Qp::plan_data(Instant now, uint32_t usable, uint32_t& planes) {
  balance_.writable(usable);
  planes = usable;
  const auto plan = req_->peek(now);
  if (!plan) return plan;
  if (!plan->rtx) {
    planes = level_planes(now, usable);
    return plan;
  }
  const uint32_t home = repair_planes(*plan);
  if (home == 0) return plan;
  planes = home & usable;
  if (planes != 0 || usable == 0) return plan;
  // No room there: new data may go first.
  if (const auto fresh = req_->peek_new(now)) {
    planes = level_planes(now, usable);
    if (planes != 0) return fresh;
  }
  if (balance_.refused(now, home)) planes = usable;
  return plan;
}

// The EV that refused it only where there is no other at all (5.4).
std::optional<ev::PathId> Qp::repair_path(Instant now, uint32_t planes, uint32_t usable,
                                          std::optional<uint32_t> avoid) {
  const auto path = table_->choose(now, planes, avoid);
  if (!path || path->tag != avoid || planes == usable) return path;
  return table_->choose(now, usable, avoid);
}

TxResult Qp::send_data(Instant now, uint32_t ports, base::MutByteView head, Transmit& out) {
  if (!cc_->can_send()) return TxResult::nothing;
  const uint32_t usable = ports & usable_ports_;
  uint32_t planes = 0;
  const auto plan = plan_data(now, usable, planes);
  if (!plan) return TxResult::nothing;
  // A message of one packet waits for nobody.
  if (share_ != nullptr && !plan->rtx && plan->dmalen > pmtu_ && grant_ <= 0) {
    if (!share_->waiting.empty() || !share_->has_room()) return TxResult::no_room;
    begin_turn();
  }
  const int64_t full = int64_t{plan->length} + kRunOverhead;
  const auto path =
      plan->rtx ? repair_path(now, planes, usable, plan->avoid_tag) : data_path(now, planes, full);
  if (!path) {
    if (usable == usable_ports_) end_turn();  // no socket is full: nothing leads there, and others may go
    return TxResult::no_port;
  }

  wire::Packet p;
  p.bth.opcode = static_cast<uint8_t>(plan->opcode);
  p.bth.dqp = *attr_.dest_qpn;
  p.bth.p_key = env_.config.p_key;
  p.bth.psn = plan->psn.value;
  p.bth.rtx = plan->rtx;
  p.bth.ts = env_.config.send_timestamps;
  p.bth.se = plan->solicited && plan->last_of_message;
  p.bth.pad = static_cast<uint8_t>((4 - (plan->length & 3)) & 3);
  p.meth = wire::Meth{plan->rqmsn, plan->msn};
  p.tseth.tx_timestamp = base::timestamp16(now);
  p.reth = wire::Reth{plan->va, plan->rkey, plan->dmalen};
  p.imm.imm = plan->imm;

  const auto headers = static_cast<uint32_t>(wire::kBthBytes + wire::extension_bytes(p.bth));
  const int64_t nominal = kUdpAndPad + headers + plan->length + p.bth.pad + 4;
  p.bth.a = plan->last_of_message || plan->last_before_idle ||
            cc_->wants_ack(nominal, attr_.sack_bytes.value_or(reliability::ResponderConfig{}.sack_bytes));
  fill(p, *path, data_dscp(plan->rtx), kEct0, head, out);
  out.payload = reinterpret_cast<const uint8_t*>(plan->local_addr);
  out.payload_len = plan->length;
  out.pad = p.bth.pad;
  out.is_data = true;
  out.rtx = plan->rtx;
  out.psn = plan->psn.value;
  req_->commit(now, *plan, path->tag, path->port, nominal);
  table_->on_sent(now, path->tag);
  if (!plan->rtx) balance_.sent(path->port, plan->length);
  cc_->on_send(now, nominal);
  if (share_ != nullptr && !plan->rtx) use_turn(nominal);
  return TxResult::sent;
}

}  // namespace mrc::engine
