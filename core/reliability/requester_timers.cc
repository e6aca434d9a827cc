// Time in the requester: ACK timer, hold time, solicitation of a Transport ACK, tail probes (reference 5.7).
#include <algorithm>

#include "reliability/requester_impl.h"

namespace mrc::reliability {

namespace {
constexpr int64_t kFloorRoundTrips = 4;  // section 16: never below 4 x (base_rtt + t)
constexpr int64_t kBusyProbeRtts = 3;
constexpr int64_t kProbeRepeatRtts = 5;
constexpr uint32_t kAskPackets = 8;
constexpr uint32_t kMaxProbeShift = 16;
}  // namespace

// Also above what queues and the scheduler add now: a timer below the present round trip resends what is on
// its way.
Duration Requester::Impl::timer_floor() const {
  return std::max((timing.base_rtt + timing.target_delay) * kFloorRoundTrips,
                  timing.srtt + timing.rttvar * 4);
}

// The timer belongs to the lowest PSN outstanding and runs from its latest transmission.
Instant Requester::Impl::packet_deadline() {
  if (win.empty()) return Instant::never();
  return timer.deadline(win.at(win.unack() + 1).tx_time, timer_floor());
}

// All packets of the oldest message are received, its Transport ACK is not here.
Instant Requester::Impl::solicit_deadline() const {
  if (received_since.is_never() || solicit) return Instant::never();
  return timer.deadline(std::max(received_since, last_solicit), timer_floor());
}

// With packets outstanding, or an ACK to ask for, their own timers run.
Instant Requester::Impl::stranded_deadline() const {
  if (stranded_since.is_never() || !win.empty() || msgs.idle()) return Instant::never();
  return timer.deadline(stranded_since, timer_floor());
}

void Requester::Impl::strand(Instant now) {
  if (busy && !stranded_since.is_never()) return;
  stranded_since = now;
  if (!msgs.idle()) mark_busy(now);
}

Instant Requester::Impl::hold_deadline() const {
  if (cfg.hold_time.ns <= 0 || !busy || msgs.idle()) return Instant::never();
  return last_progress + cfg.hold_time;
}

Instant Requester::Impl::next_timeout() {
  if (dead) return Instant::never();
  if (forced_retry) return last_progress;
  // A solicitation that found no way out must not stop the budget.
  const Instant unsent =
      solicit && win.empty() ? timer.deadline(last_solicit, timer_floor()) : Instant::never();
  return std::min({packet_deadline(), solicit_deadline(), unsent, stranded_deadline(), hold_deadline()});
}

void Requester::Impl::on_timeout(Instant now, Effects& out) {
  if (dead || now < next_timeout()) return;
  if (now >= hold_deadline()) {
    die(Status::retry_exceeded, out);
    return;
  }
  const bool free_retry = forced_retry;
  forced_retry = false;
  const Duration interval = free_retry ? timer.base_interval(timer_floor()) : timer.interval(timer_floor());
  const bool packets_due = free_retry || now >= packet_deadline();
  const bool message_due = !received_since.is_never() && (free_retry || !packets_due);
  // While packets are outstanding their timer alone decides about the budget.
  if (free_retry) {
    timer.expire_free(now);
  } else if (packets_due || win.empty()) {
    ++counters.timeouts;
    if (timer.expire(now)) {
      die(Status::retry_exceeded, out);
      return;
    }
  }
  if (message_due) {
    solicit = true;
    last_solicit = now;
  }
  if (!packets_due) return;
  const int64_t oldest = win.unack() + 1;
  if (win.tracked(oldest) && win.at(oldest).state == SentState::inflight)
    declare_lost(oldest, LossCause::timeout, out);
  // While the peer is silent a few packets, each on another path, ask whether it is there; the answers tell
  // which of the others were lost.
  uint32_t asked = 1;
  for (int64_t head = win.oldest_sent(); head != SentWindow::kNone; head = win.oldest_sent()) {
    const SentRecord& r = win.at(head);
    if (now - r.tx_time < interval || (!loss.outlived(r, timing) && asked++ >= kAskPackets)) return;
    declare_lost(head, LossCause::timeout, out);
  }
}

// Since when an answer is due; never() when none is.
Instant Requester::Impl::probe_basis() const {
  if (win.oldest_sent() != SentWindow::kNone) return std::max(last_ack_at, flight_since);
  if (win.empty() && !received_since.is_never()) return std::max(received_since, last_solicit);
  return Instant::never();
}

Instant Requester::Impl::next_probe_at() const {
  const Duration base = timing.base_rtt;
  const Instant since = probe_basis();
  if (dead || base.ns <= 0 || since.is_never()) return Instant::never();
  const bool waiting = msgs.has_unsent() || win.queued() > 0;
  const Duration quiet = std::max({waiting ? base * kBusyProbeRtts : base + timing.target_delay,
                                   timing.srtt + timing.rttvar * 4, cfg.reorder_min_time});
  // An answer that settled nothing is no reason to ask at once again.
  const Instant first = std::max(since, last_probe) + quiet;
  if (probes_unanswered == 0) return first;
  // Silence is not worth a flood: each unanswered probe doubles the wait, up to the ACK timer's.
  const Duration step = base * kProbeRepeatRtts;
  const Duration backed_off{step.ns << std::min(probes_unanswered - 1, kMaxProbeShift)};
  const Duration cap = std::max(timer.base_interval(timer_floor()), step);
  return std::max(first, last_probe + std::max(std::min(backed_off, cap), quiet));
}

void Requester::Impl::retry_now(Instant now) {
  stranded_since = Instant::never();
  probes_unanswered = 0;
  if (dead || !timer.backed_off() || (win.empty() && received_since.is_never())) return;
  (void)now;
  forced_retry = true;
}

}  // namespace mrc::reliability
