// The joint run of a switch's ports, and the accounts behind pause and admission.
#include "sim/coupled.h"

#include <algorithm>
#include <limits>

namespace mrc::sim {

Coupled::Coupled(Fabric& fabric, FramePool& pool, Totals& totals, double alpha)
    : fabric_(fabric),
      pool_(pool),
      totals_(totals),
      alpha_(alpha),
      states_(fabric.nodes() - fabric.hosts()),
      ingress_(fabric.port_count()),
      active_(fabric.port_count()),
      waiting_(fabric.port_count()) {
  if (!fabric_.pfc()) return;
  for (PortId p = 0; p < fabric_.port_count(); ++p) ingress_[p].room = fabric_.pfc_xoff() + headroom(p);
}

uint32_t Coupled::headroom(PortId in_port) const {
  const Port& in = fabric_.port(in_port);
  const Port& back = fabric_.port(reverse_of(in_port));
  const Ps pause = serialization(back.per_byte, kMaxFrame + kMinWireBytes) + back.delay;
  const Ps blind = pause + in.delay;
  const double bytes = static_cast<double>(blind) * (1 << kByteTimeBits) / static_cast<double>(in.per_byte);
  return static_cast<uint32_t>(std::min(bytes, 1e9)) + 2 * kMaxFrame;
}

const QueueRules& Coupled::rules(const Port& p) {
  if (p.queue >= rules_.size()) {
    rules_.resize(p.queue + 1u);
    have_rules_.resize(p.queue + 1u);
  }
  if (have_rules_[p.queue] == 0) {
    rules_[p.queue] = fabric_.rules(p);
    rules_[p.queue].data_bytes = std::numeric_limits<uint32_t>::max();
    have_rules_[p.queue] = 1;
  }
  return rules_[p.queue];
}

void Coupled::arrive(uint32_t node, Ps at, PortId egress, FrameId frame) {
  state(node).in.push_back({at, pool_[frame].in_port, egress, frame});
}

bool Coupled::idle(uint32_t node) const { return state(node).in.empty() && state(node).active.empty(); }

bool Coupled::admits(const State& s, const Port& p, const Frame& f) const {
  if (f.cls != Class::data) return true;
  if (fabric_.pfc() && ingress_[f.in_port].bytes + f.size > ingress_[f.in_port].room) return false;
  const uint64_t all = fabric_.shared_buffer();
  if (all == 0) return true;
  if (s.used + f.size > all) return false;
  if (alpha_ <= 0) return true;
  return static_cast<double>(p.data.bytes) + f.size <= alpha_ * static_cast<double>(all - s.used);
}

// No room: a switch that trims keeps the header, others drop.
void Coupled::refuse(State& s, Port& p, const In& in, Frame& f) {
  const QueueRules& r = rules(p);
  const uint32_t limit = p.last_hop ? r.trim_last_hop : r.trim_bytes;
  if (f.trimmable && limit != 0) {
    trim(f, r, p.last_hop);
    ++p.n.trims;
    if (enqueue(pool_, p, r, in.frame, f) == Fate::queued) {
      activate(s, in.egress);
      return;
    }
  } else {
    ++p.n.drops;
  }
  pool_.give(in.frame);
}

void Coupled::take(State& s, const In& in, std::vector<Pause>& pauses) {
  Port& p = fabric_.port(in.egress);
  Frame& f = pool_[in.frame];
  if (!admits(s, p, f)) {
    refuse(s, p, in, f);
  } else if (enqueue(pool_, p, rules(p), in.frame, f) == Fate::dropped) {
    pool_.give(in.frame);
  } else {
    activate(s, in.egress);
    if (f.cls == Class::data) {  // not trimmed
      s.used += f.size;
      Ingress& g = ingress_[in.from];
      g.bytes += f.size;
      if (fabric_.pfc() && !g.paused && g.bytes > fabric_.pfc_xoff()) tell(in.from, true, in.at, pauses);
    }
  }
  if (waiting_[in.egress] == 0) await_line(in.egress, std::max(p.free_at, in.at));
}

void Coupled::leave(State& s, const Frame& f, Ps now, std::vector<Pause>& pauses) {
  if (f.cls != Class::data) return;
  s.used -= f.size;
  Ingress& g = ingress_[f.in_port];
  g.bytes -= f.size;
  if (g.paused && g.bytes <= fabric_.pfc_xon()) tell(f.in_port, false, now, pauses);
}

// A pause frame goes before all else, but not into the frame that is on the line, nor into the pause before
// it.
void Coupled::tell(PortId in_port, bool on, Ps now, std::vector<Pause>& pauses) {
  const Port& back = fabric_.port(reverse_of(in_port));
  Ingress& g = ingress_[in_port];
  const Ps frame = serialization(back.per_byte, kMinWireBytes);
  const Ps at = std::max(std::max(now, back.free_at) + frame + back.delay, g.told + frame);
  g.told = at;
  g.paused = on;
  if (on) {
    ++totals_.pfc_pauses;
    g.since = at;
  } else {
    totals_.pfc_pause_ps += static_cast<uint64_t>(std::max<Ps>(at - g.since, 0));
  }
  pauses.push_back({at, in_port, on});
}

void Coupled::activate(State& s, PortId id) {
  if (active_[id] != 0) return;
  active_[id] = 1;
  s.active.push_back(id);
}

void Coupled::await_line(PortId id, Ps at) {
  waiting_[id] = 1;
  lines_.push_back({at, id});
  std::push_heap(lines_.begin(), lines_.end(), later);
}

void Coupled::lose_queued(State& s, Port& p, Ps now, std::vector<Pause>& pauses) {
  for (Fifo* q : {&p.control, &p.data}) {
    while (!q->empty()) {
      const FrameId frame = pop(pool_, *q);
      leave(s, pool_[frame], now, pauses);
      pool_.give(frame);
      ++p.n.lost;
      ++totals_.drops_link;
    }
  }
}

// The line is idle: one frame goes, and more wait for the line.
void Coupled::serve(State& s, PortId id, Ps now, std::vector<Hosts::Sent>& out, std::vector<Pause>& pauses) {
  Port& p = fabric_.port(id);
  if (!p.up) return lose_queued(s, p, now, pauses);
  const FrameId frame = dequeue(pool_, p, rules(p));
  if (frame == kNoFrame) return;
  const Frame& f = pool_[frame];
  p.free_at = now + serialization(p.per_byte, f.size);
  p.n.tx_bytes += f.size;
  ++p.n.tx_packets;
  out.push_back({p.free_at, id, frame});
  leave(s, f, now, pauses);
  if (!p.control.empty() || (!p.data.empty() && !p.paused)) await_line(id, p.free_at);
}

void Coupled::run(uint32_t node, Ps begin, Ps end, std::span<const Pause> in, std::vector<Hosts::Sent>& out,
                  std::vector<Pause>& pauses) {
  State& s = state(node);
  std::stable_sort(s.in.begin(), s.in.end(),
                   [](const In& a, const In& b) { return a.at < b.at || (a.at == b.at && a.from < b.from); });
  lines_.clear();
  for (const PortId id : s.active) await_line(id, std::max(fabric_.port(id).free_at, begin));
  size_t i = 0, j = 0;
  for (;;) {
    const Ps line = lines_.empty() ? kNever : lines_.front().at;
    const Ps pause = j < in.size() ? in[j].at : kNever;
    const Ps arrival = i < s.in.size() ? s.in[i].at : kNever;
    const Ps now = std::min({line, pause, arrival});
    if (now >= end) break;
    if (pause == now) {
      const Pause& told = in[j++];
      Port& p = fabric_.port(told.port);
      p.paused = told.on;
      if (!p.data.empty() && waiting_[told.port] == 0) await_line(told.port, std::max(p.free_at, now));
    } else if (arrival == now) {
      take(s, s.in[i++], pauses);
    } else {
      const PortId id = lines_.front().port;
      std::pop_heap(lines_.begin(), lines_.end(), later);
      lines_.pop_back();
      waiting_[id] = 0;
      serve(s, id, now, out, pauses);
    }
  }
  s.in.erase(s.in.begin(), s.in.begin() + static_cast<std::ptrdiff_t>(i));
  for (const Line& l : lines_) waiting_[l.port] = 0;
  std::erase_if(s.active, [this](PortId id) {
    const Port& p = fabric_.port(id);
    if (!p.data.empty() || !p.control.empty()) return false;
    active_[id] = 0;
    return true;
  });
}

void Coupled::close(Ps now) {
  for (Ingress& g : ingress_) {
    if (!g.paused || g.since >= now) continue;
    totals_.pfc_pause_ps += static_cast<uint64_t>(now - g.since);
    g.since = now;
  }
}

}  // namespace mrc::sim
