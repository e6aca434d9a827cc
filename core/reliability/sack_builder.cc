#include "reliability/sack_builder.h"

#include <algorithm>

#include "reliability/arith.h"

namespace mrc::reliability {

namespace {
constexpr int64_t kWindowBits = 64;
constexpr uint32_t kMaxOooCount = 0x7FFF;
}  // namespace

// One SACK may answer several packets of the same EV and marking; a resent packet and a probe need their own
// (6.4).
bool SackBuilder::same_echo(const Trigger& a, const Trigger& b) {
  return a.kind == Trigger::Kind::sack && b.kind == Trigger::Kind::sack && !a.rtx && !b.rtx &&
         a.entropy == b.entropy && a.m == b.m;
}

bool SackBuilder::push(const Trigger& t) {
  for (size_t i = t.kind == Trigger::Kind::sack ? pending_.size() : 0; i-- > 0;) {
    if (!same_echo(pending_[i], t)) continue;
    pending_[i] = t;
    return true;
  }
  if (pending_.size() < kMaxPending) {
    pending_.push_back(t);
    return true;
  }
  if (t.kind == Trigger::Kind::nack) replace_plain(t);
  return false;
}

// The newest stays: it tells about all others.
bool SackBuilder::replace_plain(const Trigger& t) {
  const auto plain = [](const Trigger& p) { return p.kind == Trigger::Kind::sack && p.m == 0 && !p.rtx; };
  size_t kept = pending_.size();
  for (size_t i = pending_.size(); i-- > 0;) {
    if (!plain(pending_[i])) continue;
    if (kept == pending_.size()) {
      kept = i;
      continue;
    }
    pending_[i] = t;
    return true;
  }
  return false;
}

void SackBuilder::clear() {
  while (!pending_.empty()) pending_.pop_front();
  extra_left_ = 0;
}

bool SackBuilder::take(base::Instant now, const RecvWindow& window, const SackState& state, wire::Packet& out,
                       uint32_t& entropy) {
  if (extra_left_ > 0) {
    --extra_left_;
    entropy = extra_.entropy;
    build_sack(now, extra_, window, state, out);
    return true;
  }
  const Trigger t = pending_.front();
  pending_.pop_front();
  entropy = t.entropy;
  if (t.kind == Trigger::Kind::nack) {
    build_nack(t, window, out);
    return false;
  }
  build_sack(now, t, window, state, out);
  // More windows follow only the last trigger of a burst; they repeat neither timestamp nor marking.
  if (state.extra_sacks && pending_.empty() && window.ooo_count() > kWindowBits) {
    const int64_t windows = (window.max_received() - window.cack() + kWindowBits - 1) / kWindowBits;
    const int64_t allowed = std::min<int64_t>({windows, kBurst, window.mpr() / kWindowBits});
    extra_left_ = static_cast<uint32_t>(std::max<int64_t>(allowed, 1) - 1);
    extra_ = t;
    extra_.timestamp = 0;
    extra_.m = 0;
  }
  return true;
}

// 6.5; the last piece ends at the newest packet (D-16).
void SackBuilder::fill_bitmap(const RecvWindow& window, wire::Seth& seth) {
  const int64_t cack = window.cack();
  const int64_t newest = window.max_received();
  seth.sack_offset = 1;
  seth.sack_bitmap = 0;
  if (newest <= cack) return;
  int64_t s = std::max(lowest_unsacked_, cack + 1);
  if (s + kWindowBits - 1 >= newest) s = std::max(newest - (kWindowBits - 1), cack + 1);
  seth.sack_offset = static_cast<int16_t>(s - cack);  // below the window size, which fits
  seth.sack_bitmap = window.bits(s);
  lowest_unsacked_ = s + kWindowBits;
  if (lowest_unsacked_ > newest) lowest_unsacked_ = cack + 1;
}

void SackBuilder::build_sack(base::Instant now, const Trigger& t, const RecvWindow& window,
                             const SackState& state, wire::Packet& out) {
  out.bth.opcode = static_cast<uint8_t>(wire::Opcode::sack);
  out.bth.rtx = t.rtx;
  out.bth.psn = window.psn_of(window.cack()).value;
  wire::Seth& s = out.seth;
  s.m = t.m;
  s.entropy = t.entropy;
  s.cack_psn = out.bth.psn;
  s.mpr = state.mpr;
  if (t.kind == Trigger::Kind::probe) {
    s.pr = true;
    s.probe_id = t.probe_id;
  } else {
    s.ack_psn_offset = static_cast<int16_t>(std::clamp<int64_t>(t.seq - window.cack(), INT16_MIN, INT16_MAX));
  }
  fill_bitmap(window, s);
  wire::CcState& c = out.cc;
  c.tx_timestamp = t.timestamp;
  if (state.service_time && t.timestamp != 0) {  // D-18
    c.tx_timestamp = static_cast<uint16_t>(t.timestamp + (now - t.arrived).ns / kTimestampTick.ns);
  }
  c.ooo_count = static_cast<uint16_t>(std::min(window.ooo_count(), kMaxOooCount));
  c.restore_cwnd = state.restore_cwnd;
  c.rcv_cwnd_pen = state.rcv_cwnd_pen;
  c.rcvd_bytes = rcvd_bytes_field(state.rcvd_bytes);
}

void SackBuilder::build_nack(const Trigger& t, const RecvWindow& window, wire::Packet& out) {
  out.bth.opcode = static_cast<uint8_t>(wire::Opcode::nack);
  out.bth.psn = window.psn_of(t.seq).value;
  out.neth.nack_reason = t.reason;
  out.neth.entropy = t.entropy;
  out.neth.nack_psn = out.bth.psn;
  out.neth.tx_timestamp = t.timestamp;
}

}  // namespace mrc::reliability
