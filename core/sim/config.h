// Everything a run is given, as plain structs: the fabric, its queues, faults, and what to watch.
// Decides defaults only; Python checks values before they come here, and `Simulation` refuses what cannot be
// built.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/aqm.h"

namespace mrc::sim {

struct SwitchSpec {
  uint8_t tier = 0, plane = 1;
  uint32_t index = 0;  // among the switches of its tier and plane
};
// `a` is the lower end. Nodes: hosts 0..H-1, then the switches in their order.
struct LinkSpec {
  uint32_t a = 0, b = 0;
  double bps_up = 0, bps_down = 0;  // a -> b, b -> a
  int64_t delay_ns = 0;             // cable and forwarding, one way, the same both ways
  uint8_t plane = 1;
  uint16_t queue_up = 0, queue_down = 0;  // rules of the egress queue at a and at b
};
struct FabricSpec {
  uint32_t hosts = 0;
  uint8_t planes = 1;
  std::vector<SwitchSpec> switches;
  std::vector<LinkSpec> links;
  std::vector<QueueRules> rules;  // of LinkSpec.queue_*
  bool pfc = false;
  uint32_t pfc_xoff = 0, pfc_xon = 0;  // bytes buffered from one ingress port
  uint32_t shared_buffer = 0;          // bytes a switch; 0: every port has its own
};
enum class Routing : uint8_t { srv6, stev, ecmp };

enum class FaultKind : uint8_t {
  link_down,
  link_up,
  link_loss,
  link_corrupt,
  link_rate,
  switch_down,
  switch_up,
  port_down,
  port_up
};
struct FaultSpec {
  int64_t at_ns = 0;
  FaultKind kind{};
  uint32_t target = 0;     // link, or node for switch_*; port_* and link_*: link
  uint8_t directions = 3;  // bit 0: a -> b, bit 1: b -> a
  double value = 0;        // loss and corruption: probability; rate: fraction of the full one
};

}  // namespace mrc::sim
