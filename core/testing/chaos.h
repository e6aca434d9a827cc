// Chaos: two engines under random traffic and random harm, checked for what must always hold: every write
// placed exactly, every immediate once and in order, no QP stuck, memory bounded. A seed is a whole run.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "impair/line.h"
#include "wire/drop.h"

namespace mrc::testing {

// What the widest window (32 x 128 PSNs) on both halves of a QP may cost; more is a violation.
inline constexpr size_t kChaosMaxQpBytes = 512 * 1024;

struct ChaosOptions {
  uint64_t seed = 1;
  uint64_t packets = 50'000;  // datagrams handed to the network before the drain
  // Harm actions to leave out, by index; used to shrink a failure to its cause.
  std::vector<uint32_t> without;
  uint32_t actions = UINT32_MAX;  // only the first ones: nothing is done after them
  bool stop_at_first = true;
  size_t max_qp_bytes = kChaosMaxQpBytes;
};

struct ChaosAction {
  uint32_t index = 0;
  int64_t at_ns = 0;
  std::string text;
};

struct ChaosReport {
  uint64_t packets = 0, drain_packets = 0, steps = 0;  // steps: events of the run, without the drain
  uint64_t writes = 0, immediates = 0, bytes = 0;
  // Harm done: actions by kind, and packets that met it.
  uint64_t restarts = 0, flaps = 0, mpr_changes = 0, rules = 0, cuts = 0, pressures = 0;
  impair::LineCounters network;
  uint64_t rtx = 0, duplicates = 0, spurious = 0, ev_demotions = 0, nacks = 0;
  std::array<uint64_t, static_cast<size_t>(wire::DropReason::count_)>
      rejected{};  // by the endpoints, by reason
  size_t max_qp_bytes = 0, max_frames = 0;
  int64_t virtual_ns = 0;
  uint64_t digest = 0;  // both endpoints; equal seeds give equal digests
  std::string setup;    // the drawn parameters, one line
  std::vector<std::string> violations;
  std::vector<ChaosAction> actions;  // harm that took place, in order
};

// Long runs are many independent ones: the seed of one of them.
uint64_t episode_seed(uint64_t seed, uint64_t episode);

ChaosReport run_chaos(const ChaosOptions& options);

// Reruns with fewer and fewer actions while a violation remains; `budget` bounds the reruns. The result lists
// the actions still needed (all others are in `without`).
ChaosOptions shrink_chaos(const ChaosOptions& failing, const ChaosReport& report, uint32_t budget);

}  // namespace mrc::testing
