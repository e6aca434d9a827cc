// What this host offers a driver, for `softmrc doctor`. Decides the form only; core/net/probe.h does the
// looking.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "net/probe.h"

namespace nb = nanobind;

namespace {

nb::list probe_host() {
  std::vector<mrc::net::ProbeItem> items;
  {
    nb::gil_scoped_release released;
    items = mrc::net::probe_host();
  }
  nb::list out;
  for (const mrc::net::ProbeItem& i : items) {
    nb::dict d;
    d["item"] = i.item;
    d["status"] = std::string(mrc::net::to_string(i.status));
    d["value"] = i.value;
    d["hint"] = i.hint;
    out.append(d);
  }
  return out;
}

nb::list probe_interfaces() {
  nb::list out;
  for (const mrc::net::ProbeInterface& i : mrc::net::probe_interfaces()) {
    nb::dict d;
    nb::list addresses;
    for (const std::string& a : i.addresses) addresses.append(a);
    d["name"] = i.name;
    d["index"] = i.index;
    d["mtu"] = i.mtu;
    d["up"] = i.up;
    d["running"] = i.running;
    d["loopback"] = i.loopback;
    d["addresses"] = addresses;
    d["path_mtu"] = mrc::net::path_mtu_for_link(i.mtu, false);
    out.append(d);
  }
  return out;
}

}  // namespace

void bind_host(nb::module_& m) {
  m.def("probe_host", &probe_host,
        "What the driver would find, by trying: [{item, status (ok, warn, missing, unknown), value, hint}].");
  m.def("probe_interfaces", &probe_interfaces,
        "[{name, index, mtu, up, running, loopback, addresses, path_mtu (payload bytes over IPv6)}]");
}
