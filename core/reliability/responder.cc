#include "reliability/responder.h"

#include <algorithm>

#include "base/prefetch.h"
#include "reliability/messages_rx.h"
#include "reliability/recv_window.h"
#include "reliability/sack_builder.h"

namespace mrc::reliability {

using base::Duration;
using base::Instant;

namespace {
constexpr Duration kNakRepeat = Duration::millis(1);        // 6.10
constexpr Duration kMemoryRelease = Duration::millis(100);  // quiet time after which spare memory goes back
constexpr int64_t kPauseGaps = 8;
constexpr uint8_t kTimestampType = 1;
}  // namespace

struct Responder::Impl {
  explicit Impl(const ResponderConfig& c) : cfg(c), window(c.rq_psn, c.mpr_dest), msgs(c) {
    state.service_time = c.service_time;
    state.extra_sacks = c.extra_sacks;
    set_mpr(c.mpr_dest);
  }

  void set_mpr(uint32_t psns) {
    window.set_mpr(psns);
    state.mpr =
        cfg.dynamic_mpr ? static_cast<uint8_t>(std::clamp<uint32_t>(window.mpr() / 128, 1, 255)) : uint8_t{0};
  }
  void on_data(Instant now, const wire::Packet& p, uint32_t entropy, bool ce, uint32_t nominal,
               Placement& memory);
  void accept(Instant now, int64_t seq, const wire::Packet& p, const Trigger& t, uint32_t nominal,
              Placement& memory);
  void insert(Instant now, int64_t seq, const RecvSlot& slot);
  bool consume(Instant now, const RecvSlot& slot);
  void break_at(int64_t seq, uint8_t syndrome);
  void trigger_sack(const Trigger& t);
  void push_nack(Trigger t, wire::NackReason reason);
  void note_completions();
  bool take_control(Instant now, wire::Packet& out, uint32_t& entropy);
  [[nodiscard]] Instant next_timeout() const;
  void on_timeout(Instant now);
  void arm_release(Instant now);
  [[nodiscard]] bool oversized() const { return window.oversized() || sacks.oversized() || msgs.oversized(); }
  void fail();

  ResponderConfig cfg;
  RecvWindow window;
  MessagesRx msgs;
  SackBuilder sacks;
  SackState state;
  ResponderCounters counters;
  Trigger newest;            // last packet accepted: what a timer SACK echoes
  uint64_t sack_charge = 0;  // bytes since the last SACK
  Instant sacked_at{INT64_MIN / 2};
  Instant unsacked_since = Instant::never();
  Instant release_at = Instant::never();
  Instant last_rx{};
  Instant began{INT64_MIN / 2};  // first packet after the last pause
  bool ack_pending = false;
  uint64_t reported_done = 0, reported_wimms = 0;
  // After the first error only the NAK is left to say.
  bool is_fatal = false, silent = false, nak_pending = false;
  uint8_t nak_syndrome = 0;
  int64_t nak_seq = 0;
  Instant last_nak{};
  uint32_t nak_entropy = 0;
};

void Responder::Impl::trigger_sack(const Trigger& t) {
  if (!sacks.push(t)) ++counters.control_overflow;
  sack_charge = 0;
  unsacked_since = Instant::never();
}

void Responder::Impl::push_nack(Trigger t, wire::NackReason reason) {
  t.kind = Trigger::Kind::nack;
  t.reason = static_cast<uint8_t>(reason);
  if (!sacks.push(t)) ++counters.control_overflow;
}

void Responder::Impl::break_at(int64_t seq, uint8_t syndrome) {
  is_fatal = true;
  nak_pending = true;
  nak_syndrome = syndrome;
  nak_seq = seq;
  nak_entropy = newest.entropy;
  if (syndrome == wire::kNakInvalidRequest) ++counters.invalid_requests;
  if (syndrome == wire::kNakRemoteOperation) ++counters.rq_empty;
  sacks.clear();
  ack_pending = false;
  unsacked_since = Instant::never();
}

bool Responder::Impl::consume(Instant now, const RecvSlot& slot) {
  const int64_t seq = window.cack() + 1;
  if (const uint8_t syndrome = msgs.consume(now, seq, slot)) {
    break_at(seq, syndrome);
    return false;
  }
  window.step();
  return true;
}

void Responder::Impl::insert(Instant now, int64_t seq, const RecvSlot& slot) {
  if (seq != window.cack() + 1) {
    window.mark(seq, slot);
    return;
  }
  if (!consume(now, slot)) return;
  for (const RecvSlot* next = window.following(); next != nullptr; next = window.following()) {
    if (!consume(now, *next)) return;
  }
}

void Responder::Impl::note_completions() {
  if (msgs.done() == reported_done) return;
  counters.messages_done += msgs.done() - reported_done;
  counters.wimm_done += msgs.wimms_done() - reported_wimms;
  reported_done = msgs.done();
  reported_wimms = msgs.wimms_done();
  ack_pending = !is_fatal;
}

void Responder::Impl::accept(Instant now, int64_t seq, const wire::Packet& p, const Trigger& t,
                             uint32_t nominal, Placement& memory) {
  RecvSlot slot = msgs.inspect(p);
  if (slot.error == 0 && p.payload_length > 0) {
    switch (memory.place(p.reth.va, p.reth.r_key, p.payload, p.payload_length)) {
      case Placement::Outcome::ok:
        counters.bytes_placed += p.payload_length;
        break;
      case Placement::Outcome::access_error:
        ++counters.access_errors;
        slot.error = wire::kNakRemoteAccess;
        break;
      case Placement::Outcome::no_buffer:
        push_nack(t, wire::NackReason::no_pkt_buffer);
        return;
    }
  }
  // A packet in error counts as received: its NAK waits for everything before it, a resend would change
  // nothing.
  newest = t;
  state.rcvd_bytes += nominal;
  sack_charge += std::max(nominal, cfg.sack_min_charge);
  insert(now, seq, slot);
  note_completions();
  if (is_fatal) return;
  const bool much = sack_charge >= cfg.sack_bytes && now - std::max(sacked_at, began) >= cfg.sack_gap;
  if (p.bth.a || t.m != 0 || t.rtx || much) {
    sacked_at = now;
    trigger_sack(t);
  } else if (unsacked_since.is_never()) {
    unsacked_since = now;
  }
}

void Responder::Impl::on_data(Instant now, const wire::Packet& p, uint32_t entropy, bool ce, uint32_t nominal,
                              Placement& memory) {
  if (silent && !is_fatal) return;
  // The first bytes after a pause are no reason to hurry: most often the rest is at hand, and asks itself.
  if (now - last_rx > cfg.sack_gap * kPauseGaps) began = now;
  last_rx = now;
  ++counters.data_rx;
  int64_t seq = 0;
  const RecvWindow::Verdict verdict = window.classify(base::Psn(p.bth.psn), seq);
  if (is_fatal) {
    // The sender may ask with any later packet of the message: its SACKs can say that the failing one
    // arrived.
    if (seq >= nak_seq && verdict != RecvWindow::Verdict::impossible && now - last_nak >= kNakRepeat)
      nak_pending = true;
    return;
  }
  if (ce) ++counters.ce_seen;
  Trigger t;
  t.seq = seq;
  t.arrived = now;
  t.entropy = entropy;
  t.timestamp = p.bth.ts && p.tseth.ftype == kTimestampType ? p.tseth.tx_timestamp : uint16_t{0};
  t.m = ce ? 1 : 0;
  t.rtx = p.bth.rtx;
  switch (verdict) {
    case RecvWindow::Verdict::impossible:
      ++counters.impossible;
      return;
    case RecvWindow::Verdict::above:
      ++counters.out_of_window;
      if (cfg.oor_nack) push_nack(t, wire::NackReason::psn_oor_window);
      break;
    case RecvWindow::Verdict::old_duplicate:
    case RecvWindow::Verdict::duplicate:
      ++counters.duplicates;
      trigger_sack(t);
      if (seq <= msgs.acked_end()) ack_pending = true;
      break;
    case RecvWindow::Verdict::fresh:
      accept(now, seq, p, t, nominal, memory);
      break;
  }
  arm_release(now);
}

bool Responder::Impl::take_control(Instant now, wire::Packet& out, uint32_t& entropy) {
  if (is_fatal) {
    if (!nak_pending) return false;
    nak_pending = false;
    last_nak = now;
    out.bth.opcode = static_cast<uint8_t>(wire::Opcode::transport_ack);
    out.bth.psn = window.psn_of(nak_seq).value;
    out.aeth = wire::Aeth{nak_syndrome, static_cast<uint32_t>(msgs.done() & 0xFFFFFF)};
    entropy = nak_entropy;
    ++counters.nak_tx;
    return true;
  }
  if (!sacks.empty()) {
    ++(sacks.take(now, window, state, out, entropy) ? counters.sack_tx : counters.nack_tx);
    return true;
  }
  if (!ack_pending) return false;
  ack_pending = false;
  out.bth.opcode = static_cast<uint8_t>(wire::Opcode::transport_ack);
  out.bth.psn = window.psn_of(msgs.acked_end()).value;
  out.aeth = wire::Aeth{wire::kAethAck, static_cast<uint32_t>(msgs.done() & 0xFFFFFF)};
  entropy = newest.entropy;
  ++counters.ack_tx;
  return true;
}

Instant Responder::Impl::next_timeout() const {
  Instant at = release_at;
  if (is_fatal || silent) return at;
  if (!unsacked_since.is_never()) at = std::min(at, unsacked_since + cfg.sack_timer);
  return std::min(at, msgs.starved_at());
}

void Responder::Impl::arm_release(Instant now) {
  if (release_at.is_never() && oversized()) release_at = now + kMemoryRelease;
}

void Responder::Impl::on_timeout(Instant now) {
  if (release_at <= now) {
    release_at = Instant::never();
    if (now - last_rx >= kMemoryRelease) {
      window.shrink();
      sacks.shrink();
      msgs.shrink();
    } else if (oversized()) {
      release_at = last_rx + kMemoryRelease;
    }
  }
  if (is_fatal || silent) return;
  if (msgs.starved_at() <= now) {
    break_at(msgs.starved_seq(), wire::kNakRemoteOperation);
    return;
  }
  if (!unsacked_since.is_never() && unsacked_since + cfg.sack_timer <= now) {
    sacked_at = now;
    trigger_sack(newest);
  }
}

void Responder::Impl::fail() {
  silent = true;
  ack_pending = false;
  sacks.clear();
  unsacked_since = Instant::never();
  msgs.flush();
  release_at = Instant::never();
}

Responder::Responder(const ResponderConfig& config) : impl_(std::make_unique<Impl>(config)) {}
Responder::~Responder() = default;

base::Errno Responder::post_recv(uint64_t wr_id) {
  const base::Errno e = impl_->msgs.post_recv(wr_id);
  impl_->note_completions();
  return e;
}
void Responder::on_data(Instant now, const wire::Packet& p, uint32_t entropy, bool ce, uint32_t nominal,
                        Placement& memory) {
  impl_->on_data(now, p, entropy, ce, nominal, memory);
}

void Responder::on_trimmed(Instant now, const wire::Packet& p, uint32_t entropy, bool lasthop) {
  Impl& r = *impl_;
  if (r.is_fatal || r.silent) return;
  ++r.counters.trimmed_rx;
  Trigger t;
  t.arrived = now;
  t.entropy = entropy;
  t.timestamp = p.bth.ts && p.tseth.ftype == kTimestampType ? p.tseth.tx_timestamp : uint16_t{0};
  // The header is not authenticated: nothing but an answer may follow from it.
  switch (r.window.classify(base::Psn(p.bth.psn), t.seq)) {
    case RecvWindow::Verdict::impossible:
      return;
    case RecvWindow::Verdict::old_duplicate:
    case RecvWindow::Verdict::duplicate:
      r.trigger_sack(t);
      break;
    case RecvWindow::Verdict::above:
    case RecvWindow::Verdict::fresh:
      if (!r.cfg.trim_nack) return;
      r.push_nack(t, lasthop ? wire::NackReason::trimmed_lasthop : wire::NackReason::trimmed);
      break;
  }
}

void Responder::on_probe(Instant now, const wire::Packet& p, uint32_t entropy, bool ce) {
  Impl& r = *impl_;
  if (r.is_fatal || r.silent) return;
  ++r.counters.probes_rx;
  if (ce) ++r.counters.ce_seen;
  Trigger t;
  t.kind = Trigger::Kind::probe;
  t.arrived = now;
  t.entropy = entropy;
  t.timestamp = p.peth.ftype == kTimestampType ? p.peth.tx_timestamp : uint16_t{0};
  t.probe_id = p.peth.probe_id;
  t.m = ce ? 1 : 0;
  r.trigger_sack(t);
  // All that came is complete: what the sender misses can be the Transport ACK.
  if (r.msgs.done() > 0 && r.msgs.acked_end() == r.window.max_received()) r.ack_pending = true;
}

bool Responder::has_control() const {
  const Impl& r = *impl_;
  return r.is_fatal ? r.nak_pending : !r.sacks.empty() || r.ack_pending;
}
bool Responder::take_control(Instant now, wire::Packet& out, uint32_t& trigger_entropy) {
  return impl_->take_control(now, out, trigger_entropy);
}
Instant Responder::next_timeout() const { return impl_->next_timeout(); }
void Responder::on_timeout(Instant now) { impl_->on_timeout(now); }
void Responder::set_pressure(uint8_t rcv_cwnd_pen, bool restore_cwnd) {
  impl_->state.rcv_cwnd_pen = std::min<uint8_t>(rcv_cwnd_pen, 127);
  impl_->state.restore_cwnd = restore_cwnd;
}
void Responder::set_mpr(uint32_t psns) { impl_->set_mpr(psns); }
void Responder::fail() { impl_->fail(); }
bool Responder::fatal() const { return impl_->is_fatal; }
bool Responder::has_completion() const { return impl_->msgs.has_completion(); }
bool Responder::pop_completion(RecvCompletion& out) { return impl_->msgs.pop_completion(out); }
base::Psn Responder::cack_psn() const { return impl_->window.psn_of(impl_->window.cack()); }
uint32_t Responder::ooo_count() const { return impl_->window.ooo_count(); }
void Responder::prefetch() const { base::prefetch(*impl_); }
const ResponderCounters& Responder::counters() const { return impl_->counters; }
size_t Responder::memory_bytes() const {
  const Impl& r = *impl_;
  return sizeof(Responder) + sizeof(Impl) + r.window.bytes() + r.sacks.bytes() + r.msgs.bytes();
}

}  // namespace mrc::reliability
