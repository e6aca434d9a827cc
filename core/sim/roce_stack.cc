// Posting, receiving and timers of RoCEv2; what goes out is in roce_send.cc.
#include "sim/roce_stack.h"

#include <cmath>
#include <cstring>

namespace mrc::sim {

std::string RoceStack::check() const {
  const RoceConfig& c = config_;
  const DcqcnConfig& d = c.dcqcn;
  if (env_.fabric.routing() != Routing::ecmp) return "RoCEv2 needs a fabric that forwards by ECMP";
  if (c.mtu < 256 || c.mtu > 9216) return "RoCEv2: mtu is 256 to 9216 bytes";
  if (c.ack_every < 1 || c.ack_every > 1024) return "RoCEv2: ack_every is 1 to 1024 packets";
  if (c.window_bytes < 0) return "RoCEv2: window_bytes is 0 (none) or more";
  if (!(c.window_factor >= 0 && c.window_factor <= 1000)) return "RoCEv2: window_factor is 0 (none) to 1000";
  if (c.rto_ns < 1 || c.rto_ns > 100'000'000'000) return "RoCEv2: rto_ns is 1 ns to 100 s";
  if (c.retry_limit > 30) return "RoCEv2: retry_limit is 0 to 30";
  if (!d.enabled) return {};
  if (!(d.g > 0 && d.g < 1) || !(d.initial_alpha >= 0 && d.initial_alpha <= 1))
    return "DCQCN: g lies between 0 and 1, initial_alpha is 0 to 1";
  if (d.alpha_timer_ns < 1 || d.rate_timer_ns < 1 || d.byte_counter < 1)
    return "DCQCN: alpha_timer_ns, rate_timer_ns and byte_counter are above 0";
  if (d.cnp_interval_ns < 0 || d.decrease_interval_ns < 0) return "DCQCN: intervals are 0 or more";
  if (!(d.ai_mbps >= 0 && d.hai_mbps >= 0 && d.min_mbps > 0))
    return "DCQCN: ai_mbps, hai_mbps >= 0, min_mbps > 0";
  return {};
}

std::string RoceStack::open(const std::vector<Pair>& pairs) {
  if (std::string bad = check(); !bad.empty()) return bad;
  if (!table_.build(pairs)) return "RoCEv2: pairs of hosts must differ, and each may come once";
  const uint32_t flows = table_.count(), hosts = env_.fabric.hosts();
  tx_.reserve(flows);
  rx_.resize(flows);
  if (config_.dcqcn.enabled) rate_.reserve(flows);
  for (FlowLinks* l : {&data_links_, &ack_links_, &cnp_links_}) l->resize(flows);
  lines_.resize(size_t{hosts} * env_.fabric.planes());
  wants_.assign(hosts, 0);
  timers_.resize(hosts);
  for (uint32_t i = 0; i < table_.pairs(); ++i) {
    if (std::string bad = open_pair(table_.pair(i)); !bad.empty()) return bad;
  }
  return {};
}

int64_t RoceStack::window_of(double bps, Ps rtt) const {
  int64_t window = (int64_t{1} << 23) * config_.mtu;
  if (config_.window_bytes > 0) window = std::min(window, config_.window_bytes);
  if (config_.window_factor > 0) {
    const double bdp = bps / 8 * static_cast<double>(rtt) * 1e-12;
    window = std::min(window, static_cast<int64_t>(config_.window_factor * bdp));
  }
  return std::max<int64_t>(window, config_.mtu);
}

std::string RoceStack::open_pair(const Pair& pair) {
  const uint32_t overhead = kWireOverhead + 12 + kIcrc;
  for (uint32_t qp = 0; qp < pair.qps; ++qp) {
    const Route r = draw_route(env_.fabric, env_.seed, pair, qp);
    if (r.plane == 0) {
      return "hosts " + std::to_string(pair.a) + " and " + std::to_string(pair.b) +
             " have no path between them";
    }
    for (uint32_t back = 0; back < 2; ++back) {
      const uint32_t src = back ? pair.b : pair.a, dst = back ? pair.a : pair.b;
      const double bps = port_bps(env_.fabric.port(env_.fabric.nic_port(src, r.plane)));
      const Ps rtt = base_rtt(env_.fabric, src, dst, r.plane, overhead + config_.mtu, overhead + 4);
      const int64_t window = window_of(bps, rtt);
      Tx t{.qp = RoceRequester(config_.mtu, window), .src = src, .dst = dst};
      const int64_t quarter = std::clamp<int64_t>(window / config_.mtu / 4, 1, config_.ack_every);
      t.ack_every = static_cast<uint32_t>(quarter);
      t.port = r.port;
      t.plane = r.plane;
      tx_.push_back(t);
      if (config_.dcqcn.enabled) rate_.push_back(dcqcn_start(config_.dcqcn, bps));
    }
  }
  return {};
}

double RoceStack::rate(uint32_t flow, Ps now) const {
  if (rate_.empty()) return port_bps(env_.fabric.port(env_.fabric.nic_port(tx_[flow].src, tx_[flow].plane)));
  DcqcnState s = rate_[flow];
  dcqcn_advance(config_.dcqcn, s, now);
  return s.current;
}

void RoceStack::refresh(uint32_t host, uint8_t plane) {
  const Lines& l = lines(host, plane);
  const bool held = l.ack.empty() && l.data.empty();
  const bool any = !l.cnp.empty() || (config_.acks_in_control && !l.ack.empty()) || (!held && !l.paused);
  const uint32_t bit = 1u << plane;
  wants_[host] = any ? wants_[host] | bit : wants_[host] & ~bit;
}

// Queues the flow at its line, or waits for its rate. Its window may keep it out: then an ACK brings it back.
void RoceStack::ready(Ps now, uint32_t flow) {
  Tx& t = tx_[flow];
  if (t.failed || !t.qp.can_send(messages_)) return;
  if (t.paced_until > now) {
    if (t.pace_entry != kNever) return;
    t.pace_entry = t.paced_until;
    timers_[t.src].push(t.pace_entry, kPace, flow);
    return;
  }
  data_links_.push(lines(t.src, t.plane).data, flow);
  refresh(t.src, t.plane);
  if (t.retry_at == kNever && dark(env_.fabric, t.src, t.plane)) arm_retry(now, flow);
}

void RoceStack::post(Ps now, uint32_t host, TaskId task) {
  const Workload& w = env_.tasks.spec();
  const uint32_t flow = table_.pick(host, static_cast<uint32_t>(w.peer[task]), w.qp[task]);
  if (flow == kNoFlow || tx_[flow].failed) return env_.tasks.on_failed(task, now);
  tx_[flow].qp.post(messages_, task, w.size[task]);
  ready(now, flow);
}

// The acknowledgement timer starts anew while something is outstanding, or cannot leave the host at all.
void RoceStack::arm_retry(Ps now, uint32_t flow) {
  Tx& t = tx_[flow];
  const bool stranded = t.qp.unfinished() && dark(env_.fabric, t.src, t.plane);
  if (!t.qp.outstanding() && !stranded) {
    t.retry_at = kNever;
    return;
  }
  const Ps rto = from_ns(config_.rto_ns);
  const uint32_t shift = std::min(t.timeouts, 30u);
  t.retry_at = rto > (kNever >> (shift + 2)) ? kNever / 4 : now + (rto << shift);
  if (t.retry_at >= t.retry_entry) return;
  t.retry_entry = t.retry_at;
  timers_[t.src].push(t.retry_at, kRetry, flow);
}

// What waits for a line that is cut has nothing outstanding that would end it.
void RoceStack::watch_stranded(Ps now, uint32_t host, uint8_t plane) {
  data_links_.each(lines(host, plane).data, [this, now](uint32_t flow) {
    if (tx_[flow].retry_at == kNever && !tx_[flow].failed) arm_retry(now, flow);
  });
}

void RoceStack::fail(Ps now, uint32_t flow) {
  Tx& t = tx_[flow];
  t.failed = true;
  t.retry_at = kNever;
  ++n_.qp_errors;
  t.qp.fail(messages_, [this, now](TaskId task) { env_.tasks.on_failed(task, now); });
}

void RoceStack::timeout(Ps now, uint32_t flow) {
  Tx& t = tx_[flow];
  const bool cut = dark(env_.fabric, t.src, t.plane);
  t.retry_at = kNever;                      // send() starts it again
  if (!t.qp.outstanding() && !cut) return;  // its port came back, and it waits for its turn
  ++n_.timeouts;
  if (++t.timeouts > config_.retry_limit) return fail(now, flow);
  t.qp.rewind();
  t.after_timeout = true;
  ready(now, flow);
  if (cut) watch_stranded(now, t.src, t.plane);
}

void RoceStack::on_timer(Ps now, uint32_t host) {
  HostTimers::Entry e;
  while (timers_[host].pop_due(now, e)) {
    if (e.kind == kPause) {
      const auto plane = static_cast<uint8_t>(e.id >> 1);
      lines(host, plane).paused = (e.id & 1) != 0;
      refresh(host, plane);
      continue;
    }
    Tx& t = tx_[e.id];
    if (e.kind == kPace) {
      if (e.at != t.pace_entry) continue;
      t.pace_entry = kNever;
      ready(now, e.id);
      continue;
    }
    if (e.at != t.retry_entry) continue;  // an older deadline
    t.retry_entry = kNever;
    if (t.retry_at == kNever) continue;
    if (t.retry_at <= now) {
      timeout(now, e.id);
    } else {
      t.retry_entry = t.retry_at;
      timers_[host].push(t.retry_at, kRetry, e.id);
    }
  }
}

// Kept until its exact time: the window loop hands pauses over at the start of a window.
void RoceStack::on_pause(Ps now, uint32_t host, uint8_t plane, bool paused) {
  timers_[host].push(now, kPause, uint32_t{plane} << 1 | (paused ? 1u : 0u));
}

void RoceStack::receive(Ps now, uint32_t host, FrameId id) {
  const Frame& f = env_.pool[id];
  Note note;
  std::memcpy(&note, f.head + kNoteAt, sizeof note);
  switch (static_cast<Kind>(f.kind)) {
    case Kind::data:
      data_in(now, host, f, note);
      break;
    case Kind::ack:
      ack_in(now, f.flow, note.psn, false);
      break;
    case Kind::nak:
      ack_in(now, f.flow, note.psn, true);
      break;
    case Kind::cnp:
      if (rate_.empty()) break;
      dcqcn_advance(config_.dcqcn, rate_[f.flow], now);
      dcqcn_on_cnp(config_.dcqcn, rate_[f.flow], now);
      break;
  }
  env_.pool.give(id);
}

void RoceStack::data_in(Ps now, uint32_t host, const Frame& f, const Note& note) {
  Rx& r = rx_[f.flow];
  watch_arrival(env_, host, f.plane, f.payload);
  if (f.ecn == Ecn::ce && !rate_.empty() &&
      (r.last_cnp < 0 || now - r.last_cnp >= from_ns(config_.dcqcn.cnp_interval_ns))) {
    r.last_cnp = now;
    cnp_links_.push(lines(host, f.plane).cnp, f.flow);
  }
  switch (r.qp.data(note.psn)) {
    case RoceResponder::Verdict::in_order:
      r.owe_nak = false;
      deliver(now, f, note);
      if (note.ask != 0) r.owe_ack = true;
      break;
    case RoceResponder::Verdict::duplicate:
      ++n_.spurious;
      r.owe_ack = true;
      break;
    case RoceResponder::Verdict::gap:
      r.owe_nak = true;
      break;
    case RoceResponder::Verdict::known_gap:
      break;
  }
  if (r.owe_ack || r.owe_nak) ack_links_.push(lines(host, f.plane).ack, f.flow);
  refresh(host, f.plane);
}

void RoceStack::deliver(Ps now, const Frame& f, const Note& note) {
  watch_delivery(env_, note.task, f.payload);
  if (note.last != 0) env_.tasks.on_delivered(note.task, now);
}

void RoceStack::ack_in(Ps now, uint32_t flow, uint64_t psn, bool nak) {
  Tx& t = tx_[flow];
  if (t.failed) return;
  const bool progress =
      t.qp.ack(messages_, psn, [this, now](TaskId task) { env_.tasks.on_acked(task, now); });
  // A NAK of an older gap than the one that is being repaired says nothing new.
  const bool back = nak && config_.heed_naks && psn == t.qp.una() && t.qp.outstanding();
  if (nak) ++n_.nacks;
  if (back) {
    t.qp.rewind();
    t.after_timeout = false;
  }
  if (progress) t.timeouts = 0;
  if (progress || back) arm_retry(now, flow);
  ready(now, flow);
}

void RoceStack::add_totals(Totals& t) const { t.add(n_); }

}  // namespace mrc::sim
