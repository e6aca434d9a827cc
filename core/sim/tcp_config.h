// What a TCP run is given. Decides defaults only; TcpStack::open refuses what makes no sense.
#pragma once

#include <cstdint>

namespace mrc::sim {

enum class TcpCc : uint8_t { cubic, dctcp };

struct TcpConfig {
  uint32_t mss = 4096;  // payload bytes a segment, 256..9216
  TcpCc cc = TcpCc::cubic;
  uint32_t initial_window = 10;          // segments (RFC 6928)
  int64_t max_window_bytes = 6'291'456;  // receive window, also the bound of cwnd (Linux: tcp_rmem)
  int64_t rto_min_ns = 1'000'000;        // data-centre setting; Linux starts with 200 ms
  int64_t rto_max_ns = 120'000'000'000;
  uint32_t retry_limit = 15;         // timeouts in a row before the connection fails (Linux: tcp_retries2)
  uint32_t ack_every = 2;            // segments (RFC 5681)
  int64_t delayed_ack_ns = 500'000;  // must be below rto_min_ns; Linux: 40 ms
  uint32_t dupthresh = 3;            // later segments that arrived before one counts as lost (RFC 6675)
  double dctcp_g = 1.0 / 16;         // gain of alpha (RFC 8257)
  double dctcp_initial_alpha = 1.0;
  double cubic_c = 0.4, cubic_beta = 0.7;  // RFC 9438
  bool cubic_friendly = true;              // Reno-friendly region (RFC 9438, 4.3)
  // An idle time above the RTO ends in the initial window (RFC 5681, 4.1; Linux default).
  bool restart_after_idle = true;
  uint8_t dscp = 0;
};

}  // namespace mrc::sim
