// Work requests in, completions out, and what can be seen of a QP.
#include "engine/qp.h"

#include <cerrno>

namespace mrc::engine {

Qp::Qp(QpEnv& env, uint32_t slot, uint32_t qpn, const QpInit& init, base::Rng rng)
    : env_(env), slot_(slot), qpn_(qpn), init_(init), rng_(rng) {}

Errno Qp::post_send(Instant now, const SendWr& wr) {
  if (state_ != QpState::rts && state_ != QpState::err) return EINVAL;
  maybe_done_ = true;
  if (state_ == QpState::rts && req_->queued() >= init_.max_send_wr) return ENOMEM;
  reliability::WorkRequest w;
  w.wr_id = wr.wr_id;
  w.opcode = wr.opcode;
  w.local_addr = wr.addr;
  w.length = wr.length;
  w.remote_va = wr.remote_addr;
  w.rkey = wr.rkey;
  w.imm = wr.imm;
  w.signaled = wr.signaled || init_.sq_sig_all;
  w.solicited = wr.solicited;
  Region* region = nullptr;
  if (wr.length != 0) {
    region = env_.mrs.local(wr.lkey, init_.pd, wr.addr, wr.length);
    if (region == nullptr && state_ == QpState::rts) {
      // IBTA: a bad lkey is a completion error of this work request, and the QP goes to ERR (reference 5.11).
      local_errors_.push_back(wr.wr_id);
      enter_error(now, Status::local_protection_error, 0);
      return 0;
    }
  }
  if (state_ == QpState::err) {
    if (flushed_.size() >= init_.max_send_wr) return ENOMEM;
    flushed_.push_back(wr.wr_id);  // verbs: posting to a QP in ERR completes with a flush error
    return 0;
  }
  const Errno e = req_->post(w);
  if (e != 0) return e;
  if (usable_ports_ == 0) req_->strand(now);
  if (region != nullptr) ++region->in_use;
  pins_.push_back(region != nullptr ? wr.lkey : 0);
  return 0;
}

Errno Qp::post_recv(uint64_t wr_id) {
  if (state_ == QpState::reset || !rsp_) {
    // INIT: receives may be posted before RTR; they wait until the responder exists.
    if (state_ != QpState::init) return EINVAL;
    if (early_recvs_.size() >= init_.max_recv_wr) return ENOMEM;
    early_recvs_.push_back(wr_id);
    return 0;
  }
  return rsp_->post_recv(wr_id);
}

void Qp::release_pins() {
  const size_t live = req_ ? req_->queued() : 0;
  while (pins_.size() > live) {
    if (pins_.front() != 0) env_.mrs.unpin(pins_.front());
    pins_.pop_front();
  }
  if (pins_.empty()) pins_.trim(4);
}

bool Qp::pop_completion(Completion& out, bool& solicited) {
  if (!maybe_done_ && !(rsp_ && rsp_->has_completion())) return false;
  release_pins();
  out = Completion{};
  out.qpn = qpn_;
  solicited = false;
  reliability::SendCompletion s;
  if (req_ && req_->pop_completion(s)) {
    out.wr_id = s.wr_id;
    out.status = s.status;
    out.byte_len = s.length;
    out.vendor_err = s.vendor_err;
    return true;
  }
  if (!local_errors_.empty()) {
    out.wr_id = local_errors_.front();
    local_errors_.pop_front();
    out.status = Status::local_protection_error;
    return true;
  }
  if (!flushed_.empty()) {
    out.wr_id = flushed_.front();
    flushed_.pop_front();
    out.status = Status::flush_error;
    return true;
  }
  reliability::RecvCompletion r;
  if (rsp_ && rsp_->pop_completion(r)) {
    out.wr_id = r.wr_id;
    out.opcode = WcOpcode::recv_rdma_with_imm;
    out.status = r.flushed ? Status::flush_error : Status::success;
    out.byte_len = r.byte_len;
    out.imm = r.imm;
    out.with_imm = !r.flushed;
    solicited = r.solicited;
    return true;
  }
  maybe_done_ = false;
  return false;
}

void Qp::prefetch_parts() const {
  if (req_) req_->prefetch();
  if (rsp_) rsp_->prefetch();
  if (table_) table_->prefetch();
  if (cc_) cc_->prefetch();
  __builtin_prefetch(peers_.data());
}

void Qp::prefetch_queues() const {
  if (req_) req_->prefetch_queues();
  if (table_) table_->prefetch_index();
}

QpStats Qp::stats() const {
  QpStats s;
  s.state = state_;
  if (req_) {
    s.next_psn = req_->next_psn().value;
    s.unack_psn = req_->unack_psn().value;
    s.tx = req_->counters();
    s.queued = req_->queued();
    s.outstanding = req_->outstanding_nominal();
  }
  if (rsp_) {
    s.cack_psn = rsp_->cack_psn().value;
    s.rx = rsp_->counters();
  }
  if (cc_) {
    s.cc = cc_->snapshot();
    s.cc_counters = cc_->counters();
  }
  s.srtt = rtt_.srtt();
  s.rttvar = rtt_.rttvar();
  s.sacks_rx = sacks_rx_;
  s.nacks_rx = nacks_rx_;
  s.acks_rx = acks_rx_;
  s.unknown_ev = unknown_ev_;
  s.probes_tx = probes_tx_;
  s.probe_answers = probe_answers_;
  s.memory_bytes = memory_bytes();
  return s;
}

size_t Qp::memory_bytes() const {
  size_t n = sizeof(Qp) + peers_.capacity() * sizeof(PeerPort) + pins_.bytes();
  n += early_recvs_.bytes() + local_errors_.bytes() + flushed_.bytes();
  n += effects_.losses.capacity() * sizeof(reliability::Loss);
  if (req_) n += req_->memory_bytes();
  if (rsp_) n += rsp_->memory_bytes();
  if (table_) n += table_->memory_bytes();
  return n;
}

}  // namespace mrc::engine
