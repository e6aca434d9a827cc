#include "reliability/messages_rx.h"

#include <cerrno>

namespace mrc::reliability {

namespace {

bool lengths_ok(const RecvSlot& s, uint32_t length, uint32_t pmtu) {
  if (s.dmalen > MessagesRx::kMaxLength) return false;
  if (s.first && s.last) return length <= pmtu && length == s.dmalen;
  if (s.dmalen <= pmtu) return false;
  if (!s.last) return length == pmtu;
  return length == (s.dmalen - 1) % pmtu + 1;
}

}  // namespace

RecvSlot MessagesRx::inspect(const wire::Packet& p) const {
  using wire::Opcode;
  const auto op = static_cast<Opcode>(p.bth.opcode);
  RecvSlot s;
  s.dmalen = p.reth.dmalen;
  s.msn = p.meth.msn;
  s.first = op == Opcode::write_first || op == Opcode::write_only || op == Opcode::write_only_imm;
  s.last = op != Opcode::write_first && op != Opcode::write_middle;
  s.has_imm = op == Opcode::write_last_imm || op == Opcode::write_only_imm;
  if (s.has_imm) {
    s.imm = p.imm.imm;
    s.rqmsn = p.meth.rqmsn;
    s.solicited = p.bth.se;
  }
  s.length = static_cast<uint16_t>(p.payload_length);
  const bool range_ok = !s.has_imm || static_cast<uint16_t>(s.rqmsn - completing_) < max_wimm_;
  if (!lengths_ok(s, p.payload_length, pmtu_) || !range_ok) s.error = wire::kNakInvalidRequest;
  return s;
}

uint8_t MessagesRx::check_sequence(const RecvSlot& s) {
  if (s.error != 0) return s.error;
  const bool bad =
      s.first == in_message_ || (msn_known_ && s.msn != msn_) || (in_message_ && s.dmalen != dmalen_);
  if (bad) return wire::kNakInvalidRequest;
  const uint64_t received = (s.first ? 0 : received_) + s.length;
  if (s.last ? received != s.dmalen : received >= s.dmalen) return wire::kNakInvalidRequest;
  if (s.has_imm && s.rqmsn != arriving_) return wire::kNakInvalidRequest;
  received_ = received;
  return 0;
}

uint8_t MessagesRx::consume(base::Instant now, int64_t seq, const RecvSlot& s) {
  if (const uint8_t e = check_sequence(s)) return e;
  msn_known_ = true;
  msn_ = s.msn;
  dmalen_ = s.dmalen;
  in_message_ = !s.last;
  if (!s.last) return 0;
  ++msn_;
  return finish(now, seq, s);
}

uint8_t MessagesRx::finish(base::Instant now, int64_t seq, const RecvSlot& s) {
  if (s.has_imm && recvs_.empty()) {  // while any is held, there is none
    if (grace_.ns <= 0) return wire::kNakRemoteOperation;
    if (static_cast<uint16_t>(arriving_ - completing_) >= max_wimm_) return wire::kNakInvalidRequest;
    ++arriving_;
    held_.push_back(Held{seq, seq, now, s.imm, s.dmalen, 1, s.solicited});
    return 0;
  }
  if (!held_.empty()) {  // a plain Write behind a starved WIMM
    ++held_.back().ends;
    held_.back().last_end = seq;
    return 0;
  }
  if (s.has_imm) {
    ++arriving_;
    complete_wimm(s.imm, s.dmalen, s.solicited);
  }
  ++done_;
  acked_end_ = seq;
  return 0;
}

void MessagesRx::complete_wimm(uint32_t imm, uint32_t length, bool solicited) {
  done_q_.push_back(RecvCompletion{recvs_.front(), imm, length, solicited, false});
  recvs_.pop_front();
  ++completing_;
  ++wimms_done_;
}

base::Errno MessagesRx::post_recv(uint64_t wr_id) {
  // Completions nobody fetched count too, so that both queues stay bounded.
  if (recvs_.size() + done_q_.size() >= max_recv_) return ENOMEM;
  if (dead_) {
    done_q_.push_back(RecvCompletion{wr_id, 0, 0, false, true});
    return 0;
  }
  recvs_.push_back(wr_id);
  while (!held_.empty() && !recvs_.empty()) {
    const Held h = held_.front();
    held_.pop_front();
    complete_wimm(h.imm, h.length, h.solicited);
    done_ += h.ends;
    acked_end_ = h.last_end;
  }
  return 0;
}

void MessagesRx::flush() {
  dead_ = true;
  while (!held_.empty()) held_.pop_front();
  for (; !recvs_.empty(); recvs_.pop_front())
    done_q_.push_back(RecvCompletion{recvs_.front(), 0, 0, false, true});
}

bool MessagesRx::pop_completion(RecvCompletion& out) {
  if (done_q_.empty()) return false;
  out = done_q_.front();
  done_q_.pop_front();
  return true;
}

}  // namespace mrc::reliability
