// Counters over time, one row an interval, of the links, flows and hosts that a run watches.
#pragma once

#include <array>
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
  // One side has come to the end of interval `row`; rows of a side come in order. `side_of(port)`: whose link
  // it is.
  template <typename F>
  void sample(uint32_t side, size_t row, Fabric& fabric, Watch& watch, F side_of) {
    begin_row(row);
    if (side == 0) sample_hosts(row, watch);
    for (size_t i = 0; i < spec_.links.size(); ++i) {
      if (side_of(spec_.links[i]) == side) sample_link(row, i, fabric.port(spec_.links[i]));
    }
    PortCounters sum;
    for (PortId i = 0; i < fabric.port_count(); ++i) {
      if (side_of(i) != side) continue;
      const PortCounters& n = fabric.port(i).n;
      sum.drops += n.drops + n.lost;
      sum.marks += n.marks;
      sum.trims += n.trims;
    }
    sample_sums(side, row, sum);
    rows_[side] = row + 1;
  }
  // When interval `row` ends.
  [[nodiscard]] Ps next(size_t row) const {
    return spec_.sample_ns > 0 ? from_ns(spec_.sample_ns) * static_cast<Ps>(row + 1) : kNever;
  }
  // Drops a last row that only one side has reached.
  void finish();
  [[nodiscard]] const Series& series() const { return series_; }

 private:
  void begin_row(size_t row);
  void resize(size_t rows);
  void sample_hosts(size_t row, Watch& watch);
  void sample_link(size_t row, size_t column, Port& p);
  void sample_sums(uint32_t side, size_t row, const PortCounters& sum);

  WatchSpec spec_;
  Series series_;
  size_t groups_ = 0, planes_ = 0;
  std::array<size_t, 2> rows_{};
  std::vector<uint64_t> last_bytes_;
  std::array<PortCounters, 2> last_{};
  uint64_t last_rtx_ = 0;
};

}  // namespace mrc::sim
