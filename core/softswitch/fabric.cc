#include "softswitch/fabric.h"

#include <algorithm>

#include "wire/srv6.h"

namespace mrc::softswitch {

using base::Duration;
using base::Instant;

namespace {

constexpr auto kLater = [](const auto& a, const auto& b) {
  return a.at > b.at || (a.at == b.at && a.order > b.order);
};

std::string at(const char* what, size_t i) { return std::string(what) + " " + std::to_string(i); }

}  // namespace

Fabric::Fabric(const FabricSpec& spec, std::string& why)
    : nodes_(spec.nodes), dscps_(spec.dscps), mtu_(spec.mtu), pool_(spec.max_bytes) {
  why = wire_up(spec);
}

std::string Fabric::wire_up(const FabricSpec& spec) {
  const size_t n = spec.nodes.size();
  if (spec.mtu < 1280 || spec.mtu > FramePool::kLargeBytes)
    return "the MTU is 1280 to " + std::to_string(FramePool::kLargeBytes) + " bytes";
  base::Rng rng(spec.seed);
  uplink_.assign(n, kNone);
  counters_.resize(n);
  tables_.resize(n);
  ports_.reserve(spec.ports.size());
  for (size_t i = 0; i < spec.ports.size(); ++i) {
    const PortSpec& s = spec.ports[i];
    if (s.from >= n || s.to >= n || s.reverse >= spec.ports.size() || s.delay.ns < 0)
      return at("port", i) + " has an end that does not exist";
    if (nodes_[s.from].host && std::exchange(uplink_[s.from], static_cast<uint32_t>(i)) != kNone)
      return at("host node", s.from) + " has more than one port";
    Port p;
    p.from = s.from;
    p.to = s.to;
    p.rate_bps = s.rate_bps;
    p.delay = s.delay;
    p.rules = s.rules;
    p.dscps = spec.dscps;
    p.rng = rng.fork();
    ports_.push_back(p);
    reverse_.push_back(s.reverse);
  }
  for (size_t i = 0; i < n; ++i) {
    if (nodes_[i].host && uplink_[i] == kNone) return at("host node", i) + " has no port";
  }
  for (const RouteSpec& r : spec.routes) {
    if (r.node >= n || r.ports.empty()) return "a route without node or ports";
    for (const uint32_t p : r.ports) {
      if (p >= ports_.size() || ports_[p].from != r.node)
        return at("a route of node", r.node) + " uses another's port";
    }
    tables_[r.node].push_back(
        {r.usid, r.adjacency, static_cast<uint32_t>(hops_.size()), static_cast<uint32_t>(r.ports.size())});
    hops_.insert(hops_.end(), r.ports.begin(), r.ports.end());
  }
  for (std::vector<Route>& t : tables_) {
    std::sort(t.begin(), t.end(), [](const Route& a, const Route& b) { return a.usid < b.usid; });
    const auto twice = std::adjacent_find(t.begin(), t.end(),
                                          [](const Route& a, const Route& b) { return a.usid == b.usid; });
    if (twice != t.end()) return "two routes of one node for uSID " + std::to_string(twice->usid);
  }
  return {};
}

void Fabric::schedule(Instant at, What what, uint32_t port, FrameId frame) {
  heap_.push_back({at, order_++, port, frame, what});
  std::push_heap(heap_.begin(), heap_.end(), kLater);
}

void Fabric::ingest(Instant at, uint32_t host, base::ByteView packet, PartialSum sum) {
  if (const Drop d = check(packet, mtu_); d != Drop::count_) return count_drop(host, d);
  const Address from = source(packet);
  if (from.block() != nodes_[host].block || from.usid() != nodes_[host].usid)
    return count_drop(host, Drop::bad_source);
  const FrameId id = pool_.take(packet);
  if (id == kNoFrame) return count_drop(host, Drop::no_memory);
  pool_[id].cls = class_of(packet, dscps_);
  pool_[id].sum = sum;
  schedule(std::max(at, now_), What::enter, uplink_[host], id);
}

void Fabric::advance(Instant until, std::vector<Delivery>& out) {
  while (!heap_.empty() && heap_.front().at <= until) {
    std::pop_heap(heap_.begin(), heap_.end(), kLater);
    const EventOf e = heap_.back();
    heap_.pop_back();
    now_ = std::max(now_, e.at);
    handle(e, out);
  }
  now_ = std::max(now_, until);
}

void Fabric::handle(const EventOf& e, std::vector<Delivery>& out) {
  switch (e.what) {
    case What::enter:
      return put(e.port, e.frame);
    case What::line_free:
      ports_[e.port].busy = false;
      return send_next(e.port);
    case What::arrive:
      return arrive(e, out);
  }
}

void Fabric::arrive(const EventOf& e, std::vector<Delivery>& out) {
  const uint32_t node = ports_[e.port].to;
  if (!carrier(e.port)) {
    ++ports_[e.port].n.lost;
    return pool_.give_back(e.frame);
  }
  if (!nodes_[node].host) return forward(node, e.frame);
  const Address to = destination(pool_[e.frame].view());
  if (to.block() != nodes_[node].block || to.usid() != nodes_[node].usid)
    return drop(node, e.frame, Drop::not_mine);
  ++counters_[node].delivered;
  out.push_back({node, e.frame});
}

void Fabric::forward(uint32_t node, FrameId id) {
  Frame& f = pool_[id];
  NodeCounters& c = counters_[node];
  if (!take_hop(f.view())) return drop(node, id, Drop::hop_limit);
  Address to = destination(f.view());
  if (to.block() != nodes_[node].block) return drop(node, id, Drop::no_route);
  if (to.usid() == nodes_[node].usid) {
    ++c.sid_packets;
    c.sid_bytes += f.size;
    to.ip = wire::usid_shift(to.ip);
    if (wire::usid_end(to.ip)) return drop(node, id, Drop::list_ended);
    set_destination(f.view(), to.ip);
  }
  const Route* r = route_for(node, to.usid());
  if (r == nullptr) return drop(node, id, Drop::no_route);
  const uint32_t port = pick(*r, f.view());
  if (port == kNone) return drop(node, id, Drop::link_down);
  if (r->adjacency) {
    to.ip = wire::usid_shift(to.ip);
    if (wire::usid_end(to.ip)) return drop(node, id, Drop::list_ended);
    set_destination(f.view(), to.ip);
  }
  ++c.forwarded;
  put(port, id);
}

void Fabric::drop(uint32_t node, FrameId id, Drop reason) {
  count_drop(node, reason);
  pool_.give_back(id);
}

const Fabric::Route* Fabric::route_for(uint32_t node, uint16_t usid) const {
  const std::vector<Route>& t = tables_[node];
  const auto it =
      std::lower_bound(t.begin(), t.end(), usid, [](const Route& r, uint16_t u) { return r.usid < u; });
  return it != t.end() && it->usid == usid ? &*it : nullptr;
}

// The flow's own choice while all links have a carrier; else one of those that have.
uint32_t Fabric::pick(const Route& r, base::ByteView packet) const {
  if (r.count == 1) return carrier(hops_[r.first]) ? hops_[r.first] : kNone;
  uint32_t alive = 0;
  for (uint32_t i = 0; i < r.count; ++i) alive += carrier(hops_[r.first + i]) ? 1u : 0u;
  if (alive == 0) return kNone;
  uint32_t left = static_cast<uint32_t>((uint64_t{flow_hash(packet)} * alive) >> 32);
  for (uint32_t i = 0; i < r.count; ++i) {
    if (carrier(hops_[r.first + i]) && left-- == 0) return hops_[r.first + i];
  }
  return kNone;
}

void Fabric::put(uint32_t port, FrameId id) {
  Port& p = ports_[port];
  if (p.fault.down) return drop(p.from, id, Drop::link_down);
  if (!p.enqueue(pool_, id)) return pool_.give_back(id);
  if (!p.busy) send_next(port);
}

void Fabric::send_next(uint32_t port) {
  Port& p = ports_[port];
  const FrameId id = p.dequeue(pool_);
  if (id == kNoFrame) {
    p.rest = 0;
    return;
  }
  Frame& f = pool_[id];
  const uint32_t bytes = f.size + kEthernetBytes;
  ++p.n.tx_packets;
  p.n.tx_bytes += bytes;
  if (watch_ != nullptr) watch_(watcher_, port, now_, f.view());
  const Instant sent = now_ + p.on_line(bytes);
  p.busy = true;
  schedule(sent, What::line_free, port, kNoFrame);
  if (p.fault.hole || p.rng.chance_ppm(p.fault.loss_ppm)) {
    ++p.n.lost;
    return pool_.give_back(id);
  }
  if (p.rng.chance_ppm(p.fault.corrupt_ppm)) {
    ++p.n.corrupted;
    corrupt(f, static_cast<uint32_t>(p.rng.next() >> 33));
  }
  schedule(sent + p.delay + p.fault.delay, What::arrive, port, id);
}

bool Fabric::set_fault(uint32_t port, const PortFault& fault) {
  if (port >= ports_.size()) return false;
  Port& p = ports_[port];
  p.fault = fault;
  if (fault.down) p.flush(pool_);
  return true;
}

Duration Fabric::backlog(uint32_t host) const {
  Port p = ports_[uplink_[host]];
  return p.on_line(p.data.bytes);
}

bool Fabric::linked(uint32_t host) const {
  const uint32_t up = uplink_[host];
  return carrier(up) && carrier(reverse_[up]);
}

PortCounters Fabric::port_counters(uint32_t port) const {
  PortCounters n = ports_[port].n;
  n.queued_bytes = ports_[port].data.bytes + ports_[port].control.bytes;
  return n;
}

}  // namespace mrc::softswitch
