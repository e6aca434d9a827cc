// Shared by the tests of this room: a model memory and a requester joined to a responder over a seeded bad
// network.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/rng.h"
#include "reliability/requester.h"
#include "reliability/responder.h"
#include "testing/check.h"

namespace mrc::reliability::testing {

using base::Duration;
using base::Instant;
using base::Psn;
using wire::Opcode;

inline Instant at_us(int64_t us) { return Instant{us * 1000}; }

// Counts how often each byte was written; a region [base, base + size) under one key.
class ModelMemory final : public Placement {
 public:
  explicit ModelMemory(uint64_t base = 0x10000, size_t size = 0, uint32_t key = 7)
      : base_(base), key_(key), writes_(size, 0) {}
  Outcome place(uint64_t va, uint32_t rkey, base::ByteView payload, uint32_t length) override {
    ++calls;
    if (refuse) return Outcome::no_buffer;
    if (rkey != key_ || va < base_ || va - base_ > writes_.size() || length > writes_.size() - (va - base_)) {
      return Outcome::access_error;
    }
    CHECK(payload.empty() || payload.size() == length);
    for (uint32_t i = 0; i < length; ++i) ++writes_[va - base_ + i];
    return Outcome::ok;
  }
  [[nodiscard]] bool all_once(uint64_t from, uint64_t n) const {
    return std::all_of(writes_.begin() + static_cast<int64_t>(from),
                       writes_.begin() + static_cast<int64_t>(from + n), [](uint8_t w) { return w == 1; });
  }
  [[nodiscard]] bool untouched() const {
    return std::all_of(writes_.begin(), writes_.end(), [](uint8_t w) { return w == 0; });
  }
  [[nodiscard]] uint64_t base() const { return base_; }
  uint64_t calls = 0;
  bool refuse = false;

 private:
  uint64_t base_;
  uint32_t key_;
  std::vector<uint8_t> writes_;
};

inline Timing test_timing() {
  Timing t;
  t.base_rtt = Duration::micros(12);
  t.srtt = Duration::micros(14);
  t.rttvar = Duration::micros(1);
  t.target_delay = Duration::micros(9);
  t.cwnd = 100'000;
  t.max_wnd = 1'000'000;
  return t;
}

inline wire::Packet to_wire(const PlannedPacket& p, Instant now, bool timestamps = true) {
  wire::Packet w;
  w.bth.opcode = static_cast<uint8_t>(p.opcode);
  w.bth.psn = p.psn.value;
  w.bth.rtx = p.rtx;
  w.bth.a = p.last_of_message || p.last_before_idle;
  w.bth.ts = timestamps;
  w.bth.se = p.solicited && p.last_of_message;
  w.meth = wire::Meth{p.rqmsn, p.msn};
  w.tseth.tx_timestamp = base::timestamp16(now);
  w.reth = wire::Reth{p.va, p.rkey, p.dmalen};
  w.imm.imm = p.imm;
  w.payload_length = p.length;
  return w;
}

inline SackView sack_view(const wire::Packet& p) {
  SackView v;
  v.cack = Psn(p.seth.cack_psn);
  v.bitmap_base = v.cack + p.seth.sack_offset;
  v.bitmap = p.seth.sack_bitmap;
  v.rcvd_bytes = p.cc.rcvd_bytes;
  v.mpr = p.seth.mpr;
  if (!p.seth.pr) v.trigger = v.cack + p.seth.ack_psn_offset;
  v.rtx_echo = p.bth.rtx;
  v.echo_timestamp = p.cc.tx_timestamp;
  return v;
}

inline NackView nack_view(const wire::Packet& p) {
  return NackView{static_cast<wire::NackReason>(p.neth.nack_reason), Psn(p.neth.nack_psn), p.neth.entropy,
                  p.neth.tx_timestamp};
}

inline bool is(const wire::Packet& p, Opcode op) { return p.bth.opcode == static_cast<uint8_t>(op); }
inline constexpr uint32_t kOverhead = 88;

// Sends everything a requester offers now on EVs 100, 101, ...; returns what went out.
inline std::vector<PlannedPacket> send_all(Requester& r, Instant now, uint32_t first_tag = 100,
                                           size_t limit = SIZE_MAX) {
  std::vector<PlannedPacket> out;
  while (out.size() < limit) {
    const auto p = r.peek(now);
    if (!p) break;
    r.commit(now, *p, first_tag + static_cast<uint32_t>(out.size()), 1, int64_t{p->length} + kOverhead);
    out.push_back(*p);
  }
  return out;
}

inline SackView simple_sack(Psn cack, Psn base, uint64_t bitmap, Psn trigger) {
  SackView v;
  v.cack = cack;
  v.bitmap_base = base;
  v.bitmap = bitmap;
  v.trigger = trigger;
  return v;
}

inline WorkRequest write_of(uint64_t id, uint32_t length, uint64_t va = 0x10000) {
  WorkRequest w;
  w.wr_id = id;
  w.length = length;
  w.remote_va = va;
  w.local_addr = 0x900000;
  w.rkey = 7;
  return w;
}

}  // namespace mrc::reliability::testing
