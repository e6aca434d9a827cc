// The parts of a requester put together; included by requester.cc (sending) and requester_rx.cc (feedback)
// only.
#pragma once

#include "reliability/loss.h"
#include "reliability/messages.h"
#include "reliability/requester.h"
#include "reliability/rto.h"
#include "reliability/sent_window.h"

namespace mrc::reliability {

struct Requester::Impl {
  explicit Impl(const RequesterConfig& c);

  // --- numbers: 64 bits inside, 24 on the wire ---
  [[nodiscard]] Psn psn_of(int64_t seq) const { return Psn(cfg.sq_psn.value + static_cast<uint32_t>(seq)); }
  [[nodiscard]] int64_t seq_of(Psn psn) const { return win.unack() + psn.minus(psn_of(win.unack())); }

  // --- sending (requester.cc) ---
  [[nodiscard]] int64_t window_end() const;  // last PSN the peer accepts (5.3, D-07)
  [[nodiscard]] bool wimm_blocked(const Message& m) const;
  [[nodiscard]] bool may_send_new() const;
  [[nodiscard]] bool last_before_idle(const PlannedPacket& p, bool is_new) const;
  std::optional<PlannedPacket> peek(Instant now);
  std::optional<PlannedPacket> peek_new(Instant now);
  std::optional<PlannedPacket> plan_solicit() const;
  void commit(Instant now, const PlannedPacket& p, uint32_t tag, uint8_t port, int64_t nominal);
  void count_resend(RtxCause cause);
  void mark_busy(Instant now);

  // --- feedback (requester_rx.cc) ---
  void on_sack(Instant now, const SackView& s, Effects& out);
  void on_nack(Instant now, const NackView& n, Effects& out);
  void on_transport_ack(Instant now, Psn psn, uint8_t syndrome, Effects& out);
  void on_probe_answer(Instant now, Instant probe_sent_at, uint8_t port, Duration rtt, Effects& out);
  void acknowledge(int64_t seq, Effects& out);
  void acknowledge_through(int64_t seq, Effects& out);
  void pop_received();
  void after_feedback(Instant now, int64_t unack_before, Effects& out);
  void sample_rtt(Instant now, const SackView& s, Effects& out) const;
  void note_late_original(const SackView& s, Effects& out);
  void note_spurious(Instant now, uint32_t n);
  void update_mpr(const SackView& s, int64_t cack);
  void infer_losses(Instant now, int64_t window, Effects& out);
  void declare_lost(int64_t seq, LossCause cause, Effects& out);
  void charge_refusal(Instant now, int64_t seq, Effects& out);
  void watch_oldest_message(Instant now);
  void die(Status first, Effects& out);
  void fail(Status first, uint8_t vendor_err);

  // --- timers (requester_timers.cc) ---
  [[nodiscard]] Duration timer_floor() const;
  [[nodiscard]] Instant packet_deadline();
  [[nodiscard]] Instant solicit_deadline() const;
  [[nodiscard]] Instant stranded_deadline() const;
  [[nodiscard]] Instant hold_deadline() const;
  [[nodiscard]] Instant next_timeout();
  void on_timeout(Instant now, Effects& out);
  [[nodiscard]] Instant probe_basis() const;
  [[nodiscard]] Instant next_probe_at() const;
  void retry_now(Instant now);
  void strand(Instant now);

  RequesterConfig cfg;
  Timing timing;
  RequesterCounters counters;
  SentWindow win;
  MessageQueue msgs;
  LossDetector loss;
  AckTimer timer;
  int64_t mpr;              // PSNs
  int64_t mpr_from = -1;    // cack of the SACK that set it
  int64_t outstanding = 0;  // nominal bytes INFLIGHT
  int64_t newest_ack = -1;  // PSN of the newest Transport ACK
  uint32_t last_rcvd_bytes = 0;
  uint16_t progress_epoch = 0;
  bool dead = false;
  bool busy = false;     // something was sent or could be sent since the last idle moment
  bool solicit = false;  // resend a message end to get its Transport ACK
  bool forced_retry = false;
  bool blocked_counted = false;
  Instant last_progress{};
  Instant last_ack_at{INT64_MIN / 2};
  Instant flight_since{INT64_MIN / 2};        // first transmission after nothing was in flight
  Instant received_since = Instant::never();  // oldest message fully received, Transport ACK missing
  Instant stranded_since = Instant::never();  // no port is left; never: there is one
  Instant last_solicit{INT64_MIN / 2};
  Instant last_probe{INT64_MIN / 2};
  uint32_t probes_unanswered = 0;
};

}  // namespace mrc::reliability
