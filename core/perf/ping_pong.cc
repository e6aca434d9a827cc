// One step: take completions, look whether the other end has spoken, speak.
#include "perf/ping_pong.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace mrc::perf {

using base::Duration;
using base::Instant;
using engine::Completion;
using engine::Endpoint;
using engine::Errno;
using engine::Status;

PingPong::PingPong(net::Driver& driver, const PingPongConfig& config)
    : loop_(driver, config.cq, config.own_thread), config_(config) {}

Errno PingPong::start(const Rally& rally) {
  if (rally.size == 0 || (config_.own_thread && !rally.imm)) return EINVAL;
  rally_ = rally;
  stopping_ = waiting_ = over_ = false;
  first_step_ = true;
  sequence_ = immediates_ = answered_ = errors_ = 0;
  first_error_ = Status::success;
  deadline_ = Instant::never();
  round_trip_.clear();
  return 0;
}

bool PingPong::done() const {
  if (errors_ != 0) return true;
  if (waiting_) return false;  // the peer answers what was sent, whatever the clock says
  if (stopping_) return true;
  return rally_.serve && rally_.iters != 0 && answered_ >= rally_.iters + rally_.warm_up;
}

bool PingPong::run(Duration most) {
  if (over_) {
    rest(most);  // the peer may need us still
    return true;
  }
  const Instant end = loop_.now() + most;
  for (;;) {
    Instant now;
    loop_.with([&](Endpoint& e, Instant at) {
      now = at;
      step(e, now);
      over_ = done();
    });
    if (over_ || now >= end) return over_;
    loop_.pause(std::min(end, deadline_ > now ? deadline_ : end) - now);
  }
}

void PingPong::rest(Duration most) {
  const Instant end = loop_.now() + most;
  for (;;) {
    Instant now;
    loop_.with([&](Endpoint& e, Instant at) { reap(e, now = at); });
    if (now >= end) return;
    loop_.pause(end - now);
  }
}

void PingPong::step(Endpoint& e, Instant now) {
  if (first_step_) {
    first_step_ = false;
    from_ = to_ = now;
    if (rally_.duration > Duration{}) deadline_ = now + rally_.duration;
    for (uint32_t i = 0; i < config_.recv_depth && !receives_posted_; ++i)
      (void)e.post_recv(now, config_.qpn, i);
    receives_posted_ = true;
  }
  reap(e, now);
  if (rally_.serve) {
    if (waiting_ && arrived()) on_round_trip(now);
    if (now >= deadline_) stopping_ = true;
    if (!waiting_ && !done()) send(e, now);
  } else if (!stopping_ && arrived()) {
    ++answered_;
    to_ = now;
    send(e, now);
  }
}

void PingPong::on_round_trip(Instant now) {
  waiting_ = false;
  ++answered_;
  to_ = now;
  if (answered_ <= rally_.warm_up) {
    from_ = now;
    return;
  }
  round_trip_.record((now - sent_at_).ns);
}

// Sequence numbers start at 1 and neighbours differ in their last byte, which is the mark of a message.
bool PingPong::arrived() const {
  const uint64_t wanted = rally_.serve ? sequence_ : sequence_ + 1;
  if (rally_.imm) return immediates_ >= wanted;
  // The transport writes here, from this very thread but behind the compiler's back.
  const volatile uint8_t* last = config_.landing + rally_.size - 1;
  return *last == static_cast<uint8_t>(wanted);
}

void PingPong::send(Endpoint& e, Instant now) {
  ++sequence_;
  reinterpret_cast<uint8_t*>(config_.source)[rally_.size - 1] = static_cast<uint8_t>(sequence_);
  engine::SendWr wr;
  wr.wr_id = sequence_;
  wr.opcode = rally_.imm ? reliability::WrOpcode::rdma_write_imm : reliability::WrOpcode::rdma_write;
  wr.addr = config_.source;
  wr.length = rally_.size;
  wr.lkey = config_.lkey;
  wr.remote_addr = config_.target;
  wr.rkey = config_.rkey;
  wr.imm = static_cast<uint32_t>(sequence_);
  const Errno error = e.post_send(now, config_.qpn, wr);
  if (error != 0) {
    ++errors_;
    first_error_ = Status::local_qp_operation_error;
    return;
  }
  waiting_ = rally_.serve;
  sent_at_ = now;
}

void PingPong::reap(Endpoint& e, Instant now) {
  std::array<Completion, 64> some;
  size_t n = 0;
  do {
    n = e.poll_completion(config_.cq, some);
    for (size_t i = 0; i < n; ++i) {
      const Completion& c = some[i];
      if (c.status != Status::success) {
        if (errors_++ == 0) first_error_ = c.status;
      } else if (c.opcode == engine::WcOpcode::recv_rdma_with_imm) {
        ++immediates_;
        (void)e.post_recv(now, config_.qpn, 0);
      }
    }
  } while (n == some.size());
}

}  // namespace mrc::perf
