#include "ev/srv6_template.h"

#include <cerrno>

namespace mrc::ev {

namespace {

constexpr uint64_t low_bits(uint32_t n) { return n >= 64 ? UINT64_MAX : (uint64_t{1} << n) - 1; }

// A uSID as a number; its bits need not lie on byte borders.
uint64_t slot_of(const base::IpAddr& a, const Srv6Template& t, uint32_t slot) {
  uint64_t v = 0;
  const uint32_t first = t.block_bits + slot * t.usid_bits;
  for (uint32_t i = first; i < first + t.usid_bits; ++i)
    v = (v << 1) | ((uint32_t{a.bytes[i / 8]} >> (7 - i % 8)) & 1u);
  return v;
}

void or_into_slot(base::IpAddr& a, const Srv6Template& t, uint32_t slot, uint64_t v) {
  uint32_t at = t.block_bits + (slot + 1) * t.usid_bits;
  for (; v != 0; v >>= 1) {
    --at;
    if ((v & 1) != 0) a.bytes[at / 8] = static_cast<uint8_t>(a.bytes[at / 8] | (0x80u >> (at % 8)));
  }
}

uint64_t plane_mask(const Srv6Template& t) { return low_bits(t.plane_bits) << t.plane_shift; }
uint64_t uplink_mask(const Srv6Template& t) { return low_bits(t.uplink_bits) << t.uplink_shift; }

}  // namespace

base::Errno check_template(const Srv6Template& t) {
  if (t.usid_bits == 0 || t.usid_bits > 63 || t.n_slots == 0) return EINVAL;
  if (t.block_bits + uint32_t{t.usid_bits} * t.n_slots > 128) return EINVAL;
  if (t.plane_bits + t.plane_shift > t.usid_bits || t.uplink_bits + t.uplink_shift > t.usid_bits)
    return EINVAL;
  if (t.plane_bits + t.uplink_bits > 32 || t.uplink_slot >= t.n_slots) return EINVAL;
  if ((plane_mask(t) & uplink_mask(t)) != 0) return EINVAL;
  if (t.uplink_bits != 0 && slot_of(t.address, t, t.uplink_slot) == 0) return EINVAL;
  for (uint32_t s = 0; s < t.n_slots; ++s) {
    const uint64_t taken = plane_mask(t) | (s == t.uplink_slot ? uplink_mask(t) : 0);
    if ((slot_of(t.address, t, s) & taken) != 0) return EINVAL;
  }
  return 0;
}

base::Result<base::IpAddr> srv6_destination(const Srv6Template& t, uint32_t ev) {
  using R = base::Result<base::IpAddr>;
  if (check_template(t) != 0 || uint64_t{ev} > low_bits(t.plane_bits + t.uplink_bits))
    return R::error(EINVAL);
  const uint64_t uplink = ev & low_bits(t.uplink_bits);
  const uint64_t plane = uint64_t{ev} >> t.uplink_bits;
  base::IpAddr out = t.address;
  for (uint32_t s = 0; s < t.n_slots; ++s) {
    if (slot_of(t.address, t, s) == 0) continue;  // unused trailing uSIDs stay zero
    or_into_slot(out, t, s, plane << t.plane_shift);
    if (s == t.uplink_slot) or_into_slot(out, t, s, uplink << t.uplink_shift);
  }
  return out;
}

std::optional<uint32_t> srv6_ev(const Srv6Template& t, const base::IpAddr& destination) {
  if (check_template(t) != 0) return std::nullopt;
  std::optional<uint64_t> plane;
  uint64_t uplink = 0;
  for (uint32_t s = 0; s < t.n_slots; ++s) {
    if (slot_of(t.address, t, s) == 0) continue;
    const uint64_t v = slot_of(destination, t, s);
    if (!plane) plane = (v & plane_mask(t)) >> t.plane_shift;
    if (s == t.uplink_slot) uplink = (v & uplink_mask(t)) >> t.uplink_shift;
  }
  const auto ev = static_cast<uint32_t>((plane.value_or(0) << t.uplink_bits) | uplink);
  const auto again = srv6_destination(t, ev);
  if (!again.ok() || again.value() != destination) return std::nullopt;
  return ev;
}

}  // namespace mrc::ev
