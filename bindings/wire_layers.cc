// Encode and decode of every vector layer: dict -> core/wire structs -> bytes and back.
#include "wire_layers.h"

#include <functional>
#include <map>

#include "wire_fields.h"

namespace mrc::bindings {

namespace {

using Bytes = std::vector<uint8_t>;
using wire::Opcode;

nb::dict sub(const nb::dict& d, const char* key) {
  if (!d.contains(key)) throw std::invalid_argument(std::string("missing '") + key + "'");
  nb::object o = d[key];
  if (!nb::isinstance<nb::dict>(o))
    throw std::invalid_argument(std::string("'") + key + "' is not an object");
  return nb::cast<nb::dict>(o);
}
nb::dict sub_or_empty(const nb::dict& d, const char* key) {
  return d.contains(key) ? sub(d, key) : nb::dict();
}

// A header layer: fixed size, one struct.
struct HeaderLayer {
  std::function<Bytes(const nb::dict&)> encode;
  std::function<nb::dict(base::ByteView)> decode;
};
template <typename H>
HeaderLayer header(const char* name, size_t size, bool (*parse)(base::ByteView, H&),
                   size_t (*emit)(const H&, uint8_t*)) {
  return {[=](const nb::dict& d) {
            H h;
            read(d, name, h);
            Bytes out(size);
            emit(h, out.data());
            return out;
          },
          [=](base::ByteView b) {
            H h;
            if (b.size() != size || !parse(b, h))
              throw std::invalid_argument(std::string(name) + ": wrong length");
            return write(h);
          }};
}

const std::map<std::string, HeaderLayer>& header_layers() {
  using namespace wire;
  static const std::map<std::string, HeaderLayer> layers{
      {"BTH", header<Bth>("BTH", kBthBytes, &parse_bth, &emit_bth)},
      {"METH", header<Meth>("METH", kMethBytes, &parse_meth, &emit_meth)},
      {"TSETH", header<Tseth>("TSETH", kTsethBytes, &parse_tseth, &emit_tseth)},
      {"RETH", header<Reth>("RETH", kRethBytes, &parse_reth, &emit_reth)},
      {"ImmDt", header<ImmDt>("ImmDt", kImmDtBytes, &parse_immdt, &emit_immdt)},
      {"AETH", header<Aeth>("AETH", kAethBytes, &parse_aeth, &emit_aeth)},
      {"NETH", header<Neth>("NETH", kNethBytes, &parse_neth, &emit_neth)},
      {"PETH", header<Peth>("PETH", kPethBytes, &parse_peth, &emit_peth)},
      {"ERTH", header<Erth>("ERTH", kErthBytes, &parse_erth, &emit_erth)},
      {"EETH", header<Eeth>("EETH", kEethBytes, &parse_eeth, &emit_eeth)},
  };
  return layers;
}

// Calls f(name, member) for every header of the packet's opcode behind BTH.
template <typename F>
void each_extension(wire::Packet& p, F&& f) {
  const auto op = static_cast<Opcode>(p.bth.opcode);
  if (wire::is_data(op)) {
    f("METH", p.meth);
    if (p.bth.ts) f("TSETH", p.tseth);
    f("RETH", p.reth);
    if (wire::has_imm(op)) f("ImmDt", p.imm);
  }
  if (op == Opcode::transport_ack) f("AETH", p.aeth);
  if (op == Opcode::endpoint_request) f("ERTH", p.erth);
  if (op == Opcode::endpoint_response) f("EETH", p.eeth);
  if (op == Opcode::nack) f("NETH", p.neth);
  if (op == Opcode::reliability_probe) f("PETH", p.peth);
  if (op == Opcode::sack) {
    f("SETH", p.seth);
    f("CC_STATE", p.cc);
  }
}

Bytes from_hex(const nb::dict& d, const char* key) {
  if (!d.contains(key)) return {};
  const nb::object value = nb::module_::import_("builtins").attr("bytes").attr("fromhex")(d[key]);
  const auto b = nb::cast<nb::bytes>(value);
  const auto* p = reinterpret_cast<const uint8_t*>(b.data());
  return {p, p + b.size()};
}

// `payload` keeps the bytes that the packet points to.
wire::Packet read_ib(const nb::dict& d, Bytes& payload) {
  wire::Packet p;
  read(sub(d, "BTH"), "BTH", p.bth);
  if (!wire::is_known(p.bth.opcode)) throw std::invalid_argument("BTH.opcode: not an MRC opcode");
  size_t used = 1;
  each_extension(p, [&](const char* name, auto& h) {
    read(sub(d, name), name, h);
    ++used;
  });
  payload = from_hex(d, "payload_hex");
  p.payload = payload;
  p.payload_length = static_cast<uint32_t>(payload.size());
  if (d.contains("payload_hex")) ++used;
  if (used != d.size()) throw std::invalid_argument("IB: a header that this opcode does not have");
  return p;
}

nb::dict write_ib(wire::Packet& p) {
  nb::dict d;
  d["BTH"] = write(p.bth);
  each_extension(p, [&](const char* name, auto& h) { d[name] = write(h); });
  if (wire::is_data(static_cast<Opcode>(p.bth.opcode))) {
    d["payload_hex"] = nb::bytes(p.payload.data(), p.payload.size()).attr("hex")();
  }
  return d;
}

Bytes encode_ib(const nb::dict& d) {
  Bytes payload;
  const wire::Packet p = read_ib(d, payload);
  Bytes out(wire::kMaxHeaderBytes);
  out.resize(wire::emit_headers(p, out.data()));
  out.insert(out.end(), payload.begin(), payload.end());
  out.resize(out.size() + p.bth.pad);
  return out;
}

// `ev` stands for both of its halves when those are not given.
void read_ev(const nb::dict& d, bool v4, wire::Udp& udp, uint32_t& flow_label) {
  if (!d.contains("ev")) return;
  const auto parts = wire::split_entropy(nb::cast<uint32_t>(d["ev"]), v4);
  udp.src_port = parts.src_port;
  flow_label = parts.flow_label;
}

Bytes encode_packet(const nb::dict& d, bool v4, const nb::dict* outer) {
  wire::FrameSpec spec;
  wire::Udp udp;
  udp.dst_port = wire::kUdpPort;
  wire::Ipv4 ip4;
  wire::Ipv6 ip6;
  read_ev(d, v4, udp, ip6.flow_label);
  if (v4) {
    read(sub(d, "ipv4"), "ipv4", ip4);
    spec.ipv4_id = ip4.id;
    spec.ipv4_df = ip4.df;
  } else {
    read(sub(d, "ipv6"), "ipv6", ip6);
  }
  read(sub(d, "udp"), "udp", udp);
  spec.meta.src = v4 ? ip4.src : ip6.src;
  spec.meta.dst = v4 ? ip4.dst : ip6.dst;
  if (spec.meta.src.is_v4() != v4)
    throw std::invalid_argument("address family of src does not fit the layer");
  spec.meta.dscp = v4 ? ip4.dscp : ip6.dscp;
  spec.meta.ecn = v4 ? ip4.ecn : ip6.ecn;
  spec.meta.flow_label = ip6.flow_label;
  spec.hop_limit = v4 ? ip4.ttl : ip6.hop_limit;
  spec.meta.src_port = udp.src_port;
  spec.meta.dst_port = udp.dst_port;
  wire::Ipv6 outer_ip = ip6;  // as encapsulation copies it
  if (outer != nullptr) {
    spec.outer.emplace();
    outer_ip.next_header = outer->contains("srh") ? wire::kProtoRouting : wire::kProtoIpv6;
    read(sub(*outer, "outer"), "outer", outer_ip);
    if (outer->contains("srh")) read(sub(*outer, "srh"), "srh", spec.outer->srh.emplace());
  }
  Bytes payload;
  const wire::Packet p = read_ib(sub(d, "ib"), payload);
  Bytes out(wire::frame_bytes(spec, p));
  if (wire::emit_frame(spec, p, out) == 0) throw std::invalid_argument("packet too large");
  size_t at = 0;
  if (outer != nullptr) {
    outer_ip.payload_length = base::load_be16(out.data() + 4);
    at = wire::emit_ipv6(outer_ip, out.data()) + (spec.outer->srh ? wire::kSrhBytes : 0);
  }
  base::store_be16(out.data() + at + (v4 ? wire::kIpv4Bytes : wire::kIpv6Bytes) + 6, udp.checksum);
  return out;
}

Bytes encode_trimmed(const nb::dict& d) {
  wire::Udp udp;
  udp.dst_port = wire::kUdpPort;
  wire::Ipv6 ip;
  wire::Bth bth;
  wire::Meth meth;
  wire::Tseth tseth;
  read_ev(d, false, udp, ip.flow_label);
  read(sub(d, "bth"), "bth", bth);
  read(sub(d, "meth"), "meth", meth);
  read(sub_or_empty(d, "tseth"), "tseth", tseth);
  const size_t keep = wire::trimmed_bytes(bth.ts);
  udp.length = ip.payload_length = static_cast<uint16_t>(wire::kUdpBytes + keep);
  read(sub(d, "ipv6"), "ipv6", ip);
  read(sub(d, "udp"), "udp", udp);
  Bytes out(wire::kIpv6Bytes + wire::kUdpBytes + wire::trimmed_bytes(true));
  uint8_t* p = out.data();
  p += wire::emit_ipv6(ip, p);
  p += wire::emit_udp(udp, p);
  p += wire::emit_bth(bth, p);
  p += wire::emit_meth(meth, p);
  if (bth.ts) wire::emit_tseth(tseth, p);
  out.resize(wire::kIpv6Bytes + wire::kUdpBytes + keep);
  return out;
}

nb::dict write_inner(wire::Frame& f, wire::Packet& p) {
  nb::dict d;
  if (f.v4)
    d["ipv4"] = write(f.ip4);
  else
    d["ipv6"] = write(f.ip6);
  d["udp"] = write(f.udp);
  d["ev"] = wire::reflected_entropy(f.meta);
  if (f.trim == wire::TrimClass::none) {
    d["ib"] = write_ib(p);
    return d;
  }
  d["bth"] = write(p.bth);
  d["meth"] = write(p.meth);
  if (p.bth.ts) d["tseth"] = write(p.tseth);
  return d;
}

nb::dict decode_packet(base::ByteView bytes) {
  wire::Frame f;
  wire::Packet p;
  if (const wire::DropReason r = wire::parse_frame(bytes, {}, f, p); r != wire::DropReason::none) {
    throw std::invalid_argument(std::string("dropped: ") + wire::name(r));
  }
  if (!f.encapsulated) return write_inner(f, p);
  nb::dict d;
  d["outer"] = write(f.outer);
  if (f.has_srh) d["srh"] = write(f.srh);
  d["inner"] = write_inner(f, p);
  return d;
}

}  // namespace

std::vector<uint8_t> encode_layer(const std::string& layer, const nb::dict& d) {
  const auto& headers = header_layers();
  if (const auto it = headers.find(layer); it != headers.end()) return it->second.encode(d);
  if (layer == "IB") return encode_ib(d);
  if (layer == "IPV4" || layer == "IPV6") return encode_packet(d, layer == "IPV4", nullptr);
  if (layer == "SRV6") return encode_packet(sub(d, "inner"), false, &d);
  if (layer == "IPV6_TRIMMED") return encode_trimmed(d);
  if (layer != "SETH+CC_STATE") throw std::invalid_argument("unknown layer '" + layer + "'");
  wire::Seth seth;
  wire::CcState cc;
  read(sub(d, "SETH"), "SETH", seth);
  read(sub(d, "CC_STATE"), "CC_STATE", cc);
  Bytes out(wire::kSethBytes + wire::kCcStateBytes);
  wire::emit_cc_state(cc, out.data() + wire::emit_seth(seth, out.data()));
  return out;
}

nb::dict decode_layer(const std::string& layer, base::ByteView bytes) {
  const auto& headers = header_layers();
  if (const auto it = headers.find(layer); it != headers.end()) return it->second.decode(bytes);
  if (layer == "IPV4" || layer == "IPV6" || layer == "SRV6" || layer == "IPV6_TRIMMED")
    return decode_packet(bytes);
  if (layer == "IB") {
    wire::Packet p;
    const wire::DropReason r = wire::parse_ib(bytes, p);
    if (r != wire::DropReason::none) throw std::invalid_argument(std::string("dropped: ") + wire::name(r));
    return write_ib(p);
  }
  if (layer != "SETH+CC_STATE") throw std::invalid_argument("unknown layer '" + layer + "'");
  if (bytes.size() != wire::kSethBytes + wire::kCcStateBytes)
    throw std::invalid_argument("SETH+CC_STATE: wrong length");
  wire::Seth seth;
  wire::CcState cc;
  wire::parse_seth(bytes, seth);
  wire::parse_cc_state(bytes.subspan(wire::kSethBytes), cc);
  nb::dict d;
  d["SETH"] = write(seth);
  d["CC_STATE"] = write(cc);
  return d;
}

}  // namespace mrc::bindings
