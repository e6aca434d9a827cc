#include "reliability/messages.h"

#include <algorithm>
#include <cerrno>

namespace mrc::reliability {

base::Errno MessageQueue::post(const WorkRequest& wr) {
  if (wr.length > kMaxLength) return EINVAL;
  // Completions nobody fetched count too, so that the queue stays bounded.
  if (ring_.size() >= max_wr_) return ENOMEM;
  Message m;
  m.wr = wr;
  m.packets = wr.length == 0 ? 1 : (wr.length - 1) / pmtu_ + 1;
  ring_.push_back(m);
  return 0;
}

void MessageQueue::fill(const Message& m, uint16_t msn, uint32_t packet, PlannedPacket& p) const {
  const uint64_t offset = uint64_t{packet} * pmtu_;
  const bool first = packet == 0;
  const bool last = packet + 1 == m.packets;
  p.msn = msn;
  p.rqmsn = m.rqmsn;
  p.va = m.wr.remote_va + offset;
  p.rkey = m.wr.rkey;
  p.dmalen = m.wr.length;
  p.imm = last && m.is_wimm() ? m.wr.imm : 0;
  p.local_addr = m.wr.local_addr + offset;
  p.length = static_cast<uint32_t>(std::min<uint64_t>(pmtu_, m.wr.length - offset));
  p.solicited = m.wr.solicited;
  p.last_of_message = last;
  if (last) {
    const auto plain = first ? wire::Opcode::write_only : wire::Opcode::write_last;
    const auto imm = first ? wire::Opcode::write_only_imm : wire::Opcode::write_last_imm;
    p.opcode = m.is_wimm() ? imm : plain;
  } else {
    p.opcode = first ? wire::Opcode::write_first : wire::Opcode::write_middle;
  }
}

void MessageQueue::plan_new(PlannedPacket& p) const {
  const Message& m = ring_[index(send_)];
  fill(m, static_cast<uint16_t>(send_), sent_, p);
  // A message that has not started gets the next number; plain Writes carry 0 (2.4).
  if (sent_ == 0) p.rqmsn = m.is_wimm() ? next_rqmsn_ : uint16_t{0};
}

uint16_t MessageQueue::advance(int64_t seq) {
  Message& m = ring_[index(send_)];
  const auto msn = static_cast<uint16_t>(send_);
  if (sent_ == 0) {
    m.first_seq = seq;
    if (m.is_wimm()) {
      m.rqmsn = next_rqmsn_++;
      ++wimm_out_;
    }
  }
  if (++sent_ == m.packets) {
    ++send_;
    sent_ = 0;
  }
  return msn;
}

void MessageQueue::plan_again(int64_t seq, uint16_t msn, PlannedPacket& p) const {
  const int64_t n = done_ + static_cast<uint16_t>(msn - static_cast<uint16_t>(done_));
  const Message& m = ring_[index(n)];
  fill(m, msn, static_cast<uint32_t>(seq - m.first_seq), p);
}

const Message* MessageQueue::oldest_sent() const { return done_ < send_ ? &ring_[index(done_)] : nullptr; }

uint32_t MessageQueue::complete_through(int64_t seq) {
  uint32_t n = 0;
  for (const Message* m = oldest_sent(); m != nullptr && m->last_seq() <= seq; m = oldest_sent()) {
    if (m->is_wimm()) --wimm_out_;
    ++done_;
    ++n;
  }
  if (n > 0) drop_silent();
  return n;
}

void MessageQueue::fail(Status first, uint8_t vendor_err) {
  bool oldest = true;
  for (; done_ < end(); ++done_) {
    Message& m = ring_[index(done_)];
    m.status = oldest ? first : Status::flush_error;
    m.vendor_err = oldest ? vendor_err : uint8_t{0};
    oldest = false;
  }
  send_ = end();
  sent_ = 0;
  wimm_out_ = 0;
}

void MessageQueue::drop_silent() {
  while (front_ < done_ && !ring_.front().wr.signaled && ring_.front().status == Status::success) {
    ring_.pop_front();
    ++front_;
  }
}

bool MessageQueue::pop_completion(SendCompletion& out) {
  drop_silent();
  if (front_ == done_) return false;
  const Message& m = ring_.front();
  out = SendCompletion{m.wr.wr_id, m.status, m.wr.opcode, m.wr.length, m.vendor_err};
  ring_.pop_front();
  ++front_;
  drop_silent();
  return true;
}

}  // namespace mrc::reliability
