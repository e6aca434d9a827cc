// What a RoCEv2 run is given. Decides defaults only; RoceStack::open refuses what makes no sense.
#pragma once

#include <cstdint>

#include "sim/dcqcn.h"

namespace mrc::sim {

struct RoceConfig {
  uint32_t mtu = 4096;  // payload bytes a packet, 256..9216
  uint32_t ack_every =
      16;  // packets; also on the last of a message. 1..1024, at most a quarter of the window
  int64_t window_bytes =
      0;  // payload in flight of one QP; 0: window_factor x NIC rate x base RTT of the pair
  double window_factor = 1.5;  // (0, 1000]
  int64_t rto_ns = 1'000'000;  // acknowledgement timer; doubles with every timeout in a row
  uint32_t retry_limit = 7;    // timeouts in a row before the QP fails (InfiniBand: three bits)
  bool acks_in_control =
      false;  // RC responders answer in the QP's own traffic class; CNPs always go in the control class
  uint8_t data_dscp = 26, cnp_dscp = 48;  // what NIC guides set up
  DcqcnConfig dcqcn;
};

}  // namespace mrc::sim
