// Counters over time, one row an interval, of the links, flows and hosts that a run watches.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/fabric.h"
#include "sim/totals.h"

namespace mrc::sim {

struct WatchSpec {
  int64_t sample_ns = 0;  // 0: no series
  std::vector<PortId> links;
  std::vector<uint32_t> flows;  // tasks
  std::vector<uint32_t> hosts;
  std::vector<PortId> pcap;
  bool task_bytes = false;  // delivered bytes and retransmissions of every task
};

// Row-major: row = interval, columns as watched.
struct Series {
  std::vector<int64_t> time_ns;
  std::vector<uint64_t> flow_bytes, host_rx_bytes, link_bytes, link_queue_bytes, link_max_queue, group_bytes,
      plane_bytes;
  std::vector<uint64_t> drops, marks, trims, rtx;
};

class Sampler {
 public:
  void start(const WatchSpec& spec, uint32_t tasks, uint32_t groups, const Fabric& fabric, Watch& watch);
  // The interval that ends now.
  void sample(Ps now, Fabric& fabric, Watch& watch);
  [[nodiscard]] Ps next() const { return next_; }
  [[nodiscard]] const Series& series() const { return series_; }

 private:
  WatchSpec spec_;
  Ps next_ = kNever;
  Series series_;
  std::vector<uint64_t> last_bytes_;
  uint64_t last_drops_ = 0, last_marks_ = 0, last_trims_ = 0, last_rtx_ = 0;
};

}  // namespace mrc::sim
