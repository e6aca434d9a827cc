#include "coll/lane.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace mrc::coll {

void LaneMemory::Free::operator()(uint8_t* p) const { std::free(p); }  // NOLINT: calloc's counterpart

Errno LaneMemory::open(Endpoint& e, uint32_t pd, uint64_t token) {
  constexpr size_t kLine = 64;
  // From the system as zeros: what is never used costs no memory.
  bytes_.reset(static_cast<uint8_t*>(std::calloc(1, 2 * kBytes + kGuard + kLine)));  // NOLINT
  if (bytes_ == nullptr) return ENOMEM;
  const auto at = reinterpret_cast<uintptr_t>(bytes_.get());
  in_ = bytes_.get() + ((at + kLine - 1) / kLine * kLine - at);
  out_ = in_ + kBytes;
  token_ = token;
  std::memcpy(out_ + kBytes, &token_, sizeof token_);
  const auto address = [](const uint8_t* p) { return reinterpret_cast<uint64_t>(p); };
  const auto in = e.reg_mr(pd, address(in_), kBytes,
                           engine::Access::local_write | engine::Access::remote_write, address(in_));
  if (!in.ok()) return in.error();
  in_key_ = in.value().rkey;
  const auto out = e.reg_mr(pd, address(out_), kBytes, 0, address(out_));
  if (!out.ok()) return out.error();
  out_key_ = out.value().lkey;
  return 0;
}

bool LaneMemory::close(Endpoint& e) {
  if (in_key_ != 0 && e.dereg_mr(in_key_) == EBUSY) return false;
  in_key_ = 0;
  if (out_key_ != 0 && e.dereg_mr(out_key_) == EBUSY) return false;
  out_key_ = 0;
  return true;
}

RemoteMemory LaneMemory::face() const {
  return {.addr = reinterpret_cast<uint64_t>(in_),
          .rkey = in_key_,
          .slots = kSlots,
          .slot_bytes = kSlotBytes,
          .table = kWindow,
          .guard = reinterpret_cast<uint64_t>(out_ + kBytes),
          .token = token_};
}

void LaneMemory::lower_guard() {
  // Seen by readers before anything that its owner does with the memory afterwards.
  __atomic_store_n(reinterpret_cast<uint64_t*>(out_ + kBytes), uint64_t{0}, __ATOMIC_SEQ_CST);
}

}  // namespace mrc::coll
