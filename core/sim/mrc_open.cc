// Hosts and connections before the run: what an out-of-band exchange agrees (reference 10.1), and which paths
// a QP gets (reference 4.6: equal numbers of each plane, a random subset inside it).
#include <algorithm>
#include <bit>
#include <numeric>

#include "base/bytes.h"
#include "sim/mrc_stack.h"

namespace mrc::sim {

namespace {
constexpr uint32_t kPathBits = 24;
constexpr uint32_t kMaxPathsListed = 1u << 14;
constexpr uint64_t kWholeMemory = uint64_t{1} << 63;
constexpr uint64_t kQpBytes = 16 * 1024;
constexpr uint64_t kMaxQpMemory = uint64_t{64} << 30;
constexpr uint32_t kAskEvery = 256;  // hosts, pairs
constexpr const char* kGivenUp = "given up while connections were opened";
constexpr uint32_t kControlBytes = 120;

std::string unknown(const char* what, const std::string& name, const std::vector<std::string>& known) {
  std::string text = "no " + std::string(what) + " '" + name + "'; there is ";
  for (const std::string& k : known) text += (&k == &known.front() ? "" : ", ") + k;
  return text;
}
}  // namespace

MrcStack::MrcStack(Env& env, const MrcConfig& config) : env_(env), config_(config) {}

base::IpAddr MrcStack::address(uint32_t host, uint8_t plane) const {
  base::IpAddr a;
  a.bytes[0] = 0xfd;
  a.bytes[7] = plane;
  base::store_be32(a.bytes.data() + 12, host);
  return a;
}

std::string MrcStack::make_host(uint32_t host) {
  Host& h = hosts_[host];
  engine::EndpointConfig c;
  c.seed = (env_.seed << 24) ^ (host * 0x9e3779b9ULL + 1);
  c.send_timestamps = config_.timestamps;
  // A receiver asks once a round trip, which is microseconds here; probes that a limit made for strangers
  // leaves unanswered would blame healthy paths.
  c.endpoint_responses_per_second = 5'000'000;
  h.endpoint = std::make_unique<engine::Endpoint>(c);
  for (uint8_t plane = 1; plane <= env_.fabric.planes(); ++plane) {
    engine::PortConfig p;
    p.addr = address(host, plane);
    const PortId nic = env_.fabric.nic_port(host, plane);
    if (nic != kNoPort) {
      const Port& port = env_.fabric.port(nic);
      p.bytes_per_second =
          static_cast<int64_t>(1e12 / (static_cast<double>(port.per_byte) / (1 << kByteTimeBits)));
      h.planes |= 1u << plane;
    }
    if (!h.endpoint->add_port(p).ok()) return "more planes than a NIC has ports";
    if (nic == kNoPort || !env_.fabric.port(nic).up) h.endpoint->set_port_up(base::Instant{}, plane, false);
  }
  h.pd = h.endpoint->alloc_pd();
  h.cq = h.endpoint->create_cq(1u << 16).value();
  constexpr uint32_t access = engine::Access::local_write | engine::Access::remote_write;
  const engine::MrInfo mr = h.endpoint->reg_mr(h.pd, 0, kWholeMemory, access, 0).value();
  h.lkey = mr.lkey;
  h.rkey = mr.rkey;
  return {};
}

bool MrcStack::dead_at_start(uint32_t src, uint32_t dst, uint8_t plane, uint32_t k) const {
  std::vector<PortId> ports;
  if (!env_.fabric.walk(src, dst, plane, k, ports)) return true;
  return std::any_of(ports.begin(), ports.end(), [&](PortId p) { return !env_.fabric.port(p).up; });
}

void MrcStack::draw_plane(uint32_t src, uint32_t dst, uint8_t plane, uint32_t want, base::Rng& rng,
                          std::vector<uint32_t>& out) {
  out.clear();
  const uint32_t paths = env_.fabric.path_count(src, dst, plane);
  if (paths == 0) return;
  if (paths > kMaxPathsListed) {
    // So many that chance rarely repeats itself.
    for (uint32_t tries = 0; out.size() < want && tries < 64 * want; ++tries) {
      const uint32_t k = rng.below(paths);
      if (std::find(out.begin(), out.end(), k) != out.end() || !env_.fabric.path_exists(src, dst, plane, k))
        continue;
      if (!config_.denylist || !dead_at_start(src, dst, plane, k)) out.push_back(k);
    }
    return;
  }
  scratch_.resize(paths);
  std::iota(scratch_.begin(), scratch_.end(), 0u);
  for (uint32_t i = 0; i < paths && out.size() < want; ++i) {
    std::swap(scratch_[i], scratch_[i + rng.below(paths - i)]);
    const uint32_t k = scratch_[i];
    if (!env_.fabric.path_exists(src, dst, plane, k)) continue;
    if (!config_.denylist || !dead_at_start(src, dst, plane, k)) out.push_back(k);
  }
  // Fewer paths than EVs: the same ones again under other numbers.
  const size_t distinct = out.size();
  if (distinct == 0) return;
  for (uint32_t round = 1; out.size() < want; ++round) {
    for (size_t i = 0; i < distinct && out.size() < want; ++i) out.push_back(out[i] + round * paths);
  }
}

uint32_t MrcStack::planes_of(uint32_t host, const Link& link) const {
  uint32_t common = hosts_[host].planes & hosts_[link.peer].planes;
  if (!config_.fixed_ev || common == 0) return common;
  // Both directions of a QP take the same one.
  const uint64_t low = std::min(host, link.peer), high = std::max(host, link.peer);
  base::Rng rng((env_.seed * 0x9e3779b97f4a7c15ULL) ^ (low << 40) ^ (high << 16) ^ link.index);
  for (uint32_t skip = rng.below(static_cast<uint32_t>(std::popcount(common))); skip > 0; --skip)
    common &= common - 1;
  return common & (~common + 1);
}

engine::EvSetSpec MrcStack::draw_evs(uint32_t src, uint32_t dst, uint32_t usable, base::Rng& rng) {
  engine::EvSetSpec set;
  const uint32_t planes = env_.fabric.planes();
  std::vector<uint32_t> paths;
  for (uint32_t number = 1; number <= planes; ++number) {
    const auto plane = static_cast<uint8_t>(number);
    uint32_t active = config_.evs / planes + (plane <= config_.evs % planes ? 1 : 0);
    uint32_t backup = config_.backups / planes + (plane <= config_.backups % planes ? 1 : 0);
    if (config_.fixed_ev) {
      active = usable >> plane & 1;
      backup = 0;
    }
    if (active == 0) continue;
    if (env_.fabric.routing() == Routing::ecmp) {
      paths.clear();
      for (uint32_t i = 0; i < active + backup; ++i) paths.push_back((i << 12) | rng.below(0x1000));
    } else {
      draw_plane(src, dst, plane, active + backup, rng, paths);
    }
    for (uint32_t i = 0; i < paths.size(); ++i) {
      const ev::PathId id{(static_cast<uint32_t>(plane) << kPathBits) | (paths[i] & ((1u << kPathBits) - 1)),
                          plane};
      (i < active ? set.active : set.backup).push_back(id);
    }
  }
  return set;
}

std::string MrcStack::bring_up(uint32_t host, const Link& link, const Link& back) {
  Host& h = hosts_[host];
  const Fabric& fabric = env_.fabric;
  const std::string who = "host " + std::to_string(host) + " to host " + std::to_string(link.peer);
  base::Rng rng((env_.seed * 0x9e3779b97f4a7c15ULL) ^ (static_cast<uint64_t>(host) << 32) ^
                (link.peer * 64ULL + link.index));
  engine::QpAttr init;
  init.state = engine::QpState::init;
  init.access_flags = engine::Access::local_write | engine::Access::remote_write;
  const uint32_t planes = planes_of(host, link);
  init.ev_set = draw_evs(host, link.peer, planes, rng);
  if (init.ev_set->active.empty())
    return who + (config_.denylist ? ": no path in any plane that is up at the start (denylist)"
                                   : ": no path in any plane");
  init.ev_policy = config_.policy;
  init.cc_algorithm = config_.cc;
  init.cc_config = config_.cc_config;
  init.ev_table = config_.table;
  engine::QpAttr rtr;
  rtr.state = engine::QpState::rtr;
  rtr.dest_qpn = back.qpn;
  rtr.rq_psn = 0;
  rtr.path_mtu = config_.mtu;
  rtr.mpr_dest = config_.mpr;
  rtr.max_wimm_dest = config_.max_wimm;
  rtr.trimming = config_.trimming;
  rtr.sack_bytes = config_.sack_bytes;
  rtr.extra_sacks = false;  // a NIC answers a trigger with one packet
  rtr.fixed_reverse_ev = config_.fixed_reverse_ev;
  rtr.peer_ports.emplace();
  Ps rtt = 0;
  for (uint8_t plane = 1; plane <= fabric.planes(); ++plane) {
    if ((planes >> plane & 1) == 0) continue;
    rtr.peer_ports->push_back({plane, address(link.peer, plane), wire::kUdpPort, plane, nullptr});
    const uint32_t full = kWireOverhead + wire::kMaxHeaderBytes + config_.mtu;
    rtt = std::max(rtt, fabric.one_way(host, link.peer, plane, full) +
                            fabric.one_way(link.peer, host, plane, kControlBytes));
  }
  if (rtr.peer_ports->empty()) return who + ": no plane in common";
  engine::QpAttr rts;
  rts.state = engine::QpState::rts;
  rts.sq_psn = 0;
  rts.mpr = config_.mpr;
  rts.max_wimm = config_.max_wimm;
  rts.timeout = 1;  // the shortest; the clamp below is the timer
  rts.min_ack_timeout = base::Duration{config_.tail_timer_ns};
  rts.linear_cnt = config_.linear_cnt;
  rts.exp_cnt = config_.exp_cnt;
  if (config_.hold_time_ns > 0) rts.hold_time = base::Duration{config_.hold_time_ns};
  rts.fast_loss = config_.fast_loss;
  if (config_.reorder_min_ns > 0) rts.reorder_min_time = base::Duration{config_.reorder_min_ns};
  rts.reverse_probe_min = base::Duration{};
  rts.base_rtt = base::Duration{config_.base_rtt_ns > 0 ? config_.base_rtt_ns : rtt / kPsPerNs};
  for (const engine::QpAttr& a : {init, rtr, rts}) {
    if (const int e = h.endpoint->modify_qp(base::Instant{}, link.qpn, a); e != 0)
      return who + ": the engine refuses these settings of the QP (errno " + std::to_string(e) + ")";
  }
  for (uint32_t i = 0; i < 2u * config_.max_wimm; ++i) h.endpoint->post_recv(base::Instant{}, link.qpn, 0);
  return {};
}

std::string MrcStack::open(const std::vector<Pair>& pairs) {
  const auto stopped = [this] { return env_.stop && env_.stop(); };
  if (!ev::known_policy(config_.policy)) return unknown("path policy", config_.policy, ev::policies());
  const auto known = cc::algorithms();
  if (!config_.cc.empty() && std::find(known.begin(), known.end(), config_.cc) == known.end())
    return unknown("congestion control", config_.cc, known);
  // Hashed EVs are a number of 12 bits above 12 bits of chance.
  constexpr uint32_t kMostHashed = 1u << 12;
  const uint32_t planes = env_.fabric.planes();
  const auto share = [planes](uint32_t n) { return (n + planes - 1) / planes; };
  if (env_.fabric.routing() == Routing::ecmp && share(config_.evs) + share(config_.backups) > kMostHashed)
    return "mode ecmp: at most 4096 EVs a plane, backups included";
  uint64_t qps = 0;
  for (const Pair& p : pairs) qps += 2ULL * p.qps;
  if (qps * kQpBytes > kMaxQpMemory)
    return std::to_string(qps) + " QPs would need more than 64 GiB: take fewer pairs, or fewer QPs each";
  hosts_.resize(env_.fabric.hosts());
  std::vector<bool> used(env_.fabric.hosts(), false);
  for (const Pair& p : pairs) used[p.a] = used[p.b] = true;
  for (uint32_t h = 0; h < hosts_.size(); ++h) {
    if (!used[h]) continue;
    if (h % kAskEvery == 0 && stopped()) return kGivenUp;
    if (std::string bad = make_host(h); !bad.empty()) return bad;
  }
  for (size_t n = 0; n < pairs.size(); ++n) {
    const Pair& p = pairs[n];
    if (n % kAskEvery == 0 && stopped()) return kGivenUp;
    for (uint32_t index = 0; index < p.qps; ++index) {
      for (const auto& [host, peer] : {std::pair{p.a, p.b}, std::pair{p.b, p.a}}) {
        Host& h = hosts_[host];
        engine::QpInit i;
        i.pd = h.pd;
        i.send_cq = i.recv_cq = h.cq;
        i.max_send_wr = 64;
        i.max_recv_wr = 2u * config_.max_wimm;
        const auto qpn = h.endpoint->create_qp(i);
        if (!qpn.ok()) return "host " + std::to_string(host) + ": too many QPs";
        h.links.push_back({peer, qpn.value(), hosts_[peer].rkey, index});
      }
    }
  }
  for (Host& h : hosts_) {
    std::sort(h.links.begin(), h.links.end(), [](const Link& x, const Link& y) {
      return std::tie(x.peer, x.index) < std::tie(y.peer, y.index);
    });
    h.queues.resize(h.links.size());
    h.turn.assign(h.links.size(), 0);
  }
  for (uint32_t host = 0; host < hosts_.size(); ++host) {
    if (host % kAskEvery == 0 && stopped()) return kGivenUp;
    for (const Link& l : hosts_[host].links) {
      const Host& other = hosts_[l.peer];
      const auto back = std::find_if(other.links.begin(), other.links.end(),
                                     [&](const Link& x) { return x.peer == host && x.index == l.index; });
      if (std::string bad = bring_up(host, l, *back); !bad.empty()) return bad;
    }
  }
  return {};
}

}  // namespace mrc::sim
