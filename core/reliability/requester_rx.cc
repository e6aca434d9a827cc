// Receiving side of the requester: what SACK, NACK, Transport ACK and probe answers mean (reference 5.6
// to 5.10).
#include <algorithm>

#include "reliability/requester_impl.h"

namespace mrc::reliability {

namespace {

// AETH syndromes: code in bits 7..5; 000 is ACK, 011 is NAK with the error in the low bits (2.8).
constexpr uint8_t kCodeMask = 0xE0;
constexpr uint8_t kCodeAck = 0x00;
constexpr uint32_t kMaxRefusalShift = 6;

std::optional<Status> nak_status(uint8_t syndrome) {
  switch (syndrome) {
    case wire::kNakInvalidRequest:
      return Status::remote_invalid_request;
    case wire::kNakRemoteAccess:
      return Status::remote_access_error;
    case wire::kNakRemoteOperation:
      return Status::remote_operation_error;
    default:
      return std::nullopt;  // 0x60 and RNR are never generated: ignored
  }
}

bool declared_lost(RtxCause c) {
  return c == RtxCause::inferred || c == RtxCause::probe || c == RtxCause::timeout;
}

RtxCause cause_of(LossCause c) {
  switch (c) {
    case LossCause::inferred:
      return RtxCause::inferred;
    case LossCause::probe:
      return RtxCause::probe;
    case LossCause::timeout:
      break;
  }
  return RtxCause::timeout;
}

RtxCause cause_of(wire::NackReason r) {
  if (r == wire::NackReason::trimmed) return RtxCause::trimmed;
  if (r == wire::NackReason::trimmed_lasthop) return RtxCause::lasthop;
  return RtxCause::other_nack;
}

bool retry_later(wire::NackReason r) {
  return r == wire::NackReason::no_bitmap || r == wire::NackReason::no_pkt_buffer ||
         r == wire::NackReason::no_resource;
}

// A peer with the other half order (D-04) reflects swapped halves; over IPv4 only the low half travels.
bool same_path(uint32_t entropy, uint32_t tag) {
  return entropy == tag || ((entropy << 16) | (entropy >> 16)) == tag ||
         (entropy >> 16 == 0 && entropy == (tag & 0xFFFF));
}

}  // namespace

// 7.4. The echo names one transmission exactly, also when the 16-bit clock wrapped since.
void Requester::Impl::sample_rtt(Instant now, const SackView& s, Effects& out) const {
  if (!s.trigger) return;
  const int64_t seq = seq_of(*s.trigger);
  const SentRecord* r = win.recent(seq);
  if (r == nullptr || now < r->tx_time) return;
  const Duration since = now - r->tx_time;
  if (s.has_cc && s.echo_timestamp != 0) {
    // The flag tells first transmissions from later ones, so that a wrap of the clock between the two cannot
    // make the one pass for the other. Any other value than ours belongs to a transmission we no longer know.
    if (s.echo_timestamp != base::timestamp16(r->tx_time) || s.rtx_echo != (r->tx_count > 1)) return;
    out.rtt = std::max(since, Duration{1});
    return;
  }
  // Karn: only when the flag tells which transmission is meant, and the packet was not acknowledged before.
  const bool clear = (r->tx_count == 1 && !s.rtx_echo) || (r->tx_count == 2 && s.rtx_echo);
  if (clear && win.tracked(seq) && r->state == SentState::inflight) out.rtt = std::max(since, Duration{1});
}

// The SACK was triggered by the first transmission of a packet that was declared lost and sent again.
void Requester::Impl::note_late_original(const SackView& s, Effects& out) {
  if (!s.trigger || s.rtx_echo) return;
  SentRecord* r = win.recent(seq_of(*s.trigger));
  if (r == nullptr || r->tx_count < 2 || r->spurious || !declared_lost(r->cause)) return;
  if (s.has_cc && s.echo_timestamp != 0 && s.echo_timestamp == base::timestamp16(r->tx_time)) return;
  r->spurious = true;
  out.late_original = true;
  ++out.spurious;
  out.spurious_nominal += r->nominal;
}

void Requester::Impl::acknowledge(int64_t seq, Effects& out) {
  SentRecord& r = win.at(seq);
  switch (r.state) {
    case SentState::received:
      return;
    case SentState::inflight:
      win.unlink(seq);
      outstanding -= r.nominal;
      loss.on_resolved(r);
      // After a resend nobody can say here which transmission arrived.
      if (r.tx_count == 1) loss.on_arrival(r.tx_time);
      break;
    case SentState::lost:
      win.unqueue(seq);
      if (declared_lost(r.cause) && !r.spurious) {
        r.spurious = true;  // never resent, so the transmission given up did arrive
        ++out.spurious;
        out.spurious_nominal += r.nominal;
        out.spurious_tags.push_back(r.tag);
      }
      break;
  }
  r.state = SentState::received;
}

void Requester::Impl::acknowledge_through(int64_t seq, Effects& out) {
  while (win.unack() < seq) {
    acknowledge(win.unack() + 1, out);
    win.pop_front();
  }
}

void Requester::Impl::pop_received() {
  while (!win.empty() && win.at(win.unack() + 1).state == SentState::received) win.pop_front();
}

void Requester::Impl::update_mpr(const SackView& s, int64_t cack) {
  if (!cfg.dynamic_mpr || s.mpr == 0) return;
  // Newest by content, not by arrival (5.3).
  const bool older_bytes =
      s.has_cc && base::Serial<24>(s.rcvd_bytes).before(base::Serial<24>(last_rcvd_bytes));
  if (older_bytes || cack < mpr_from) return;
  mpr_from = cack;
  mpr = int64_t{s.mpr} * 128;
}

void Requester::Impl::on_sack(Instant now, const SackView& s, Effects& out) {
  const int64_t cack = seq_of(s.cack);
  if (cack >= win.next()) {
    ++counters.bad_ack;
    out.valid = false;
    return;
  }
  if (dead) return;
  const uint32_t spurious_before = out.spurious;
  sample_rtt(now, s, out);
  note_late_original(s, out);
  const int64_t unack_before = win.unack();
  const int64_t outstanding_before = outstanding;
  const uint32_t queued_before = win.queued();
  acknowledge_through(cack, out);
  const int64_t base = seq_of(s.bitmap_base);
  for (int64_t i = 0; i < 64; ++i) {
    if ((s.bitmap >> i & 1) != 0 && win.tracked(base + i)) acknowledge(base + i, out);
  }
  pop_received();
  if (s.trigger && out.rtt && s.has_cc && s.echo_timestamp != 0) {
    // The echo proves which transmission arrived, also of a packet sent twice.
    const SentRecord* r = win.recent(seq_of(*s.trigger));
    if (r != nullptr && base::timestamp16(r->tx_time) == s.echo_timestamp) loss.on_arrival(r->tx_time);
  }
  update_mpr(s, cack);
  if (s.has_cc) {
    out.newly_bytes = newly_rcvd_bytes(last_rcvd_bytes, s.rcvd_bytes);
    if (out.newly_bytes > 0) last_rcvd_bytes = s.rcvd_bytes & 0xFFFFFF;
  }
  if (outstanding != outstanding_before || win.queued() != queued_before || win.unack() != unack_before) {
    last_ack_at = now;
    probes_unanswered = 0;
  }
  note_spurious(now, out.spurious - spurious_before);
  after_feedback(now, unack_before, out);
  infer_losses(now, base, out);
}

void Requester::Impl::note_spurious(Instant now, uint32_t n) {
  if (n == 0) return;
  counters.spurious += n;
  loss.on_spurious(now, timing);
}

// Common end of everything that may move unack.
void Requester::Impl::after_feedback(Instant now, int64_t unack_before, Effects& out) {
  if (win.unack() > unack_before) {
    out.progress = true;
    timer.progress();
    forced_retry = false;
    ++progress_epoch;
    last_progress = now;
    win.release_until_progress();
  }
  loss.relax(now, timing);
  watch_oldest_message(now);
}

// From when on only a Transport ACK is missing for the oldest message.
void Requester::Impl::watch_oldest_message(Instant now) {
  const Message* m = msgs.oldest_sent();
  if (m == nullptr || m->last_seq() > win.unack()) {
    received_since = Instant::never();
    solicit = false;
  } else if (received_since.is_never()) {
    received_since = now;
  }
}

void Requester::Impl::declare_lost(int64_t seq, LossCause cause, Effects& out) {
  SentRecord& r = win.at(seq);
  const bool blames = cause != LossCause::timeout || loss.outlived(r, timing);
  out.losses.push_back(Loss{psn_of(seq), r.tag, r.port, int64_t{r.nominal}, r.tx_time, cause, blames});
  win.unlink(seq);
  outstanding -= r.nominal;
  loss.on_resolved(r);
  r.cause = cause_of(cause);
  r.spurious = false;
  win.queue(seq, Instant{});
}

// Only what this SACK's own window says is missing: where much is out of order, windows take turns, and about
// the others the last news may be older than the packets.
void Requester::Impl::infer_losses(Instant now, int64_t window, Effects& out) {
  if (!cfg.fast_loss) return;
  for (int64_t head = win.oldest_sent(); head != SentWindow::kNone; head = win.oldest_sent()) {
    if (head < window || head >= window + 64 || !loss.overtaken(win.at(head), now, timing)) return;
    declare_lost(head, LossCause::inferred, out);
  }
}

// A refusal uses the budget only if the packet that blocks progress is refused again with no progress in
// between, and ends the QP no sooner than silence would: an incast must not kill it (5.7).
void Requester::Impl::charge_refusal(Instant now, int64_t seq, Effects& out) {
  SentRecord& r = win.at(seq);
  const bool again = r.refusals > 0 && r.refused_epoch == progress_epoch;
  r.refusals = static_cast<uint8_t>(std::min(r.refusals + 1, 255));
  r.refused_epoch = progress_epoch;
  if (!again || seq != win.unack() + 1) return;
  timer.charge();
  if (timer.spent() && now - last_progress >= timer.budget_time(timer_floor()))
    die(Status::retry_exceeded, out);
}

void Requester::Impl::on_nack(Instant now, const NackView& n, Effects& out) {
  const int64_t seq = seq_of(n.psn);
  if (dead || !win.tracked(seq)) return;
  if (n.reason == wire::NackReason::unexp_event) {  // D-29
    die(Status::remote_operation_error, out);
    return;
  }
  SentRecord& r = win.at(seq);
  if (r.state != SentState::inflight || !same_path(n.entropy, r.tag)) return;
  if (n.echo_timestamp != 0) {
    const auto ahead = static_cast<int16_t>(base::timestamp16(r.tx_time) - n.echo_timestamp);
    if (ahead > 0 && r.tx_count > 1) return;  // an earlier transmission on the same EV
    if (ahead == 0 && now >= r.tx_time) out.rtt = std::max(now - r.tx_time, Duration{1});
  }
  out.nack_counted = true;
  out.nack_nominal = r.nominal;
  win.unlink(seq);
  outstanding -= r.nominal;
  loss.on_resolved(r);
  last_ack_at = now;  // the peer answers
  probes_unanswered = 0;
  r.cause = cause_of(n.reason);
  r.until_progress = n.reason == wire::NackReason::psn_oor_window;
  Instant hold{};
  const Duration unit = std::max(timing.base_rtt, Duration::micros(1));
  if (r.until_progress) hold = now + unit;
  if (retry_later(n.reason))
    hold = now + unit * (int64_t{1} << std::min<uint32_t>(r.refusals, kMaxRefusalShift));
  win.queue(seq, hold);
  charge_refusal(now, seq, out);
}

void Requester::Impl::on_transport_ack(Instant now, Psn psn, uint8_t syndrome, Effects& out) {
  const int64_t seq = seq_of(psn);
  if (seq >= win.next()) {
    ++counters.bad_ack;
    out.valid = false;
    return;
  }
  const bool ack = (syndrome & kCodeMask) == kCodeAck;
  const std::optional<Status> error = ack ? std::nullopt : nak_status(syndrome);
  if (dead || seq <= newest_ack || (!ack && !error)) return;
  // A NAK confirms everything before the failing packet.
  const int64_t through = ack ? seq : seq - 1;
  const int64_t unack_before = win.unack();
  const uint32_t spurious_before = out.spurious;
  acknowledge_through(through, out);
  pop_received();
  note_spurious(now, out.spurious - spurious_before);
  newest_ack = through;
  if (win.unack() > unack_before) {
    last_ack_at = now;
    probes_unanswered = 0;
  }
  if (msgs.complete_through(through) > 0) {
    timer.progress();
    last_progress = now;
    received_since = Instant::never();
    solicit = false;
  }
  if (error) {
    die(*error, out);
    return;
  }
  after_feedback(now, unack_before, out);
  if (msgs.idle()) {
    busy = false;
    win.shrink();
    msgs.trim();
  }
}

// Only the plane that was probed: low delay there says nothing about a queue, or a socket, of another one.
void Requester::Impl::on_probe_answer(Instant now, Instant probe_sent_at, uint8_t port, Duration rtt,
                                      Effects& out) {
  probes_unanswered = 0;
  if (dead || timing.base_rtt.ns <= 0 || rtt - timing.base_rtt >= timing.target_delay) return;
  for (int64_t seq = win.unack() + 1; seq < win.next(); ++seq) {
    const SentRecord& r = win.at(seq);
    if (r.state != SentState::inflight || r.port != port || r.tx_time >= probe_sent_at) continue;
    if (loss.aged(r, now, timing)) declare_lost(seq, LossCause::probe, out);
  }
}

void Requester::Impl::die(Status first, Effects& out) {
  fail(first, 0);
  out.fatal = true;
}

}  // namespace mrc::reliability
