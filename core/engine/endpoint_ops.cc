#include "engine/endpoint_ops.h"

#include <algorithm>
#include <cerrno>

namespace mrc::engine {

namespace {
constexpr Duration kStatusFirst = Duration::millis(1);
constexpr Duration kStatusMax = Duration::seconds(1);
constexpr Duration kStatusRefresh = Duration::seconds(10);  // while a port is down (9.2)
constexpr uint8_t kEct0 = 2;

bool same_routes(const PeerPort& a, const PeerPort& b) {
  if (a.routes == b.routes) return true;
  if (a.routes == nullptr || b.routes == nullptr) return false;
  const auto same = [](const EvRoute& x, const EvRoute& y) { return x.tag == y.tag && x.via == y.via; };
  return std::equal(a.routes->begin(), a.routes->end(), b.routes->begin(), b.routes->end(), same);
}
}  // namespace

EndpointOps::EndpointOps(const EndpointConfig& config, const std::vector<PortConfig>& ports,
                         EndpointStats& stats, base::Rng rng)
    : config_(config),
      ports_(ports),
      stats_(stats),
      rng_(rng),
      next_id_(static_cast<uint16_t>(rng_.next())) {}

uint32_t EndpointOps::acquire_peer(const std::vector<PeerPort>& ports, uint32_t slot) {
  const auto same = [&](const Peer& p) {
    return p.qps > 0 && p.ports.size() == ports.size() &&
           std::equal(ports.begin(), ports.end(), p.ports.begin(), [](const PeerPort& a, const PeerPort& b) {
             return a.local_port == b.local_port && a.addr == b.addr && a.udp_port == b.udp_port &&
                    a.remote_port == b.remote_port && same_routes(a, b);
           });
  };
  // QPs to one peer are set up in runs: its address leads to the candidates without a scan of all peers.
  if (const auto it = by_address_.find(ports.front().addr); it != by_address_.end()) {
    for (const uint32_t id : it->second) {
      if (same(peers_[id])) {
        ++peers_[id].qps;
        peers_[id].guide = slot;
        return id;
      }
    }
  }
  auto id = static_cast<uint32_t>(
      std::find_if(peers_.begin(), peers_.end(), [](const Peer& p) { return p.qps == 0; }) - peers_.begin());
  if (id == peers_.size()) peers_.emplace_back();
  peers_[id] = Peer{};
  peers_[id].ports = ports;
  peers_[id].qps = 1;
  peers_[id].guide = slot;
  peers_[id].responses = TokenBucket(config_.endpoint_responses_per_second);
  for (const PeerPort& p : ports) by_address_[p.addr].push_back(id);
  return id;
}

void EndpointOps::release_peer(uint32_t id) {
  if (--peers_[id].qps > 0) return;
  for (const PeerPort& p : peers_[id].ports) {
    auto it = by_address_.find(p.addr);
    if (it == by_address_.end()) continue;
    std::erase(it->second, id);
    if (it->second.empty()) by_address_.erase(it);
  }
  peers_[id] = Peer{};
}

void EndpointOps::Senders::add(uint16_t port) {
  const auto end = udp_ports.begin() + static_cast<std::ptrdiff_t>(count);
  if (count < kMaxReplies && std::find(udp_ports.begin(), end, port) == end) udp_ports[count++] = port;
}

// A source port that is the UDP port of a peer at that address names it: only one process owns the pair. Any
// other is an EV (4.1) and says nothing about who chose it: then every endpoint there gets the answer, and
// those that did not ask do not know the id. More of them than `kMaxReplies` take turns.
EndpointOps::Senders EndpointOps::find_senders(const wire::DatagramMeta& meta) {
  const auto it = by_address_.find(meta.src);
  if (it == by_address_.end()) return {};
  const std::vector<uint32_t>& ids = it->second;
  Senders all;
  const size_t turn = ids.size() > kMaxReplies ? reply_turn_++ % ids.size() : 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    Peer& peer = peers_[ids[(turn + i) % ids.size()]];
    for (const PeerPort& p : peer.ports) {
      if (p.addr != meta.src) continue;
      if (p.udp_port == meta.src_port) {
        Senders one;
        one.first = &peer;
        one.add(p.udp_port);
        one.routes = p.routes;
        return one;
      }
      if (all.first == nullptr) all.first = &peer;
      if (all.routes == nullptr) all.routes = p.routes;
      all.add(p.udp_port);
    }
  }
  return all;
}

uint32_t EndpointOps::reply_tag(uint8_t port, uint32_t request_entropy) {
  const std::vector<uint32_t>& own = ports_[port - 1u].auto_tags;
  return own.empty() ? request_entropy : own[rng_.below(static_cast<uint32_t>(own.size()))];
}

// Who probes a plane of a peer means the paths that the QPs to it use.
std::shared_ptr<const std::vector<EvRoute>> EndpointOps::known_routes(const PeerPort& to) const {
  const auto it = by_address_.find(to.addr);
  if (it == by_address_.end()) return nullptr;
  for (const uint32_t id : it->second) {
    for (const PeerPort& p : peers_[id].ports) {
      if (p.addr == to.addr && p.udp_port == to.udp_port && p.local_port == to.local_port &&
          p.routes != nullptr)
        return p.routes;
    }
  }
  return nullptr;
}

void EndpointOps::enqueue(Message m) {
  if (out_.size() >= kMaxQueued) {
    ++stats_.endpoint_refused;
    return;
  }
  out_.push_back(std::move(m));
}

std::optional<uint16_t> EndpointOps::new_id() {
  if (open_.size() >= kMaxOpenProbes) return std::nullopt;
  while (open_.contains(next_id_)) ++next_id_;
  return next_id_++;
}

base::Result<uint16_t> EndpointOps::probe(Instant now, const PeerPort& to, uint32_t tag, uint8_t dscp,
                                          std::optional<uint32_t> qp_slot, Duration patience) {
  using R = base::Result<uint16_t>;
  if (to.local_port == 0 || to.local_port > ports_.size()) return R::error(EINVAL);
  const auto id = new_id();
  if (!id || out_.size() >= kMaxQueued) return R::error(EAGAIN);
  open_[*id] = OpenProbe{now, now + patience, ev::PathId{tag, to.local_port}, qp_slot};
  Message m{to, tag, dscp, kEct0, {}};
  if (to.routes == nullptr) m.to.routes = known_routes(to);
  m.packet.bth.opcode = static_cast<uint8_t>(wire::Opcode::endpoint_request);
  m.packet.bth.psn = *id;
  m.packet.erth.op = wire::kOpEvProbe;
  m.packet.erth.tx_timestamp = base::timestamp16(now);
  enqueue(std::move(m));
  return *id;
}

void EndpointOps::announce_ports(Instant now, uint32_t ports_up) {
  ports_up_ = ports_up;
  for (Peer& p : peers_) {
    if (p.qps == 0) continue;
    p.status_open = true;
    p.status_interval = kStatusFirst;
    // An answer to the last report says nothing about this one, and copies of it that still wait are not
    // sent.
    const uint16_t old = std::exchange(p.status_id, uint16_t{0});
    std::erase_if(out_, [old](const Message& m) {
      const bool report = m.packet.bth.opcode == static_cast<uint8_t>(wire::Opcode::endpoint_request) &&
                          m.packet.erth.op == wire::kOpPortStatus;
      return old != 0 && report && m.packet.bth.psn == old;
    });
    send_status(now, p);
  }
}

void EndpointOps::send_status(Instant now, Peer& peer) {
  const auto n = static_cast<uint32_t>(peer.ports.size());
  peer.status_next = now + peer.status_interval;
  peer.status_interval = std::min(peer.status_interval * 2, kStatusMax);
  // A working plane, another one every time: the last one may be dead without our knowing.
  for (uint32_t i = 0; i < n; ++i) {
    const PeerPort& to = peer.ports[peer.status_turn++ % n];
    if ((ports_up_ & (1u << to.local_port)) == 0) continue;
    if (peer.status_id == 0) {
      const auto id = new_id();
      if (!id) return;
      peer.status_id = *id;
    }
    Message m{to, reply_tag(to.local_port, static_cast<uint32_t>(rng_.next())), config_.dscps.control, 0, {}};
    m.packet.bth.opcode = static_cast<uint8_t>(wire::Opcode::endpoint_request);
    m.packet.bth.psn = peer.status_id;
    m.packet.erth.op = wire::kOpPortStatus;
    m.packet.erth.port_status_mask = ports_up_;
    const uint16_t stamp = base::timestamp16(now);
    const bool newer = static_cast<int16_t>(stamp - peer.status_stamp) > 0;
    peer.status_stamp = newer ? stamp : static_cast<uint16_t>(peer.status_stamp + 1);
    m.packet.erth.tx_timestamp = peer.status_stamp;
    enqueue(std::move(m));
    return;
  }
}

void EndpointOps::on_request(Instant now, const wire::DatagramMeta& meta, const wire::Packet& p) {
  ++stats_.endpoint_requests_rx;
  Senders s = find_senders(meta);
  if (s.first == nullptr && config_.accept_only_known_peers) {
    ++stats_.drops[static_cast<size_t>(wire::DropReason::bad_peer)];
    return;
  }
  if (p.erth.op != wire::kOpPortStatus && p.erth.op != wire::kOpEvProbe) {
    ++stats_.unknown_endpoint_op;
    return;
  }
  if (s.first != nullptr && !s.first->responses.take(now)) {
    ++stats_.endpoint_refused;
    return;
  }
  // Ports are numbered by their endpoint. Which of several it is, is not known: losses will tell then.
  if (p.erth.op == wire::kOpPortStatus && s.count == 1 && is_news(now, *s.first, p.erth.tx_timestamp)) {
    OpsOutcome o;
    o.kind = OpsOutcome::Kind::port_status;
    o.from = meta.src;
    o.from_udp_port = s.udp_ports[0];
    o.port_mask = p.erth.port_status_mask;
    outcomes_.push_back(o);
  }
  if (s.count == 0) s.add(meta.dst_port);  // a stranger: the port both are configured to use (D-01)
  const auto known =
      guide_ && s.first != nullptr ? guide_(s.first->guide, meta.src, meta.port) : std::nullopt;
  const uint32_t tag = known ? *known : reply_tag(meta.port, wire::reflected_entropy(meta));
  for (size_t i = 0; i < s.count; ++i) {
    Message m{{meta.port, meta.src, s.udp_ports[i], 0, s.routes}, tag, config_.dscps.control, 0, {}};
    m.packet.bth.opcode = static_cast<uint8_t>(wire::Opcode::endpoint_response);
    m.packet.bth.psn = p.bth.psn & 0xFFFF;
    m.packet.eeth.op = p.erth.op;
    m.packet.eeth.tx_timestamp = p.erth.tx_timestamp;
    enqueue(std::move(m));
    ++stats_.endpoint_responses_tx;
  }
}

void EndpointOps::on_response(Instant now, const wire::DatagramMeta& meta, const wire::Packet& p) {
  const auto id = static_cast<uint16_t>(p.bth.psn);
  if (config_.accept_only_known_peers && !by_address_.contains(meta.src)) {
    ++stats_.drops[static_cast<size_t>(wire::DropReason::bad_peer)];
    return;
  }
  // Matched by id and the pending request's own operation (2.14), never by the op bits (D-03).
  if (const auto it = open_.find(id); it != open_.end()) {
    OpsOutcome o;
    o.kind = OpsOutcome::Kind::probe_answer;
    o.request_id = id;
    o.qp_slot = it->second.qp_slot;
    o.path = it->second.path;
    o.sent_at = it->second.sent_at;
    o.rtt = now - it->second.sent_at;
    o.arrival_port = meta.port;
    open_.erase(it);
    outcomes_.push_back(o);
    return;
  }
  if (id != 0) confirm_status(now, meta.src, id);
}

// The stamp wraps after 8.4 ms: older ones are told from newer ones only for a while after the last.
bool EndpointOps::is_news(Instant now, Peer& peer, uint16_t stamp) {
  const bool older = static_cast<int16_t>(stamp - peer.heard_stamp) < 0;
  if (older && now - peer.heard_at < kStampMemory) return false;
  peer.heard_stamp = stamp;
  peer.heard_at = now;
  return true;
}

void EndpointOps::confirm_status(Instant now, const IpAddr& from, uint16_t id) {
  const auto at = by_address_.find(from);
  if (at == by_address_.end()) return;
  for (const uint32_t n : at->second) {
    Peer& peer = peers_[n];
    if (!peer.status_open || peer.status_id != id) continue;
    peer.status_open = false;
    peer.status_id = 0;
    const bool all_up = std::all_of(peer.ports.begin(), peer.ports.end(), [this](const PeerPort& q) {
      return (ports_up_ & (1u << q.local_port)) != 0;
    });
    peer.status_next = all_up ? Instant::never() : now + kStatusRefresh;
    peer.status_interval = kStatusFirst;
    return;
  }
}

bool EndpointOps::transmit(uint32_t ports, base::MutByteView head, Transmit& out) {
  for (auto it = out_.begin(); it != out_.end(); ++it) {
    if ((ports & (1u << it->to.local_port)) == 0) continue;
    wire::Packet& p = it->packet;
    p.bth.dqp = wire::kEndpointQpn;
    p.bth.p_key = config_.p_key;
    const bool v4 = it->to.addr.is_v4();
    out = Transmit{};
    out.meta.src = ports_[it->to.local_port - 1u].addr;
    out.meta.dst = it->to.addr;
    out.via = it->to.via(it->tag);
    out.meta.src_port = static_cast<uint16_t>(it->tag);
    out.meta.dst_port = it->to.udp_port;
    out.meta.flow_label = v4 ? 0 : it->tag >> 16;
    out.meta.dscp = it->dscp;
    out.meta.ecn = it->ecn;
    out.meta.port = it->to.local_port;
    out.tag = it->tag;
    out.qpn = wire::kEndpointQpn;
    out.head_len = static_cast<uint32_t>(wire::emit_headers(p, head.data()));
    out_.erase(it);
    return true;
  }
  return false;
}

Instant EndpointOps::deadline() const {
  Instant at = Instant::never();
  for (const auto& [id, probe] : open_) at = std::min(at, probe.expires_at);
  for (const Peer& p : peers_) {
    if (p.qps > 0) at = std::min(at, p.status_next);
  }
  return at;
}

void EndpointOps::on_deadline(Instant now) {
  for (auto it = open_.begin(); it != open_.end();) {
    if (it->second.expires_at > now) {
      ++it;
      continue;
    }
    OpsOutcome o;
    o.kind = OpsOutcome::Kind::probe_lost;
    o.request_id = it->first;
    o.qp_slot = it->second.qp_slot;
    o.path = it->second.path;
    o.sent_at = it->second.sent_at;
    outcomes_.push_back(o);
    it = open_.erase(it);
  }
  for (Peer& p : peers_) {
    if (p.qps == 0 || p.status_next > now) continue;
    p.status_open = true;
    send_status(now, p);
  }
}

bool EndpointOps::take_outcome(OpsOutcome& out) {
  if (outcomes_.empty()) return false;
  out = outcomes_.front();
  outcomes_.pop_front();
  return true;
}

}  // namespace mrc::engine
