// Bandwidth and message rate: keeps `depth` work requests of one size in flight on every queue pair, and
// counts. Without a job it is the passive end: it gives the transport time and counts what arrives. Decides
// what is posted and what counts as measured; leaves connecting and closing queue pairs to its owner.
#pragma once

#include <cstdint>
#include <vector>

#include "perf/histogram.h"
#include "perf/loop.h"
#include "perf/timeline.h"

namespace mrc::perf {

using base::Duration;
using base::Instant;

// A stretch of memory that is walked from start to end, again and again.
struct Window {
  uint64_t addr = 0, length = 0;
};

struct PumpConfig {
  uint32_t cq = 0;
  std::vector<uint32_t> qpns;
  uint32_t lkey = 0, rkey = 0;
  Window source, target;    // divided among the queue pairs; the target is the peer's memory
  uint32_t recv_depth = 0;  // receives kept posted on each queue pair: the peer writes with immediate
  bool own_thread = false;  // the driver has one
  bool watch = true;        // count what arrives: costs a look at every queue pair a bin
  Duration bin = Duration::millis(100);
};

struct Job {
  reliability::WrOpcode op = reliability::WrOpcode::rdma_write;
  uint32_t size = 0;    // bytes of a message
  uint32_t depth = 1;   // messages in flight on each queue pair
  uint64_t iters = 0;   // messages on each queue pair; 0: no limit
  Duration duration{};  // 0: no limit
  uint64_t region = 0;  // bytes of each window that are walked; 0: all
};

// What was measured: between the first post and the end of the duration, or the last completion.
struct PumpResult {
  Instant from, to;
  uint64_t bytes = 0, messages = 0;
  uint64_t posted = 0, errors = 0;  // all work requests; those that failed
  engine::Status first_error = engine::Status::success;
  uint64_t received = 0;  // immediates
  std::vector<uint64_t> qp_bytes;
};

class Pump {
 public:
  Pump(net::Driver& driver, PumpConfig config);

  // Begins a job with new counts. EINVAL: no depth, a depth * queue pairs beyond 2^24, or messages that do
  // not fit the windows; EBUSY: work of the last job is still in flight.
  engine::Errno start(const Job& job);
  // Counts from now on what arrives, without sending. A start() after it goes on with that count.
  void start_passive();
  // True when the job is done and nothing is in flight any more; comes back after `most` at the latest. From
  // then on it is rest(), so that whoever still sends to us gets answers.
  bool run(Duration most);
  // After a job: the transport gets its time, nothing is posted, only arrivals are counted. Takes `most`.
  void rest(Duration most);
  // Posts no more; what is in flight is waited for but not counted.
  void stop();

  [[nodiscard]] const PumpResult& result() const { return result_; }
  [[nodiscard]] const Histogram& latency() const { return latency_; }  // post to completion, ns
  [[nodiscard]] const Timeline& sent() const { return sent_; }         // bytes completed
  // Bytes placed in our memory; begins with the first of them.
  [[nodiscard]] const Timeline& arrived() const { return arrived_; }
  [[nodiscard]] uint64_t in_flight() const { return in_flight_; }

 private:
  struct Lane {
    Window source, target;
    uint64_t source_at = 0, target_at = 0;
    uint64_t posted = 0, done = 0;
    bool waiting = false, dead = false;  // listed in ready_; refused or failed
  };
  static constexpr uint64_t kRecv = uint64_t{1} << 63;  // wr_id of a receive

  void begin();
  void step(engine::Endpoint& e, Instant now);
  void reap(engine::Endpoint& e, Instant now);
  void on_send_done(const engine::Completion& c, Instant now);
  void refill(engine::Endpoint& e, Instant now, size_t lane, uint32_t count);
  void post(engine::Endpoint& e, Instant now);
  bool post_one(engine::Endpoint& e, Instant now, size_t lane);
  void make_ready(size_t lane);
  void close_window(Instant now);
  void look_at_arrivals(engine::Endpoint& e, Instant now);
  [[nodiscard]] uint64_t placed(const engine::Endpoint& e) const;
  [[nodiscard]] bool wants_more(const Lane& lane) const;
  [[nodiscard]] bool finished() const;
  [[nodiscard]] Window part(const Window& whole, size_t lane) const;

  Loop loop_;
  PumpConfig config_;
  Job job_;
  bool active_ = false, measuring_ = false, stopping_ = false, over_ = false, first_step_ = true,
       receives_posted_ = false, watching_ = false;
  std::vector<Lane> lanes_;
  std::vector<size_t> ready_;       // lanes that may post
  std::vector<int64_t> posted_at_;  // ns, by lane and work request modulo depth
  uint64_t in_flight_ = 0;
  uint64_t placed_before_ = 0;  // bytes the peer had written when the job began
  Instant deadline_ = Instant::never();
  PumpResult result_;
  Histogram latency_;
  Timeline sent_, arrived_;
};

}  // namespace mrc::perf
