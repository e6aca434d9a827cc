// Why a received packet is not processed: the names of reference 2.17 plus our own. Every drop is counted by
// name.
#pragma once

#include <cstdint>

namespace mrc::wire {

enum class DropReason : uint8_t {
  none,  // keep
  truncated,
  bad_length,
  bad_icrc,
  bad_tver,
  bad_opcode,
  bad_qpn,
  bad_pkey,
  bad_peer,
  trimmed_control,
  fragment,
  not_mrc_port,
  bad_ack,
  not_receiving,
  not_udp,  // whole frames only: no IP version or protocol we know
  count_
};
const char* name(DropReason r);

}  // namespace mrc::wire
