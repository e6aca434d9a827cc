// One way as fast as sockets allow. Decides how datagrams are handed to the kernel (UDP_SEGMENT runs, many
// single datagrams a call, or one a call) and taken from it; leaves recovery, order and content to nobody.
#pragma once

#include <functional>

#include "yard/socket.h"

namespace mrc::yard {

struct SendConfig {
  std::vector<Target> to;   // taken in turn: by each run, or by each single datagram
  Target from;              // address to bind; empty with port 0: the kernel's choice
  uint32_t payload = 4160;  // bytes a datagram
  uint32_t segments = 15;   // datagrams of a UDP_SEGMENT run; 1: single datagrams
  uint32_t batch = 1;       // runs or datagrams a sendmmsg; 1: a plain sendmsg
  uint32_t window = 0;      // datagrams in flight until an acknowledgement; 0: no limit
  uint64_t cold_bytes = 0;  // walk through this much memory; 0: one hot buffer
  bool labels = false;      // another flow label each time
  bool spin = false;        // poll for acknowledgements instead of sleeping
  double seconds = 1;
};

struct ReceiveConfig {
  Target at;
  bool gro = true;
  uint32_t batch = 8;      // messages a recvmmsg; 1: a plain recvmsg
  uint32_t ack_every = 0;  // acknowledge after so many datagrams; 0: never
  uint64_t cold_bytes = 0;
  bool spin = false;
  double warm_up = 0.2;  // after the first datagram
  double seconds = 1;
  double patience = 10;  // for the first datagram
};

struct Figures {
  uint64_t bytes = 0, datagrams = 0, calls = 0;
  uint64_t refused = 0;  // sends the kernel did not take, or windows opened after silence
  double seconds = 0;    // time the counts stand for
  double cpu_seconds = 0;
};

// Sends for `seconds`. Throws std::invalid_argument and std::system_error.
Figures send_stream(const SendConfig& config);
// Calls `ready` once bound, then counts. With no datagram within `patience`: zero figures.
Figures receive_stream(const ReceiveConfig& config, const std::function<void()>& ready);

}  // namespace mrc::yard
