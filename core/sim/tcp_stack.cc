// Connections, timers and frames of the TCP baseline.
#include "sim/tcp_stack.h"

#include <cstring>

namespace mrc::sim {

std::string TcpStack::check() const {
  const TcpConfig& c = config_;
  if (env_.fabric.routing() != Routing::ecmp) return "TCP needs a fabric that forwards by ECMP";
  if (c.mss < 256 || c.mss > 9216) return "TCP: mss is 256 to 9216 bytes";
  if (c.initial_window < 1 || c.initial_window > 100'000)
    return "TCP: initial_window is 1 to 100000 segments";
  if (c.max_window_bytes < 2 * int64_t{c.mss} || c.max_window_bytes > (int64_t{1} << 32))
    return "TCP: max_window_bytes is two segments to 4 GiB";
  if (c.rto_min_ns < 1 || c.rto_max_ns < c.rto_min_ns || c.rto_max_ns > 1'000'000'000'000)
    return "TCP: 1 ns <= rto_min_ns <= rto_max_ns <= 1000 s";
  if (c.retry_limit > 30) return "TCP: retry_limit is 0 to 30";
  if (c.ack_every < 1 || c.ack_every > 64) return "TCP: ack_every is 1 to 64 segments";
  if (c.delayed_ack_ns < 0 || c.delayed_ack_ns >= c.rto_min_ns)
    return "TCP: delayed_ack_ns must be below rto_min_ns, or every odd segment times out";
  if (c.dupthresh < 1 || c.dupthresh > 1000) return "TCP: dupthresh is 1 to 1000 segments";
  if (!(c.dctcp_g > 0 && c.dctcp_g < 1) || !(c.dctcp_initial_alpha >= 0 && c.dctcp_initial_alpha <= 1))
    return "TCP: dctcp_g lies between 0 and 1, dctcp_initial_alpha is 0 to 1";
  if (!(c.cubic_c > 0) || !(c.cubic_beta > 0 && c.cubic_beta < 1))
    return "TCP: cubic_c is above 0, cubic_beta lies between 0 and 1";
  return {};
}

std::string TcpStack::open(const std::vector<Pair>& pairs) {
  if (std::string bad = check(); !bad.empty()) return bad;
  if (!table_.build(pairs)) return "TCP: pairs of hosts must differ, and each may come once";
  const uint32_t hosts = env_.fabric.hosts();
  tx_.reserve(table_.count());
  rx_.resize(table_.count());
  data_links_.resize(table_.count());
  ack_links_.resize(table_.count());
  lines_.resize(size_t{hosts} * env_.fabric.planes());
  wants_.assign(hosts, 0);
  timers_.resize(hosts);
  for (uint32_t i = 0; i < table_.pairs(); ++i) {
    if (std::string bad = open_pair(table_.pair(i)); !bad.empty()) return bad;
  }
  return {};
}

std::string TcpStack::open_pair(const Pair& pair) {
  for (uint32_t n = 0; n < pair.qps; ++n) {
    const Route r = draw_route(env_.fabric, env_.seed, pair, n);
    if (r.plane == 0) {
      return "hosts " + std::to_string(pair.a) + " and " + std::to_string(pair.b) +
             " have no path between them";
    }
    const Ps rtt = base_rtt(env_.fabric, pair.a, pair.b, r.plane, kOverhead + config_.mss, kOverhead);
    for (uint32_t back = 0; back < 2; ++back) {
      Tx t{.tcp = TcpSender(config_, rtt), .src = back ? pair.b : pair.a, .dst = back ? pair.a : pair.b};
      t.port = r.port;
      t.plane = r.plane;
      tx_.push_back(t);
    }
  }
  return {};
}

void TcpStack::refresh(uint32_t host, uint8_t plane) {
  const Lines& l = lines(host, plane);
  const uint32_t bit = 1u << plane;
  const bool any = !l.paused && !(l.ack.empty() && l.data.empty());
  wants_[host] = any ? wants_[host] | bit : wants_[host] & ~bit;
}

// Queues the flow at its line. Its window may keep it out: then an ACK or a timer brings it back.
void TcpStack::ready(Ps now, uint32_t flow) {
  const Tx& t = tx_[flow];
  if (t.failed || !t.tcp.can_send()) return;
  data_links_.push(lines(t.src, t.plane).data, flow);
  refresh(t.src, t.plane);
  if (t.retry_at == kNever && dark(env_.fabric, t.src, t.plane)) arm_retry(now, flow);
}

void TcpStack::post(Ps now, uint32_t host, TaskId task) {
  const Workload& w = env_.tasks.spec();
  const uint32_t flow = table_.pick(host, static_cast<uint32_t>(w.peer[task]), w.qp[task]);
  if (flow == kNoFlow || tx_[flow].failed) return env_.tasks.on_failed(task, now);
  tx_[flow].tcp.post(config_, messages_, task, w.size[task]);
  ready(now, flow);
}

void TcpStack::arm_retry(Ps now, uint32_t flow) {
  Tx& t = tx_[flow];
  const bool stranded = t.tcp.unfinished() && dark(env_.fabric, t.src, t.plane);
  t.retry_at = t.tcp.outstanding() || stranded ? now + t.tcp.rto(config_) : kNever;
  if (t.retry_at >= t.retry_entry) return;
  t.retry_entry = t.retry_at;
  timers_[t.src].push(t.retry_at, kRetry, flow);
}

void TcpStack::arm_reorder(uint32_t flow) {
  Tx& t = tx_[flow];
  if (t.tcp.reorder_at() >= t.reorder_entry) return;
  t.reorder_entry = t.tcp.reorder_at();
  timers_[t.src].push(t.reorder_entry, kReorder, flow);
}

// What waits for a line that is cut has nothing outstanding that would end it.
void TcpStack::watch_stranded(Ps now, uint32_t host, uint8_t plane) {
  data_links_.each(lines(host, plane).data, [this, now](uint32_t flow) {
    if (tx_[flow].retry_at == kNever && !tx_[flow].failed) arm_retry(now, flow);
  });
}

void TcpStack::retry(Ps now, uint32_t flow) {
  Tx& t = tx_[flow];
  const bool cut = dark(env_.fabric, t.src, t.plane);
  t.retry_at = kNever;
  if (!t.tcp.outstanding() && !cut) return;  // its port came back, and it waits for its turn
  ++n_.timeouts;
  if (t.tcp.timeouts() >= config_.retry_limit) {
    t.failed = true;
    ++n_.qp_errors;
    return t.tcp.fail(messages_, [this, now](TaskId task) { env_.tasks.on_failed(task, now); });
  }
  t.tcp.timeout(config_);
  arm_retry(now, flow);
  ready(now, flow);
  if (cut) watch_stranded(now, t.src, t.plane);
}

void TcpStack::on_retry_timer(Ps now, uint32_t flow, Ps entry) {
  Tx& t = tx_[flow];
  if (entry != t.retry_entry) return;  // an older deadline
  t.retry_entry = kNever;
  if (t.retry_at == kNever) return;
  if (t.retry_at <= now) return retry(now, flow);
  t.retry_entry = t.retry_at;
  timers_[t.src].push(t.retry_at, kRetry, flow);
}

void TcpStack::on_ack_timer(Ps now, uint32_t flow, Ps entry) {
  Rx& r = rx_[flow];
  if (entry != r.ack_entry) return;
  r.ack_entry = kNever;
  const Tx& t = tx_[flow];
  if (r.ack_at == kNever) return;
  if (r.ack_at > now) {
    r.ack_entry = r.ack_at;
    timers_[t.dst].push(r.ack_at, kDelayedAck, flow);
    return;
  }
  r.owe_ack = true;
  ack_links_.push(lines(t.dst, t.plane).ack, flow);
  refresh(t.dst, t.plane);
}

void TcpStack::on_timer(Ps now, uint32_t host) {
  HostTimers::Entry e;
  while (timers_[host].pop_due(now, e)) {
    switch (e.kind) {
      case kPause: {
        const auto plane = static_cast<uint8_t>(e.id >> 1);
        lines(host, plane).paused = (e.id & 1) != 0;
        refresh(host, plane);
        break;
      }
      case kRetry:
        on_retry_timer(now, e.id, e.at);
        break;
      case kDelayedAck:
        on_ack_timer(now, e.id, e.at);
        break;
      default: {
        Tx& t = tx_[e.id];
        if (e.at != t.reorder_entry) break;
        t.reorder_entry = kNever;
        if (t.tcp.reorder_at() <= now) t.tcp.reorder_timer(config_, now);
        arm_reorder(e.id);
        ready(now, e.id);
      }
    }
  }
}

// Kept until its exact time: the window loop hands pauses over at the start of a window.
void TcpStack::on_pause(Ps now, uint32_t host, uint8_t plane, bool paused) {
  timers_[host].push(now, kPause, uint32_t{plane} << 1 | (paused ? 1u : 0u));
}

void TcpStack::receive(Ps now, uint32_t host, FrameId id) {
  const Frame& f = env_.pool[id];
  Note note;
  std::memcpy(&note, f.head + kNoteAt, sizeof note);
  if (static_cast<Kind>(f.kind) == Kind::data) {
    data_in(now, host, f, note);
  } else {
    ack_in(now, f.flow, note);
  }
  env_.pool.give(id);
}

void TcpStack::data_in(Ps now, uint32_t host, const Frame& f, const Note& note) {
  Rx& r = rx_[f.flow];
  watch_arrival(env_, host, f.plane, f.payload);
  const bool ce = f.ecn == Ecn::ce, turned = ce != r.ce_now;
  r.ce += ce ? 1 : 0;
  r.ce_now = ce;
  const auto verdict = r.tcp.data(note.seq, note.count != 0, note.word,
                                  [this, now](TaskId t) { env_.tasks.on_delivered(t, now); });
  if (verdict == TcpReceiver::Verdict::duplicate) {
    ++n_.spurious;
  } else {
    watch_delivery(env_, note.word, f.payload);
  }
  // An ACK may wait only while all is in order and the marks say the same as before (RFC 5681, 4.2; RFC
  // 8257, 3.2).
  if (verdict == TcpReceiver::Verdict::in_order && !turned && ++r.unacked < config_.ack_every &&
      config_.delayed_ack_ns > 0) {
    return delay_ack(now, host, f.flow);
  }
  r.owe_ack = true;
  ack_links_.push(lines(host, f.plane).ack, f.flow);
  refresh(host, f.plane);
}

void TcpStack::delay_ack(Ps now, uint32_t host, uint32_t flow) {
  Rx& r = rx_[flow];
  if (r.owe_ack || r.ack_at != kNever) return;
  r.ack_at = now + from_ns(config_.delayed_ack_ns);
  if (r.ack_at >= r.ack_entry) return;
  r.ack_entry = r.ack_at;
  timers_[host].push(r.ack_at, kDelayedAck, flow);
}

void TcpStack::ack_in(Ps now, uint32_t flow, const Note& note) {
  Tx& t = tx_[flow];
  if (t.failed) return;
  std::array<SackBlock, kSackBlocks> blocks;
  for (uint32_t i = 0; i < note.count; ++i)
    blocks[i] = {note.seq + note.sack[2 * i], note.seq + note.sack[2 * i + 1]};
  const TcpAck ack{note.seq, {blocks.data(), note.count}, note.word};
  ++n_.sacks;
  if (t.tcp.ack(config_, messages_, now, ack, [this, now](TaskId task) { env_.tasks.on_acked(task, now); })) {
    arm_retry(now, flow);
  }
  arm_reorder(flow);
  ready(now, flow);
}

void TcpStack::fill(Frame& out, uint32_t flow, Kind kind, uint32_t payload, uint32_t options) const {
  const Tx& t = tx_[flow];
  const bool data = kind == Kind::data;
  out.src = data ? t.src : t.dst;
  out.dst = data ? t.dst : t.src;
  out.tag = t.port;
  out.plane = t.plane;
  out.kind = static_cast<uint8_t>(kind);
  out.flow = flow;
  out.cls = Class::data;  // one class for all: TCP asks for no other
  out.ecn = data && config_.cc == TcpCc::dctcp ? Ecn::ect0 : Ecn::not_ect;
  out.trim = Trim::none;
  out.trimmable = false;
  out.trim_len = 0;
  out.sid_count = 0;
  out.head_len = 0;
  out.is_data = data;
  out.payload = static_cast<uint16_t>(payload);
  out.dscp = config_.dscp;
  out.size = std::max(kOverhead + options + payload, kMinWireBytes);
}

void TcpStack::make_data(Ps now, uint32_t flow, Frame& out) {
  Tx& t = tx_[flow];
  const bool idle = !t.tcp.outstanding();
  const TcpSegment s = t.tcp.send(config_, messages_, now);
  if (s.first && !s.again) env_.tasks.on_posted(s.task, now);
  fill(out, flow, Kind::data, s.payload, 0);
  Note note;
  note.seq = s.seq;
  note.word = s.task;
  note.count = s.last ? 1 : 0;
  std::memcpy(out.head + kNoteAt, &note, sizeof note);
  if (s.again) {
    ++n_.data_packets_rtx;
    ++(t.tcp.state() == TcpSender::State::loss ? n_.rtx_timeout : n_.rtx_inferred);
    watch_resend(env_, s.task);
  } else {
    ++n_.data_packets;
    n_.data_bytes += s.payload;
  }
  // The timer is that of the oldest segment: it starts anew when that one goes again.
  if (idle || t.retry_at == kNever || s.seq == t.tcp.una()) arm_retry(now, flow);
}

void TcpStack::make_ack(uint32_t flow, Frame& out) {
  static_assert(kNoteAt + sizeof(Note) <= sizeof out.head);
  Rx& r = rx_[flow];
  r.owe_ack = false;
  r.unacked = 0;
  r.ack_at = kNever;
  Note note;
  note.seq = r.tcp.expected();
  note.word = r.ce;
  std::array<SackBlock, kSackBlocks> blocks;
  note.count = static_cast<uint32_t>(r.tcp.blocks(blocks));
  for (uint32_t i = 0; i < note.count; ++i) {
    note.sack[2 * i] = static_cast<uint32_t>(blocks[i].begin - note.seq);
    note.sack[2 * i + 1] = static_cast<uint32_t>(blocks[i].end - note.seq);
  }
  fill(out, flow, Kind::ack, 0, note.count == 0 ? 0 : 4 + 8 * note.count);
  std::memcpy(out.head + kNoteAt, &note, sizeof note);
  ++n_.control_packets;
}

bool TcpStack::from_plane(Ps now, uint32_t host, uint8_t plane, Frame& out) {
  Lines& l = lines(host, plane);
  if (l.paused) return false;
  while (!l.ack.empty()) {
    const uint32_t flow = ack_links_.pop(l.ack);
    if (!rx_[flow].owe_ack) continue;
    make_ack(flow, out);
    return true;
  }
  while (!l.data.empty()) {
    const uint32_t flow = data_links_.pop(l.data);
    const Tx& t = tx_[flow];
    if (t.failed || !t.tcp.can_send()) continue;  // an ACK brings it back
    make_data(now, flow, out);
    if (t.tcp.can_send()) data_links_.push(l.data, flow);
    return true;
  }
  return false;
}

bool TcpStack::transmit(Ps now, uint32_t host, uint32_t free, Frame& out) {
  for (uint32_t bits = free & wants_[host]; bits != 0; bits &= bits - 1) {
    const auto plane = static_cast<uint8_t>(__builtin_ctz(bits));
    const bool sent = from_plane(now, host, plane, out);
    refresh(host, plane);
    if (sent) return true;
  }
  return false;
}

void TcpStack::add_totals(Totals& t) const { t.add(n_); }

}  // namespace mrc::sim
