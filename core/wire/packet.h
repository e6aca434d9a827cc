// One MRC datagram: BTH, the extension headers of its opcode, payload; and what the network layer said about it.
// Decides checks 1 and 4 to 8 of reference 2.17; leaves 2, 3 to the frame layer or socket and 9 to 11 to the engine.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "wire/ack_headers.h"
#include "wire/bth.h"
#include "wire/data_headers.h"
#include "wire/icrc.h"
#include "wire/meta.h"
#include "wire/opcode.h"
#include "wire/probe_headers.h"

namespace mrc::wire {

// Everything between BTH and the iCRC. Only the members of the opcode's headers are meaningful.
struct Packet {
  Bth bth;
  Meth meth;
  Tseth tseth;
  Reth reth;
  ImmDt imm;
  Aeth aeth;
  Seth seth;
  CcState cc;
  Neth neth;
  Peth peth;
  Erth erth;
  Eeth eeth;
  base::ByteView payload;       // pad removed; empty unless a data packet
  uint32_t payload_length = 0;  // payload.size(), or the elided length in a simulator
};

// Fills `out` from a UDP payload (BTH .. iCRC) that is not trimmed. Never reads past `bytes`. With meta.elided_payload
// `bytes` ends after the extension headers: no payload, pad or iCRC inside.
DropReason parse_datagram(const DatagramMeta& meta, base::ByteView bytes, Packet& out);

// Headers and payload only, without an iCRC at the end (check 7 and 8).
DropReason parse_ib(base::ByteView bytes, Packet& out);

// Trim path of 2.17: BTH, METH, and TSETH when BTH.ts. Fills only those.
DropReason parse_trimmed(base::ByteView bytes, Packet& out);

// Bytes of the extension headers that follow BTH; 0 for an unknown opcode.
size_t extension_size(const Bth& bth);

inline constexpr size_t kMaxHeaderBytes = 52;   // BTH + EETH is 48, BTH + METH + TSETH + RETH + ImmDt is 40
// Writes BTH and the opcode's extension headers (no payload) into `buffer`; returns the size.
size_t emit_headers(const Packet& p, uint8_t* buffer);

}  // namespace mrc::wire
