// SoftSwitch: fabrics of user-space switches, run by threads of this process. Settings come as dicts,
// counters go as lists of dicts in the order of the nodes and ports given; names are Python's business.
#include <arpa/inet.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>
#include <netinet/ether.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "engine_attr.h"
#include "errno_error.h"
#include "softswitch/runner.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mrc::bindings {

namespace {

using namespace softswitch;  // NOLINT(google-build-using-namespace)

// (block, usid, host)
using RawNode = std::tuple<uint32_t, uint16_t, bool>;
// (from, to, reverse, rate_bps, delay_ns, index of its rules)
using RawPort = std::tuple<uint32_t, uint32_t, uint32_t, uint64_t, int64_t, uint32_t>;
// (node, usid, adjacency, ports)
using RawRoute = std::tuple<uint32_t, uint16_t, bool, std::vector<uint32_t>>;

QueueRules rules_from(const nb::dict& d) {
  QueueRules q;
  DictReader r(d, "queue");
  r.read("data_bytes", q.data_bytes);
  r.read("control_bytes", q.control_bytes);
  r.read("ecn_min", q.ecn_min);
  r.read("ecn_max", q.ecn_max);
  r.read("ecn_pmax_ppm", q.ecn_pmax_ppm);
  r.read("trim_bytes", q.trim_bytes);
  r.read("trimmed_dscp", q.trimmed_dscp);
  r.finish();
  return q;
}

wire::Dscps dscps_from(const nb::dict& d) {
  wire::Dscps s;
  DictReader r(d, "dscps");
  r.read("trimmable", s.trimmable);
  r.read("trimmable_retx", s.trimmable_retx);
  r.read("trimmed", s.trimmed);
  r.read("trimmed_lasthop", s.trimmed_lasthop);
  r.read("control", s.control);
  r.finish();
  return s;
}

PortFault fault_from(const nb::dict& d) {
  PortFault f;
  DictReader r(d, "fault");
  r.read("down", f.down);
  r.read("hole", f.hole);
  r.read("loss_ppm", f.loss_ppm);
  r.read("corrupt_ppm", f.corrupt_ppm);
  r.read("rate_bps", f.rate_bps);
  r.read("delay_ns", f.delay);
  r.finish();
  if (f.loss_ppm > 1'000'000 || f.corrupt_ppm > 1'000'000 || f.delay.ns < 0)
    throw nb::value_error("fault: parts per million are 0 to 1000000, a delay is not negative");
  return f;
}

// (node, device, own MAC, MAC of the host)
using RawDevice = std::tuple<uint32_t, std::string, std::string, std::string>;

std::array<uint8_t, 6> mac_from(const std::string& text) {
  ether_addr mac{};
  if (ether_aton_r(text.c_str(), &mac) == nullptr)
    throw nb::value_error("a MAC is written like 02:00:00:00:00:01");
  std::array<uint8_t, 6> out{};
  std::copy_n(mac.ether_addr_octet, out.size(), out.begin());
  return out;
}

std::vector<DeviceSpec> devices_from(DictReader& r) {
  std::vector<RawDevice> raw;
  r.read("devices", raw);
  std::vector<DeviceSpec> out;
  for (const auto& [node, device, own, host] : raw)
    out.push_back({node, device, mac_from(own), mac_from(host)});
  return out;
}

FabricSpec fabric_from(const nb::dict& d, std::vector<DeviceSpec>& devices) {
  FabricSpec s;
  DictReader r(d, "fabric");
  std::vector<RawNode> nodes;
  std::vector<RawPort> ports;
  std::vector<RawRoute> routes;
  std::vector<nb::dict> rules;
  nb::dict dscps;
  r.read("nodes", nodes);
  r.read("ports", ports);
  r.read("routes", routes);
  r.read("rules", rules);
  r.read("mtu", s.mtu);
  r.read("seed", s.seed);
  r.read("max_bytes", s.max_bytes);
  devices = devices_from(r);
  if (r.read("dscps", dscps)) s.dscps = dscps_from(dscps);
  r.finish();
  for (const auto& [block, usid, host] : nodes) s.nodes.push_back({block, usid, host});
  std::vector<QueueRules> queues;
  for (const nb::dict& q : rules) queues.push_back(rules_from(q));
  for (const auto& [from, to, reverse, rate, delay, queue] : ports) {
    if (queue >= queues.size()) throw nb::value_error("fabric: a port names rules that are not there");
    s.ports.push_back({from, to, reverse, rate, base::Duration{delay}, queues[queue]});
  }
  for (const auto& [node, usid, adjacency, out] : routes) s.routes.push_back({node, usid, adjacency, out});
  return s;
}

RunnerSpec runner_from(const nb::dict& d) {
  RunnerSpec s;
  DictReader r(d, "switch");
  std::vector<nb::dict> fabrics;
  std::string address = "127.0.0.1";
  uint32_t quantum_us = 50;
  r.read("fabrics", fabrics);
  r.read("threads", s.threads);
  r.read("address", address);
  r.read("rcvbuf", s.rcvbuf);
  if (r.read("quantum_us", quantum_us) && (quantum_us < 1 || quantum_us > 100'000))
    throw nb::value_error("switch: quantum_us is 1 to 100000");
  r.finish();
  in_addr a{};
  if (inet_pton(AF_INET, address.c_str(), &a) != 1)
    throw nb::value_error("switch: address is in 127.0.0.0/8");
  s.address = ntohl(a.s_addr);
  s.quantum = base::Duration::micros(quantum_us);
  for (const nb::dict& f : fabrics) {
    s.devices.emplace_back();
    s.fabrics.push_back(fabric_from(f, s.devices.back()));
  }
  return s;
}

nb::dict to_dict(const PortCounters& n) {
  nb::dict d;
  d["tx_packets"] = n.tx_packets;
  d["tx_bytes"] = n.tx_bytes;
  d["dropped"] = n.dropped;
  d["marked"] = n.marked;
  d["trimmed"] = n.trimmed;
  d["lost"] = n.lost;
  d["corrupted"] = n.corrupted;
  d["flushed"] = n.flushed;
  d["queued_bytes"] = n.queued_bytes;
  d["max_queued_bytes"] = n.max_queued_bytes;
  return d;
}

nb::dict to_dict(const NodeCounters& n) {
  nb::dict d, drops;
  d["sid_packets"] = n.sid_packets;
  d["sid_bytes"] = n.sid_bytes;
  d["forwarded"] = n.forwarded;
  d["delivered"] = n.delivered;
  for (size_t i = 0; i < n.drops.size(); ++i) {
    if (n.drops[i] != 0) drops[name(static_cast<Drop>(i))] = n.drops[i];
  }
  d["drops"] = drops;
  return d;
}

nb::dict to_dict(const PortFault& f) {
  nb::dict d;
  d["down"] = f.down;
  d["hole"] = f.hole;
  d["loss_ppm"] = f.loss_ppm;
  d["corrupt_ppm"] = f.corrupt_ppm;
  d["rate_bps"] = f.rate_bps;
  d["delay_ns"] = f.delay.ns;
  return d;
}

template <typename T>
nb::list to_list(const std::vector<T>& rows) {
  nb::list out;
  for (const T& row : rows) out.append(to_dict(row));
  return out;
}

template <typename F>
auto free_of_gil(F f) {
  const nb::gil_scoped_release nogil;
  return f();
}

class SoftSwitch {
 public:
  explicit SoftSwitch(const nb::dict& config) {
    const RunnerSpec spec = runner_from(config);
    std::string why;
    {
      const nb::gil_scoped_release nogil;
      runner_ = Runner::open(spec, why);
    }
    if (runner_ == nullptr) throw ErrnoError(EINVAL, why);
  }
  uint16_t socket_port(size_t fabric, uint32_t host) const { return runner_->socket_port(fabric, host); }
  void set_fault(size_t fabric, uint32_t port, const nb::dict& fault) {
    const PortFault f = fault_from(fault);
    const nb::gil_scoped_release nogil;
    check(runner_->set_fault(fabric, port, f) ? 0 : ENOENT, "set_fault: no such fabric or port");
  }
  nb::list faults(size_t fabric) const {
    return to_list(free_of_gil([&] { return runner_->faults(fabric); }));
  }
  nb::list port_counters(size_t fabric) const {
    return to_list(free_of_gil([&] { return runner_->port_counters(fabric); }));
  }
  nb::list node_counters(size_t fabric) const {
    return to_list(free_of_gil([&] { return runner_->node_counters(fabric); }));
  }
  std::vector<uint64_t> sent_bytes(size_t fabric) const {
    const auto counters = free_of_gil([&] { return runner_->port_counters(fabric); });
    std::vector<uint64_t> out;
    for (const PortCounters& n : counters) out.push_back(n.tx_bytes);
    return out;
  }
  nb::dict stats() const {
    const RunnerStats s = free_of_gil([&] { return runner_->stats(); });
    nb::dict d;
    d["turns"] = s.turns;
    d["late_max_ns"] = s.late_max_ns;
    d["busy_ns"] = s.busy_ns;
    d["frames"] = s.frames;
    d["clients"] = s.clients;
    return d;
  }
  void capture(size_t fabric, const std::vector<uint32_t>& ports, const std::string& file) {
    const nb::gil_scoped_release nogil;
    check(runner_->capture(fabric, ports, file), "capture");
  }
  std::string failure() const {
    return free_of_gil([&] { return runner_->failure(); });
  }
  void close() {
    const nb::gil_scoped_release nogil;
    runner_->close();
  }

 private:
  std::unique_ptr<Runner> runner_;
};

}  // namespace

}  // namespace mrc::bindings

void bind_softswitch(nb::module_& m) {
  using mrc::bindings::SoftSwitch;
  nb::class_<SoftSwitch>(m, "SoftSwitch")
      .def(nb::init<const nb::dict&>(), "config"_a)
      .def("socket_port", &SoftSwitch::socket_port, "fabric"_a, "host"_a)
      .def("set_fault", &SoftSwitch::set_fault, "fabric"_a, "port"_a, "fault"_a)
      .def("faults", &SoftSwitch::faults, "fabric"_a)
      .def("port_counters", &SoftSwitch::port_counters, "fabric"_a)
      .def("node_counters", &SoftSwitch::node_counters, "fabric"_a)
      .def("sent_bytes", &SoftSwitch::sent_bytes, "fabric"_a)
      .def("stats", &SoftSwitch::stats)
      .def("capture", &SoftSwitch::capture, "fabric"_a, "ports"_a, "file"_a)
      .def("failure", &SoftSwitch::failure)
      .def("close", &SoftSwitch::close);
}
