// The schedule of harm of one chaos run: what happens next, and when. Drawn from its own random stream, so
// that leaving one action out does not change the others.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "impair/rule.h"
#include "testing/pair.h"

namespace mrc::testing {

struct HarmStep {
  enum class Kind : uint8_t { none, rule, port, mpr, pressure, restart } kind = Kind::none;
  uint32_t index = 0;
  std::string text;
  impair::Rule rule;
  int side = 0;
  uint8_t port = 0, mpr = 0, pressure = 0;
  bool up = false;
};

struct HarmConfig {
  uint32_t actions = UINT32_MAX;              // how many there are at most
  Duration mean_gap = Duration::micros(150);  // between actions
  bool dynamic_mpr = false, trimming = false;
};

class Harm {
 public:
  Harm(uint64_t seed, const PairConfig& pair, const HarmConfig& config, std::vector<uint32_t> without);
  [[nodiscard]] Instant next_at() const { return std::min(next_, heal_at()); }
  // The action due now; none when it was left out or nothing is due.
  HarmStep take(Instant now);
  // A restarted side comes back with all ports up.
  void forget_ports(int side);

 private:
  struct Heal {
    Instant at;
    int side;
    uint8_t port;
    uint32_t index;
  };
  [[nodiscard]] Instant heal_at() const;
  [[nodiscard]] bool left_out(uint32_t index) const {
    return index >= config_.actions || std::find(without_.begin(), without_.end(), index) != without_.end();
  }
  HarmStep draw(Instant now);
  impair::Rule draw_rule(base::Rng& r, Instant now);

  base::Rng rng_;
  PairConfig pair_;
  HarmConfig config_;
  std::vector<uint32_t> without_;
  std::vector<Heal> heals_;
  Instant next_{};
  uint32_t index_ = 0;
};

}  // namespace mrc::testing
