#include "testing/chaos_setup.h"

#include <array>
#include <cstdio>

namespace mrc::testing {

std::string ChaosSetup::text() const {
  char b[384];
  std::snprintf(b, sizeof b,
                "planes=%u evs=%u %s qps=%u pmtu=%u mpr=%u%s%s cc=%s policy=%s %s open=%u slot=%u wimm=%u "
                "receives=%u gap=%lld us full=%u fail=%u",
                pair.planes, pair.evs_per_plane, pair.ipv4 ? "ipv4" : "ipv6", qps, pmtu, mpr,
                harm.dynamic_mpr ? " dynamic" : "", harm.trimming ? " trim" : "", cc.c_str(), policy.c_str(),
                hold ? "hold" : "retry-forever", flow.max_open, flow.slot_bytes, max_wimm, receives,
                static_cast<long long>(harm.mean_gap.ns / 1000), pair.port_full_ppm, pair.send_fail_ppm);
  return b;
}

ChaosSetup draw_setup(uint64_t seed) {
  base::Rng r(seed);
  ChaosSetup s;
  s.pair.seed = r.next();
  s.pair.planes = static_cast<uint8_t>(1 + r.below(8));
  s.pair.evs_per_plane = 1 + r.below(8);
  s.pair.ipv4 = r.below(3) == 0;
  s.pair.one_way = Duration::micros(1 + r.below(40));
  s.qps = 1 + r.below(4);
  s.pmtu = std::array<uint32_t, 4>{256, 512, 512, 1024}[r.below(4)];
  s.harm.dynamic_mpr = r.below(2) == 0;
  s.mpr = static_cast<uint8_t>(1 + r.below(16));
  s.harm.trimming = r.below(2) == 0;
  s.hold = r.below(2) == 0;
  if (r.below(4) == 0) s.cc = "fixed-window";
  if (r.below(4) == 0) s.policy = "rr";
  // Full socket buffers and refused packets, on hosts that have them.
  if (r.below(2) == 0) s.pair.port_full_ppm = r.below(300'000);
  if (r.below(3) == 0) s.pair.send_fail_ppm = r.below(5'000);
  s.harm.mean_gap = Duration::micros(30 + r.below(200));
  s.flow.imm_percent = r.below(60);
  // Few open writes leave tails that only probes and timers repair; many keep the window full.
  s.flow.max_open = std::array<uint32_t, 4>{1, 5, 24, 24}[r.below(4)];
  s.flow.slot_bytes = std::array<uint32_t, 4>{2048, 8192, 8192, 32'768}[r.below(4)];
  s.max_wimm = std::array<uint16_t, 3>{1, 8, 64}[r.below(3)];
  // Fewer receives than immediates in flight: the receiver must refuse some and take them later.
  s.receives = std::array<uint32_t, 3>{1, 8, 128}[r.below(3)];
  return s;
}

}  // namespace mrc::testing
