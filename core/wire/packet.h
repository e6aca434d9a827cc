// CONTRACT SKETCH (wire room splits the Reprs into one header a file and keeps these names).
// Decoded form of one MRC datagram: BTH, the extension headers of its opcode, payload.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/ip_addr.h"

namespace mrc::wire {

enum class Opcode : uint8_t {
  write_first = 0xC6, write_middle = 0xC7, write_last = 0xC8, write_last_imm = 0xC9,
  write_only = 0xCA, write_only_imm = 0xCB, transport_ack = 0xD1, endpoint_request = 0xD8,
  endpoint_response = 0xD9, sack = 0xDC, nack = 0xDD, reliability_probe = 0xDE,
};
// Helpers: is_data(op), has_imm(op), is_first(op) (First or Only), is_last(op) (Last or Only), is_known(uint8_t).

enum class DropReason : uint8_t {  // 0 = keep; names of reference 2.17 plus our own
  none, truncated, bad_length, bad_icrc, bad_tver, bad_opcode, bad_qpn, bad_pkey, bad_peer,
  trimmed_control, fragment, not_mrc_port, stale_generation, bad_ack, not_receiving, count_
};
const char* name(DropReason r);

struct Bth { uint8_t opcode = 0; bool se = false, m = false; uint8_t pad = 0, tver = 0; uint16_t p_key = 0xFFFF;
  uint8_t var_res = 0; uint32_t dqp = 0; bool a = false, r = false, rtx = false, ts = false; uint8_t inv_res = 0; uint32_t psn = 0; };
struct Meth { uint16_t rqmsn = 0, msn = 0; };
struct Tseth { uint16_t tx_timestamp = 0; bool tsr = false; uint16_t reserved = 0; uint8_t ftype = 1; };
struct Reth { uint64_t va = 0; uint32_t r_key = 0, dmalen = 0; };
struct ImmDt { uint32_t imm = 0; };
struct Aeth { uint8_t syndrome = 0; uint32_t msn = 0; };
inline constexpr uint8_t kAethAck = 0x1F, kNakInvalidRequest = 0x61, kNakRemoteAccess = 0x62, kNakRemoteOperation = 0x63;
struct Seth { uint8_t type = 0, nh = 0; uint8_t m = 0; bool pr = false; int16_t ack_psn_offset = 0; uint16_t probe_id = 0; uint32_t entropy = 0;
  uint16_t spdcid = 0, dpdcid = 0; uint32_t cack_psn = 0; uint8_t cc_type = 0, cc_fl = 0, mpr = 0; int16_t sack_offset = 0; uint64_t sack_bitmap = 0; };
struct CcState { uint16_t tx_timestamp = 0; uint16_t ooo_count = 0; bool restore_cwnd = false; uint8_t rcv_cwnd_pen = 0; uint32_t rcvd_bytes = 0; };
enum class NackReason : uint8_t { trimmed = 0x01, trimmed_lasthop = 0x02, no_bitmap = 0x06, no_pkt_buffer = 0x07, no_resource = 0x0A, psn_oor_window = 0x0B, unexp_event = 0x19 };
struct Neth { uint8_t type = 0, nh = 0; uint8_t nack_reason = 0, vendor_info = 0; uint32_t entropy = 0; uint16_t spdcid = 0, dpdcid = 0; uint32_t nack_psn = 0; uint8_t cc_type = 2, cc_fl = 0; uint16_t tx_timestamp = 0; };
struct Peth { uint8_t type = 0, nh = 0; uint8_t vendor_info = 0; uint16_t probe_id = 0; uint16_t spdcid = 0, dpdcid = 0; uint16_t tx_timestamp = 0; bool tsr = false; uint8_t ftype = 1; };
struct Erth { uint8_t type = 0, nh = 0; uint8_t op = 0; uint8_t vendor_info = 0; uint32_t port_status_mask = 0; uint16_t tx_timestamp = 0; bool tsr = false; uint8_t ftype = 1; };
struct Eeth { uint8_t type = 0, nh = 0; uint8_t op = 0; uint16_t tx_timestamp = 0; };
inline constexpr uint8_t kOpPortStatus = 0, kOpEvProbe = 1;
inline constexpr uint32_t kEndpointQpn = 2;

// Everything between BTH and the iCRC. Only the members of the opcode's headers are meaningful.
struct Packet {
  Bth bth; Meth meth; Tseth tseth; Reth reth; ImmDt imm; Aeth aeth; Seth seth; CcState cc; Neth neth; Peth peth; Erth erth; Eeth eeth;
  base::ByteView payload;       // pad removed; empty unless a data packet
  uint32_t payload_length = 0;  // payload.size(), or the elided length in a simulator
};

// What the network layer said about a datagram (driver fills it from the socket, sim from its frame).
struct DatagramMeta {
  base::IpAddr src, dst;
  uint16_t src_port = 0, dst_port = 0;
  uint32_t flow_label = 0;   // 20 bits, 0 over IPv4
  uint8_t dscp = 0, ecn = 0; // after outer/inner merge (reference 3.2)
  uint8_t port = 0;          // local 1-based port (plane) it arrived on
  bool icrc_verified = false; // the driver already checked it (or the payload is elided)
  uint32_t elided_payload = 0; // simulator: this many payload bytes are not in `bytes`
};
// Reference 4.2: (flow_label & 0xFFFF) << 16 | src_port; IPv4: upper half 0.
uint32_t reflected_entropy(const DatagramMeta& meta);

struct Dscps { uint8_t no_trim = 0, trimmable = 4, trimmable_retx = 8, trimmed = 12, trimmed_lasthop = 16, control = 46; };
enum class TrimClass : uint8_t { none, trimmed, trimmed_lasthop };
TrimClass trim_class(uint8_t dscp, const Dscps& d);

// Checks 2.17 rows 1, 4..8 on a UDP payload (BTH .. iCRC) that is not trimmed, and fills `out`. Never reads past `bytes`.
// With meta.elided_payload > 0 `bytes` ends after the extension headers (no payload, pad or iCRC inside).
DropReason parse_datagram(const DatagramMeta& meta, base::ByteView bytes, Packet& out);
// Trim path of 2.17: BTH, METH, and TSETH when BTH.ts. Fills only those.
DropReason parse_trimmed(base::ByteView bytes, Packet& out);

// Emits BTH and the opcode's extension headers (no payload) into `buffer` (>= kMaxHeaderBytes); returns the size.
inline constexpr size_t kMaxHeaderBytes = 52;
size_t emit_headers(const Packet& p, uint8_t* buffer);

// iCRC over the pseudo fields of `meta` and `head | payload | pad`, reference 2.16. udp_length is derived.
// IPv4 identification is taken as 0 and DF as 1 (what an unconnected Linux socket sends with PMTU discovery on).
uint32_t icrc(const DatagramMeta& meta, base::ByteView head, base::ByteView payload, uint8_t pad);
// Stores the value least significant byte first.
void store_icrc(uint8_t* p, uint32_t value);

}  // namespace mrc::wire
