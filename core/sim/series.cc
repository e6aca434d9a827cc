#include "sim/series.h"

#include <algorithm>
#include <utility>

namespace mrc::sim {

namespace {
void move_to(std::vector<uint64_t>& out, std::vector<uint64_t>& in) {
  out.insert(out.end(), in.begin(), in.end());
  std::fill(in.begin(), in.end(), 0);
}
}  // namespace

void Sampler::start(const WatchSpec& spec, uint32_t tasks, uint32_t groups, const Fabric& fabric,
                    Watch& watch) {
  spec_ = spec;
  watch.group_bytes.assign(groups, 0);
  watch.plane_bytes.assign(fabric.planes(), 0);
  if (spec.task_bytes) {
    watch.task_bytes.assign(tasks, 0);
    watch.task_rtx.assign(tasks, 0);
  }
  if (!spec.flows.empty()) {
    watch.flow_slot.assign(tasks, -1);
    for (size_t i = 0; i < spec.flows.size(); ++i) watch.flow_slot[spec.flows[i]] = static_cast<int32_t>(i);
    watch.flow_bytes.assign(spec.flows.size(), 0);
  }
  if (!spec.hosts.empty()) watch.host_bytes.assign(fabric.hosts(), 0);
  last_bytes_.assign(spec.links.size(), 0);
  if (spec.sample_ns > 0) next_ = from_ns(spec.sample_ns);
}

void Sampler::sample(Ps now, Fabric& fabric, Watch& watch) {
  series_.time_ns.push_back(now / kPsPerNs);
  move_to(series_.flow_bytes, watch.flow_bytes);
  move_to(series_.group_bytes, watch.group_bytes);
  move_to(series_.plane_bytes, watch.plane_bytes);
  for (const uint32_t h : spec_.hosts) series_.host_rx_bytes.push_back(std::exchange(watch.host_bytes[h], 0));
  for (size_t i = 0; i < spec_.links.size(); ++i) {
    Port& p = fabric.port(spec_.links[i]);
    series_.link_bytes.push_back(p.n.tx_bytes - std::exchange(last_bytes_[i], p.n.tx_bytes));
    series_.link_queue_bytes.push_back(p.data.bytes);
    series_.link_max_queue.push_back(std::exchange(p.n.window_queue, p.data.bytes));
  }
  uint64_t drops = 0, marks = 0, trims = 0;
  for (PortId i = 0; i < fabric.port_count(); ++i) {
    const PortCounters& n = fabric.port(i).n;
    drops += n.drops + n.lost;
    marks += n.marks;
    trims += n.trims;
  }
  series_.drops.push_back(drops - std::exchange(last_drops_, drops));
  series_.marks.push_back(marks - std::exchange(last_marks_, marks));
  series_.trims.push_back(trims - std::exchange(last_trims_, trims));
  series_.rtx.push_back(watch.rtx - std::exchange(last_rtx_, watch.rtx));
  next_ += from_ns(spec_.sample_ns);
}

}  // namespace mrc::sim
