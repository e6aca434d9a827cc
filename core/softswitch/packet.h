// One IPv6 packet as a switch sees it: which class, where to, and what the switch may change: hop limit,
// first uSID, marks, payload. Decides the bytes; leaves when to do it to the fabric.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "softswitch/frame.h"
#include "wire/datagram.h"

namespace mrc::softswitch {

// Why a packet goes no further. Counted by name at the node where it happens.
enum class Drop : uint8_t {
  truncated,
  not_ipv6,
  bad_length,
  too_big,         // longer than the MTU of the fabric
  hop_limit,       // the last hop was used up
  no_route,        // no entry for the first uSID
  list_ended,      // this switch is the last uSID of the list
  not_mine,        // arrived at a host whose address it does not have
  bad_source,      // from a host that does not own its source address
  unknown_sender,  // from a socket that is bound to no port of the fabric
  no_listener,     // nobody at the host is bound to the UDP port
  no_memory,
  bad_message,  // neither a packet nor a message
  link_down,    // the link it must take has no carrier
  refused,      // the host's kernel took no more
  count_
};
const char* name(Drop reason);

// The length is that of the header and the bytes begin as an IPv6 packet does; Drop::count_: all is well.
Drop check(base::ByteView packet, size_t mtu);

struct Address {
  base::IpAddr ip;
  [[nodiscard]] uint32_t block() const { return base::load_be32(ip.bytes.data()); }
  [[nodiscard]] uint16_t usid() const { return base::load_be16(ip.bytes.data() + 4); }
};
Address destination(base::ByteView packet);
Address source(base::ByteView packet);
void set_destination(base::MutByteView packet, const base::IpAddr& to);

uint8_t dscp_of(base::ByteView packet);
uint8_t ecn_of(base::ByteView packet);
uint16_t udp_port_to(base::ByteView packet);  // 0: not UDP
Class class_of(base::ByteView packet, const wire::Dscps& dscps);
// Same value for packets of one flow: addresses, ports and flow label.
uint32_t flow_hash(base::ByteView packet);

// False: it was the last one.
bool take_hop(base::MutByteView packet);
// True when the packet was ECN capable and is marked now.
bool mark(Frame& f);
// A data packet of a trimmable class that would become shorter.
bool trimmable(base::ByteView packet, const wire::Dscps& dscps);
// Keeps the headers of reference 3.3; the new class is `dscp`. Only if trimmable().
void trim(Frame& f, uint8_t dscp);
// Turns one bit behind the IPv6 header.
void corrupt(Frame& f, uint32_t bit);

}  // namespace mrc::softswitch
