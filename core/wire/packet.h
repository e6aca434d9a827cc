// CONTRACT. Decoded form of one MRC datagram: BTH, the extension headers of its opcode, payload.
// Decides checks 1, 4..8 and the trim path of reference 2.17 and the header order of 2.1; leaves the IP and
// UDP checks to frame.h (or the kernel), QPN, P_Key and peer to the engine, payload rules to the responder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "wire/aeth.h"
#include "wire/bth.h"
#include "wire/datagram.h"
#include "wire/drop.h"
#include "wire/endpoint.h"
#include "wire/icrc.h"
#include "wire/mrc_headers.h"
#include "wire/nack.h"
#include "wire/probe.h"
#include "wire/reth.h"
#include "wire/sack.h"

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

// Checks 1 and 4..8 of 2.17 on a UDP payload (BTH .. iCRC) that is not trimmed, and fills `out`. Never reads
// past `bytes`. With meta.elided_payload > 0 `bytes` ends after the extension headers (no payload, pad or
// iCRC).
class PrefixCache;
DropReason parse_datagram(const DatagramMeta& meta, base::ByteView bytes, Packet& out,
                          PrefixCache* cache = nullptr);
// Checks 1 and 5..8 on BTH .. pad without an iCRC: the form that vectors of layer IB have.
DropReason parse_ib(base::ByteView ib, Packet& out);
// Trim path of 2.17: BTH, METH, and TSETH when BTH.ts. Fills only those.
DropReason parse_trimmed(base::ByteView bytes, Packet& out);

// Bytes of the extension headers that `bth` announces; 0 for an unknown opcode.
size_t extension_bytes(const Bth& bth);
// What a trimming switch keeps of a data packet: BTH, METH and TSETH if present (3.3).
constexpr size_t trimmed_bytes(bool ts) { return kBthBytes + kMethBytes + (ts ? kTsethBytes : 0); }
// Zero bytes that fill a payload up to a multiple of 4 (BTH.pad).
constexpr uint8_t pad_bytes(size_t payload) { return static_cast<uint8_t>((4 - (payload & 3)) & 3); }

// Emits BTH and the opcode's extension headers (no payload) into `buffer` (>= kMaxHeaderBytes); returns the
// size.
inline constexpr size_t kMaxHeaderBytes = 52;
size_t emit_headers(const Packet& p, uint8_t* buffer);

}  // namespace mrc::wire
