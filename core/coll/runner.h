// Runs collectives: many jobs of many groups over the lanes of one endpoint, without I/O, driven by step().
// Decides what is posted when, what a message means, and what fails with a lane; leaves algorithms to the
// programs, queue pairs to whoever opens them, waiting and waking to the driver's side.
//
// Messages: every SEND is one WRITE with immediate. Eager ones land in a slot of the peer's lane; the others
// straight in the memory that the peer announced when its job began. Both kinds arrive in the order of the
// posts. What a peer sends is hostile: jobs, lengths, slots and credits are checked, and what does not fit is
// dropped and counted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coll/lane.h"
#include "coll/program.h"

namespace mrc::coll {

enum class JobState : uint8_t { pending, done, failed, aborted };

struct Failure {
  enum class Cause : uint8_t { lane, mismatch, protocol, aborted, closed };
  Cause cause{};
  int32_t peer = -1;                                // rank, -1: none
  engine::Status status = engine::Status::success;  // Cause::lane
  uint32_t job = 0;
  uint64_t ours = 0, theirs = 0;  // Cause::mismatch: prints, or lengths when those agree
  std::string reason{};
};

struct Memory {
  uint64_t addr = 0, bytes = 0;
};

struct Finished {
  uint64_t id = 0;
  JobState state{};
  std::shared_ptr<const Failure> failure;
};

struct RunnerStats {
  uint64_t jobs = 0, jobs_done = 0, jobs_failed = 0, eager_tx = 0, eager_rx = 0, data_tx = 0, data_rx = 0,
           announce_tx = 0, announce_rx = 0, credit_tx = 0, credit_rx = 0, parked = 0, bytes_tx = 0,
           bytes_rx = 0, bytes_reduced = 0, local_bytes = 0, local_refused = 0,
           drop_late = 0,                // of jobs that are over
      drop_malformed = 0,                // that no correct peer sends
      drop_stray = 0, lanes_failed = 0;  // of lanes that are closed
};

class Runner {
 public:
  static constexpr uint32_t kRecvDepth = 256;
  // Arithmetic and copying a step() does at most, in bytes, so that the network gets its turn.
  static constexpr uint64_t kBudget = 256 * 1024;

  // `reach`: null when no memory but our own can be read.
  explicit Runner(Endpoint& e, std::unique_ptr<Reach> reach = nullptr);
  ~Runner();
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  [[nodiscard]] uint32_t pd() const;
  [[nodiscard]] uint32_t cq() const;

  // --- lanes and groups ---
  base::Result<uint32_t> open_lane_memory(Endpoint& e);  // id
  [[nodiscard]] RemoteMemory lane_memory(uint32_t id) const;
  Errno close_lane_memory(Endpoint& e, uint32_t id);  // one that no lane came of
  // The queue pair is in INIT or later and uses pd() and cq(). EINVAL: no such memory, or not what a peer
  // would say.
  base::Result<uint32_t> add_lane(Endpoint& e, Instant now, uint32_t qpn, uint32_t memory,
                                  const RemoteMemory& remote);
  // When its peer last acknowledged or sent anything; never: not yet, or no such lane.
  [[nodiscard]] Instant heard(uint32_t lane) const;
  // Its group fails. Destroy the queue pair afterwards.
  Errno close_lane(Endpoint& e, Instant now, uint32_t lane);
  // `lanes` by rank, negative for our own. EINVAL: no such lane, or one that has a group.
  base::Result<uint32_t> new_group(const std::vector<int64_t>& lanes, uint32_t rank);
  // What still runs is aborted.
  Errno close_group(Endpoint& e, Instant now, uint32_t group);
  Errno abort(Endpoint& e, Instant now, uint32_t group, const std::string& reason);

  // --- jobs ---
  // The memory stays as it is until the job is over. EINVAL: no such group, or another number of ranks or a
  // shorter buffer than the program has; ECANCELED: the group has failed.
  base::Result<uint64_t> submit(Endpoint& e, Instant now, uint32_t group,
                                std::shared_ptr<const Program> program, Memory input, Memory output,
                                double factor);
  // Takes completions, computes, posts. True: there is more to do at once.
  bool step(Endpoint& e, Instant now);
  // Jobs that are over since the last call. Their memory is not touched any more.
  void take_finished(std::vector<Finished>& out);

  struct Progress {
    uint32_t done = 0, total = 0;
    std::vector<uint32_t> waiting_for;  // ranks that have to do something first
  };
  [[nodiscard]] Progress progress(uint64_t job) const;  // empty when it is over
  [[nodiscard]] std::shared_ptr<const Failure> failure_of(uint32_t group) const;
  [[nodiscard]] const RunnerStats& stats() const;
  // All groups fail and all memory is closed to peers.
  void close(Endpoint& e, Instant now);
  // Everything fails, without touching the endpoint any more: its driver is gone.
  void drop_all(const std::string& reason);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mrc::coll
