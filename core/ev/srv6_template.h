// The template mapping of reference 4.5: a 32-bit EV names plane and uplink, and with a per-destination
// template it is an SRv6 destination; and back. Leaves uSID shifts and encapsulation to wire/.
#pragma once

#include <optional>

#include "base/ip_addr.h"
#include "base/result.h"

namespace mrc::ev {

// `address` holds the uSIDs with zero bits where plane and uplink go. EV = plane << uplink_bits | uplink.
struct Srv6Template {
  base::IpAddr address;
  uint8_t block_bits = 32, usid_bits = 16, n_slots = 6;  // D-34
  uint8_t plane_bits = 3, plane_shift = 8;               // in every uSID that is not zero
  uint8_t uplink_bits = 8, uplink_shift = 0;             // in the uSID of slot uplink_slot
  uint8_t uplink_slot = 1;
  bool operator==(const Srv6Template&) const = default;
};

// EINVAL: slots outside the address, fields outside a uSID or on top of each other, more than 32 bits of EV,
// no uSID in uplink_slot, or template bits set where plane or uplink go (the way back would be ambiguous).
base::Errno check_template(const Srv6Template& t);
// EINVAL: a bad template, or EV bits above plane and uplink.
base::Result<base::IpAddr> srv6_destination(const Srv6Template& t, uint32_t ev);
// nullopt: not an address of this template, or its uSIDs disagree about the plane.
std::optional<uint32_t> srv6_ev(const Srv6Template& t, const base::IpAddr& destination);

}  // namespace mrc::ev
