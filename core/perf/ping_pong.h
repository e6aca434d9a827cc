// Latency: one message there, one back, and so on. An answer is seen by its last byte in memory, which the
// caller looks at after each turn of the transport, or by its immediate. A message of several packets is told
// by its immediate only: packets overtake one another, and the last byte may be there before the first
// (reference 6.9: the immediate comes after all data).
#pragma once

#include <cstdint>

#include "perf/histogram.h"
#include "perf/loop.h"

namespace mrc::perf {

struct PingPongConfig {
  uint32_t cq = 0, qpn = 0, lkey = 0, rkey = 0;
  uint64_t source = 0;               // our memory; its last byte is written
  const uint8_t* landing = nullptr;  // our memory; the peer writes here
  uint64_t target = 0;               // the peer's
  uint32_t recv_depth = 0;           // receives kept posted, for messages with an immediate
  bool own_thread = false;           // the driver has one: only with immediates
};

struct Rally {
  uint32_t size = 8;   // bytes, at least 1
  bool imm = false;    // tell by immediates
  bool serve = false;  // speaks first and measures; the other end answers
  uint64_t iters = 0;  // of the serving end; 0: until stop()
  base::Duration duration{};
  uint64_t warm_up = 0;  // round trips before the measured ones
};

class PingPong {
 public:
  PingPong(net::Driver& driver, const PingPongConfig& config);

  // New counts. The landing byte must be 0: see clear_landing(). EINVAL: no size, or memory and a driver
  // thread.
  engine::Errno start(const Rally& rally);
  // True when all round trips are done; the answering end is never done. Back after `most` at the latest.
  // From then on it is rest().
  bool run(base::Duration most);
  // Between rallies: the transport gets its time. Takes `most`.
  void rest(base::Duration most);
  void stop() { stopping_ = true; }

  [[nodiscard]] const Histogram& round_trip() const { return round_trip_; }  // ns
  [[nodiscard]] uint64_t answered() const { return answered_; }
  [[nodiscard]] uint64_t errors() const { return errors_; }
  [[nodiscard]] engine::Status first_error() const { return first_error_; }
  [[nodiscard]] base::Instant from() const { return from_; }
  [[nodiscard]] base::Instant to() const { return to_; }

 private:
  void step(engine::Endpoint& e, base::Instant now);
  void reap(engine::Endpoint& e, base::Instant now);
  bool arrived() const;
  void on_round_trip(base::Instant now);
  void send(engine::Endpoint& e, base::Instant now);
  [[nodiscard]] bool done() const;

  Loop loop_;
  PingPongConfig config_;
  Rally rally_;
  bool stopping_ = false, over_ = false, first_step_ = true, waiting_ = false, receives_posted_ = false;
  uint64_t sequence_ = 0;  // of the message sent last, or, at the answering end, answered last
  uint64_t immediates_ = 0, answered_ = 0, errors_ = 0;
  engine::Status first_error_ = engine::Status::success;
  base::Instant from_, to_, sent_at_, deadline_ = base::Instant::never();
  Histogram round_trip_;
};

}  // namespace mrc::perf
