// One run of the fabric simulator (core/sim) for Python: built from dicts of arrays, run in slices without
// the GIL, read out as arrays. Names, units and checks of the settings are softmrc.sim's.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "engine_attr.h"
#include "in_simulation.h"
#include "sim/roce_stack.h"
#include "sim/tcp_stack.h"
#include "sim_spec.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

namespace sim = mrc::sim;
using mrc::bindings::DictReader;

template <typename T>
nb::object array(std::vector<T> values) {
  auto* keep = new std::vector<T>(std::move(values));
  const nb::capsule owner(keep, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(keep->data(), {keep->size()}, owner));
}

std::vector<int64_t> to_ns(const std::vector<sim::Ps>& ps) {
  std::vector<int64_t> out(ps.size());
  for (size_t i = 0; i < ps.size(); ++i) out[i] = ps[i] < 0 ? -1 : ps[i] / sim::kPsPerNs;
  return out;
}

class SimRun {
 public:
  SimRun(const nb::dict& fabric, const std::string& routing, const nb::dict& workload,
         const std::string& transport, const nb::dict& settings, const nb::dict& faults,
         const nb::dict& watch, const nb::dict& options) {
    sim::RunSpec s;
    s.fabric = mrc::bindings::fabric_from(fabric);
    s.routing = mrc::bindings::routing_from(routing);
    s.workload = mrc::bindings::workload_from(workload);
    s.faults = mrc::bindings::faults_from(faults);
    s.watch = mrc::bindings::watch_from(watch);
    DictReader r(options, "options");
    r.read("groups", s.groups);
    r.read("qps_per_pair", s.qps_per_pair);
    r.read("seed", s.seed);
    r.read("until_ns", s.until_ns);
    r.read("port_notice_ns", s.port_notice_ns);
    r.read("shared_alpha", s.shared_alpha);
    r.read("check", s.check);
    r.finish();
    s.stop = [] {
      const nb::gil_scoped_acquire held;
      return PyErr_CheckSignals() != 0;
    };
    const auto make = maker(transport, settings);
    std::string bad;
    {
      const nb::gil_scoped_release release;
      const mrc::bindings::InSimulation here;
      bad = sim_.build(std::move(s), make);
    }
    if (PyErr_Occurred() != nullptr) throw nb::python_error();  // Ctrl-C
    if (!bad.empty()) throw nb::value_error(bad.c_str());
  }

  std::string run(uint64_t budget) {
    if (broken_) throw nb::value_error("an error in a policy or controller has ended this run");
    const nb::gil_scoped_release release;
    const mrc::bindings::InSimulation here;
    broken_ = true;  // until it is clear that no user code has thrown
    const sim::Simulation::State state = sim_.run(budget);
    broken_ = false;
    switch (state) {
      case sim::Simulation::State::done:
        return "done";
      case sim::Simulation::State::until:
        return "until";
      case sim::Simulation::State::stuck:
        return "stuck";
      case sim::Simulation::State::running:
        break;
    }
    return "running";
  }

  void finish() { sim_.finish(); }

  [[nodiscard]] nb::dict progress() const {
    nb::dict d;
    d["sim_ns"] = sim_.now() / sim::kPsPerNs;
    d["tasks_done"] = sim_.tasks().finished();
    d["tasks_total"] = sim_.tasks().count();
    d["hops"] = sim_.hops();
    d["windows"] = sim_.windows();
    d["violations"] = sim_.violations();
    d["frames_sent"] = sim_.totals().frames_sent;
    return d;
  }

  [[nodiscard]] nb::dict tasks() const {
    const sim::TaskTimes& t = sim_.tasks().times();
    nb::dict d;
    d["ready_ns"] = array(to_ns(t.ready));
    d["posted_ns"] = array(to_ns(t.posted));
    d["delivered_ns"] = array(to_ns(t.delivered));
    d["acked_ns"] = array(to_ns(t.acked));
    std::vector<uint8_t> status(t.status.size());
    for (size_t i = 0; i < status.size(); ++i) status[i] = static_cast<uint8_t>(t.status[i]);
    d["status"] = array(std::move(status));
    d["bytes"] = array(sim_.watch().task_bytes);
    d["rtx"] = array(sim_.watch().task_rtx);
    return d;
  }

  [[nodiscard]] nb::dict totals() const;
  [[nodiscard]] nb::dict links() const;
  [[nodiscard]] nb::dict series() const;
  [[nodiscard]] nb::dict ev_events() const;
  [[nodiscard]] nb::list pcap() const;

 private:
  static sim::Simulation::MakeHosts maker(const std::string& transport, const nb::dict& settings);

  sim::Simulation sim_;
  bool broken_ = false;
};

sim::Simulation::MakeHosts SimRun::maker(const std::string& transport, const nb::dict& settings) {
  if (transport == "mrc") {
    return [c = mrc::bindings::mrc_config_from(settings)](sim::Env& e) -> std::unique_ptr<sim::Hosts> {
      return std::make_unique<sim::HostsOf<sim::MrcStack>>(e, c);
    };
  }
  if (transport == "rocev2") {
    return [c = mrc::bindings::roce_config_from(settings)](sim::Env& e) -> std::unique_ptr<sim::Hosts> {
      return std::make_unique<sim::HostsOf<sim::RoceStack>>(e, c);
    };
  }
  if (transport == "tcp") {
    return [c = mrc::bindings::tcp_config_from(settings)](sim::Env& e) -> std::unique_ptr<sim::Hosts> {
      return std::make_unique<sim::HostsOf<sim::TcpStack>>(e, c);
    };
  }
  throw nb::value_error("transport is mrc, rocev2 or tcp");
}

nb::dict SimRun::totals() const {
  const sim::Totals& t = sim_.totals();
  nb::dict d;
  d["data_packets"] = t.data_packets;
  d["data_packets_rtx"] = t.data_packets_rtx;
  d["data_bytes"] = t.data_bytes;
  d["control_packets"] = t.control_packets;
  d["rtx_trimmed"] = t.rtx_trimmed;
  d["rtx_inferred"] = t.rtx_inferred;
  d["rtx_probe"] = t.rtx_probe;
  d["rtx_timeout"] = t.rtx_timeout;
  d["timeouts"] = t.timeouts;
  d["spurious"] = t.spurious;
  d["nacks"] = t.nacks;
  d["sacks"] = t.sacks;
  d["ev_bad"] = t.ev_bad;
  d["ev_probes"] = t.ev_probes;
  d["qp_errors"] = t.qp_errors;
  d["datagrams_dropped"] = t.datagrams_dropped;
  d["timer_stalls"] = t.timer_stalls;
  d["cnps"] = t.cnps;
  d["pfc_pauses"] = t.pfc_pauses;
  d["pfc_pause_ns"] = t.pfc_pause_ps / sim::kPsPerNs;
  d["ecn_marks"] = t.ecn_marks;
  d["trims"] = t.trims;
  d["trims_last_hop"] = t.trims_last_hop;
  d["drops_queue"] = t.drops_queue;
  d["drops_link"] = t.drops_link;
  d["drops_loss"] = t.drops_loss;
  d["drops_corrupt"] = t.drops_corrupt;
  d["drops_no_route"] = t.drops_no_route;
  d["drops_switch"] = t.drops_switch;
  d["frames_sent"] = t.frames_sent;
  d["frames_delivered"] = t.frames_delivered;
  d["frames_queued"] = t.frames_queued;
  d["violations"] = sim_.violations();
  return d;
}

nb::dict SimRun::links() const {
  const sim::Fabric& f = sim_.fabric();
  const uint32_t n = f.port_count();
  std::vector<uint64_t> bytes(n), packets(n), drops(n), marks(n), trims(n), lost(n);
  std::vector<uint32_t> queue(n);
  for (uint32_t i = 0; i < n; ++i) {
    const sim::PortCounters& c = f.port(i).n;
    bytes[i] = c.tx_bytes;
    packets[i] = c.tx_packets;
    drops[i] = c.drops;
    marks[i] = c.marks;
    trims[i] = c.trims;
    lost[i] = c.lost;
    queue[i] = c.max_queue;
  }
  nb::dict d;
  d["tx_bytes"] = array(std::move(bytes));
  d["tx_packets"] = array(std::move(packets));
  d["drops"] = array(std::move(drops));
  d["marks"] = array(std::move(marks));
  d["trims"] = array(std::move(trims));
  d["lost"] = array(std::move(lost));
  d["max_queue_bytes"] = array(std::move(queue));
  return d;
}

nb::dict SimRun::series() const {
  const sim::Series& s = sim_.series();
  nb::dict d;
  d["time_ns"] = array(s.time_ns);
  d["flow_bytes"] = array(s.flow_bytes);
  d["host_rx_bytes"] = array(s.host_rx_bytes);
  d["link_bytes"] = array(s.link_bytes);
  d["link_queue_bytes"] = array(s.link_queue_bytes);
  d["link_max_queue"] = array(s.link_max_queue);
  d["group_bytes"] = array(s.group_bytes);
  d["plane_bytes"] = array(s.plane_bytes);
  d["drops"] = array(s.drops);
  d["marks"] = array(s.marks);
  d["trims"] = array(s.trims);
  d["rtx"] = array(s.rtx);
  return d;
}

nb::dict SimRun::ev_events() const {
  const auto& all = sim_.watch().ev_changes;
  std::vector<int64_t> at;
  std::vector<uint32_t> host, peer, qp, tag;
  std::vector<uint8_t> plane, state, reason;
  for (const sim::EvChange& e : all) {
    at.push_back(e.at_ns);
    host.push_back(e.host);
    peer.push_back(e.peer);
    qp.push_back(e.qp);
    tag.push_back(e.tag);
    plane.push_back(e.plane);
    state.push_back(e.state);
    reason.push_back(e.reason);
  }
  nb::dict d;
  d["at_ns"] = array(std::move(at));
  d["host"] = array(std::move(host));
  d["peer"] = array(std::move(peer));
  d["qp"] = array(std::move(qp));
  d["tag"] = array(std::move(tag));
  d["plane"] = array(std::move(plane));
  d["state"] = array(std::move(state));
  d["reason"] = array(std::move(reason));
  d["dropped"] = sim_.watch().ev_changes_dropped;
  return d;
}

// (time in ps, port, src host, dst host, plane, tag, dscp, ecn, payload bytes, wire bytes, uSIDs left, header
// bytes, UDP length before it was trimmed or 0, all that the simulation keeps of headers)
nb::list SimRun::pcap() const {
  nb::list out;
  for (const sim::PcapRecord& r : sim_.pcap()) {
    const sim::Frame& f = r.frame;
    nb::list sids;
    for (uint8_t i = f.hop; i < f.sid_count; ++i) sids.append(f.sids[i]);
    out.append(nb::make_tuple(r.at, r.port, f.src, f.dst, f.plane, f.tag, f.dscp, static_cast<uint8_t>(f.ecn),
                              f.payload, f.size, sids,
                              nb::bytes(reinterpret_cast<const char*>(f.head), f.head_len),
                              f.trim == sim::Trim::none ? uint16_t{0} : f.full_udp,
                              nb::bytes(reinterpret_cast<const char*>(f.head), sizeof f.head)));
  }
  return out;
}

}  // namespace

void bind_sim(nb::module_& m) {
  nb::class_<SimRun>(m, "SimRun", "One run of the fabric simulator; see softmrc.sim.run.")
      .def(nb::init<const nb::dict&, const std::string&, const nb::dict&, const std::string&, const nb::dict&,
                    const nb::dict&, const nb::dict&, const nb::dict&>(),
           "fabric"_a, "routing"_a, "workload"_a, "transport"_a, "settings"_a, "faults"_a, "watch"_a,
           "options"_a, "Builds the run; ValueError names what cannot be run.")
      .def("run", &SimRun::run, "budget"_a,
           "Goes on for about that many frame hops: 'running', 'done', 'until' or 'stuck'.")
      .def("finish", &SimRun::finish, "Sums up the counters; once, at the end.")
      .def("progress", &SimRun::progress)
      .def("tasks", &SimRun::tasks, "Arrays by task.")
      .def("totals", &SimRun::totals)
      .def("links", &SimRun::links, "Arrays by directed link.")
      .def("series", &SimRun::series, "Flat arrays, row-major, one row an interval.")
      .def("ev_events", &SimRun::ev_events, "Arrays by EV state change.")
      .def("pcap", &SimRun::pcap, "Frames seen on the captured links.");
}
