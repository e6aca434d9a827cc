#include "engine/mr_table.h"

#include <algorithm>
#include <cerrno>

namespace mrc::engine {

base::Result<MrInfo> MrTable::add(uint32_t pd, uint64_t addr, uint64_t length, uint32_t access,
                                  uint64_t iova) {
  using R = base::Result<MrInfo>;
  if (length == 0 || iova + length < iova || addr + length < addr) return R::error(EINVAL);
  // IBTA: a region that peers may write must be locally writable too.
  if ((access & Access::remote_write) != 0 && (access & Access::local_write) == 0) return R::error(EINVAL);
  if (index_.size() >= max_) return R::error(ENOMEM);
  uint32_t key = 0;
  // Keys are random 32-bit numbers, so that a stranger cannot guess the next one from the last.
  do {
    key = static_cast<uint32_t>(rng_.next() >> 32);
  } while (key == 0 || index_.contains(key));
  uint32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  slots_[slot] = Region{key, pd, access, addr, iova, length, 0};
  index_.insert(key, slot);
  return MrInfo{key, key};
}

base::Errno MrTable::remove(uint32_t key) {
  const uint32_t* at = index_.find(key);
  if (at == nullptr) return EINVAL;
  Region& r = slots_[*at];
  if (r.in_use != 0) return EBUSY;
  r = Region{};
  free_.push_back(*at);
  index_.erase(key);
  return 0;
}

Region* MrTable::local(uint32_t key, uint32_t pd, uint64_t addr, uint64_t length) {
  const uint32_t* at = index_.find(key);
  if (at == nullptr) return nullptr;
  Region& r = slots_[*at];
  if (r.pd != pd || length > r.length) return nullptr;
  if (addr < r.addr || addr - r.addr > r.length - length) return nullptr;
  return &r;
}

const Region* MrTable::remote_write(uint32_t key, uint32_t pd, uint64_t va, uint64_t length) const {
  const uint32_t* at = index_.find(key);
  if (at == nullptr) return nullptr;
  const Region& r = slots_[*at];
  if (r.pd != pd || (r.access & Access::remote_write) == 0 || length > r.length) return nullptr;
  if (va < r.iova || va - r.iova > r.length - length) return nullptr;
  return &r;
}

void MrTable::unpin(uint32_t key) {
  const uint32_t* at = index_.find(key);
  if (at != nullptr && slots_[*at].in_use > 0) --slots_[*at].in_use;
}

bool MrTable::pd_used(uint32_t pd) const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [pd](const Region& r) { return r.key != 0 && r.pd == pd; });
}

}  // namespace mrc::engine
