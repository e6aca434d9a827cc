// Tasks, frames and completions through the endpoints. Connections are made in mrc_open.cc.
#include "sim/mrc_stack.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "sim/watch.h"

namespace mrc::sim {

namespace {
constexpr int64_t kChunk = int64_t{1}
                           << 30;     // longest work request; divides 2^32, so that offsets do not carry
constexpr uint32_t kQueueDepth = 16;  // work requests posted of one QP
constexpr uint64_t kPart = uint64_t{1} << 63;  // wr_id of a chunk that is not a task's last one
constexpr size_t kTaskOffset = wire::kBthBytes + wire::kTsethBytes + wire::kMethBytes;  // of RETH.va
constexpr uint32_t kIcrc = 4;
}  // namespace

uint32_t MrcStack::link_of_qpn(const Host& h, uint32_t qpn) const {
  for (uint32_t i = 0; i < h.links.size(); ++i) {
    if (h.links[i].qpn == qpn) return i;
  }
  return UINT32_MAX;
}

void MrcStack::post(Ps now, uint32_t host, TaskId task) {
  const Workload& w = env_.tasks.spec();
  Host& h = hosts_[host];
  const auto peer = static_cast<uint32_t>(w.peer[task]);
  const auto first =
      static_cast<uint32_t>(std::lower_bound(h.links.begin(), h.links.end(), peer,
                                             [](const Link& l, uint32_t p) { return l.peer < p; }) -
                            h.links.begin());
  uint32_t count = 0;
  while (first + count < h.links.size() && h.links[first + count].peer == peer) ++count;
  const uint32_t index = w.qp[task] >= 0 ? static_cast<uint32_t>(w.qp[task]) : h.turn[first]++ % count;
  const uint32_t link = first + index;
  h.queues[link].waiting.push_back({task, w.size[task], 0});
  feed(now, host, link);
  after(now, host);
  h.wants = h.planes;
}

void MrcStack::feed(Ps now, uint32_t host, uint32_t link) {
  Host& h = hosts_[host];
  Queue& q = h.queues[link];
  while (!q.waiting.empty() && q.posted < kQueueDepth) {
    Backlog& b = q.waiting.front();
    const bool last = b.left <= kChunk;
    engine::SendWr wr;
    wr.length = static_cast<uint32_t>(std::min(b.left, kChunk));
    wr.lkey = h.lkey;
    wr.rkey = h.links[link].rkey;
    wr.remote_addr = (static_cast<uint64_t>(b.task) << 32) | (static_cast<uint64_t>(b.offset) & 0xFFFFFFFF);
    wr.wr_id = last ? b.task : b.task | kPart;
    wr.opcode = last ? reliability::WrOpcode::rdma_write_imm : reliability::WrOpcode::rdma_write;
    wr.imm = b.task;
    if (h.endpoint->post_send(to_instant(now), h.links[link].qpn, wr) != 0) {
      env_.tasks.on_failed(b.task, now);  // the QP is in error
      q.waiting.erase(q.waiting.begin());
      continue;
    }
    env_.tasks.on_posted(b.task, now);
    ++q.posted;
    b.offset += wr.length;
    b.left -= wr.length;
    if (last) q.waiting.erase(q.waiting.begin());
  }
}

void MrcStack::complete(Ps now, uint32_t host, const engine::Completion& c) {
  Host& h = hosts_[host];
  const bool ok = c.status == engine::Status::success;
  if (c.opcode == engine::WcOpcode::recv_rdma_with_imm) {
    if (!ok) return;
    env_.tasks.on_delivered(c.imm, now);
    h.endpoint->post_recv(to_instant(now), c.qpn, 0);
    return;
  }
  const auto task = static_cast<TaskId>(c.wr_id);
  const uint32_t link = link_of_qpn(h, c.qpn);
  --h.queues[link].posted;
  if (!ok) {
    env_.tasks.on_failed(task, now);
  } else if ((c.wr_id & kPart) == 0) {
    env_.tasks.on_acked(task, now);
  }
  feed(now, host, link);
}

void MrcStack::take_news(Ps now, uint32_t host) {
  Host& h = hosts_[host];
  auto& batch = completions_;
  for (size_t n = batch.size(); n == batch.size();) {
    n = h.endpoint->poll_completion(h.cq, batch);
    for (size_t i = 0; i < n; ++i) complete(now, host, batch[i]);
  }
  engine::Event e;
  while (h.endpoint->poll_event(e)) {
    if (e.kind == engine::EventKind::qp_error) ++qp_errors_;
    if (e.kind != engine::EventKind::ev_state) continue;
    if (e.ev.state == ev::State::assumed_bad) ++ev_bad_;
    if (env_.watch.ev_changes.size() >= Watch::kMaxEvChanges) {
      ++env_.watch.ev_changes_dropped;
      continue;
    }
    const uint32_t link = link_of_qpn(h, e.qpn);
    env_.watch.ev_changes.push_back({e.at.ns, host, h.links[link].peer, h.links[link].index, e.ev.tag,
                                     e.ev.port, static_cast<uint8_t>(e.ev.state),
                                     static_cast<uint8_t>(e.ev.reason)});
  }
}

void MrcStack::after(Ps now, uint32_t host) {
  Host& h = hosts_[host];
  if (h.endpoint->take_news()) take_news(now, host);
  h.timer = from_instant(h.endpoint->poll_timeout());
}

void MrcStack::on_timer(Ps now, uint32_t host) {
  Host& h = hosts_[host];
  h.endpoint->handle_timeout(to_instant(now));
  after(now, host);
  if (h.timer <= now) {
    // What only sending can serve stays due until its QP has been told that no line is free.
    uint8_t head[wire::kMaxHeaderBytes];
    engine::Transmit none;
    h.endpoint->poll_transmit(to_instant(now), 0, head, none);
    h.timer = from_instant(h.endpoint->poll_timeout());
  }
  h.wants = h.planes;
}

void MrcStack::receive(Ps now, uint32_t host, FrameId id) {
  Frame& f = env_.pool[id];
  wire::DatagramMeta m;
  m.src = address(f.src, f.plane);
  m.dst = address(f.dst, f.plane);
  m.src_port = static_cast<uint16_t>(f.tag);
  m.dst_port = wire::kUdpPort;
  m.flow_label = f.tag >> 16;
  m.dscp = f.dscp;
  m.ecn = static_cast<uint8_t>(f.ecn);
  m.port = f.plane;
  m.icrc_verified = true;
  size_t bytes = f.head_len;
  if (f.trim == Trim::none && f.payload > 0) {
    m.elided_payload = f.payload;
    if (f.is_data) {
      watch_arrival(env_, host, f.plane, f.payload);
      watch_delivery(env_, f.flow, f.payload);
    }
  } else if (f.trim == Trim::none) {
    bytes += kIcrc;
  }
  Host& h = hosts_[host];
  h.endpoint->handle_datagram(to_instant(now), m, {f.head, bytes});
  env_.pool.give(id);
  after(now, host);
  h.wants = h.planes;
}

bool MrcStack::transmit(Ps now, uint32_t host, uint32_t free, Frame& out) {
  Host& h = hosts_[host];
  engine::Transmit t;
  if (!h.endpoint->poll_transmit(to_instant(now), free, {out.head, sizeof out.head}, t)) {
    h.wants &= ~free;  // what waits, waits for another plane
    h.timer = from_instant(h.endpoint->poll_timeout());
    return false;
  }
  out.src = host;
  out.dst = base::load_be32(t.meta.dst.bytes.data() + 12);
  out.plane = t.meta.port;
  out.tag = t.tag;
  out.dscp = t.meta.dscp;
  out.ecn = static_cast<Ecn>(t.meta.ecn);
  out.trim = Trim::none;
  out.is_data = t.is_data;
  out.head_len = static_cast<uint8_t>(t.head_len);
  out.payload = static_cast<uint16_t>(t.payload_len);
  out.cls = t.is_data ? Class::data : Class::control;
  out.trimmable = t.is_data && config_.trimming;
  out.trim_len = static_cast<uint8_t>(wire::trimmed_bytes(config_.timestamps));
  out.size = std::max(kWireOverhead + t.head_len + t.payload_len + t.pad + kIcrc, kMinWireBytes);
  if (!t.is_data) {
    ++control_sent_;
    std::fill_n(out.head + t.head_len, kIcrc, uint8_t{0});
    return true;
  }
  const size_t va = config_.timestamps ? kTaskOffset : kTaskOffset - wire::kTsethBytes;
  out.flow = base::load_be32(out.head + va);
  ++data_sent_;
  if (!t.rtx) {
    new_bytes_ += t.payload_len;
    return true;
  }
  ++rtx_sent_;
  watch_resend(env_, out.flow);
  return true;
}

void MrcStack::on_port(Ps now, uint32_t host, uint8_t plane, bool up) {
  Host& h = hosts_[host];
  if (!h.endpoint) return;
  h.endpoint->set_port_up(to_instant(now), plane, up);
  after(now, host);
  h.wants = h.planes;
}

void MrcStack::add_totals(Totals& t) const {
  t.data_packets += data_sent_ - rtx_sent_;
  t.data_packets_rtx += rtx_sent_;
  t.data_bytes += new_bytes_;
  t.control_packets += control_sent_;
  t.ev_bad += ev_bad_;
  t.qp_errors += qp_errors_;
  for (const Host& h : hosts_) {
    if (!h.endpoint) continue;
    for (const uint64_t d : h.endpoint->stats().drops) t.datagrams_dropped += d;
    for (const Link& l : h.links) {
      const auto r = h.endpoint->qp_stats(l.qpn);
      if (!r.ok()) continue;
      const engine::QpStats& s = r.value();
      t.rtx_trimmed += s.tx.rtx_trimmed + s.tx.rtx_lasthop;
      t.rtx_inferred += s.tx.rtx_inferred;
      t.rtx_probe += s.tx.rtx_probe;
      t.rtx_timeout += s.tx.rtx_timeout;
      t.timeouts += s.tx.timeouts;
      t.spurious += s.tx.spurious;
      t.nacks += s.nacks_rx;
      t.sacks += s.sacks_rx;
      t.ev_probes += s.probes_tx;
    }
  }
}

}  // namespace mrc::sim
