#include "wire/srv6.h"

#include <algorithm>

namespace mrc::wire {

bool parse_srh(base::ByteView b, Srh& out) {
  if (b.size() < kSrhBytes) return false;
  const uint8_t* p = b.data();
  out.next_header = p[0];
  out.hdr_ext_len = p[1];
  out.routing_type = p[2];
  out.segments_left = p[3];
  out.last_entry = p[4];
  out.flags = p[5];
  out.tag = base::load_be16(p + 6);
  std::copy_n(p + kSrhFixedBytes, 16, out.segment.bytes.begin());
  return out.routing_type == kRoutingTypeSrh && out.bytes() >= kSrhBytes && out.bytes() <= b.size();
}

size_t emit_srh(const Srh& h, uint8_t* p) {
  p[0] = h.next_header;
  p[1] = 2;
  p[2] = h.routing_type;
  p[3] = h.segments_left;
  p[4] = h.last_entry;
  p[5] = h.flags;
  base::store_be16(p + 6, h.tag);
  std::copy(h.segment.bytes.begin(), h.segment.bytes.end(), p + kSrhFixedBytes);
  return kSrhBytes;
}

base::IpAddr usid_shift(const base::IpAddr& dst, UsidFormat f) {
  base::IpAddr out = dst;
  if (!f.valid()) return out;
  const auto block = out.bytes.begin() + f.block_bits / 8;
  std::fill(std::move(block + f.usid_bits / 8, out.bytes.end(), block), out.bytes.end(), uint8_t{0});
  return out;
}

bool usid_end(const base::IpAddr& dst, UsidFormat f) {
  if (!f.valid()) return true;
  const auto slot = dst.bytes.begin() + f.block_bits / 8;
  return std::all_of(slot, slot + f.usid_bits / 8, [](uint8_t b) { return b == 0; });
}

}  // namespace mrc::wire
