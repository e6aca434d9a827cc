// wire_fuzz --packets N --seed S: throws packets at the decoder; prints one JSON object of counts by drop
// reason.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "wire/fuzz.h"

int main(int argc, char** argv) {
  uint64_t packets = 1'000'000;
  uint64_t seed = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const uint64_t v = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--packets") == 0)
      packets = v;
    else if (std::strcmp(argv[i], "--seed") == 0)
      seed = v;
    else
      return std::fprintf(stderr, "usage: wire_fuzz [--packets N] [--seed S]\n"), 2;
  }
  const mrc::wire::FuzzCounts c = mrc::wire::fuzz_decoder(seed, packets, {});
  uint64_t sum = 0;
  std::printf("{\"seed\": %" PRIu64 ", \"packets\": %" PRIu64, seed, packets);
  for (size_t i = 0; i < c.by_reason.size(); ++i) {
    sum += c.by_reason[i];
    if (c.by_reason[i] == 0) continue;
    const char* key = i == 0 ? "kept" : mrc::wire::name(static_cast<mrc::wire::DropReason>(i));
    std::printf(", \"%s\": %" PRIu64, key, c.by_reason[i]);
  }
  std::printf(", \"trimmed\": %" PRIu64 "}\n", c.trimmed);
  return sum == packets ? 0 : 1;
}
