#include "wire/packet.h"

#include <cstdint>

namespace mrc::wire {

namespace {

constexpr size_t kIcrcBytes = 4;

// Checks 7: all extension headers lie inside `body` (what follows BTH, without iCRC). Advances `body` past
// them.
DropReason parse_extensions(base::ByteView& body, Packet& out) {
  const size_t need = extension_bytes(out.bth);
  if (body.size() < need) return DropReason::truncated;
  size_t at = 0;
  switch (static_cast<Opcode>(out.bth.opcode)) {
    case Opcode::transport_ack:
      parse_aeth(body, out.aeth);
      break;
    case Opcode::endpoint_request:
      parse_erth(body, out.erth);
      break;
    case Opcode::endpoint_response:
      parse_eeth(body, out.eeth);
      break;
    case Opcode::nack:
      parse_neth(body, out.neth);
      break;
    case Opcode::reliability_probe:
      parse_peth(body, out.peth);
      break;
    case Opcode::sack:
      parse_seth(body, out.seth);
      parse_cc_state(body.subspan(kSethBytes), out.cc);
      break;
    case Opcode::write_first:
    case Opcode::write_middle:
    case Opcode::write_last:
    case Opcode::write_last_imm:
    case Opcode::write_only:
    case Opcode::write_only_imm:
      parse_meth(body, out.meth);
      at = kMethBytes;
      out.tseth = {};
      if (out.bth.ts) {
        parse_tseth(body.subspan(at), out.tseth);
        at += kTsethBytes;
      }
      parse_reth(body.subspan(at), out.reth);
      at += kRethBytes;
      if (has_imm(static_cast<Opcode>(out.bth.opcode))) parse_immdt(body.subspan(at), out.imm);
      break;
  }
  body = body.subspan(need);
  return DropReason::none;
}

// Checks 5..8. `body` is what follows BTH up to the iCRC; `elided` payload bytes are missing at its end.
DropReason parse_body(base::ByteView body, uint32_t elided, Packet& out) {
  if (out.bth.tver != 0) return DropReason::bad_tver;
  if (!is_known(out.bth.opcode)) return DropReason::bad_opcode;
  if (const DropReason r = parse_extensions(body, out); r != DropReason::none) return r;
  out.payload = {};
  out.payload_length = elided;
  if (elided > 0) return DropReason::none;
  if (out.bth.pad > body.size()) return DropReason::bad_length;
  if (is_data(static_cast<Opcode>(out.bth.opcode))) {
    out.payload = body.first(body.size() - out.bth.pad);
    out.payload_length = static_cast<uint32_t>(out.payload.size());
  }
  return DropReason::none;
}

}  // namespace

const char* name(DropReason r) {
  switch (r) {
    case DropReason::none:
      return "none";
    case DropReason::truncated:
      return "truncated";
    case DropReason::bad_length:
      return "bad_length";
    case DropReason::bad_icrc:
      return "bad_icrc";
    case DropReason::bad_tver:
      return "bad_tver";
    case DropReason::bad_opcode:
      return "bad_opcode";
    case DropReason::bad_qpn:
      return "bad_qpn";
    case DropReason::bad_pkey:
      return "bad_pkey";
    case DropReason::bad_peer:
      return "bad_peer";
    case DropReason::trimmed_control:
      return "trimmed_control";
    case DropReason::fragment:
      return "fragment";
    case DropReason::not_mrc_port:
      return "not_mrc_port";
    case DropReason::bad_ack:
      return "bad_ack";
    case DropReason::not_receiving:
      return "not_receiving";
    case DropReason::not_udp:
      return "not_udp";
    case DropReason::count_:
      break;
  }
  return "unknown";
}

uint32_t reflected_entropy(const DatagramMeta& meta) {
  const uint32_t high = meta.src.is_v4() ? 0 : meta.flow_label & 0xFFFF;
  return (high << 16) | meta.src_port;
}

TrimClass trim_class(uint8_t dscp, const Dscps& d) {
  if (dscp == d.trimmed) return TrimClass::trimmed;
  if (dscp == d.trimmed_lasthop) return TrimClass::trimmed_lasthop;
  return TrimClass::none;
}

size_t extension_bytes(const Bth& bth) {
  if (!is_known(bth.opcode)) return 0;
  const auto op = static_cast<Opcode>(bth.opcode);
  switch (op) {
    case Opcode::transport_ack:
      return kAethBytes;
    case Opcode::endpoint_request:
      return kErthBytes;
    case Opcode::endpoint_response:
      return kEethBytes;
    case Opcode::sack:
      return kSethBytes + kCcStateBytes;
    case Opcode::nack:
      return kNethBytes;
    case Opcode::reliability_probe:
      return kPethBytes;
    default:
      return kMethBytes + (bth.ts ? kTsethBytes : 0) + kRethBytes + (has_imm(op) ? kImmDtBytes : 0);
  }
}

DropReason parse_datagram(const DatagramMeta& meta, base::ByteView bytes, Packet& out, PrefixCache* cache) {
  if (!parse_bth(bytes, out.bth)) return DropReason::truncated;
  base::ByteView body = bytes.subspan(kBthBytes);
  if (meta.elided_payload > 0) return parse_body(body, meta.elided_payload, out);
  // BTH alone passes check 1; without room for an iCRC it cannot carry a right one.
  if (body.size() < kIcrcBytes) return DropReason::bad_icrc;
  const base::ByteView covered = bytes.first(bytes.size() - kIcrcBytes);
  if (!meta.icrc_verified && icrc(meta, covered, {}, 0, cache) != load_icrc(bytes.data() + covered.size())) {
    return DropReason::bad_icrc;
  }
  return parse_body(body.first(body.size() - kIcrcBytes), 0, out);
}

DropReason parse_ib(base::ByteView ib, Packet& out) {
  if (!parse_bth(ib, out.bth)) return DropReason::truncated;
  return parse_body(ib.subspan(kBthBytes), 0, out);
}

DropReason parse_trimmed(base::ByteView bytes, Packet& out) {
  if (!parse_bth(bytes, out.bth)) return DropReason::truncated;
  if (!is_data(static_cast<Opcode>(out.bth.opcode))) return DropReason::trimmed_control;
  if (bytes.size() < trimmed_bytes(out.bth.ts)) return DropReason::truncated;
  parse_meth(bytes.subspan(kBthBytes), out.meth);
  out.tseth = {};
  if (out.bth.ts) parse_tseth(bytes.subspan(kBthBytes + kMethBytes), out.tseth);
  out.payload = {};
  out.payload_length = 0;
  return DropReason::none;
}

size_t emit_headers(const Packet& p, uint8_t* buffer) {
  uint8_t* at = buffer + emit_bth(p.bth, buffer);
  const auto op = static_cast<Opcode>(p.bth.opcode);
  switch (op) {
    case Opcode::transport_ack:
      at += emit_aeth(p.aeth, at);
      break;
    case Opcode::endpoint_request:
      at += emit_erth(p.erth, at);
      break;
    case Opcode::endpoint_response:
      at += emit_eeth(p.eeth, at);
      break;
    case Opcode::nack:
      at += emit_neth(p.neth, at);
      break;
    case Opcode::reliability_probe:
      at += emit_peth(p.peth, at);
      break;
    case Opcode::sack:
      at += emit_seth(p.seth, at);
      at += emit_cc_state(p.cc, at);
      break;
    case Opcode::write_first:
    case Opcode::write_middle:
    case Opcode::write_last:
    case Opcode::write_last_imm:
    case Opcode::write_only:
    case Opcode::write_only_imm:
      at += emit_meth(p.meth, at);
      if (p.bth.ts) at += emit_tseth(p.tseth, at);
      at += emit_reth(p.reth, at);
      if (has_imm(op)) at += emit_immdt(p.imm, at);
      break;
  }
  return static_cast<size_t>(at - buffer);
}

}  // namespace mrc::wire
