// Building a run and the loop over windows.
#include "sim/simulation.h"

#include <algorithm>
#include <utility>

namespace mrc::sim {

namespace {
// Finer buckets than windows: arrivals come nearly in order of time, so that little is left to sort.
constexpr Ps kBucketsPerLookahead = 8;
constexpr size_t kFewPorts = 4;
constexpr Ps kWorthSkipping = 4;  // lookaheads
}  // namespace

std::string Simulation::check_spec() const {
  for (const PortId p : spec_.watch.links) {
    if (p >= fabric_.port_count()) return "a watched link does not exist";
  }
  for (const PortId p : spec_.watch.pcap) {
    if (p >= fabric_.port_count()) return "a link to capture does not exist";
  }
  for (const uint32_t h : spec_.watch.hosts) {
    if (h >= fabric_.hosts()) return "a watched host does not exist";
  }
  for (const uint32_t t : spec_.watch.flows) {
    if (t >= tasks_.count()) return "a watched flow does not exist";
  }
  for (const int32_t g : tasks_.spec().group) {
    if (g < 0 || static_cast<uint32_t>(g) >= spec_.groups) return "a task names a group that does not exist";
  }
  if (tasks_.greedy() > 0 && spec_.until_ns < 0) return "greedy flows never end: give the run an end";
  return {};
}

std::string Simulation::build(RunSpec spec, const MakeHosts& make) {
  spec_ = std::move(spec);
  if (std::string bad = fabric_.build(spec_.fabric, spec_.routing, spec_.seed); !bad.empty()) return bad;
  spec_.fabric.links = {};  // large, and no longer needed
  if (std::string bad = tasks_.load(std::move(spec_.workload), fabric_.hosts()); !bad.empty()) return bad;
  if (std::string bad = check_spec(); !bad.empty()) return bad;
  lookahead_ = fabric_.lookahead();
  if (lookahead_ < 1 || lookahead_ == kNever)
    return "links without delay and without length cannot be simulated";
  for (Side& side : sides_) side.calendar = Calendar(std::max<Ps>(lookahead_ / kBucketsPerLookahead, 1));
  until_ = spec_.until_ns < 0 ? kNever : from_ns(spec_.until_ns);
  if (std::string bad = plan_faults(); !bad.empty()) return bad;
  // What is broken from the start is so before connections are opened: a denylist knows it.
  for (const Event& e : events_) {
    if (e.at > 0) break;
    for (uint32_t side = 0; side < 2 && !e.notice; ++side) apply(e, side);
  }

  const Workload& w = tasks_.spec();
  std::vector<Pair> pairs;
  for (size_t i = 0; i < w.kind.size(); ++i) {
    if (w.kind[i] != 0) continue;
    const auto a = static_cast<uint32_t>(std::min(w.node[i], w.peer[i])),
               b = static_cast<uint32_t>(std::max(w.node[i], w.peer[i]));
    pairs.push_back({a, b, std::max(spec_.qps_per_pair, static_cast<uint32_t>(w.qp[i] + 1))});
  }
  std::sort(pairs.begin(), pairs.end(), [](const Pair& x, const Pair& y) {
    return std::tie(x.a, x.b, y.qps) < std::tie(y.a, y.b, x.qps);
  });
  pairs.erase(std::unique(pairs.begin(), pairs.end(),
                          [](const Pair& x, const Pair& y) { return x.a == y.a && x.b == y.b; }),
              pairs.end());

  wake_.assign(fabric_.hosts(), kNever);
  ranges_.assign(fabric_.port_count() + fabric_.hosts(), Range{});
  pcap_port_.assign(spec_.watch.pcap.empty() ? 0 : fabric_.port_count(), false);
  for (const PortId p : spec_.watch.pcap) pcap_port_[p] = true;
  sampler_.start(spec_.watch, static_cast<uint32_t>(tasks_.count()), spec_.groups, fabric_, watch_);
  env_ = std::make_unique<Env>(Env{fabric_, pool_, tasks_, totals_, watch_, spec_.seed, spec_.stop});
  hosts_ = make(*env_);
  if (std::string bad = hosts_->open(pairs); !bad.empty()) return bad;
  if (fabric_.coupled()) coupled_ = std::make_unique<Coupled>(fabric_, pool_, totals_, spec_.shared_alpha);
  for (uint32_t h = 0; h < fabric_.hosts(); ++h) wake(h, hosts_->next_wake(h));
  return {};
}

// When the first line of those with something queued falls free; kNever: nothing is queued. Many ports are
// not worth the question, and coupled switches have more than lines to wait for: now.
Ps Simulation::next_line() const {
  Ps at = kNever;
  for (const Side& s : sides_) {
    if (!s.busy_switches.empty() || s.active.size() > kFewPorts) return now();
    for (const PortId id : s.active) at = std::min(at, fabric_.port(id).free_at);
  }
  return at;
}

// Both sides go on to the next moment at which something can happen. A slow line behind links without delay
// would else be waited for in windows of a nanosecond.
Simulation::State Simulation::skip_idle() {
  const Ps line = next_line();
  if (line < std::max(sides_[0].done, sides_[1].done) + kWorthSkipping * lookahead_) return State::running;
  Ps at = std::min(min_wake_, line), samples = kNever;
  for (const Side& s : sides_) {
    // Windows stay where the lookahead alone would put them, however fine the buckets are.
    if (const Ps next = s.calendar.next(); next != kNever) at = std::min(at, next / lookahead_ * lookahead_);
    if (s.next_event < events_.size()) at = std::min(at, events_[s.next_event].at);
    samples = std::min(samples, sampler_.next(s.sampled));
  }
  if (at == kNever && until_ == kNever) return State::stuck;
  at = std::min({at, samples, until_});
  for (Side& s : sides_) {
    if (at <= s.done) continue;
    s.done = at;
    s.calendar.skip_to(at);
  }
  return State::running;
}

Simulation::State Simulation::run(uint64_t budget) {
  const uint64_t stop = hops_ + budget;
  while (hops_ < stop) {
    ++hops_;  // windows in which nothing happens cost something, too
    if (tasks_.all_done() && tasks_.greedy() == 0) return State::done;
    if (const State s = skip_idle(); s != State::running) return s;
    const uint32_t which = sides_[0].done <= sides_[1].done ? 0 : 1;
    Side& side = sides_[which];
    if (side.done >= until_) {
      for (uint32_t i = 0; i < 2; ++i) {
        if (sampler_.next(sides_[i].sampled) <= until_) sample(i);
      }
      return State::until;
    }
    const Ps target = std::min(sides_[1 - which].done + lookahead_, until_);
    while (side.done < target) advance(which, target);
  }
  return State::running;
}

void Simulation::sample(uint32_t which) {
  sampler_.sample(which, sides_[which].sampled++, fabric_, watch_,
                  [this](PortId p) { return side_of(fabric_.port(p).from); });
}

// One window of one side: to `target`, or to the next fault or sample before it.
void Simulation::advance(uint32_t which, Ps target) {
  Side& side = sides_[which];
  const Ps begin = side.done;
  if (sampler_.next(side.sampled) <= begin) sample(which);
  for (; side.next_event < events_.size() && events_[side.next_event].at <= begin; ++side.next_event)
    apply(events_[side.next_event], which);
  Ps end = std::min(target, sampler_.next(side.sampled));
  if (side.next_event < events_.size()) end = std::min(end, events_[side.next_event].at);
  ++windows_;
  side.calendar.take(end, cur_);
  hops_ += cur_.size();
  sort_arrivals(side);
  if (which == 0) {
    run_hosts(begin, end);
    tasks_.settle_cross([this](uint32_t host, Ps at) { wake(host, at); });
  }
  if (coupled_) {
    run_coupled(side, begin, end);
  } else {
    run_ports(side, end);
  }
  side.done = end;
}

// Hands each arrival to its receiver: counts, then places. Receivers are told apart by small numbers in one
// array, so that nothing of a port is fetched before its turn.
void Simulation::sort_arrivals(Side& side) {
  pauses_in_.clear();
  touched_.clear();
  const bool plain = !any_switch_down_ && !coupled_;  // then every frame stays
  for (Record& r : cur_) {
    if (!(plain && r.is_frame()) && !keep(side, r)) continue;
    if (const uint32_t slot = slot_of(r); ranges_[slot].end++ == 0) touched_.push_back(slot);
  }
  uint32_t total = 0;
  for (const uint32_t slot : touched_) {
    Range& range = ranges_[slot];
    const uint32_t n = std::exchange(range.end, total);
    range.first = total;
    total += n;
    if (slot >= fabric_.port_count()) continue;
    Port& p = fabric_.port(slot);
    if (p.listed) continue;
    p.listed = true;
    side.active.push_back(slot);
  }
  arrivals_.resize(total);
  for (const Record& r : cur_) {
    if (r.frame != kNoFrame) arrivals_[ranges_[slot_of(r)].end++] = {r.at, r.frame, r.in_port};
  }
}

// False: the record is dealt with; it has no frame any more.
bool Simulation::keep(Side& side, Record& r) {
  if (r.kind() == Record::Kind::host) return true;
  const uint32_t id = r.id();
  if (r.kind() != Record::Kind::port) {
    pauses_in_.push_back({r.at, id, r.kind() == Record::Kind::pause});
    return false;
  }
  if (!any_switch_down_ && !coupled_) return true;
  const uint32_t node = fabric_.port(id).from;
  if (any_switch_down_ && !fabric_.switch_up(node)) {
    lose(std::exchange(r.frame, kNoFrame), totals_.drops_switch);
    return false;
  }
  if (!coupled_) return true;
  coupled_->arrive(node, r.at, id, std::exchange(r.frame, kNoFrame));
  side.busy_switches.push_back(node);
  return false;
}

void Simulation::run_hosts(Ps begin, Ps end) {
  for (const Pause& p : pauses_in_) {
    const Port& port = fabric_.port(p.port);
    if (!fabric_.is_host(port.from)) continue;
    hosts_->on_pause(std::max(p.at, begin), port.from, port.plane, p.on);
    wake(port.from, std::max(p.at, begin));
  }
  min_wake_ = kNever;
  const Range* in = ranges_.data() + fabric_.port_count();  // by host
  for (uint32_t h = 0; h < fabric_.hosts(); ++h) {
    for (int stage = 0; stage < 4; ++stage) {
      const uint32_t ahead = h + 4 - static_cast<uint32_t>(stage);
      if (ahead < fabric_.hosts() && (wake_[ahead] < end || !in[ahead].empty()))
        hosts_->prefetch(ahead, stage);
    }
    if (h + 1 < fabric_.hosts()) {
      for (uint32_t i = in [h + 1].first; i < in[h + 1].end; ++i) pool_.prefetch_all(arrivals_[i].frame);
    }
    if (wake_[h] < end || !in[h].empty()) run_host(h, begin, end);
    min_wake_ = std::min(min_wake_, wake_[h]);
  }
}

// In order of time, and at the same instant by the port they came from: where windows end, and so what is
// watched or fails elsewhere, does not show.
std::span<const Arrival> Simulation::gather(uint32_t slot) {
  const Range range = std::exchange(ranges_[slot], Range{});
  const std::span<Arrival> list(arrivals_.data() + range.first, range.end - range.first);
  const auto earlier = [](const Arrival& x, const Arrival& y) {
    return x.at != y.at ? x.at < y.at : x.in_port < y.in_port;
  };
  if (list.size() > 64) {
    if (!std::is_sorted(list.begin(), list.end(), earlier)) std::sort(list.begin(), list.end(), earlier);
    return list;
  }
  for (size_t i = 1; i < list.size(); ++i) {
    const Arrival a = list[i];
    size_t k = i;
    for (; k > 0 && earlier(a, list[k - 1]); --k) list[k] = list[k - 1];
    list[k] = a;
  }
  return list;
}

void Simulation::run_host(uint32_t host, Ps begin, Ps end) {
  const std::span<const Arrival> arrivals = gather(fabric_.port_count() + host);
  totals_.frames_delivered += arrivals.size();
  sent_.clear();
  hosts_->run(host, arrivals, begin, end, sent_);
  wake_[host] = hosts_->next_wake(host);
  totals_.frames_sent += sent_.size();
  for (const Hosts::Sent& s : sent_) {
    Port& p = fabric_.port(s.port);
    Frame& f = pool_[s.frame];
    p.n.tx_bytes += f.size;
    ++p.n.tx_packets;
    carry(s.port, p, s.frame, f, s.at);
  }
}

void Simulation::lose(FrameId f, uint64_t& counter) {
  ++counter;
  pool_.give(f);
}

void Simulation::carry(PortId id, Port& p, FrameId frame, Frame& f, Ps sent) {
  if (!pcap_port_.empty() && pcap_port_[id] && pcap_.size() < kMaxPcap) pcap_.push_back({sent, id, f});
  if (!p.up) {
    ++p.n.lost;
    return lose(frame, totals_.drops_link);
  }
  if (p.lossy) {
    const auto draw = static_cast<uint32_t>(((p.rng.next() >> 32) * 1'000'000'000ULL) >> 32);
    if (draw < p.loss_ppb) {
      ++p.n.lost;
      return lose(frame, totals_.drops_loss);
    }
    // A damaged frame fails the FCS of the next node.
    if (draw - p.loss_ppb < p.corrupt_ppb) {
      ++p.n.lost;
      return lose(frame, totals_.drops_corrupt);
    }
  }
  const Hop hop = fabric_.next(id, f);
  if (hop.kind == Hop::Kind::drop) return lose(frame, totals_.drops_no_route);
  const auto kind = hop.kind == Hop::Kind::host ? Record::Kind::host : Record::Kind::port;
  sides_[side_of(p.to)].calendar.put({sent + p.delay, frame, Record::make_key(kind, hop.id), id});
}

void Simulation::finish() {
  if (coupled_) coupled_->close(now());
  sampler_.finish();
  for (PortId i = 0; i < fabric_.port_count(); ++i) {
    const Port& p = fabric_.port(i);
    totals_.drops_queue += p.n.drops;
    totals_.ecn_marks += p.n.marks;
    (p.last_hop ? totals_.trims_last_hop : totals_.trims) += p.n.trims;
  }
  totals_.frames_queued = pool_.in_use();
  hosts_->add_totals(totals_);
  const uint64_t dropped = totals_.drops_queue + totals_.drops_link + totals_.drops_loss +
                           totals_.drops_corrupt + totals_.drops_no_route + totals_.drops_switch;
  if (spec_.check && totals_.frames_sent != totals_.frames_delivered + dropped + totals_.frames_queued)
    ++violations_;
}

}  // namespace mrc::sim
