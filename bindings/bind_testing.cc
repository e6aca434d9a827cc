// The chaos harness for `softmrc chaos`: two engines in virtual time under random harm.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
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
  d["steps"] = r.steps;
  d["restarts"] = r.restarts;
  d["flaps"] = r.flaps;
  d["cuts"] = r.cuts;
  d["mpr_changes"] = r.mpr_changes;
  d["pressures"] = r.pressures;
  d["rules"] = r.rules;
  d["drops"] = r.network.dropped;
  d["delayed"] = r.network.delayed;
  d["reordered"] = r.network.reordered;
  d["duplicated"] = r.network.duplicated;
  d["corrupted"] = r.network.corrupted;
  d["trimmed"] = r.network.trimmed;
  d["marked"] = r.network.marked;
  d["overflowed"] = r.network.overflowed;
  d["rtx"] = r.rtx;
  d["duplicates"] = r.duplicates;
  d["spurious"] = r.spurious;
  d["ev_demotions"] = r.ev_demotions;
  d["nacks"] = r.nacks;
  nb::dict rejected;
  for (size_t i = 1; i < r.rejected.size(); ++i) {
    if (r.rejected[i] != 0) rejected[mrc::wire::name(static_cast<mrc::wire::DropReason>(i))] = r.rejected[i];
  }
  d["rejected"] = rejected;
  d["max_qp_bytes"] = r.max_qp_bytes;
  d["max_frames"] = r.max_frames;
  d["virtual_ns"] = r.virtual_ns;
  d["digest"] = r.digest;
  d["setup"] = r.setup;
  d["violations"] = nb::cast(r.violations);
  nb::list actions;
  for (const mrc::testing::ChaosAction& a : r.actions)
    actions.append(nb::make_tuple(a.index, a.at_ns, a.text));
  d["actions"] = actions;
  return d;
}

mrc::testing::ChaosOptions options(uint64_t seed, uint64_t packets, std::vector<uint32_t> without,
                                   std::optional<uint32_t> actions, size_t max_qp_bytes) {
  mrc::testing::ChaosOptions o;
  o.seed = seed;
  o.packets = packets;
  o.without = std::move(without);
  if (actions) o.actions = *actions;
  o.max_qp_bytes = max_qp_bytes;
  return o;
}

nb::dict run(uint64_t seed, uint64_t packets, std::vector<uint32_t> without, std::optional<uint32_t> actions,
             size_t max_qp_bytes) {
  const auto o = options(seed, packets, std::move(without), actions, max_qp_bytes);
  mrc::testing::ChaosReport report;
  {
    const nb::gil_scoped_release nogil;
    report = mrc::testing::run_chaos(o);
  }
  return to_dict(report);
}

// The smallest set of actions found that still fails: what to leave out, how many there are, and the report.
nb::tuple shrink(uint64_t seed, uint64_t packets, std::vector<uint32_t> without,
                 std::optional<uint32_t> actions, size_t max_qp_bytes, uint32_t budget) {
  const auto o = options(seed, packets, std::move(without), actions, max_qp_bytes);
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
  const bool all = smaller.actions == UINT32_MAX;
  return nb::make_tuple(nb::cast(smaller.without), all ? nb::none() : nb::cast(smaller.actions),
                        to_dict(report));
}

}  // namespace

void bind_testing(nb::module_& m) {
  m.def("run_chaos", &run, nb::arg("seed"), nb::arg("packets"), nb::arg("without") = std::vector<uint32_t>{},
        nb::arg("actions") = nb::none(), nb::arg("max_qp_bytes") = mrc::testing::kChaosMaxQpBytes,
        "Run one seed; the dict names what was done, what went wrong in `violations`, and a digest of "
        "everything.");
  m.def("shrink_chaos", &shrink, nb::arg("seed"), nb::arg("packets"),
        nb::arg("without") = std::vector<uint32_t>{}, nb::arg("actions") = nb::none(),
        nb::arg("max_qp_bytes") = mrc::testing::kChaosMaxQpBytes, nb::arg("budget") = 200,
        "(without, actions, report) of the smallest run found that still fails.");
  m.def("chaos_episode_seed", &mrc::testing::episode_seed, nb::arg("seed"), nb::arg("episode"),
        "Seed of one of the independent runs a long run consists of.");
  m.attr("CHAOS_MAX_QP_BYTES") = mrc::testing::kChaosMaxQpBytes;
}
