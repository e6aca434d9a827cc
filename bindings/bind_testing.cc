// The chaos harness for `softmrc chaos`: two engines in virtual time under random harm.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "testing/chaos.h"

namespace nb = nanobind;

namespace {

nb::dict to_dict(const mrc::testing::ChaosReport& r) {
  nb::dict d;
  d["packets"] = r.packets;
  d["drain_packets"] = r.drain_packets;
  d["writes"] = r.writes;
  d["immediates"] = r.immediates;
  d["bytes"] = r.bytes;
  d["restarts"] = r.restarts;
  d["flaps"] = r.flaps;
  d["mpr_changes"] = r.mpr_changes;
  d["rules"] = r.rules;
  d["rtx"] = r.rtx;
  d["duplicates"] = r.duplicates;
  d["spurious"] = r.spurious;
  d["drops"] = r.drops;
  d["ev_demotions"] = r.ev_demotions;
  d["nacks"] = r.nacks;
  d["max_qp_bytes"] = r.max_qp_bytes;
  d["max_frames"] = r.max_frames;
  d["virtual_ns"] = r.virtual_ns;
  d["digest"] = r.digest;
  d["setup"] = r.setup;
  d["violations"] = nb::cast(r.violations);
  nb::list actions;
  for (const mrc::testing::ChaosAction& a : r.actions) actions.append(nb::make_tuple(a.index, a.at_ns, a.text));
  d["actions"] = actions;
  return d;
}

mrc::testing::ChaosOptions options(uint64_t seed, uint64_t packets, std::vector<uint32_t> without) {
  mrc::testing::ChaosOptions o;
  o.seed = seed;
  o.packets = packets;
  o.without = std::move(without);
  return o;
}

nb::dict run(uint64_t seed, uint64_t packets, std::vector<uint32_t> without) {
  const auto o = options(seed, packets, std::move(without));
  mrc::testing::ChaosReport report;
  {
    const nb::gil_scoped_release nogil;
    report = mrc::testing::run_chaos(o);
  }
  return to_dict(report);
}

// Actions that may be left out of a failing run while it still fails, and the report of the shrunk run.
nb::tuple shrink(uint64_t seed, uint64_t packets, uint32_t budget) {
  const auto o = options(seed, packets, {});
  mrc::testing::ChaosReport report;
  mrc::testing::ChaosOptions smaller = o;
  {
    const nb::gil_scoped_release nogil;
    report = mrc::testing::run_chaos(o);
    if (!report.violations.empty()) {
      smaller = mrc::testing::shrink_chaos(o, report, budget);
      report = mrc::testing::run_chaos(smaller);
    }
  }
  return nb::make_tuple(nb::cast(smaller.without), to_dict(report));
}

}  // namespace

void bind_testing(nb::module_& m) {
  m.def("run_chaos", &run, nb::arg("seed"), nb::arg("packets"), nb::arg("without") = std::vector<uint32_t>{},
        "Run one seed; the dict names what was done, what went wrong in `violations`, and a digest of everything.");
  m.def("shrink_chaos", &shrink, nb::arg("seed"), nb::arg("packets"), nb::arg("budget") = 200,
        "(without, report) of the smallest run found that still fails.");
}
