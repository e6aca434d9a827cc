// What a RoCEv2 run is given. Decides defaults only; RoceStack::open refuses what makes no sense.
#pragma once

#include <cstdint>

#include "sim/dcqcn.h"

namespace mrc::sim {

struct RoceConfig {
  uint32_t mtu = 4096;  // payload bytes a packet, 256..9216
  // Packets between requests for an ACK, 1..1024, at most a quarter of the window; the last of a message
  // always asks.
  uint32_t ack_every = 16;
  // Payload in flight of one QP. RC has no window of its own but 2^23 packets; some NICs add one.
  int64_t window_bytes = 0;  // 0: none
  // > 0: this many times NIC rate x base RTT of the pair, up to 1000. With both, the smaller counts.
  double window_factor = 0;
  int64_t rto_ns = 1'000'000;  // acknowledgement timer; doubles with every timeout in a row
  uint32_t retry_limit = 7;    // timeouts in a row before the QP fails (InfiniBand: three bits)
  // False: only the timer repairs, as paper-results B.7 infers of the NICs that were measured (1 to 2 ms a
  // lost packet).
  bool heed_naks = true;
  // RC responders answer in the QP's own traffic class; CNPs always go in the control class.
  bool acks_in_control = false;
  uint8_t data_dscp = 26, cnp_dscp = 48;  // what NIC guides set up
  DcqcnConfig dcqcn;
};

}  // namespace mrc::sim
