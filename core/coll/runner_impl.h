// The state behind Runner and what its files share.
#pragma once

#include <map>
#include <span>

#include "base/number_map.h"
#include "coll/job.h"
#include "coll/runner.h"
#include "coll/scratch.h"

namespace mrc::coll {

struct Runner::Impl {
  Impl(Endpoint& e, std::unique_ptr<Reach> r);

  // --- resources and lives (runner.cc) ---
  [[nodiscard]] Lane* lane(uint32_t id) const;
  [[nodiscard]] Group* group(uint32_t id) const;
  bool advance(Endpoint& e, Instant now);
  void pay();
  void start(Endpoint& e, Group& g);  // jobs enter the window while there is room
  void enter(Group& g, Job& j);
  Errno reg(Endpoint& e, Job& j, Buf b);
  void dereg(Endpoint& e, uint32_t key);
  void release(Endpoint& e, Job& j);
  // These only take note: jobs leave in reap(), when nobody holds one.
  void fail_group(Group& g, Failure why);
  void fail_lane(Lane& l, engine::Status status);
  void reap(Endpoint& e, Instant now);
  void bury(Endpoint& e, Instant now, Group& g);
  void stop_reading(Endpoint& e, Instant now, Lane& l);
  void sweep(Endpoint& e);

  // --- messages in (runner_in.cc) ---
  void take_completions(Endpoint& e, Instant now);
  void on_completion(Endpoint& e, Instant now, const engine::Completion& c);
  void on_sent(Lane& l);
  void on_eager(Lane& l, uint32_t length);
  void on_data(Lane& l, uint16_t job, uint32_t length);
  void on_announcement(Lane& l, uint16_t job);
  bool check_print(Group& g, const Job& j, const Lane& l);
  void take_early(Group& g, Job& j, Lane& l);
  // The next message of a job is there; where it does not fit, the group fails.
  void arrive(Group& g, Job& j, Lane& l, const Lane::Arrival& m, At at);
  void park_some(Group& g, Lane& l);
  void complete_noted(Lane& l);
  void move(Job& j, uint32_t step);
  // False: the note leads outside what peers may write to.
  bool take_note(Job& j, const Lane& l, uint32_t step, const Lane::Arrival& m);

  // --- messages out (runner_out.cc) ---
  void mark(Lane& l);  // something may go out on it
  void pump(Endpoint& e, Instant now);
  void pump_lane(Endpoint& e, Instant now, Lane& l);
  bool pump_job(Endpoint& e, Instant now, Lane& l, Group& g, Job& j, uint32_t peer, bool eager_turn);
  // Not `open`: only what we expect of the call, without memory to write to.
  bool announce(Endpoint& e, Instant now, Lane& l, const Job& j, bool open);
  bool send_eager(Endpoint& e, Instant now, Lane& l, Job& j, uint32_t step);
  bool send_data(Endpoint& e, Instant now, Lane& l, Group& g, Job& j, uint32_t step);
  bool post(Endpoint& e, Instant now, Lane& l, engine::SendWr& wr, Imm kind, uint32_t job, uint32_t step);
  bool send_note(Endpoint& e, Instant now, Lane& l, const Job& j, uint32_t step);
  bool give_credit(Endpoint& e, Instant now, Lane& l, uint16_t about);
  [[nodiscard]] Lane* lane_of(const Job& j, const Program::Peer& plan) const;

  // --- arithmetic (runner_work.cc) ---
  void settle(Job& j);  // looks at what became ready
  void ready(Job& j, uint32_t step);
  void step_done(Job& j, uint32_t step);
  void work(uint64_t& budget);
  void queue(Job& j, uint32_t step);
  void work_on(Job& j, uint64_t& budget);
  void free_message(Job& j, uint32_t step);
  bool pull(Job& j, uint32_t step, uint64_t from, uint64_t bytes);
  bool read_peer(Lane& l, const Job::Pull& p, uint64_t from, uint8_t* to, uint64_t bytes, bool last);
  void compute(Job& j, const Step& s, const StepRun& r, uint64_t from, uint64_t bytes);

  std::unique_ptr<Reach> reach;
  uint32_t pd = 0, cq = 0;
  std::map<uint32_t, std::unique_ptr<Lane>> lanes;
  std::map<uint32_t, std::unique_ptr<LaneMemory>> memories;  // without a lane yet
  std::map<uint32_t, std::unique_ptr<Group>> groups;
  base::NumberMap lane_of_qpn;
  uint32_t last_id = 0;
  uint64_t last_job = 0;
  std::map<uint64_t, std::pair<uint32_t, uint32_t>> live;  // job id -> group, number
  std::vector<std::unique_ptr<LaneMemory>> closing;        // still read by a queue pair
  std::vector<uint32_t> closing_keys;
  std::vector<Finished> finished;
  std::vector<uint32_t> owing;                          // lanes whose credit waits for the arithmetic,
  int patience = 0;                                     // for so many steps
  std::vector<uint32_t> dirty;                          // lanes
  std::vector<uint32_t> busy;                           // groups that may have arithmetic to do
  std::vector<uint32_t> broken;                         // groups
  std::vector<std::pair<uint32_t, uint32_t>> complete;  // group, number of jobs without a step left
  ScratchPool scratch;
  std::vector<uint8_t> hot;  // what is read to be combined at once
  RunnerStats stats;
};

}  // namespace mrc::coll
