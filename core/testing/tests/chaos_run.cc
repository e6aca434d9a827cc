// Runs chaos from the command line of a developer: chaos_run SEED PACKETS [left-out action ...].
#include <cstdio>
#include <cstdlib>

#include "testing/chaos.h"

int main(int argc, char** argv) {
  mrc::testing::ChaosOptions o;
  if (argc > 1) o.seed = std::strtoull(argv[1], nullptr, 10);
  if (argc > 2) o.packets = std::strtoull(argv[2], nullptr, 10);
  for (int i = 3; i < argc; ++i)
    o.without.push_back(static_cast<uint32_t>(std::strtoul(argv[i], nullptr, 10)));
  const auto r = mrc::testing::run_chaos(o);
  std::printf("%s\n", r.setup.c_str());
  std::printf(
      "packets %llu+%llu writes %llu imm %llu rtx %llu dup %llu spurious %llu lost %llu nacks %llu steps "
      "%llu demotions %llu rules %llu flaps %llu restarts %llu mpr %llu qp bytes %zu frames %zu virtual %.3f "
      "s digest %016llx\n",
      (unsigned long long)r.packets, (unsigned long long)r.drain_packets, (unsigned long long)r.writes,
      (unsigned long long)r.immediates, (unsigned long long)r.rtx, (unsigned long long)r.duplicates,
      (unsigned long long)r.spurious, (unsigned long long)r.network.dropped, (unsigned long long)r.nacks,
      (unsigned long long)r.steps, (unsigned long long)r.ev_demotions, (unsigned long long)r.rules,
      (unsigned long long)r.flaps, (unsigned long long)r.restarts, (unsigned long long)r.mpr_changes,
      r.max_qp_bytes, r.max_frames, static_cast<double>(r.virtual_ns) / 1e9, (unsigned long long)r.digest);
  for (const auto& v : r.violations) std::printf("VIOLATION %s\n", v.c_str());
  if (!r.violations.empty()) {
    for (const auto& a : r.actions)
      std::printf("  #%u t=%.6f %s\n", a.index, static_cast<double>(a.at_ns) / 1e9, a.text.c_str());
  }
  return r.violations.empty() ? 0 : 1;
}
