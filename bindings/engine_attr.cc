#include "engine_attr.h"

#include <algorithm>

#include "addresses.h"

namespace nb = nanobind;

namespace mrc::bindings {

ev::TableConfig table_config_from(const nb::dict& d) {
  ev::TableConfig c;
  DictReader r(d, "ev_table");
  r.read("min_active", c.min_active);
  r.read("base_rtt_ns", c.base_rtt);
  r.read("target_delay_ns", c.target_delay);
  r.read("probe_interval_ns", c.probe_interval);
  r.read("probe_backoff_cap_ns", c.probe_backoff_cap);
  r.read("probe_successes", c.probe_successes);
  r.read("bad_after", c.bad_after);
  r.read("bad_window_ns", c.bad_window);
  r.read("ecn_steering", c.ecn_steering);
  r.read("demotion", c.demotion);
  r.read("any_port_spares", c.any_port_spares);
  r.finish();
  return c;
}

namespace {

using RawPath = std::pair<uint32_t, uint8_t>;
using RawRoutes = std::vector<std::pair<uint32_t, std::string>>;
using RawPeerPort = std::tuple<uint8_t, std::string, uint16_t, uint8_t, RawRoutes>;

std::shared_ptr<const std::vector<engine::EvRoute>> routes_from(const RawRoutes& raw) {
  if (raw.empty()) return nullptr;
  auto routes = std::make_shared<std::vector<engine::EvRoute>>();
  for (const auto& [tag, via] : raw) routes->push_back({tag, parse_address(via)});
  std::sort(routes->begin(), routes->end(),
            [](const engine::EvRoute& a, const engine::EvRoute& b) { return a.tag < b.tag; });
  return routes;
}

std::vector<ev::PathId> paths_from(const std::vector<RawPath>& raw) {
  std::vector<ev::PathId> out;
  out.reserve(raw.size());
  for (const auto& [tag, port] : raw) out.push_back(ev::PathId{tag, port});
  return out;
}

nb::list to_list(const std::vector<ev::PathId>& paths) {
  nb::list out;
  for (const ev::PathId& p : paths) out.append(nb::make_tuple(p.tag, p.port));
  return out;
}

void read_init_part(DictReader& r, engine::QpAttr& a) {
  uint8_t state = 0;
  if (r.read("state", state)) a.state = static_cast<engine::QpState>(state);
  if (r.read("cur_state", state)) a.cur_state = static_cast<engine::QpState>(state);
  r.read("access_flags", a.access_flags);
  std::pair<std::vector<RawPath>, std::vector<RawPath>> sets;
  if (r.read("ev_set", sets)) a.ev_set = engine::EvSetSpec{paths_from(sets.first), paths_from(sets.second)};
  r.read("ev_count", a.ev_count);
  nb::dict d;
  if (r.read("ev_table", d)) a.ev_table = table_config_from(d);
  r.read("ev_policy", a.ev_policy);
  r.read("ev_run", a.ev_run);
  r.read("cc_algorithm", a.cc_algorithm);
  nb::dict cc;
  if (r.read("cc_config", cc)) a.cc_config = cc_config_from(cc);
  r.read("ev_profile_id", a.ev_profile_id);
  r.read("cc_profile_id", a.cc_profile_id);
}

void read_rtr_part(DictReader& r, engine::QpAttr& a) {
  r.read("dest_qpn", a.dest_qpn);
  r.read("rq_psn", a.rq_psn);
  r.read("path_mtu", a.path_mtu);
  std::vector<RawPeerPort> ports;
  if (r.read("peer_ports", ports)) {
    a.peer_ports.emplace();
    for (const auto& [local, addr, udp, remote, routes] : ports) {
      a.peer_ports->push_back(engine::PeerPort{local, parse_address(addr), udp, remote, routes_from(routes)});
    }
  }
  r.read("mpr_dest", a.mpr_dest);
  r.read("max_wimm_dest", a.max_wimm_dest);
  r.read("cap", a.cap);
  r.read("trimming", a.trimming);
  r.read("icrc", a.icrc);
  r.read("sack_bytes", a.sack_bytes);
  r.read("extra_sacks", a.extra_sacks);
  r.read("sack_timer_ns", a.sack_timer);
  r.read("rq_empty_grace_ns", a.rq_empty_grace);
}

template <typename T>
void put(nb::dict& d, const char* key, const std::optional<T>& value) {
  if (value) d[key] = nb::cast(*value);
}

void put(nb::dict& d, const char* key, const std::optional<base::Duration>& value) {
  if (value) d[key] = nb::cast(value->ns);
}

nb::dict to_dict(const ev::TableConfig& c) {
  nb::dict d;
  d["min_active"] = c.min_active;
  d["base_rtt_ns"] = c.base_rtt.ns;
  d["target_delay_ns"] = c.target_delay.ns;
  d["probe_interval_ns"] = c.probe_interval.ns;
  d["probe_backoff_cap_ns"] = c.probe_backoff_cap.ns;
  d["probe_successes"] = c.probe_successes;
  d["bad_after"] = c.bad_after;
  d["bad_window_ns"] = c.bad_window.ns;
  d["ecn_steering"] = c.ecn_steering;
  d["demotion"] = c.demotion;
  d["any_port_spares"] = c.any_port_spares;
  return d;
}

}  // namespace

cc::CcConfig cc_config_from(const nb::dict& d) {
  cc::CcConfig c;
  DictReader r(d, "cc_config");
  r.read("disable_qa", c.disable_qa);
  r.read("adjust_bytes_threshold", c.adjust_bytes_threshold);
  r.read("adjust_period_threshold_ns", c.adjust_period_threshold);
  r.read("base_rtt_ns", c.base_rtt);
  r.read("qa_threshold_ns", c.qa_threshold);
  r.read("target_delay_ns", c.target_delay);
  r.read("eta", c.eta);
  r.read("fi", c.fi);
  r.read("fi_scale", c.fi_scale);
  r.read("gamma", c.gamma);
  r.read("max_md_jump", c.max_md_jump);
  r.read("max_cwnd", c.max_cwnd);
  r.read("qa_gate", c.qa_gate);
  r.read("min_base_rtt_ns", c.min_base_rtt);
  r.read("clear_delay_fraction", c.clear_delay_fraction);
  r.read("avg_weight", c.avg_weight);
  r.finish();
  return c;
}

nb::dict to_dict(const cc::CcConfig& c) {
  nb::dict d;
  d["disable_qa"] = c.disable_qa;
  d["adjust_bytes_threshold"] = c.adjust_bytes_threshold;
  d["adjust_period_threshold_ns"] = c.adjust_period_threshold.ns;
  d["base_rtt_ns"] = c.base_rtt.ns;
  d["qa_threshold_ns"] = c.qa_threshold.ns;
  d["target_delay_ns"] = c.target_delay.ns;
  d["eta"] = c.eta;
  d["fi"] = c.fi;
  d["fi_scale"] = c.fi_scale;
  d["gamma"] = c.gamma;
  d["max_md_jump"] = c.max_md_jump;
  d["max_cwnd"] = c.max_cwnd;
  d["qa_gate"] = c.qa_gate;
  d["min_base_rtt_ns"] = c.min_base_rtt.ns;
  d["clear_delay_fraction"] = c.clear_delay_fraction;
  d["avg_weight"] = c.avg_weight;
  return d;
}

engine::QpAttr qp_attr_from(const nb::dict& d) {
  engine::QpAttr a;
  DictReader r(d, "QP attributes");
  read_init_part(r, a);
  read_rtr_part(r, a);
  r.read("sq_psn", a.sq_psn);
  r.read("mpr", a.mpr);
  r.read("timeout", a.timeout);
  r.read("linear_cnt", a.linear_cnt);
  r.read("exp_cnt", a.exp_cnt);
  r.read("max_wimm", a.max_wimm);
  r.read("hold_time_ns", a.hold_time);
  r.read("min_ack_timeout_ns", a.min_ack_timeout);
  r.read("reorder_min_time_ns", a.reorder_min_time);
  r.read("base_rtt_ns", a.base_rtt);
  r.read("delay_mark_ns", a.delay_mark);
  r.read("max_cwnd", a.max_cwnd);
  r.read("fixed_reverse_ev", a.fixed_reverse_ev);
  r.read("fast_loss", a.fast_loss);
  r.read("reverse_probe_min_ns", a.reverse_probe_min);
  r.finish();
  return a;
}

nb::dict to_dict(const engine::QpAttr& a) {
  nb::dict d;
  if (a.state) d["state"] = static_cast<uint8_t>(*a.state);
  put(d, "access_flags", a.access_flags);
  if (a.ev_set) d["ev_set"] = nb::make_tuple(to_list(a.ev_set->active), to_list(a.ev_set->backup));
  put(d, "ev_count", a.ev_count);
  if (a.ev_table) d["ev_table"] = to_dict(*a.ev_table);
  put(d, "ev_policy", a.ev_policy);
  put(d, "ev_run", a.ev_run);
  put(d, "cc_algorithm", a.cc_algorithm);
  if (a.cc_config) d["cc_config"] = to_dict(*a.cc_config);
  put(d, "ev_profile_id", a.ev_profile_id);
  put(d, "cc_profile_id", a.cc_profile_id);
  put(d, "dest_qpn", a.dest_qpn);
  put(d, "rq_psn", a.rq_psn);
  put(d, "path_mtu", a.path_mtu);
  if (a.peer_ports) {
    nb::list ports;
    for (const engine::PeerPort& p : *a.peer_ports) {
      nb::list routes;
      if (p.routes != nullptr) {
        for (const engine::EvRoute& r : *p.routes)
          routes.append(nb::make_tuple(r.tag, format_address(r.via)));
      }
      ports.append(nb::make_tuple(p.local_port, format_address(p.addr), p.udp_port, p.remote_port, routes));
    }
    d["peer_ports"] = ports;
  }
  put(d, "mpr_dest", a.mpr_dest);
  put(d, "max_wimm_dest", a.max_wimm_dest);
  put(d, "cap", a.cap);
  put(d, "trimming", a.trimming);
  put(d, "icrc", a.icrc);
  put(d, "sack_bytes", a.sack_bytes);
  put(d, "extra_sacks", a.extra_sacks);
  put(d, "sack_timer_ns", a.sack_timer);
  put(d, "rq_empty_grace_ns", a.rq_empty_grace);
  put(d, "sq_psn", a.sq_psn);
  put(d, "mpr", a.mpr);
  put(d, "timeout", a.timeout);
  put(d, "linear_cnt", a.linear_cnt);
  put(d, "exp_cnt", a.exp_cnt);
  put(d, "max_wimm", a.max_wimm);
  put(d, "hold_time_ns", a.hold_time);
  put(d, "min_ack_timeout_ns", a.min_ack_timeout);
  put(d, "reorder_min_time_ns", a.reorder_min_time);
  put(d, "base_rtt_ns", a.base_rtt);
  put(d, "delay_mark_ns", a.delay_mark);
  put(d, "max_cwnd", a.max_cwnd);
  put(d, "fixed_reverse_ev", a.fixed_reverse_ev);
  put(d, "fast_loss", a.fast_loss);
  put(d, "reverse_probe_min_ns", a.reverse_probe_min);
  return d;
}

engine::QpInit qp_init_from(const nb::dict& d) {
  engine::QpInit i;
  DictReader r(d, "QP");
  r.read("pd", i.pd);
  r.read("send_cq", i.send_cq);
  r.read("recv_cq", i.recv_cq);
  r.read("max_send_wr", i.max_send_wr);
  r.read("max_recv_wr", i.max_recv_wr);
  r.read("sq_sig_all", i.sq_sig_all);
  r.read("qpn", i.qpn);
  r.finish();
  return i;
}

}  // namespace mrc::bindings
