// What a RoCEv2 NIC sends: CNPs first, then ACKs and NAKs, then data of its QPs in turn.
#include <cstring>

#include "sim/roce_stack.h"
#include "wire/aeth.h"
#include "wire/bth.h"
#include "wire/reth.h"

namespace mrc::sim {

namespace {

// Opcodes of the RC transport service (InfiniBand Architecture, 9.2) and of the CNP (annex A17).
constexpr uint8_t kWriteFirst = 0x06, kWriteMiddle = 0x07, kWriteLast = 0x08, kWriteOnly = 0x0A,
                  kAcknowledge = 0x11, kCnp = 0x81;
constexpr uint8_t kNakSequence = 0x60;  // AETH syndrome
constexpr uint32_t kCnpPayload = 16;

constexpr uint8_t write_opcode(bool first, bool last) {
  if (first) return last ? kWriteOnly : kWriteFirst;
  return last ? kWriteLast : kWriteMiddle;
}

}  // namespace

// The BTH, and where it came from and goes to.
void RoceStack::head_of(Frame& out, uint32_t flow, Kind kind, uint8_t opcode, bool ask, uint64_t psn) const {
  const Tx& t = tx_[flow];
  const bool forth = kind == Kind::data;
  out.src = forth ? t.src : t.dst;
  out.dst = forth ? t.dst : t.src;
  out.tag = t.port;
  out.plane = t.plane;
  out.kind = static_cast<uint8_t>(kind);
  out.flow = flow;
  wire::Bth bth;
  bth.opcode = opcode;
  bth.a = ask;
  bth.dqp = flow & 0xFFFFFF;
  bth.psn = static_cast<uint32_t>(psn & 0xFFFFFF);
  out.head_len = static_cast<uint8_t>(wire::emit_bth(bth, out.head));
}

void RoceStack::fill(Frame& out, Kind kind, bool control, uint32_t payload) const {
  const bool data = kind == Kind::data;
  out.cls = control ? Class::control : Class::data;
  out.ecn = data && !rate_.empty() ? Ecn::ect0 : Ecn::not_ect;
  out.trim = Trim::none;
  out.trimmable = false;
  out.trim_len = 0;
  out.sid_count = 0;
  out.is_data = data;
  out.payload = static_cast<uint16_t>(payload);
  out.dscp = kind == Kind::cnp ? config_.cnp_dscp : config_.data_dscp;
  out.size = std::max(kWireOverhead + out.head_len + payload + kIcrc, kMinWireBytes);
}

void RoceStack::make_data(Ps now, uint32_t flow, Frame& out) {
  Tx& t = tx_[flow];
  const bool idle = !t.qp.outstanding();
  const RocePacket p = t.qp.send(messages_);
  // An ACK is due at the end of a message, every so many packets, before the window closes, and well before
  // the timer.
  const bool slow = now - t.asked_at >= from_ns(config_.rto_ns) / 8;
  const bool ask = p.last || slow || (p.psn + 1) % t.ack_every == 0 || t.qp.window_full();
  if (ask) t.asked_at = now;
  if (p.first && !p.again) env_.tasks.on_posted(p.task, now);
  head_of(out, flow, Kind::data, write_opcode(p.first, p.last), ask, p.psn);
  if (p.first) {
    const auto length = static_cast<uint32_t>(std::min<int64_t>(p.message_size, UINT32_MAX));
    out.head_len =
        static_cast<uint8_t>(out.head_len + wire::emit_reth({0, p.task, length}, out.head + out.head_len));
  }
  fill(out, Kind::data, false, p.payload);
  const Note note{p.psn, p.task, static_cast<uint8_t>(ask), static_cast<uint8_t>(p.last)};
  std::memcpy(out.head + kNoteAt, &note, sizeof note);
  if (p.again) {
    ++n_.data_packets_rtx;
    ++(t.after_timeout ? n_.rtx_timeout : n_.rtx_inferred);
    watch_resend(env_, p.task);
  } else {
    ++n_.data_packets;
    n_.data_bytes += p.payload;
  }
  pace(now, flow, out.size);
  if (idle || t.retry_at == kNever) arm_retry(now, flow);
}

// The rate spaces packets out; the line itself does at line rate.
void RoceStack::pace(Ps now, uint32_t flow, uint32_t bytes) {
  Tx& t = tx_[flow];
  if (rate_.empty()) return;
  DcqcnState& s = rate_[flow];
  dcqcn_advance(config_.dcqcn, s, now);
  dcqcn_on_sent(config_.dcqcn, s, bytes);
  t.paced_until = s.current >= s.line ? now : now + static_cast<Ps>(bytes * 8e12 / s.current);
}

void RoceStack::make_ack(uint32_t flow, Frame& out) {
  Rx& r = rx_[flow];
  const bool nak = r.owe_nak;
  r.owe_ack = r.owe_nak = false;
  const uint64_t psn = r.qp.expected;
  // On the wire an ACK names the last packet that arrived, a NAK the one that is missing.
  head_of(out, flow, nak ? Kind::nak : Kind::ack, kAcknowledge, false, nak ? psn : psn - 1);
  const uint8_t syndrome = nak ? kNakSequence : wire::kAethAck;
  out.head_len = static_cast<uint8_t>(out.head_len + wire::emit_aeth({syndrome, 0}, out.head + out.head_len));
  fill(out, nak ? Kind::nak : Kind::ack, config_.acks_in_control, 0);
  const Note note{psn, 0, 0, 0};
  std::memcpy(out.head + kNoteAt, &note, sizeof note);
  ++n_.control_packets;
}

void RoceStack::make_cnp(uint32_t flow, Frame& out) {
  head_of(out, flow, Kind::cnp, kCnp, false, 0);
  std::memset(out.head + out.head_len, 0, kCnpPayload);  // reserved
  out.head_len = static_cast<uint8_t>(out.head_len + kCnpPayload);
  fill(out, Kind::cnp, true, 0);
  const Note note{};
  std::memcpy(out.head + kNoteAt, &note, sizeof note);
  ++n_.control_packets;
  ++n_.cnps;
}

bool RoceStack::from_plane(Ps now, uint32_t host, uint8_t plane, Frame& out) {
  Lines& l = lines(host, plane);
  if (!l.cnp.empty()) {
    make_cnp(cnp_links_.pop(l.cnp), out);
    return true;
  }
  while (!l.ack.empty() && (!l.paused || config_.acks_in_control)) {
    const uint32_t flow = ack_links_.pop(l.ack);
    if (!rx_[flow].owe_ack && !rx_[flow].owe_nak) continue;  // the gap closed meanwhile
    make_ack(flow, out);
    return true;
  }
  while (!l.data.empty() && !l.paused) {
    const uint32_t flow = data_links_.pop(l.data);
    Tx& t = tx_[flow];
    if (t.failed || !t.qp.can_send(messages_)) continue;  // an ACK brings it back
    if (t.paced_until > now) {
      ready(now, flow);
      continue;
    }
    make_data(now, flow, out);
    // Its next turn comes before the line is free again: it stays in the queue.
    const Port& p = env_.fabric.port(env_.fabric.nic_port(host, plane));
    if (t.paced_until <= now + serialization(p.per_byte, out.size)) {
      if (t.qp.can_send(messages_)) data_links_.push(l.data, flow);
    } else {
      ready(now, flow);
    }
    return true;
  }
  return false;
}

bool RoceStack::transmit(Ps now, uint32_t host, uint32_t free, Frame& out) {
  for (uint32_t bits = free & wants_[host]; bits != 0; bits &= bits - 1) {
    const auto plane = static_cast<uint8_t>(__builtin_ctz(bits));
    const bool sent = from_plane(now, host, plane, out);
    refresh(host, plane);
    if (sent) return true;
  }
  return false;
}

}  // namespace mrc::sim
