// One run of a program, and the group it belongs to: plain state that the runner moves on.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <vector>

#include "coll/lane.h"
#include "coll/program.h"
#include "coll/runner.h"

namespace mrc::coll {

// Where the message of a RECV is; noted: in its sender's memory, to be combined from there; moving: there,
// too, but being read to where it would have landed.
enum class At : uint8_t { nowhere, slot, parked, noted, moving, in_place };

struct StepRun {
  uint32_t waits = 0;  // dependencies that are not done
  uint32_t where = 0;  // slot, or index into Job::parked or Job::pulls
  uint32_t length = 0;
  At at = At::nowhere;
  bool done = false;
};

struct PeerRun {
  uint32_t sent = 0, arrived = 0;  // messages
  uint32_t eager_left = 0;
};

// A buffer of a job and the keys it is registered under; 0: not registered. Two, because what peers may write
// to must be closed to them at once, whatever still reads it here.
struct Region {
  uint64_t addr = 0, bytes = 0;
  uint32_t read_key = 0, write_key = 0;
};

struct Job {
  uint64_t id = 0;
  uint32_t group = 0, number = 0;  // in its group, in the order of submits
  std::shared_ptr<const Program> program;
  double factor = 1.0;
  std::array<Region, 3> buf{};
  std::unique_ptr<uint8_t[]> scratch;
  std::vector<StepRun> steps;
  std::vector<PeerRun> peers;   // as in the program
  uint32_t left = 0;            // steps not done
  std::vector<uint32_t> fresh;  // nothing left to wait for; not looked at yet
  std::deque<uint32_t> work;    // arithmetic and copies, in order
  uint64_t cursor = 0;          // bytes of work.front() that are done
  std::vector<std::unique_ptr<uint8_t[]>> parked;
  struct Pull {
    uint64_t from = 0;
    uint8_t* to = nullptr;
    uint32_t slot = 0;
  };
  std::vector<Pull> pulls;

  [[nodiscard]] uint8_t* at(Buf b, uint64_t offset) const {
    return reinterpret_cast<uint8_t*>(buf[static_cast<size_t>(b)].addr + offset);
  }
};

struct Group {
  uint32_t id = 0, rank = 0;
  std::vector<uint32_t> lanes;                        // by rank; 0: our own
  uint32_t next = 0;                                  // number of the next submit
  uint32_t started = 0;                               // jobs below have entered the window
  uint32_t oldest = 0;                                // jobs below are over
  std::array<std::unique_ptr<Job>, kWindow> running;  // by number
  std::deque<std::unique_ptr<Job>> queued;            // beyond the window
  struct Past {
    uint32_t number = 0;
    std::shared_ptr<const Program> program;
  };
  std::array<Past, kWindow> past;  // jobs that went well, by number
  std::shared_ptr<const Failure> failure;

  // What we expected of a peer in a job that is done; 0 when that is forgotten.
  [[nodiscard]] uint64_t past_print(uint32_t number, uint32_t peer) const {
    const Past& p = past[number % kWindow];
    return p.program != nullptr && p.number == number ? p.program->print(peer) : 0;
  }
  [[nodiscard]] Job* find(uint32_t number) const {
    if (number - oldest >= started - oldest) return nullptr;
    Job* j = running[number % kWindow].get();
    return j != nullptr && j->number == number ? j : nullptr;
  }
};

}  // namespace mrc::coll
