#include "wire/frame.h"

#include <algorithm>

namespace mrc::wire {

namespace {

constexpr size_t kIcrcBytes = 4;

// Takes `n` bytes from the front of `b`.
base::ByteView take(base::ByteView& b, size_t n) {
  const base::ByteView front = b.first(n);
  b = b.subspan(n);
  return front;
}

// IP lengths bound what follows. A datagram that is cut short stays short: its UDP length will not match.
void limit(base::ByteView& b, size_t length) { b = b.first(std::min(b.size(), length)); }

DropReason enter_ipv4(base::ByteView& rest, Frame& f) {
  if (!parse_ipv4(rest, f.ip4)) return DropReason::truncated;
  f.v4 = true;
  if (f.ip4.is_fragment()) return DropReason::fragment;
  if (f.ip4.protocol != kProtoUdp) return DropReason::not_udp;
  limit(rest, f.ip4.total_length);
  if (rest.size() < f.ip4.header_bytes) return DropReason::truncated;
  f.ip_bytes = take(rest, f.ip4.header_bytes);
  return DropReason::none;
}

// The inner header behind `f.outer`, or the only one.
DropReason enter_ipv6(base::ByteView& rest, Frame& f) {
  if (!parse_ipv6(rest, f.ip6)) return DropReason::truncated;
  f.ip_bytes = take(rest, kIpv6Bytes);
  limit(rest, f.ip6.payload_length);
  if (f.ip6.next_header == kProtoFragment) return DropReason::fragment;
  return DropReason::none;
}

// Strips the outer header and the SRH once; an inner header must be IPv6 with UDP.
DropReason decapsulate(base::ByteView& rest, Frame& f) {
  uint8_t next = f.ip6.next_header;
  if (next == kProtoRouting) {
    if (rest.size() < kSrhBytes) return DropReason::truncated;
    if (!parse_srh(rest, f.srh)) return DropReason::not_udp;
    take(rest, f.srh.bytes());
    f.has_srh = true;
    next = f.srh.next_header;
  }
  if (next == kProtoFragment) return DropReason::fragment;
  if (next == kProtoUdp) return DropReason::none;  // an SRH without encapsulation
  if (next != kProtoIpv6) return DropReason::not_udp;
  f.outer = f.ip6;
  f.encapsulated = true;
  if (const DropReason r = enter_ipv6(rest, f); r != DropReason::none) return r;
  return f.ip6.next_header == kProtoUdp ? DropReason::none : DropReason::not_udp;
}

// Outer first, then inner: either may carry the trim mark; CE anywhere is CE (3.2, 3.3).
void merge_classes(const FrameRules& rules, Frame& f) {
  uint8_t dscp = f.v4 ? f.ip4.dscp : f.ip6.dscp;
  uint8_t ecn = f.v4 ? f.ip4.ecn : f.ip6.ecn;
  if (f.encapsulated) {
    if (trim_class(f.outer.dscp, rules.dscps) != TrimClass::none) dscp = f.outer.dscp;
    if (f.outer.ecn == kEcnCe) ecn = kEcnCe;
  }
  f.trim = trim_class(dscp, rules.dscps);
  f.meta.dscp = dscp;
  f.meta.ecn = ecn;
}

}  // namespace

DropReason decode_frame(base::ByteView bytes, const FrameRules& rules, Frame& out) {
  out = {};
  if (bytes.empty()) return DropReason::truncated;
  base::ByteView rest = bytes;
  DropReason r = DropReason::not_udp;
  if (bytes[0] >> 4 == 4) r = enter_ipv4(rest, out);
  if (bytes[0] >> 4 == 6) {
    r = enter_ipv6(rest, out);
    if (r == DropReason::none && out.ip6.next_header != kProtoUdp) r = decapsulate(rest, out);
  }
  if (r != DropReason::none) return r;
  if (rest.size() < kUdpBytes + kBthBytes) return DropReason::truncated;
  const size_t ip_payload = rest.size();
  parse_udp(rest, out.udp);
  out.udp_bytes = take(rest, kUdpBytes);
  out.datagram = rest;
  if (std::find(std::begin(rules.ports), std::end(rules.ports), out.udp.dst_port) == std::end(rules.ports) ||
      out.udp.dst_port == 0) {
    return DropReason::not_mrc_port;
  }
  out.meta.src = out.v4 ? out.ip4.src : out.ip6.src;
  out.meta.dst = out.v4 ? out.ip4.dst : out.ip6.dst;
  out.meta.src_port = out.udp.src_port;
  out.meta.dst_port = out.udp.dst_port;
  out.meta.flow_label = out.v4 ? 0 : out.ip6.flow_label;
  merge_classes(rules, out);
  if (out.trim != TrimClass::none) return DropReason::none;
  return out.udp.length == ip_payload ? DropReason::none : DropReason::bad_length;
}

bool frame_icrc_ok(const Frame& f) {
  if (f.datagram.size() < kBthBytes + kIcrcBytes) return false;
  const size_t covered = f.datagram.size() - kIcrcBytes;
  return icrc_of_frame(f.ip_bytes, f.udp_bytes, f.datagram.first(covered)) ==
         load_icrc(f.datagram.data() + covered);
}

DropReason parse_frame(base::ByteView bytes, const FrameRules& rules, Frame& out, Packet& packet) {
  if (const DropReason r = decode_frame(bytes, rules, out); r != DropReason::none) return r;
  if (out.trim != TrimClass::none) return parse_trimmed(out.datagram, packet);
  if (!frame_icrc_ok(out)) return DropReason::bad_icrc;
  out.meta.icrc_verified = true;
  return parse_datagram(out.meta, out.datagram, packet);
}

size_t frame_bytes(const FrameSpec& spec, const Packet& packet) {
  const size_t ip = spec.meta.src.is_v4() ? kIpv4Bytes : kIpv6Bytes;
  const size_t outer = spec.outer ? kIpv6Bytes + (spec.outer->srh ? kSrhBytes : 0) : 0;
  return outer + ip + kUdpBytes + kBthBytes + extension_bytes(packet.bth) + packet.payload.size() +
         (packet.bth.pad & 3u) + kIcrcBytes;
}

namespace {

// Outer IPv6 and SRH; their length fields describe `inner` bytes.
size_t emit_outer(const FrameSpec& spec, size_t inner, uint8_t* p) {
  const Encapsulation& e = *spec.outer;
  Ipv6 h;
  h.src = e.src;
  h.dst = e.dst;
  h.dscp = spec.meta.dscp;
  h.ecn = spec.meta.ecn;
  h.flow_label = spec.meta.flow_label;
  h.hop_limit = spec.hop_limit;
  h.next_header = e.srh ? kProtoRouting : kProtoIpv6;
  h.payload_length = static_cast<uint16_t>(inner + (e.srh ? kSrhBytes : 0));
  size_t n = emit_ipv6(h, p);
  if (e.srh) n += emit_srh(*e.srh, p + n);
  return n;
}

size_t emit_inner_ip(const FrameSpec& spec, size_t udp_length, uint8_t* p) {
  if (spec.meta.src.is_v4()) {
    Ipv4 h;
    h.src = spec.meta.src;
    h.dst = spec.meta.dst;
    h.dscp = spec.meta.dscp;
    h.ecn = spec.meta.ecn;
    h.ttl = spec.hop_limit;
    h.id = spec.ipv4_id;
    h.df = spec.ipv4_df;
    h.total_length = static_cast<uint16_t>(kIpv4Bytes + udp_length);
    return emit_ipv4(h, p);
  }
  Ipv6 h;
  h.src = spec.meta.src;
  h.dst = spec.meta.dst;
  h.dscp = spec.meta.dscp;
  h.ecn = spec.meta.ecn;
  h.flow_label = spec.meta.flow_label;
  h.hop_limit = spec.hop_limit;
  h.payload_length = static_cast<uint16_t>(udp_length);
  return emit_ipv6(h, p);
}

}  // namespace

size_t emit_frame(const FrameSpec& spec, const Packet& packet, base::MutByteView out) {
  const size_t total = frame_bytes(spec, packet);
  if (total > out.size() || total > 0xFFFF || !is_known(packet.bth.opcode)) return 0;
  if (spec.outer && spec.meta.src.is_v4()) return 0;
  const size_t ip = spec.meta.src.is_v4() ? kIpv4Bytes : kIpv6Bytes;
  const size_t outer = spec.outer ? kIpv6Bytes + (spec.outer->srh ? kSrhBytes : 0) : 0;
  const size_t udp_length = total - outer - ip;
  uint8_t* p = out.data();
  if (spec.outer) p += emit_outer(spec, total - outer, p);
  uint8_t* const ip_at = p;
  p += emit_inner_ip(spec, udp_length, p);
  uint8_t* const udp_at = p;
  p += emit_udp({spec.meta.src_port, spec.meta.dst_port, static_cast<uint16_t>(udp_length), 0}, p);
  uint8_t* const ib_at = p;
  p += emit_headers(packet, p);
  p = std::copy(packet.payload.begin(), packet.payload.end(), p);
  p = std::fill_n(p, packet.bth.pad & 3u, uint8_t{0});
  store_icrc(p, icrc_of_frame({ip_at, udp_at}, {udp_at, ib_at}, {ib_at, p}));
  if (spec.udp_checksum) {
    base::store_be16(udp_at + 6, udp_checksum(spec.meta.src, spec.meta.dst, {udp_at, p + kIcrcBytes}));
  }
  return total;
}

size_t trim_frame(base::MutByteView frame, uint8_t dscp) {
  Frame f;
  FrameRules rules;
  if (decode_frame(frame, rules, f) != DropReason::none || f.trim != TrimClass::none) return 0;
  Packet p;
  if (parse_trimmed(f.datagram, p) != DropReason::none) return 0;
  const size_t keep = trimmed_bytes(p.bth.ts);
  const auto head = static_cast<size_t>(f.datagram.data() - frame.data());
  const size_t size = head + keep;
  uint8_t* ip = frame.data();
  if (f.v4) {
    ip[1] = static_cast<uint8_t>((dscp << 2) | (ip[1] & 3));
    base::store_be16(ip + 2, static_cast<uint16_t>(size));
    base::store_be16(ip + 10, 0);
    base::store_be16(ip + 10, static_cast<uint16_t>(~ones_sum(frame.first(f.ip4.header_bytes))));
  } else {
    base::store_be32(ip, (base::load_be32(ip) & 0xF03FFFFF) | (uint32_t{dscp & 0x3Fu} << 22));
    base::store_be16(ip + 4, static_cast<uint16_t>(size - kIpv6Bytes));
  }
  return size;
}

}  // namespace mrc::wire
