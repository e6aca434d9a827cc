// Memory regions and the keys that open them. Decides whether an access is allowed (reference 6.10) and
// performs the one copy of a payload; leaves protection-domain lifetimes to the endpoint.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/number_map.h"
#include "base/result.h"
#include "base/rng.h"
#include "engine/types.h"

namespace mrc::engine {

struct Region {
  uint32_t key = 0;  // lkey and rkey are one number; 0 = free slot
  uint32_t pd = 0, access = 0;
  uint64_t addr = 0;  // local address, 0 for a phantom region
  uint64_t iova = 0;  // address peers use
  uint64_t length = 0;
  uint32_t in_use = 0;  // posted work requests that read it
};

class MrTable {
 public:
  MrTable(base::Rng rng, uint32_t max_regions) : rng_(rng), max_(max_regions) {}

  base::Result<MrInfo> add(uint32_t pd, uint64_t addr, uint64_t length, uint32_t access, uint64_t iova);
  base::Errno remove(uint32_t key);

  // Region of `key` in `pd` whose local address range holds [addr, addr+length), or null.
  Region* local(uint32_t key, uint32_t pd, uint64_t addr, uint64_t length);
  // Region a peer may write at [va, va+length), or null: key, pd, remote-write right, range, wrap.
  const Region* remote_write(uint32_t key, uint32_t pd, uint64_t va, uint64_t length) const;
  void unpin(uint32_t key);
  [[nodiscard]] bool pd_used(uint32_t pd) const;
  [[nodiscard]] size_t size() const { return index_.size(); }

 private:
  base::Rng rng_;
  uint32_t max_;
  std::vector<Region> slots_;
  std::vector<uint32_t> free_;
  base::NumberMap index_;  // key -> slot
};

}  // namespace mrc::engine
