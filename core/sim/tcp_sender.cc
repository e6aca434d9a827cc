// Scoreboard, loss detection and window of a TCP sender.
#include "sim/tcp_sender.h"

#include <algorithm>
#include <cmath>

namespace mrc::sim {

TcpSender::TcpSender(const TcpConfig& c, Ps rtt)
    : max_window_(static_cast<uint64_t>(std::max<int64_t>(c.max_window_bytes / c.mss, 2))),
      cwnd_(std::min(static_cast<double>(c.initial_window), static_cast<double>(max_window_))),
      ssthresh_(static_cast<double>(max_window_)),
      srtt_(rtt),
      rttvar_(rtt / 2),
      min_rtt_(rtt) {
  dctcp_.alpha = c.dctcp_initial_alpha;
}

void TcpSender::post(const TcpConfig& c, MessagePool& pool, TaskId task, int64_t size) {
  const uint32_t i = pool.take();
  const uint64_t packets = packets_of(size, c.mss);
  pool[i] = {end_, end_ + packets, size, task, kNone};
  end_ += packets;
  (head_ == kNone ? head_ : pool[tail_].next) = i;
  tail_ = i;
  if (at_ == kNone) at_ = i;
}

bool TcpSender::can_send() const {
  if (static_cast<double>(pipe()) + 1 > std::max(cwnd_, 1.0)) return false;
  return lost_ > 0 || (at_ != kNone && next_ - una_ < max_window_);
}

void TcpSender::grow_ring() {
  std::vector<Slot> larger(std::max<size_t>(ring_.size() * 2, 16));
  for (uint64_t s = una_; s < next_; ++s) larger[s & (larger.size() - 1)] = slot(s);
  ring_.swap(larger);
}

TcpSegment TcpSender::resend(Ps now) {
  while ((slot(lost_from_).flags & kLost) == 0) ++lost_from_;
  Slot& s = slot(lost_from_);
  s.flags = static_cast<uint8_t>((s.flags & ~kLost) | kAgain);
  s.sent = now;
  --lost_;
  return {lost_from_++, s.task, s.payload, (s.flags & kFirst) != 0, (s.flags & kLast) != 0, true};
}

TcpSegment TcpSender::send(const TcpConfig& c, const MessagePool& pool, Ps now) {
  // A connection that was silent knows nothing of the path any more.
  if (c.restart_after_idle && !outstanding() && next_ > 0 && now - last_sent_ > rto(c)) {
    cwnd_ = std::min(cwnd_, static_cast<double>(c.initial_window));
    cubic_.epoch = -1;
  }
  last_sent_ = now;
  if (lost_ > 0) return resend(now);
  if (next_ - una_ >= ring_.size()) grow_ring();
  const Message& m = pool[at_];
  const TcpSegment out{next_, m.task, payload_of(m, next_, c.mss), next_ == m.first, next_ + 1 == m.end,
                       false};
  slot(next_) = {now, out.task, static_cast<uint16_t>(out.payload),
                 static_cast<uint8_t>((out.first ? kFirst : 0) | (out.last ? kLast : 0))};
  ++next_;
  if (next_ == m.end) at_ = m.next;
  return out;
}

// `s` is known to have arrived, for the first time.
void TcpSender::deliver(Slot& s, uint64_t seq, Ps now, Heard& h) {
  ++h.delivered;
  if ((s.flags & kLost) != 0) {
    s.flags = static_cast<uint8_t>(s.flags & ~kLost);
    --lost_;
  }
  const Ps rtt = now - s.sent;
  // Sent again, and acknowledged sooner than any round trip: the ACK is of the first copy (RFC 8985, 6.2,
  // step 2).
  const bool again = (s.flags & kAgain) != 0;
  if (again && rtt < min_rtt_) return;
  if (!again && s.sent > h.rtt_sent) {
    h.rtt_sent = s.sent;
    h.rtt = rtt;
  }
  if (s.sent < rack_sent_ || (s.sent == rack_sent_ && seq <= rack_seq_)) return;
  rack_sent_ = s.sent;
  rack_seq_ = seq;
  rack_rtt_ = rtt;
}

// Where a segment that was sent again filled a gap, those behind it may have waited long at the receiver: no
// round trip is theirs. The time stamp that comes back is the first one's (RFC 7323, 4.3).
void TcpSender::take_cumulative(uint64_t expected, Ps now, Heard& h) {
  const uint64_t first = una_;
  Ps echo = -1;
  bool again = false;
  for (; una_ < expected; ++una_) {
    Slot& s = slot(una_);
    if ((s.flags & kSacked) != 0) {
      --sacked_;
      continue;
    }
    if ((s.flags & kAgain) != 0) {
      again = true;
      if (una_ == first && now - s.sent >= min_rtt_) echo = now - s.sent;
    }
    deliver(s, una_, now, h);
  }
  if (again) h.rtt = echo;
  lost_from_ = std::max(lost_from_, una_);
}

void TcpSender::take_sack(std::span<const SackBlock> sack, Ps now, Heard& h) {
  for (const SackBlock& b : sack) {
    for (uint64_t seq = std::max(b.begin, una_); seq < std::min(b.end, next_); ++seq) {
      Slot& s = slot(seq);
      if ((s.flags & kSacked) != 0) continue;
      deliver(s, seq, now, h);
      s.flags |= kSacked;
      ++sacked_;
    }
  }
}

// RFC 6298, clock granularity 0.
void TcpSender::sample_rtt(Ps rtt) {
  min_rtt_ = std::min(min_rtt_, rtt);
  rttvar_ += (std::abs(srtt_ - rtt) - rttvar_) / 4;
  srtt_ += (rtt - srtt_) / 8;
}

Ps TcpSender::rto(const TcpConfig& c) const {
  const Ps least = from_ns(c.rto_min_ns), most = from_ns(c.rto_max_ns);
  const Ps base = std::max(srtt_ + 4 * rttvar_, least);
  const uint32_t shift = std::min(backoff_, 20u);
  return base >= (most >> shift) ? most : base << shift;
}

void TcpSender::mark(Slot& s, uint64_t seq) {
  s.flags |= kLost;
  ++lost_;
  lost_from_ = std::min(lost_from_, seq);
}

// A segment is lost when one that was sent after it has arrived: at once when `dupthresh` have, else a
// quarter of the least round trip later (RFC 8985, 6.2). True: some were found.
bool TcpSender::mark_losses(const TcpConfig& c, Ps now) {
  reorder_at_ = kNever;
  if (rack_sent_ < 0 || (sacked_ == 0 && state_ == State::open)) return false;
  const bool sure = sacked_ >= c.dupthresh || state_ != State::open;
  const Ps wait = rack_rtt_ + (sure ? 0 : min_rtt_ / 4);
  bool found = false;
  for (uint64_t seq = una_; seq < next_; ++seq) {
    Slot& s = slot(seq);
    if ((s.flags & (kSacked | kLost)) != 0) continue;
    const bool before = s.sent < rack_sent_ || (s.sent == rack_sent_ && seq < rack_seq_);
    if (!before) {
      if ((s.flags & kAgain) == 0) break;  // all that follow are newer still
      continue;
    }
    if (s.sent + wait <= now) {
      mark(s, seq);
      found = true;
    } else {
      reorder_at_ = std::min(reorder_at_, s.sent + wait);
    }
  }
  return found;
}

// A congestion event; DCTCP answers losses as Reno does (RFC 8257, 3.5).
double TcpSender::on_loss(const TcpConfig& c) {
  if (c.cc == TcpCc::cubic) return cubic_on_loss(c, cubic_, cwnd_);
  return std::max(cwnd_ / 2, 2.0);
}

void TcpSender::enter_recovery(const TcpConfig& c) {
  if (state_ != State::open) return;
  state_ = State::recovery;
  recovery_end_ = next_;
  cwnd_ = ssthresh_ = on_loss(c);
}

void TcpSender::timeout(const TcpConfig& c) {
  if (state_ != State::loss) ssthresh_ = on_loss(c);
  ++timeouts_;
  ++backoff_;
  state_ = State::loss;
  recovery_end_ = next_;
  cwnd_ = 1;
  reorder_at_ = kNever;
  for (uint64_t seq = una_; seq < next_; ++seq) {
    Slot& s = slot(seq);
    if ((s.flags & (kSacked | kLost)) == 0) mark(s, seq);
  }
}

void TcpSender::reorder_timer(const TcpConfig& c, Ps now) {
  if (mark_losses(c, now)) enter_recovery(c);
}

// True: the window was cut.
bool TcpSender::heed_marks(const TcpConfig& c, uint64_t acked, uint32_t ce) {
  const uint32_t marked = ce > ce_seen_ ? ce - ce_seen_ : 0;
  ce_seen_ += marked;
  if (c.cc != TcpCc::dctcp) return false;
  const bool cut = marked > 0 && una_ >= dctcp_.cut_end && state_ == State::open;
  dctcp_count(c, dctcp_, acked, marked, una_, next_);
  if (!cut) return false;
  dctcp_.cut_end = next_;
  cwnd_ = ssthresh_ = dctcp_cut(cwnd_, dctcp_.alpha);
  return true;
}

void TcpSender::grow(const TcpConfig& c, Ps now, uint64_t acked, uint64_t flight) {
  const auto in_flight = static_cast<double>(flight);
  const auto n = static_cast<double>(acked);
  const auto most = static_cast<double>(max_window_);
  if (cwnd_ < ssthresh_) {
    // Only a window that was used may grow (RFC 7661); slow start doubles it, so half is enough.
    if (cwnd_ < 2 * in_flight) cwnd_ = std::min({cwnd_ + n, ssthresh_, most});
    return;
  }
  if (in_flight + 1 < cwnd_) return;
  const double grown =
      c.cc == TcpCc::cubic ? cubic_on_ack(c, cubic_, cwnd_, n, now, srtt_) : cwnd_ + n / cwnd_;
  cwnd_ = std::min(grown, most);
}

void TcpSender::after_ack(const TcpConfig& c, Ps now, uint64_t acked, uint32_t ce, const Heard& h) {
  if (h.rtt >= 0) {
    sample_rtt(h.rtt);
    backoff_ = 0;
  }
  if (acked > 0) timeouts_ = 0;
  const bool recovering = state_ == State::recovery;
  if (state_ != State::open && una_ >= recovery_end_) state_ = State::open;
  const bool cut = heed_marks(c, h.delivered, ce);
  if (mark_losses(c, now)) enter_recovery(c);
  const bool held = cut || recovering || state_ == State::recovery || una_ < dctcp_.cut_end;
  if (!held && acked > 0) grow(c, now, acked, h.flight);
}

}  // namespace mrc::sim
