#include "wire/packet.h"

namespace mrc::wire {

namespace {

constexpr size_t kIcrc = 4;

template <typename H>
size_t read(base::ByteView b, size_t at, H& into) {
  into = *H::parse(b.subspan(at));   // the caller checked extension_size
  return at + H::kSize;
}

template <typename H>
size_t write(uint8_t* p, size_t at, const H& h) {
  h.emit(p + at);
  return at + H::kSize;
}

// Extension headers; `b` is long enough.
size_t read_extensions(base::ByteView b, Packet& out) {
  size_t at = Bth::kSize;
  switch (static_cast<Opcode>(out.bth.opcode)) {
    case Opcode::transport_ack: return read(b, at, out.aeth);
    case Opcode::endpoint_request: return read(b, at, out.erth);
    case Opcode::endpoint_response: return read(b, at, out.eeth);
    case Opcode::sack: return read(b, read(b, at, out.seth), out.cc);
    case Opcode::nack: return read(b, at, out.neth);
    case Opcode::reliability_probe: return read(b, at, out.peth);
    default: break;
  }
  at = read(b, at, out.meth);
  if (out.bth.ts) at = read(b, at, out.tseth);
  at = read(b, at, out.reth);
  if (has_imm(static_cast<Opcode>(out.bth.opcode))) at = read(b, at, out.imm);
  return at;
}

// Checks 5 to 8 once BTH is known; `body` has no iCRC.
DropReason parse_body(base::ByteView body, uint32_t elided, Packet& out) {
  if (out.bth.tver != 0) return DropReason::bad_tver;
  if (!is_known(out.bth.opcode)) return DropReason::bad_opcode;
  if (body.size() < Bth::kSize + extension_size(out.bth)) return DropReason::truncated;
  const size_t headers = read_extensions(body, out);
  out.payload = {};
  out.payload_length = 0;
  if (elided > 0) {
    out.payload_length = elided;
    return DropReason::none;
  }
  const base::ByteView rest = body.subspan(headers);
  if (out.bth.pad > rest.size()) return DropReason::bad_length;
  if (!is_data(static_cast<Opcode>(out.bth.opcode))) return DropReason::none;   // trailing bytes mean nothing
  out.payload = rest.first(rest.size() - out.bth.pad);
  out.payload_length = static_cast<uint32_t>(out.payload.size());
  return DropReason::none;
}

}  // namespace

const char* name(DropReason r) {
  static constexpr const char* kNames[] = {"none",     "truncated", "bad_length",      "bad_icrc", "bad_tver",     "bad_opcode", "bad_qpn",      "bad_pkey",
                                           "bad_peer", "trimmed_control", "fragment", "not_mrc_port", "not_udp", "bad_ack", "not_receiving"};
  static_assert(sizeof kNames / sizeof kNames[0] == static_cast<size_t>(DropReason::count_));
  return r < DropReason::count_ ? kNames[static_cast<size_t>(r)] : "unknown";
}

size_t extension_size(const Bth& bth) {
  const auto op = static_cast<Opcode>(bth.opcode);
  if (is_data(op)) return Meth::kSize + (bth.ts ? Tseth::kSize : 0) + Reth::kSize + (has_imm(op) ? ImmDt::kSize : 0);
  switch (op) {
    case Opcode::transport_ack: return Aeth::kSize;
    case Opcode::endpoint_request: return Erth::kSize;
    case Opcode::endpoint_response: return Eeth::kSize;
    case Opcode::sack: return Seth::kSize + CcState::kSize;
    case Opcode::nack: return Neth::kSize;
    case Opcode::reliability_probe: return Peth::kSize;
    default: return 0;
  }
}

DropReason parse_ib(base::ByteView bytes, Packet& out) {
  const auto bth = Bth::parse(bytes);
  if (!bth) return DropReason::truncated;
  out.bth = *bth;
  return parse_body(bytes, 0, out);
}

DropReason parse_datagram(const DatagramMeta& meta, base::ByteView bytes, Packet& out) {
  const size_t trailer = meta.elided_payload > 0 ? 0 : kIcrc;
  if (bytes.size() < Bth::kSize) return DropReason::truncated;
  out.bth = *Bth::parse(bytes);
  // A datagram that ends inside BTH + iCRC has no iCRC to check and nothing else to say.
  if (bytes.size() < Bth::kSize + trailer) return DropReason::truncated;
  const base::ByteView body = bytes.first(bytes.size() - trailer);
  if (!meta.icrc_verified && meta.elided_payload == 0) {
    if (icrc(meta, body, {}, 0) != load_icrc(bytes.data() + body.size())) return DropReason::bad_icrc;
  }
  return parse_body(body, meta.elided_payload, out);
}

DropReason parse_trimmed(base::ByteView bytes, Packet& out) {
  const auto bth = Bth::parse(bytes);
  if (!bth) return DropReason::truncated;
  out.bth = *bth;
  if (!is_data(static_cast<Opcode>(bth->opcode))) return DropReason::trimmed_control;
  const size_t need = Bth::kSize + Meth::kSize + (bth->ts ? Tseth::kSize : 0);
  if (bytes.size() < need) return DropReason::truncated;
  size_t at = read(bytes, Bth::kSize, out.meth);
  out.tseth = Tseth{};
  if (bth->ts) read(bytes, at, out.tseth);
  out.payload = {};
  out.payload_length = 0;
  return DropReason::none;
}

size_t emit_headers(const Packet& p, uint8_t* buffer) {
  size_t at = write(buffer, 0, p.bth);
  switch (static_cast<Opcode>(p.bth.opcode)) {
    case Opcode::transport_ack: return write(buffer, at, p.aeth);
    case Opcode::endpoint_request: return write(buffer, at, p.erth);
    case Opcode::endpoint_response: return write(buffer, at, p.eeth);
    case Opcode::sack: return write(buffer, write(buffer, at, p.seth), p.cc);
    case Opcode::nack: return write(buffer, at, p.neth);
    case Opcode::reliability_probe: return write(buffer, at, p.peth);
    default: break;
  }
  if (!is_data(static_cast<Opcode>(p.bth.opcode))) return at;
  at = write(buffer, at, p.meth);
  if (p.bth.ts) at = write(buffer, at, p.tseth);
  at = write(buffer, at, p.reth);
  if (has_imm(static_cast<Opcode>(p.bth.opcode))) at = write(buffer, at, p.imm);
  return at;
}

}  // namespace mrc::wire
