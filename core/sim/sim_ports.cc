// Egress ports through one window, each alone: arrivals into the queues, frames onto the line.
#include <algorithm>

#include "sim/simulation.h"

namespace mrc::sim {

namespace {
constexpr size_t kAhead = 12;  // arriving frames fetched before their turn
constexpr size_t kQueued = 5;  // the same of frames that wait since the last window
}  // namespace

void Simulation::depart(PortId id, Port& p, FrameId frame, Frame& f, Ps start) {
  // The line is free, and frames leave in the order of their class.
  if (spec_.check && start < p.free_at) ++violations_;
  p.free_at = start + serialization(p.per_byte, f.size);
  p.n.tx_bytes += f.size;
  ++p.n.tx_packets;
  carry(id, p, frame, f, p.free_at);
}

bool Simulation::run_port(PortId id, Ps end) {
  Port& p = fabric_.port(id);
  const QueueRules& rules = fabric_.rules(p);
  const std::span<const Arrival> arrivals = gather(id);
  Ps cursor = 0;  // an arrival at or before the moment the line gets free is queued first
  size_t i = 0;
  for (;;) {
    const bool waiting = !p.control.empty() || (!p.data.empty() && !p.paused);
    const Ps serve = waiting ? std::max(p.free_at, cursor) : kNever;
    if (i < arrivals.size() && arrivals[i].at <= serve) {
      if (i + kAhead < arrivals.size()) pool_.prefetch(arrivals[i + kAhead].frame);
      const Arrival& a = arrivals[i++];
      cursor = a.at;
      Frame& f = pool_[a.frame];
      if (!p.up) {
        ++p.n.lost;
        lose(a.frame, totals_.drops_link);
        continue;
      }
      // Nothing waits and nothing else comes: straight onto the line.
      const bool alone = p.free_at <= a.at && p.data.empty() && p.control.empty() &&
                         f.size <= rules.data_bytes && (i >= arrivals.size() || arrivals[i].at > a.at);
      if (alone && !p.paused && rules.ecn_min > 0) {
        if (f.cls == Class::data) {
          p.n.max_queue = std::max(p.n.max_queue, f.size);
          p.n.window_queue = std::max(p.n.window_queue, f.size);
        }
        depart(id, p, a.frame, f, a.at);
        continue;
      }
      if (enqueue(pool_, p, rules, a.frame, f) == Fate::dropped) pool_.give(a.frame);
      continue;
    }
    if (serve >= end) break;
    cursor = serve;
    const FrameId f = dequeue(pool_, p, rules);
    depart(id, p, f, pool_[f], serve);
  }
  return !p.data.empty() || !p.control.empty();
}

void Simulation::prefetch_arrivals(PortId id) {
  const Range& range = ranges_[id];
  const uint32_t end = std::min<uint32_t>(range.end, range.first + kAhead);
  for (uint32_t i = range.first; i < end; ++i) pool_.prefetch(arrivals_[i].frame);
}

void Simulation::run_ports(Side& side, Ps end) {
  still_.clear();
  const std::vector<PortId>& todo = side.active;
  for (size_t k = 0; k < todo.size(); ++k) {
    // Fetch early what is certain to be needed: the next ports, and the frames that arrive at them.
    if (k + 8 < todo.size()) fabric_.prefetch(todo[k + 8]);
    if (k + 1 < todo.size()) prefetch_arrivals(todo[k + 1]);
    // The frames of a queue name one another: one further with each port that is run.
    for (size_t step = 1; step <= kQueued && k + step < todo.size(); ++step) {
      FrameId f = fabric_.port(todo[k + step]).data.head;
      for (size_t i = step; i < kQueued && f != kNoFrame; ++i) f = pool_[f].next;
      if (f != kNoFrame) pool_.prefetch(f);
    }
    const PortId id = todo[k];
    const bool left = run_port(id, end);
    fabric_.port(id).listed = left;
    if (left) still_.push_back(id);
  }
  side.active.swap(still_);
}

// Switches with PFC or a shared buffer: all their ports together.
void Simulation::run_coupled(Side& side, Ps begin, Ps end) {
  std::vector<uint32_t>& busy = side.busy_switches;
  for (const Pause& p : pauses_in_) {
    const Port& port = fabric_.port(p.port);
    if (!fabric_.is_host(port.from)) busy.push_back(port.from);
  }
  std::sort(busy.begin(), busy.end());
  busy.erase(std::unique(busy.begin(), busy.end()), busy.end());
  std::vector<uint32_t> still;
  std::vector<Pause> mine;
  for (const uint32_t node : busy) {
    mine.clear();
    for (const Pause& p : pauses_in_) {
      if (fabric_.port(p.port).from == node) mine.push_back(p);
    }
    std::stable_sort(mine.begin(), mine.end(), [](const Pause& x, const Pause& y) { return x.at < y.at; });
    sent_.clear();
    pauses_out_.clear();
    coupled_->run(node, begin, end, mine, sent_, pauses_out_);
    for (const Hosts::Sent& s : sent_) carry(s.port, fabric_.port(s.port), s.frame, pool_[s.frame], s.at);
    for (const Pause& p : pauses_out_)
      sides_[side_of(fabric_.port(p.port).from)].calendar.put(
          {p.at, kNoFrame, Record::make_key(p.on ? Record::Kind::pause : Record::Kind::resume, p.port)});
    if (!coupled_->idle(node)) still.push_back(node);
  }
  busy.swap(still);
}

}  // namespace mrc::sim
