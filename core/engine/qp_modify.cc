// QP states and attributes: RESET -> INIT -> RTR -> RTS, any -> ERR, any -> RESET (reference 10.2, D-24).
#include <algorithm>
#include <bit>
#include <cerrno>

#include "engine/ev_set.h"
#include "engine/qp.h"

namespace mrc::engine {

namespace {

constexpr uint8_t kMaxMpr = 32;  // x128 PSNs (5.3)
constexpr uint16_t kMaxWimm = 4096;
constexpr size_t kMaxEvs = 4096;  // of one QP (reference 16)
constexpr uint32_t kMaxRun = 4096;
constexpr uint32_t kNominalOverhead = 88;  // of a full packet: its own headers, UDP, and 40 for IP
constexpr int64_t kUnknownRate = 1'250'000'000;
constexpr uint32_t kCapTrimNackUnsupported = 1, kCapDynamicMpr = 2, kCapSvcTimeUnsupported = 4;

bool valid_pmtu(uint32_t bytes) {
  // The verbs sizes, and any multiple of 64 that two software ends agreed on: the wire never carries the
  // value.
  return bytes >= 64 && bytes <= 8960 && bytes % 64 == 0;
}

bool valid_qpn(uint32_t qpn) { return qpn > wire::kEndpointQpn && qpn <= 0xFFFFFF; }

// Over IPv6 only, and in the order they are looked up in.
bool valid_routes(const PeerPort& p) {
  if (p.routes == nullptr) return true;
  if (p.addr.is_v4() || p.routes->size() > kMaxEvs) return false;
  const auto v4 = [](const EvRoute& r) { return r.via.is_v4() || r.via.is_unspecified(); };
  const auto unordered = [](const EvRoute& a, const EvRoute& b) { return a.tag >= b.tag; };
  return std::none_of(p.routes->begin(), p.routes->end(), v4) &&
         std::adjacent_find(p.routes->begin(), p.routes->end(), unordered) == p.routes->end();
}

template <typename T>
void take(std::optional<T>& into, const std::optional<T>& from) {
  if (from) into = from;
}

}  // namespace

void Qp::merge(const QpAttr& a) {
  take(attr_.access_flags, a.access_flags);
  take(attr_.ev_set, a.ev_set);
  take(attr_.ev_count, a.ev_count);
  take(attr_.ev_table, a.ev_table);
  take(attr_.ev_policy, a.ev_policy);
  take(attr_.ev_run, a.ev_run);
  take(attr_.cc_algorithm, a.cc_algorithm);
  take(attr_.cc_config, a.cc_config);
  take(attr_.ev_profile_id, a.ev_profile_id);
  take(attr_.cc_profile_id, a.cc_profile_id);
  take(attr_.dest_qpn, a.dest_qpn);
  take(attr_.rq_psn, a.rq_psn);
  take(attr_.path_mtu, a.path_mtu);
  take(attr_.peer_ports, a.peer_ports);
  take(attr_.mpr_dest, a.mpr_dest);
  take(attr_.max_wimm_dest, a.max_wimm_dest);
  take(attr_.cap, a.cap);
  take(attr_.trimming, a.trimming);
  take(attr_.icrc, a.icrc);
  take(attr_.sack_bytes, a.sack_bytes);
  take(attr_.extra_sacks, a.extra_sacks);
  take(attr_.sack_timer, a.sack_timer);
  take(attr_.rq_empty_grace, a.rq_empty_grace);
  take(attr_.sq_psn, a.sq_psn);
  take(attr_.mpr, a.mpr);
  take(attr_.timeout, a.timeout);
  take(attr_.linear_cnt, a.linear_cnt);
  take(attr_.exp_cnt, a.exp_cnt);
  take(attr_.max_wimm, a.max_wimm);
  take(attr_.hold_time, a.hold_time);
  take(attr_.min_ack_timeout, a.min_ack_timeout);
  take(attr_.reorder_min_time, a.reorder_min_time);
  take(attr_.base_rtt, a.base_rtt);
  take(attr_.delay_mark, a.delay_mark);
  take(attr_.max_cwnd, a.max_cwnd);
  take(attr_.fixed_reverse_ev, a.fixed_reverse_ev);
  take(attr_.reverse_probe_min, a.reverse_probe_min);
  take(attr_.fast_loss, a.fast_loss);
}

Errno Qp::check_attr(const QpAttr& a) const {
  const auto bad_mpr = [](const std::optional<uint8_t>& m) { return m && (*m == 0 || *m > kMaxMpr); };
  if (bad_mpr(a.mpr) || bad_mpr(a.mpr_dest)) return EINVAL;
  const auto bad_wimm = [](const std::optional<uint16_t>& w) { return w && (*w == 0 || *w > kMaxWimm); };
  if (bad_wimm(a.max_wimm) || bad_wimm(a.max_wimm_dest)) return EINVAL;
  if (a.timeout && *a.timeout > 24) return EINVAL;
  if (a.linear_cnt && *a.linear_cnt > 7) return EINVAL;
  if (a.exp_cnt && *a.exp_cnt > 25) return EINVAL;
  if (a.dest_qpn && !valid_qpn(*a.dest_qpn)) return EINVAL;
  if ((a.rq_psn && *a.rq_psn > 0xFFFFFF) || (a.sq_psn && *a.sq_psn > 0xFFFFFF)) return EINVAL;
  if (a.path_mtu && !valid_pmtu(*a.path_mtu)) return EINVAL;
  if (a.ev_count && (*a.ev_count == 0 || *a.ev_count > kMaxEvs)) return EINVAL;
  if (a.ev_run && *a.ev_run > kMaxRun) return EINVAL;
  if (a.ev_policy && !ev::known_policy(*a.ev_policy)) return EINVAL;
  if (const Errno e =
          cc::check_config(a.cc_algorithm.value_or("uet-1.0-nscc"), a.cc_config.value_or(cc::CcConfig{})))
    return e;
  if (a.peer_ports) {
    uint32_t seen = 0;
    for (const PeerPort& p : *a.peer_ports) {
      if (p.local_port == 0 || p.local_port > env_.ports.size() || p.remote_port > kMaxPorts) return EINVAL;
      if ((seen & (1u << (p.local_port - 1))) != 0) return EINVAL;
      if (p.addr.is_v4() != env_.ports[p.local_port - 1u].addr.is_v4()) return EINVAL;
      if (!valid_routes(p)) return EINVAL;
      seen |= 1u << (p.local_port - 1);
    }
    if (seen == 0) return EINVAL;
  }
  const auto known_port = [this](const ev::PathId& p) { return p.port != 0 && p.port <= env_.ports.size(); };
  if (a.ev_set) {
    const EvSetSpec& s = *a.ev_set;
    if (s.active.size() + s.backup.size() > kMaxEvs) return EINVAL;
    if (!std::all_of(s.active.begin(), s.active.end(), known_port)) return EINVAL;
    if (!std::all_of(s.backup.begin(), s.backup.end(), known_port)) return EINVAL;
  }
  return 0;
}

Errno Qp::modify(Instant now, const QpAttr& a) {
  maybe_done_ = true;
  if (a.cur_state && *a.cur_state != state_) return EINVAL;
  if (const Errno e = check_attr(a)) return e;
  if (!a.state) return modify_live(now, a);
  const QpState want = *a.state;
  if (want == QpState::reset) {
    to_reset();
    return 0;
  }
  if (want == QpState::err) {
    if (state_ == QpState::reset) return EINVAL;
    if (state_ != QpState::err) enter_error(now, Status::flush_error, 0);
    return 0;
  }
  if (want == QpState::rts && a.icrc) return EINVAL;  // packets may have arrived already
  const QpAttr saved = attr_;
  merge(a);
  Errno e = EINVAL;
  if (want == QpState::init && state_ == QpState::reset) e = to_init(a);
  if (want == QpState::rtr && state_ == QpState::init) e = to_rtr(now);
  if (want == QpState::rts && state_ == QpState::rtr) e = to_rts(now);
  if (e != 0) {
    attr_ = saved;
    return e;
  }
  state_ = want;
  attr_.state = want;
  env_.trace.record(now, 'q', qpn_, static_cast<uint8_t>(want));
  return 0;
}

Errno Qp::to_init(const QpAttr& a) {
  (void)a;
  return 0;
}

ev::TableConfig Qp::table_config() const {
  ev::TableConfig c = attr_.ev_table.value_or(ev::TableConfig{});
  if (attr_.base_rtt) c.base_rtt = c.target_delay = *attr_.base_rtt;
  return c;
}

cc::LinkParams Qp::link_params() const {
  cc::LinkParams l;
  int64_t rate = 0;
  for (const PeerPort& p : peers_) {
    if ((usable_ports_ & (1u << p.local_port)) != 0) rate += env_.ports[p.local_port - 1u].bytes_per_second;
  }
  // Ports of unknown speed: 10 Gb/s in all, what a software host moves; the NSCC gains scale with this
  // number.
  l.bytes_per_second = rate > 0 ? rate : kUnknownRate;
  if (attr_.base_rtt && attr_.base_rtt->ns > 0) l.base_rtt = *attr_.base_rtt;
  l.mtu = pmtu_ + kNominalOverhead;  // 7.1: full packet with TSETH
  l.trimming = trimming_;
  return l;
}

Errno Qp::to_rtr(Instant now) {
  if (!attr_.dest_qpn || !attr_.rq_psn || !attr_.path_mtu || !attr_.peer_ports) return EINVAL;
  pmtu_ = *attr_.path_mtu;
  peers_ = *attr_.peer_ports;
  std::sort(peers_.begin(), peers_.end(),
            [](const PeerPort& x, const PeerPort& y) { return x.local_port < y.local_port; });
  const uint32_t cap = attr_.cap.value_or(0);
  trimming_ = attr_.trimming.value_or(false) && (cap & kCapTrimNackUnsupported) == 0;

  EvSetSpec set = attr_.ev_set.value_or(EvSetSpec{});
  if (set.active.empty()) set = auto_ev_set(env_.ports, peers_, attr_.ev_count.value_or(128), rng_);
  if (set.active.empty()) return EINVAL;
  const auto routed = [this](const ev::PathId& p) { return peer(p.port) != nullptr; };
  if (!std::all_of(set.active.begin(), set.active.end(), routed) ||
      !std::all_of(set.backup.begin(), set.backup.end(), routed)) {
    return EINVAL;  // an EV on a plane the peer does not have
  }
  auto policy = ev::make_policy(attr_.ev_policy.value_or("bitmap"));
  if (!policy.ok()) return policy.error();
  table_ = std::make_unique<ev::EvTable>(set.active, set.backup, table_config(), std::move(policy.value()),
                                         rng_.fork());

  reliability::ResponderConfig r;
  r.rq_psn = base::Psn(*attr_.rq_psn);
  r.pmtu = pmtu_;
  r.mpr_dest = 128u * attr_.mpr_dest.value_or(8);
  r.max_wimm_dest = attr_.max_wimm_dest.value_or(128);
  r.dynamic_mpr = (cap & kCapDynamicMpr) != 0;
  r.trim_nack = true;      // we always generate them; the peer asks for trimming only if its fabric trims
  r.service_time = false;  // D-18: off by default
  if (attr_.sack_bytes) r.sack_bytes = *attr_.sack_bytes;
  r.extra_sacks = attr_.extra_sacks.value_or(true);
  if (attr_.sack_timer) r.sack_timer = *attr_.sack_timer;
  // Where runs cross the host as one packet does, an acknowledgement costs nearly as much as a whole run.
  if (env_.config.run_bytes > 0) r.sack_gap = r.sack_timer;
  if (attr_.rq_empty_grace) r.rq_empty_grace = *attr_.rq_empty_grace;
  r.max_recv_wr = init_.max_recv_wr;
  rsp_ = std::make_unique<reliability::Responder>(r);
  for (size_t i = 0; i < early_recvs_.size(); ++i) rsp_->post_recv(early_recvs_[i]);
  early_recvs_.clear();
  reverse_.emplace(attr_.fixed_reverse_ev.value_or(false));
  set_usable_ports(now);
  return 0;
}

Errno Qp::to_rts(Instant now) {
  if (!attr_.sq_psn) return EINVAL;
  reliability::RequesterConfig c;
  c.sq_psn = base::Psn(*attr_.sq_psn);
  c.pmtu = pmtu_;
  c.mpr = 128u * attr_.mpr.value_or(8);
  c.dynamic_mpr = (attr_.cap.value_or(0) & kCapDynamicMpr) != 0;
  c.max_wimm = attr_.max_wimm.value_or(128);
  c.max_send_wr = init_.max_send_wr;
  c.timeout = attr_.timeout.value_or(8);
  c.linear_cnt = attr_.linear_cnt.value_or(7);
  c.exp_cnt = attr_.exp_cnt.value_or(8);
  if (attr_.min_ack_timeout) c.min_ack_timeout = *attr_.min_ack_timeout;
  if (attr_.hold_time) c.hold_time = *attr_.hold_time;
  if (attr_.reorder_min_time) c.reorder_min_time = *attr_.reorder_min_time;
  c.fast_loss = attr_.fast_loss.value_or(true);
  c.queues_seen = trimming_;
  cc::CcConfig conf = attr_.cc_config.value_or(cc::CcConfig{});
  if (attr_.max_cwnd && *attr_.max_cwnd > 0) {
    conf.max_cwnd = conf.max_cwnd > 0 ? std::min(conf.max_cwnd, *attr_.max_cwnd) : *attr_.max_cwnd;
  }
  auto controller =
      cc::make_controller(attr_.cc_algorithm.value_or("uet-1.0-nscc"), conf, link_params(), now);
  if (!controller.ok()) return controller.error();
  cc_ = std::move(controller.value());
  req_ = std::make_unique<reliability::Requester>(c);
  if (env_.config.share_window) {
    share_key_ = peers_.front().addr;
    share_ = env_.shares.join(share_key_);
    share_->limit = std::max(share_->limit, cc_->snapshot().max_wnd);
  }
  return 0;
}

void Qp::count_share() {
  if (share_ == nullptr) return;
  const int64_t now = req_ ? req_->outstanding_nominal() : 0;
  share_->outstanding += now - shared_;
  shared_ = now;
}

void Qp::begin_turn() {
  if (share_ == nullptr || grant_ > 0) return;
  grant_ = share_->turn();
  share_->granted += grant_;
}

void Qp::use_turn(int64_t bytes) {
  const int64_t used = std::min(bytes, grant_);
  grant_ -= used;
  share_->granted -= used;
}

void Qp::end_turn() {
  if (share_ != nullptr) use_turn(grant_);
}

void Qp::leave_share() {
  if (share_ == nullptr) return;
  end_turn();
  share_->outstanding -= shared_;
  shared_ = 0;
  share_ = nullptr;
  env_.shares.leave(share_key_);
}

void Qp::to_reset() {
  leave_share();
  release_pins();
  while (!pins_.empty()) {
    if (pins_.front() != 0) env_.mrs.unpin(pins_.front());
    pins_.pop_front();
  }
  req_.reset();
  rsp_.reset();
  table_.reset();
  cc_.reset();
  reverse_.reset();
  probes_.clear();
  peers_.clear();
  early_recvs_.clear();
  local_errors_.clear();
  flushed_.clear();
  attr_ = QpAttr{};
  attr_.state = state_ = QpState::reset;
  error_cause_ = Status::success;
  usable_ports_ = 0;
  remote_usable_ = UINT32_MAX;
  told_base_rtt_ = Duration{};
  tried_at_ = Instant{-1};
  reverse_due_ = budget_retry_ = Instant::never();
  rtt_ = reliability::RttEstimator{};
}

Errno Qp::modify_live(Instant now, const QpAttr& a) {
  // Without a state only what can change on a running QP: the send window (dynamic MPR, 5.3) and the receive
  // one.
  QpAttr rest = a;
  rest.mpr.reset();
  rest.mpr_dest.reset();
  rest.cur_state.reset();
  if (state_ == QpState::reset || state_ == QpState::err) return EINVAL;
  if (state_ == QpState::init) {
    merge(a);
    return 0;
  }
  const bool other = rest.access_flags || rest.ev_set || rest.ev_count || rest.ev_table || rest.ev_policy ||
                     rest.ev_run || rest.cc_algorithm || rest.cc_config || rest.ev_profile_id ||
                     rest.cc_profile_id || rest.dest_qpn || rest.rq_psn || rest.path_mtu || rest.peer_ports ||
                     rest.max_wimm_dest || rest.cap || rest.trimming || rest.icrc || rest.sack_bytes ||
                     rest.extra_sacks || rest.sack_timer || rest.rq_empty_grace || rest.sq_psn ||
                     rest.timeout || rest.linear_cnt || rest.exp_cnt || rest.max_wimm || rest.hold_time ||
                     rest.min_ack_timeout || rest.reorder_min_time || rest.base_rtt || rest.max_cwnd ||
                     rest.delay_mark || rest.fixed_reverse_ev || rest.reverse_probe_min || rest.fast_loss;
  if (other) return EINVAL;
  if (a.mpr_dest && !attr_.cap.value_or(0)) return EINVAL;  // shrinking unannounced would strand packets
  merge(a);
  if (a.mpr && req_) req_->set_mpr(128u * *a.mpr);
  if (a.mpr_dest && rsp_) rsp_->set_mpr(128u * *a.mpr_dest);
  (void)now;
  return 0;
}

void Qp::enter_error(Instant now, Status cause, uint8_t vendor_err) {
  maybe_done_ = true;
  if (state_ == QpState::err) return;
  state_ = QpState::err;
  attr_.state = QpState::err;
  error_cause_ = cause;
  env_.trace.record(now, 'e', qpn_, static_cast<uint8_t>(cause));
  if (req_) {
    // A local error belongs to the request just posted; what was queued before it is flushed.
    const Status first =
        cause == Status::success || cause == Status::local_protection_error ? Status::flush_error : cause;
    req_->fail(first, vendor_err);
  }
  if (rsp_) rsp_->fail();
  probes_.clear();
  reverse_due_ = budget_retry_ = Instant::never();
}

void Qp::set_usable_ports(Instant now) {
  uint32_t routed = 0;
  for (const PeerPort& p : peers_) routed |= 1u << p.local_port;
  const uint32_t before = usable_ports_;
  usable_ports_ = routed & env_.ports_up & remote_usable_;
  if (!table_ || usable_ports_ == before) return;
  table_->set_usable_ports(now, usable_ports_);
  for (const PeerPort& p : peers_) {
    if ((usable_ports_ & (1u << p.local_port)) != 0 || !reverse_) continue;
    reverse_->port_down(p.local_port);
    if (share_ != nullptr) share_->port_down(p.local_port);
  }
  if (cc_) cc_->on_link(now, link_params());
  if (req_ && (usable_ports_ & ~before) != 0) req_->retry_now(now);
  if (req_ && usable_ports_ == 0) req_->strand(now);
}

Errno Qp::move_peer(const PeerPort& to) {
  const auto at = std::find_if(peers_.begin(), peers_.end(),
                               [&](const PeerPort& p) { return p.local_port == to.local_port; });
  if (at == peers_.end() || to.addr.is_unspecified() || to.addr.is_v4() != at->addr.is_v4()) return EINVAL;
  if (to.udp_port == 0 || !valid_routes(to)) return EINVAL;
  at->addr = to.addr;
  at->udp_port = to.udp_port;
  at->routes = to.routes;
  attr_.peer_ports = peers_;
  return 0;
}

void Qp::on_peer_ports(Instant now, uint32_t remote_mask) {
  uint32_t usable = 0;
  for (const PeerPort& p : peers_) {
    if ((remote_mask & (1u << p.remote_port)) != 0) usable |= 1u << p.local_port;
  }
  // 9.4: an unauthenticated report may not take the last usable port away.
  if ((usable & env_.ports_up) == 0) return;
  remote_usable_ = usable;
  set_usable_ports(now);
}

}  // namespace mrc::engine
