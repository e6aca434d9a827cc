#include "sim_spec.h"

#include <nanobind/ndarray.h>

#include "engine_attr.h"

namespace nb = nanobind;

namespace mrc::bindings {

namespace {

// A column: one contiguous array of exactly this type.
template <typename T>
std::vector<T> column(const nb::dict& d, const char* key) {
  using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
  Array a;
  if (!d.contains(key) || !nb::try_cast<Array>(d[key], a, true))
    throw nb::value_error(
        (std::string(key) + ": a one-dimensional array of the right type is missing").c_str());
  return std::vector<T>(a.data(), a.data() + a.shape(0));
}

void same_length(size_t n, std::initializer_list<size_t> others, const char* what) {
  for (const size_t o : others) {
    if (o != n) throw nb::value_error((std::string(what) + ": columns of different lengths").c_str());
  }
}

sim::QueueRules rules_from(const nb::dict& d) {
  sim::QueueRules q;
  DictReader r(d, "queue");
  r.read("data_bytes", q.data_bytes);
  r.read("control_bytes", q.control_bytes);
  r.read("ecn_min", q.ecn_min);
  r.read("ecn_max", q.ecn_max);
  r.read("ecn_pmax", q.ecn_pmax);
  r.read("ecn_last_hop", q.ecn_last_hop);
  r.read("trim_bytes", q.trim_bytes);
  r.read("trim_last_hop", q.trim_last_hop);
  r.read("weighted", q.weighted);
  r.read("control_share_ppm", q.control_share_ppm);
  r.finish();
  return q;
}

}  // namespace

sim::FabricSpec fabric_from(const nb::dict& d) {
  sim::FabricSpec f;
  f.hosts = nb::cast<uint32_t>(d["hosts"]);
  f.planes = nb::cast<uint8_t>(d["planes"]);
  f.pfc = nb::cast<bool>(d["pfc"]);
  f.pfc_xoff = nb::cast<uint32_t>(d["pfc_xoff"]);
  f.pfc_xon = nb::cast<uint32_t>(d["pfc_xon"]);
  f.shared_buffer = nb::cast<uint32_t>(d["shared_buffer"]);
  for (const nb::handle q : nb::cast<nb::list>(d["rules"]))
    f.rules.push_back(rules_from(nb::cast<nb::dict>(q)));
  const auto tier = column<uint8_t>(d, "switch_tier"), plane = column<uint8_t>(d, "switch_plane");
  const auto index = column<uint32_t>(d, "switch_index");
  same_length(tier.size(), {plane.size(), index.size()}, "switches");
  for (size_t i = 0; i < tier.size(); ++i) f.switches.push_back({tier[i], plane[i], index[i]});
  const auto a = column<uint32_t>(d, "link_a"), b = column<uint32_t>(d, "link_b");
  const auto up = column<double>(d, "link_bps_up"), down = column<double>(d, "link_bps_down");
  const auto delay = column<int64_t>(d, "link_delay_ns");
  const auto of = column<uint8_t>(d, "link_plane");
  const auto q_up = column<uint16_t>(d, "link_queue_up"), q_down = column<uint16_t>(d, "link_queue_down");
  same_length(a.size(),
              {b.size(), up.size(), down.size(), delay.size(), of.size(), q_up.size(), q_down.size()},
              "links");
  f.links.reserve(a.size());
  for (size_t i = 0; i < a.size(); ++i)
    f.links.push_back({a[i], b[i], up[i], down[i], delay[i], of[i], q_up[i], q_down[i]});
  return f;
}

sim::Workload workload_from(const nb::dict& d) {
  sim::Workload w;
  w.kind = column<uint8_t>(d, "kind");
  w.node = column<int32_t>(d, "node");
  w.peer = column<int32_t>(d, "peer");
  w.qp = column<int32_t>(d, "qp");
  w.group = column<int32_t>(d, "group");
  w.size = column<int64_t>(d, "size");
  w.start = column<int64_t>(d, "start");
  w.delay = column<int64_t>(d, "delay");
  w.dep_ptr = column<int64_t>(d, "dep_ptr");
  w.dep_idx = column<int32_t>(d, "dep_idx");
  return w;
}

std::vector<sim::FaultSpec> faults_from(const nb::dict& d) {
  const auto at = column<int64_t>(d, "at_ns");
  const auto kind = column<uint8_t>(d, "kind"), directions = column<uint8_t>(d, "directions");
  const auto target = column<uint32_t>(d, "target");
  const auto value = column<double>(d, "value");
  same_length(at.size(), {kind.size(), directions.size(), target.size(), value.size()}, "faults");
  std::vector<sim::FaultSpec> out;
  for (size_t i = 0; i < at.size(); ++i) {
    if (kind[i] > static_cast<uint8_t>(sim::FaultKind::port_up))
      throw nb::value_error("faults: no such kind");
    out.push_back({at[i], static_cast<sim::FaultKind>(kind[i]), target[i], directions[i], value[i]});
  }
  return out;
}

sim::WatchSpec watch_from(const nb::dict& d) {
  sim::WatchSpec w;
  w.sample_ns = nb::cast<int64_t>(d["sample_ns"]);
  w.links = column<uint32_t>(d, "links");
  w.flows = column<uint32_t>(d, "flows");
  w.hosts = column<uint32_t>(d, "hosts");
  w.pcap = column<uint32_t>(d, "pcap");
  w.task_bytes = nb::cast<bool>(d["task_bytes"]);
  return w;
}

sim::Routing routing_from(const std::string& name) {
  if (name == "srv6") return sim::Routing::srv6;
  if (name == "stev") return sim::Routing::stev;
  if (name == "ecmp") return sim::Routing::ecmp;
  throw nb::value_error("routing is srv6, stev or ecmp");
}

sim::MrcConfig mrc_config_from(const nb::dict& d) {
  sim::MrcConfig c;
  DictReader r(d, "mrc");
  r.read("evs", c.evs);
  r.read("backups", c.backups);
  r.read("mtu", c.mtu);
  r.read("cc", c.cc);
  r.read("policy", c.policy);
  nb::dict sub;
  if (r.read("cc_config", sub)) c.cc_config = cc_config_from(sub);
  r.read("trimming", c.trimming);
  r.read("sack_bytes", c.sack_bytes);
  r.read("mpr", c.mpr);
  r.read("max_wimm", c.max_wimm);
  r.read("base_rtt_ns", c.base_rtt_ns);
  r.read("tail_timer_ns", c.tail_timer_ns);
  r.read("linear_cnt", c.linear_cnt);
  r.read("exp_cnt", c.exp_cnt);
  r.read("hold_time_ns", c.hold_time_ns);
  nb::dict table;
  if (r.read("table", table)) c.table = table_config_from(table);
  r.read("reorder_min_ns", c.reorder_min_ns);
  r.read("denylist", c.denylist);
  r.read("timestamps", c.timestamps);
  r.read("fixed_ev", c.fixed_ev);
  r.read("fast_loss", c.fast_loss);
  r.read("fixed_reverse_ev", c.fixed_reverse_ev);
  r.finish();
  return c;
}

namespace {

sim::DcqcnConfig dcqcn_from(const nb::dict& d) {
  sim::DcqcnConfig c;
  DictReader r(d, "dcqcn");
  r.read("enabled", c.enabled);
  r.read("g", c.g);
  r.read("initial_alpha", c.initial_alpha);
  r.read("cnp_interval_ns", c.cnp_interval_ns);
  r.read("decrease_interval_ns", c.decrease_interval_ns);
  r.read("alpha_timer_ns", c.alpha_timer_ns);
  r.read("rate_timer_ns", c.rate_timer_ns);
  r.read("byte_counter", c.byte_counter);
  r.read("fast_recovery", c.fast_recovery);
  r.read("ai_mbps", c.ai_mbps);
  r.read("hai_mbps", c.hai_mbps);
  r.read("min_mbps", c.min_mbps);
  r.finish();
  return c;
}

}  // namespace

sim::RoceConfig roce_config_from(const nb::dict& d) {
  sim::RoceConfig c;
  DictReader r(d, "rocev2");
  r.read("mtu", c.mtu);
  r.read("ack_every", c.ack_every);
  r.read("window_bytes", c.window_bytes);
  r.read("window_factor", c.window_factor);
  r.read("rto_ns", c.rto_ns);
  r.read("retry_limit", c.retry_limit);
  r.read("acks_in_control", c.acks_in_control);
  r.read("heed_naks", c.heed_naks);
  nb::dict dcqcn;
  if (r.read("dcqcn", dcqcn)) c.dcqcn = dcqcn_from(dcqcn);
  r.finish();
  return c;
}

sim::TcpConfig tcp_config_from(const nb::dict& d) {
  sim::TcpConfig c;
  DictReader r(d, "tcp");
  r.read("mss", c.mss);
  std::string cc;
  if (r.read("cc", cc)) {
    if (cc != "cubic" && cc != "dctcp") throw nb::value_error("tcp: cc is cubic or dctcp");
    c.cc = cc == "cubic" ? sim::TcpCc::cubic : sim::TcpCc::dctcp;
  }
  r.read("initial_window", c.initial_window);
  r.read("max_window_bytes", c.max_window_bytes);
  r.read("rto_min_ns", c.rto_min_ns);
  r.read("rto_max_ns", c.rto_max_ns);
  r.read("retry_limit", c.retry_limit);
  r.read("ack_every", c.ack_every);
  r.read("delayed_ack_ns", c.delayed_ack_ns);
  r.read("dupthresh", c.dupthresh);
  r.read("dctcp_g", c.dctcp_g);
  r.read("dctcp_initial_alpha", c.dctcp_initial_alpha);
  r.read("cubic_c", c.cubic_c);
  r.read("cubic_beta", c.cubic_beta);
  r.read("cubic_friendly", c.cubic_friendly);
  r.read("restart_after_idle", c.restart_after_idle);
  r.finish();
  return c;
}

}  // namespace mrc::bindings
