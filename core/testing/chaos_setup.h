// What one chaos run is drawn to be: fabric, connection parameters and traffic, all from the seed.
#pragma once

#include <cstdint>
#include <string>

#include "testing/chaos_flow.h"
#include "testing/chaos_harm.h"
#include "testing/pair.h"

namespace mrc::testing {

struct ChaosSetup {
  PairConfig pair;
  HarmConfig harm;
  FlowLimits flow;
  uint32_t qps = 1, pmtu = 1024, receives = 128;
  uint8_t mpr = 8;
  uint16_t max_wimm = 64;
  bool hold = false;
  std::string cc = "uet-1.0-nscc", policy = "bitmap";

  [[nodiscard]] std::string text() const;  // one line
};

ChaosSetup draw_setup(uint64_t seed);

}  // namespace mrc::testing
