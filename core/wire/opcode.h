// MRC opcodes (reference 2.2) and the reasons for which a received packet is dropped (2.17).
#pragma once

#include <cstdint>

namespace mrc::wire {

enum class Opcode : uint8_t {
  write_first = 0xC6,
  write_middle = 0xC7,
  write_last = 0xC8,
  write_last_imm = 0xC9,
  write_only = 0xCA,
  write_only_imm = 0xCB,
  transport_ack = 0xD1,
  endpoint_request = 0xD8,
  endpoint_response = 0xD9,
  sack = 0xDC,
  nack = 0xDD,
  reliability_probe = 0xDE,
};

constexpr bool is_data(Opcode op) { return op >= Opcode::write_first && op <= Opcode::write_only_imm; }
constexpr bool has_imm(Opcode op) { return op == Opcode::write_last_imm || op == Opcode::write_only_imm; }
// First packet of its message (First or Only).
constexpr bool is_first(Opcode op) {
  return op == Opcode::write_first || op == Opcode::write_only || op == Opcode::write_only_imm;
}
// Last packet of its message (Last or Only).
constexpr bool is_last(Opcode op) { return is_data(op) && op != Opcode::write_first && op != Opcode::write_middle; }

constexpr bool is_known(uint8_t opcode) {
  const auto op = static_cast<Opcode>(opcode);
  return is_data(op) || op == Opcode::transport_ack || op == Opcode::endpoint_request || op == Opcode::endpoint_response ||
         op == Opcode::sack || op == Opcode::nack || op == Opcode::reliability_probe;
}

enum class DropReason : uint8_t {
  none,
  truncated,
  bad_length,
  bad_icrc,
  bad_tver,
  bad_opcode,
  bad_qpn,
  bad_pkey,
  bad_peer,
  trimmed_control,
  fragment,        // IP fragments are never reassembled (2.15)
  not_mrc_port,    // UDP destination port is none of ours
  not_udp,         // no UDP inside the IP packet
  bad_ack,         // SACK or ACK for PSNs that were never sent (5.6)
  not_receiving,   // arrived on a port the endpoint does not have
  count_
};
const char* name(DropReason r);

}  // namespace mrc::wire
