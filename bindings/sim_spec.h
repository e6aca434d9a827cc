// What a run of the simulator is given, from dicts of arrays and numbers. Leaves running it to bind_sim.cc.
#pragma once

#include <nanobind/nanobind.h>

#include "sim/mrc_stack.h"
#include "sim/roce_config.h"
#include "sim/simulation.h"
#include "sim/tcp_config.h"

namespace mrc::bindings {

// Keys are the member names of the structs. Unknown keys, wrong types and columns of different lengths:
// nb::value_error.
sim::FabricSpec fabric_from(const nanobind::dict& d);
sim::Workload workload_from(const nanobind::dict& d);
std::vector<sim::FaultSpec> faults_from(const nanobind::dict& d);
sim::WatchSpec watch_from(const nanobind::dict& d);
sim::Routing routing_from(const std::string& name);
sim::MrcConfig mrc_config_from(const nanobind::dict& d);
sim::RoceConfig roce_config_from(const nanobind::dict& d);
sim::TcpConfig tcp_config_from(const nanobind::dict& d);

}  // namespace mrc::bindings
