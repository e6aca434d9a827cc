// What the engine reports, as dicts of plain values; and the numbers of its enumerations.
#include "addresses.h"
#include "engine_attr.h"

namespace nb = nanobind;

namespace mrc::bindings {

namespace {

void put_counters(nb::dict& d, const reliability::RequesterCounters& c) {
  d["tx.data"] = c.data_tx;
  d["tx.rtx_trimmed"] = c.rtx_trimmed;
  d["tx.rtx_lasthop"] = c.rtx_lasthop;
  d["tx.rtx_other_nack"] = c.rtx_other_nack;
  d["tx.rtx_inferred"] = c.rtx_inferred;
  d["tx.rtx_probe"] = c.rtx_probe;
  d["tx.rtx_timeout"] = c.rtx_timeout;
  d["tx.rtx_ack_solicit"] = c.rtx_ack_solicit;
  d["tx.spurious"] = c.spurious;
  d["tx.bad_ack"] = c.bad_ack;
  d["tx.timeouts"] = c.timeouts;
  d["tx.window_full"] = c.window_full;
  d["tx.wimm_blocked"] = c.wimm_blocked;
}

void put_counters(nb::dict& d, const reliability::ResponderCounters& c) {
  d["rx.data"] = c.data_rx;
  d["rx.bytes_placed"] = c.bytes_placed;
  d["rx.duplicates"] = c.duplicates;
  d["rx.out_of_window"] = c.out_of_window;
  d["rx.impossible"] = c.impossible;
  d["rx.ce_seen"] = c.ce_seen;
  d["rx.trimmed"] = c.trimmed_rx;
  d["rx.probes"] = c.probes_rx;
  d["rx.sack_tx"] = c.sack_tx;
  d["rx.nack_tx"] = c.nack_tx;
  d["rx.ack_tx"] = c.ack_tx;
  d["rx.nak_tx"] = c.nak_tx;
  d["rx.access_errors"] = c.access_errors;
  d["rx.invalid_requests"] = c.invalid_requests;
  d["rx.control_overflow"] = c.control_overflow;
  d["rx.messages_done"] = c.messages_done;
  d["rx.wimm_done"] = c.wimm_done;
  d["rx.rq_empty"] = c.rq_empty;
}

const char* name_of(ev::State s) {
  switch (s) {
    case ev::State::good:
      return "good";
    case ev::State::assumed_bad:
      return "assumed_bad";
    case ev::State::denied:
      return "denied";
    case ev::State::skip:
      return "skip";
  }
  return "unknown";
}

const char* name_of(ev::BadReason r) {
  switch (r) {
    case ev::BadReason::none:
      return "none";
    case ev::BadReason::loss:
      return "loss";
    case ev::BadReason::timeout:
      return "timeout";
    case ev::BadReason::probe:
      return "probe";
    case ev::BadReason::always_skip:
      return "always_skip";
    case ev::BadReason::port:
      return "port";
    case ev::BadReason::relapse:
      return "relapse";
    case ev::BadReason::controller:
      return "controller";
  }
  return "unknown";
}

const char* name_of(engine::EventKind k) {
  switch (k) {
    case engine::EventKind::qp_error:
      return "qp_error";
    case engine::EventKind::ev_state:
      return "ev_state";
    case engine::EventKind::port_local:
      return "port_local";
    case engine::EventKind::port_remote:
      return "port_remote";
    case engine::EventKind::port_moved:
      return "port_moved";
    case engine::EventKind::cq_overrun:
      return "cq_overrun";
    case engine::EventKind::endpoint_response:
      return "endpoint_response";
    case engine::EventKind::qp_drained:
      return "qp_drained";
  }
  return "unknown";
}

}  // namespace

nb::dict to_dict(const engine::QpStats& s) {
  nb::dict d, counters;
  d["state"] = static_cast<uint8_t>(s.state);
  d["next_psn"] = s.next_psn;
  d["unack_psn"] = s.unack_psn;
  d["cack_psn"] = s.cack_psn;
  d["cwnd"] = s.cc.cwnd;
  d["inflight"] = s.cc.inflight;
  d["max_wnd"] = s.cc.max_wnd;
  d["base_rtt_ns"] = s.cc.base_rtt.ns;
  d["avg_delay_ns"] = s.cc.avg_delay.ns;
  d["target_qdelay_ns"] = s.cc.target_qdelay.ns;
  d["srtt_ns"] = s.srtt.ns;
  d["rttvar_ns"] = s.rttvar.ns;
  d["queued"] = s.queued;
  d["outstanding"] = s.outstanding;
  d["memory_bytes"] = s.memory_bytes;
  put_counters(counters, s.tx);
  put_counters(counters, s.rx);
  for (const cc::NamedCounter& c : s.cc_counters) counters[(std::string("cc.") + c.name).c_str()] = c.value;
  counters["tx.sacks_rx"] = s.sacks_rx;
  counters["tx.nacks_rx"] = s.nacks_rx;
  counters["tx.acks_rx"] = s.acks_rx;
  counters["tx.unknown_ev"] = s.unknown_ev;
  counters["tx.probes"] = s.probes_tx;
  counters["tx.probe_answers"] = s.probe_answers;
  d["counters"] = counters;
  return d;
}

nb::dict to_dict(const engine::EndpointStats& s) {
  nb::dict d, drops, tx, rx;
  for (size_t i = 1; i < s.drops.size(); ++i)
    drops[wire::name(static_cast<wire::DropReason>(i))] = s.drops[i];
  for (size_t i = 1; i < s.port_tx_bytes.size(); ++i) {
    if (s.port_tx_bytes[i] != 0) tx[nb::int_(i)] = s.port_tx_bytes[i];
    if (s.port_rx_bytes[i] != 0) rx[nb::int_(i)] = s.port_rx_bytes[i];
  }
  d["drops"] = drops;
  d["port_tx_bytes"] = tx;
  d["port_rx_bytes"] = rx;
  d["datagrams_rx"] = s.datagrams_rx;
  d["datagrams_tx"] = s.datagrams_tx;
  d["data_rx"] = s.data_rx;
  d["data_tx"] = s.data_tx;
  d["endpoint_requests_rx"] = s.endpoint_requests_rx;
  d["endpoint_responses_tx"] = s.endpoint_responses_tx;
  d["endpoint_refused"] = s.endpoint_refused;
  d["unknown_endpoint_op"] = s.unknown_endpoint_op;
  d["events_dropped"] = s.events_dropped;
  return d;
}

nb::dict to_dict(const engine::PathStats& s) {
  nb::dict d;
  d["ev"] = s.tag;
  d["plane"] = s.port;
  d["state"] = name_of(s.state);
  d["active"] = s.active;
  d["sent"] = s.counters.sent;
  d["ecn"] = s.counters.ecn;
  d["trimmed"] = s.counters.trimmed;
  d["lost"] = s.counters.lost;
  d["probes"] = s.counters.probes;
  d["probe_acks"] = s.counters.probe_acks;
  return d;
}

nb::dict to_dict(const engine::Event& e) {
  nb::dict d;
  d["kind"] = name_of(e.kind);
  d["at_ns"] = e.at.ns;
  d["qpn"] = e.qpn;
  d["cq"] = e.cq;
  d["status"] = static_cast<uint8_t>(e.status);
  d["port"] = e.port;
  d["up"] = e.up;
  d["dropped"] = e.dropped;
  if (e.kind == engine::EventKind::ev_state) {
    d["ev"] = e.ev.tag;
    d["port"] = e.ev.port;
    d["state"] = name_of(e.ev.state);
    d["reason"] = name_of(e.ev.reason);
    d["at_ns"] = e.ev.at.ns;
  }
  if (e.kind == engine::EventKind::endpoint_response) {
    d["request_id"] = e.request_id;
    d["rtt_ns"] = e.rtt.ns;
  }
  return d;
}

}  // namespace mrc::bindings
