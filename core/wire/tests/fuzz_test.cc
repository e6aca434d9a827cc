#include "wire/fuzz.h"

#include <numeric>

#include "testing/check.h"

namespace mrc::wire {
namespace {

TEST_CASE("fuzz: every packet is counted, every reason of the decoder occurs, and a seed is a whole run") {
  const FuzzCounts a = fuzz_decoder(1, 20'000, {});
  CHECK_EQ(std::accumulate(a.by_reason.begin(), a.by_reason.end(), uint64_t{0}), 20'000u);
  for (const DropReason r :
       {DropReason::none, DropReason::truncated, DropReason::bad_length, DropReason::bad_icrc,
        DropReason::bad_tver, DropReason::bad_opcode, DropReason::trimmed_control, DropReason::fragment,
        DropReason::not_mrc_port, DropReason::not_udp}) {
    if (!CHECK(a.by_reason[static_cast<size_t>(r)] > 0)) std::fprintf(stderr, "  never seen: %s\n", name(r));
  }
  CHECK(a.trimmed > 0);
  const FuzzCounts b = fuzz_decoder(1, 20'000, {});
  CHECK(a.by_reason == b.by_reason);
}

}  // namespace
}  // namespace mrc::wire
