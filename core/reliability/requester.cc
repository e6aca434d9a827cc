// Sending side of the requester: what may go out next, and the bookkeeping when it does.
#include "reliability/requester.h"

#include <algorithm>

#include "base/prefetch.h"
#include "reliability/requester_impl.h"

namespace mrc::reliability {

namespace {

// UDP length + 40 of a full packet with TSETH: 8 + 12 + 4 + 4 + 16 + 4 + 40 around the payload (7.3).
constexpr int64_t kNominalOverhead = 88;

LossConfig loss_config(const RequesterConfig& c) {
  return LossConfig{c.reorder_bytes_factor, c.reorder_min_packets, c.reorder_time_factor,
                    c.queues_seen,          c.reorder_min_time,    int64_t{c.pmtu} + kNominalOverhead};
}
AckTimerConfig timer_config(const RequesterConfig& c) {
  return AckTimerConfig{c.timeout, c.linear_cnt, c.exp_cnt, c.min_ack_timeout, c.hold_time, c.hold_retry_cap};
}
bool refused_by_queue(RtxCause c) { return c == RtxCause::trimmed || c == RtxCause::lasthop; }
int64_t clamp_mpr(uint32_t psns) { return std::clamp<int64_t>(psns, 1, SentWindow::kMaxPsns); }

}  // namespace

void Effects::clear() {
  valid = true;
  progress = nack_counted = fatal = late_original = false;
  newly_bytes = nack_nominal = spurious_nominal = 0;
  rtt.reset();
  losses.clear();
  spurious_tags.clear();
  spurious = 0;
}

Requester::Impl::Impl(const RequesterConfig& c)
    : cfg(c),
      msgs(std::max(c.pmtu, 1u), c.max_send_wr, c.first_rqmsn),
      loss(loss_config(c)),
      timer(timer_config(c)),
      mpr(clamp_mpr(c.mpr)) {}

int64_t Requester::Impl::window_end() const {
  return win.unack() + std::max<int64_t>(mpr - int64_t{cfg.mpr_sender_slack}, 1);
}

bool Requester::Impl::wimm_blocked(const Message& m) const {
  return msgs.at_first_packet() && m.is_wimm() && msgs.wimm_outstanding() >= cfg.max_wimm;
}

bool Requester::Impl::may_send_new() const {
  const Message* m = msgs.sending();
  if (m == nullptr || win.next() > window_end()) return false;
  return !msgs.at_first_packet() || (msgs.may_start() && !wimm_blocked(*m));
}

// AR on the last packet before the sender falls silent (5.5): no data, or the PSN window closes.
bool Requester::Impl::last_before_idle(const PlannedPacket& p, bool is_new) const {
  if (!is_new) return win.ready() <= 1 && !may_send_new();
  if (win.next() + 1 > window_end()) return true;
  return p.last_of_message && msgs.sending_is_last();
}

std::optional<PlannedPacket> Requester::Impl::plan_solicit() const {
  const Message* m = msgs.oldest_sent();
  if (!solicit || m == nullptr) return std::nullopt;
  PlannedPacket p;
  p.psn = psn_of(m->last_seq());
  msgs.plan_again(m->last_seq(), msgs.oldest_msn(), p);
  p.rtx = true;
  p.last_before_idle = win.ready() == 0 && !may_send_new();
  return p;
}

void Requester::Impl::mark_busy(Instant now) {
  if (busy) return;
  busy = true;
  last_progress = now;
}

std::optional<PlannedPacket> Requester::Impl::peek(Instant now) {
  if (dead) return std::nullopt;
  if (auto p = plan_solicit()) return p;
  const int64_t lost = win.first_ready(now);
  // A shrunk window holds resends beyond it back too (5.3).
  if (lost != SentWindow::kNone && lost <= window_end()) {
    mark_busy(now);
    const SentRecord& r = win.at(lost);
    PlannedPacket p;
    p.psn = psn_of(lost);
    msgs.plan_again(lost, r.msn, p);
    p.rtx = true;
    p.avoid_tag = r.tag;
    if (refused_by_queue(r.cause)) p.repair_port = r.port;
    p.last_before_idle = last_before_idle(p, false);
    return p;
  }
  return peek_new(now);
}

std::optional<PlannedPacket> Requester::Impl::peek_new(Instant now) {
  if (dead) return std::nullopt;
  if (!may_send_new()) {
    const Message* m = msgs.sending();
    if (m != nullptr && !blocked_counted) {
      blocked_counted = true;
      ++(win.next() > window_end() ? counters.window_full : counters.wimm_blocked);
    }
    return std::nullopt;
  }
  mark_busy(now);
  PlannedPacket p;
  p.psn = psn_of(win.next());
  msgs.plan_new(p);
  p.last_before_idle = last_before_idle(p, true);
  return p;
}

void Requester::Impl::count_resend(RtxCause cause) {
  switch (cause) {
    case RtxCause::none:
      break;
    case RtxCause::trimmed:
      ++counters.rtx_trimmed;
      break;
    case RtxCause::lasthop:
      ++counters.rtx_lasthop;
      break;
    case RtxCause::other_nack:
      ++counters.rtx_other_nack;
      break;
    case RtxCause::inferred:
      ++counters.rtx_inferred;
      break;
    case RtxCause::probe:
      ++counters.rtx_probe;
      break;
    case RtxCause::timeout:
      ++counters.rtx_timeout;
      break;
  }
}

void Requester::Impl::commit(Instant now, const PlannedPacket& p, uint32_t tag, uint8_t port,
                             int64_t nominal) {
  if (dead) return;
  const int64_t seq = seq_of(p.psn);
  if (seq <= win.unack()) {  // only a solicitation looks back
    solicit = false;
    last_solicit = now;
    ++counters.data_tx;
    ++counters.rtx_ack_solicit;
    return;
  }
  const bool is_new = seq == win.next();
  if (!is_new && (!win.tracked(seq) || win.at(seq).state != SentState::lost)) return;
  mark_busy(now);
  SentRecord& r = is_new ? win.append() : win.at(seq);
  if (is_new) {
    r.msn = msgs.advance(seq);
    blocked_counted = false;
  } else {
    win.unqueue(seq);
    count_resend(r.cause);
    // The timer's packet starts again with the first wait unless an expiry is what resends it (5.7).
    if (seq == win.unack() + 1 && r.cause != RtxCause::timeout) timer.restart();
  }
  if (win.oldest_sent() == SentWindow::kNone) flight_since = now;
  r.tx_time = now;
  r.tag = tag;
  r.port = port;
  r.nominal = static_cast<uint32_t>(std::clamp<int64_t>(nominal, 0, UINT32_MAX));
  r.tx_count = static_cast<uint8_t>(std::min(r.tx_count + 1, 255));
  r.until_progress = false;
  loss.on_transmit(r);
  win.link_newest(seq);
  outstanding += r.nominal;
  ++counters.data_tx;
}

void Requester::Impl::fail(Status first, uint8_t vendor_err) {
  dead = true;
  msgs.fail(first, vendor_err);
  win.abandon();
  outstanding = 0;
  solicit = forced_retry = busy = false;
  received_since = Instant::never();
}

Requester::Requester(const RequesterConfig& config) : impl_(std::make_unique<Impl>(config)) {}
Requester::~Requester() = default;

base::Errno Requester::post(const WorkRequest& wr) {
  const base::Errno e = impl_->msgs.post(wr);
  if (e == 0 && impl_->dead) impl_->msgs.fail(Status::flush_error, 0);
  return e;
}
void Requester::set_timing(const Timing& t) { impl_->timing = t; }
std::optional<PlannedPacket> Requester::peek(Instant now) const { return impl_->peek(now); }
std::optional<PlannedPacket> Requester::peek_new(Instant now) const { return impl_->peek_new(now); }
void Requester::commit(Instant now, const PlannedPacket& p, uint32_t tag, uint8_t port, int64_t nominal) {
  impl_->commit(now, p, tag, port, nominal);
}
Instant Requester::next_release() const { return impl_->win.next_release(); }
void Requester::on_sack(Instant now, const SackView& s, Effects& out) { impl_->on_sack(now, s, out); }
void Requester::on_nack(Instant now, const NackView& n, Effects& out) { impl_->on_nack(now, n, out); }
void Requester::on_transport_ack(Instant now, Psn psn, uint8_t syndrome, Effects& out) {
  impl_->on_transport_ack(now, psn, syndrome, out);
}
Instant Requester::next_probe_at() const { return impl_->next_probe_at(); }
std::optional<Requester::Way> Requester::longest_out() const {
  const int64_t oldest = impl_->win.oldest_sent();
  if (oldest == SentWindow::kNone) return std::nullopt;
  const SentRecord& r = impl_->win.at(oldest);
  return Way{r.tag, r.port};
}
void Requester::on_probe_sent(Instant now) {
  impl_->last_probe = now;
  ++impl_->probes_unanswered;
}
void Requester::on_sent_late(Instant now, Psn psn, uint32_t tag) {
  const int64_t seq = impl_->seq_of(psn);
  if (!impl_->win.tracked(seq)) return;
  SentRecord& r = impl_->win.at(seq);
  if (r.state == SentState::inflight && r.tag == tag) r.tx_time = now;
}
void Requester::on_peer_alive(Instant probe_sent_at) { impl_->loss.on_arrival(probe_sent_at); }
void Requester::on_probe_answer(Instant now, Instant probe_sent_at, uint8_t port, Duration rtt,
                                Effects& out) {
  impl_->on_probe_answer(now, probe_sent_at, port, rtt, out);
}
Instant Requester::next_timeout() const { return impl_->next_timeout(); }
void Requester::on_timeout(Instant now, Effects& out) { impl_->on_timeout(now, out); }
void Requester::retry_now(Instant now) { impl_->retry_now(now); }
void Requester::strand(Instant now) { impl_->strand(now); }
void Requester::set_mpr(uint32_t psns) { impl_->mpr = clamp_mpr(psns); }
void Requester::fail(Status first, uint8_t vendor_err) { impl_->fail(first, vendor_err); }
bool Requester::idle() const { return impl_->msgs.idle(); }
int64_t Requester::outstanding_nominal() const { return impl_->outstanding; }
uint32_t Requester::queued() const { return impl_->msgs.incomplete(); }
Psn Requester::next_psn() const { return impl_->psn_of(impl_->win.next()); }
Psn Requester::unack_psn() const { return impl_->psn_of(impl_->win.unack()); }
uint32_t Requester::retry_used() const { return impl_->timer.retry_used(); }
uint32_t Requester::wimm_outstanding() const { return impl_->msgs.wimm_outstanding(); }
Instant Requester::last_progress() const { return impl_->last_progress; }
bool Requester::pop_completion(SendCompletion& out) {
  const bool got = impl_->msgs.pop_completion(out);
  impl_->msgs.trim();
  return got;
}
bool Requester::was_full(Psn psn) const {
  const SentRecord* r = impl_->win.recent(impl_->seq_of(psn));
  return r != nullptr && r->nominal >= impl_->cfg.pmtu;
}
void Requester::prefetch() const { base::prefetch(*impl_); }
void Requester::prefetch_queues() const {
  impl_->win.prefetch();
  impl_->msgs.prefetch();
}
const RequesterCounters& Requester::counters() const { return impl_->counters; }
size_t Requester::memory_bytes() const {
  return sizeof(Requester) + sizeof(Impl) + impl_->win.bytes() + impl_->msgs.bytes();
}

}  // namespace mrc::reliability
