#include "sim/series.h"

#include <algorithm>
#include <utility>

namespace mrc::sim {

namespace {
void move_to(std::vector<uint64_t>& out, size_t row, std::vector<uint64_t>& in) {
  for (size_t i = 0; i < in.size(); ++i) out[row * in.size() + i] = std::exchange(in[i], 0);
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
  groups_ = groups;
  planes_ = fabric.planes();
}

void Sampler::resize(size_t rows) {
  Series& s = series_;
  s.time_ns.resize(rows);
  s.flow_bytes.resize(rows * spec_.flows.size());
  s.host_rx_bytes.resize(rows * spec_.hosts.size());
  for (auto* v : {&s.link_bytes, &s.link_queue_bytes, &s.link_max_queue})
    v->resize(rows * spec_.links.size());
  s.group_bytes.resize(rows * groups_);
  s.plane_bytes.resize(rows * planes_);
  for (auto* v : {&s.drops, &s.marks, &s.trims, &s.rtx}) v->resize(rows);
}

void Sampler::begin_row(size_t row) {
  if (row < series_.time_ns.size()) return;
  resize(row + 1);
  series_.time_ns[row] = static_cast<int64_t>(row + 1) * spec_.sample_ns;
}

void Sampler::sample_hosts(size_t row, Watch& watch) {
  move_to(series_.flow_bytes, row, watch.flow_bytes);
  move_to(series_.group_bytes, row, watch.group_bytes);
  move_to(series_.plane_bytes, row, watch.plane_bytes);
  for (size_t i = 0; i < spec_.hosts.size(); ++i)
    series_.host_rx_bytes[row * spec_.hosts.size() + i] = std::exchange(watch.host_bytes[spec_.hosts[i]], 0);
  series_.rtx[row] = watch.rtx - std::exchange(last_rtx_, watch.rtx);
}

void Sampler::sample_link(size_t row, size_t column, Port& p) {
  const size_t at = row * spec_.links.size() + column;
  series_.link_bytes[at] = p.n.tx_bytes - std::exchange(last_bytes_[column], p.n.tx_bytes);
  series_.link_queue_bytes[at] = p.data.bytes;
  series_.link_max_queue[at] = std::exchange(p.n.window_queue, p.data.bytes);
}

void Sampler::sample_sums(uint32_t side, size_t row, const PortCounters& sum) {
  const PortCounters last = std::exchange(last_[side], sum);
  series_.drops[row] += sum.drops - last.drops;
  series_.marks[row] += sum.marks - last.marks;
  series_.trims[row] += sum.trims - last.trims;
}

void Sampler::finish() {
  if (const size_t rows = std::min(rows_[0], rows_[1]); rows < series_.time_ns.size()) resize(rows);
}

}  // namespace mrc::sim
