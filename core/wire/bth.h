// Base Transport Header as MRC uses it, and the opcodes.
// Decides the 12 bytes of reference 2.3 and the opcode classes of 2.2; leaves what follows to the other
// headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

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
// The first packet of a message: First or Only.
constexpr bool is_first(Opcode op) {
  return op == Opcode::write_first || op == Opcode::write_only || op == Opcode::write_only_imm;
}
// The last packet of a message: Last or Only.
constexpr bool is_last(Opcode op) { return op >= Opcode::write_last && op <= Opcode::write_only_imm; }
// Endpoint operations: the only opcodes that use QPN 2, and that use nothing else (2.17 check 9).
constexpr bool is_endpoint(Opcode op) {
  return op == Opcode::endpoint_request || op == Opcode::endpoint_response;
}
constexpr bool is_known(uint8_t op) {
  const auto o = static_cast<Opcode>(op);
  return is_data(o) || is_endpoint(o) || o == Opcode::transport_ack ||
         (o >= Opcode::sack && o <= Opcode::reliability_probe);
}

inline constexpr uint32_t kEndpointQpn = 2;
inline constexpr size_t kBthBytes = 12;

struct Bth {
  uint8_t opcode = 0;
  bool se = false, m = false;  // D-02: IBTA order
  uint8_t pad = 0, tver = 0;
  uint16_t p_key = 0xFFFF;
  uint8_t var_res = 0;  // variant: the iCRC sees 0xFF here
  uint32_t dqp = 0;
  bool a = false, r = false, rtx = false, ts = false;
  uint8_t inv_res = 0;
  uint32_t psn = 0;
  bool operator==(const Bth&) const = default;
};

// Of at least kBthBytes.
constexpr uint32_t dest_qpn(base::ByteView b) { return base::load_be24(b.data() + 5); }

// False: fewer than kBthBytes.
constexpr bool parse_bth(base::ByteView b, Bth& out) {
  if (b.size() < kBthBytes) return false;
  const uint8_t* p = b.data();
  out.opcode = p[0];
  out.se = (p[1] & 0x80) != 0;
  out.m = (p[1] & 0x40) != 0;
  out.pad = (p[1] >> 4) & 3;
  out.tver = p[1] & 0x0F;
  out.p_key = base::load_be16(p + 2);
  out.var_res = p[4];
  out.dqp = dest_qpn(b);
  out.a = (p[8] & 0x80) != 0;
  out.r = (p[8] & 0x40) != 0;
  out.rtx = (p[8] & 0x20) != 0;
  out.ts = (p[8] & 0x10) != 0;
  out.inv_res = p[8] & 0x0F;
  out.psn = base::load_be24(p + 9);
  return true;
}

constexpr size_t emit_bth(const Bth& h, uint8_t* p) {
  p[0] = h.opcode;
  p[1] = static_cast<uint8_t>((h.se ? 0x80 : 0) | (h.m ? 0x40 : 0) | ((h.pad & 3) << 4) | (h.tver & 0x0F));
  base::store_be16(p + 2, h.p_key);
  p[4] = h.var_res;
  base::store_be24(p + 5, h.dqp);
  p[8] = static_cast<uint8_t>((h.a ? 0x80 : 0) | (h.r ? 0x40 : 0) | (h.rtx ? 0x20 : 0) | (h.ts ? 0x10 : 0) |
                              (h.inv_res & 0x0F));
  base::store_be24(p + 9, h.psn);
  return kBthBytes;
}

// Check 10 of 2.17: low 15 bits equal, and at least one side is a full member (bit 15).
constexpr bool pkey_matches(uint16_t a, uint16_t b) {
  return ((a ^ b) & 0x7FFF) == 0 && ((a | b) & 0x8000) != 0;
}
// First half of check 9: QPN 2 if and only if the packet is an endpoint operation.
constexpr bool dqp_class_matches(const Bth& h) {
  return (h.dqp == kEndpointQpn) == is_endpoint(static_cast<Opcode>(h.opcode));
}

}  // namespace mrc::wire
