// What becomes of received bytes (reference 2.17), and the facts derived from them.
// Uses the engine's own parsers and receive window; the context says which QPs exist.
#include <algorithm>
#include <optional>

#include "base/seq.h"
#include "reliability/recv_window.h"
#include "wire_fields.h"
#include "wire_layers.h"

namespace mrc::bindings {

namespace {

using wire::DropReason;

struct ContextQp {
  uint32_t qpn = 0;
  uint16_t p_key = 0xFFFF;
  std::optional<base::IpAddr> peer;  // not checked when absent
  std::optional<uint32_t> cack_psn;  // responder state; with mpr: the window test of 6.2
  uint8_t mpr = 8;
};
struct Context {
  std::vector<ContextQp> qps;
  wire::FrameRules rules;
};

Context read_context(const nb::dict& d) {
  Context c;
  FieldReader top(d, "context");
  top.skip("qps");
  top.skip("dscp");
  top.finish();
  if (d.contains("dscp")) {
    wire::Dscps& x = c.rules.dscps;
    FieldReader r(nb::cast<nb::dict>(d["dscp"]), "context.dscp");
    r("no_trim", x.no_trim, 6), r("trimmable", x.trimmable, 6), r("trimmable_retx", x.trimmable_retx, 6);
    r("trimmed", x.trimmed, 6), r("trimmed_lasthop", x.trimmed_lasthop, 6), r("control", x.control, 6);
    r.finish();
  }
  if (!d.contains("qps")) throw std::invalid_argument("context: missing 'qps'");
  for (nb::handle h : nb::cast<nb::list>(d["qps"])) {
    const auto q = nb::cast<nb::dict>(h);
    ContextQp qp;
    FieldReader r(q, "context.qps");
    r("qpn", qp.qpn, 24), r("p_key", qp.p_key, 16), r("mpr", qp.mpr, 8);
    if (q.contains("peer")) r("peer", qp.peer.emplace());
    if (q.contains("cack_psn")) r("cack_psn", qp.cack_psn.emplace(), 24);
    r.finish();
    c.qps.push_back(qp);
  }
  return c;
}

const ContextQp* find_qp(const Context& c, uint32_t qpn) {
  const auto it = std::find_if(c.qps.begin(), c.qps.end(), [&](const ContextQp& q) { return q.qpn == qpn; });
  return it == c.qps.end() ? nullptr : &*it;
}

nb::dict drop(DropReason r) {
  nb::dict d;
  d["result"] = "drop";
  d["reason"] = wire::name(r);
  return d;
}

nb::dict nack(wire::NackReason reason, const wire::Packet& p, const wire::DatagramMeta* meta) {
  nb::dict d;
  d["result"] = "nack";
  d["nack_reason"] = static_cast<unsigned>(reason);
  d["nack_psn"] = p.bth.psn;
  if (meta != nullptr) d["entropy"] = wire::reflected_entropy(*meta);  // layer IB carries no EV
  d["tx_timestamp"] = p.bth.ts ? p.tseth.echo() : 0;
  return d;
}

// Checks 9..11, then acceptance by number (6.2). `meta` is null for layer IB, which has no addresses.
nb::dict judge(const Context& c, const wire::Packet& p, const wire::DatagramMeta* meta) {
  nb::dict ok;
  ok["result"] = "ok";
  if (!wire::dqp_class_matches(p.bth)) return drop(DropReason::bad_qpn);
  if (p.bth.dqp == wire::kEndpointQpn) {
    return wire::pkey_matches(p.bth.p_key, 0xFFFF) ? ok : drop(DropReason::bad_pkey);
  }
  const ContextQp* qp = find_qp(c, p.bth.dqp);
  if (qp == nullptr) return drop(DropReason::bad_qpn);
  if (!wire::pkey_matches(p.bth.p_key, qp->p_key)) return drop(DropReason::bad_pkey);
  if (qp->peer && meta != nullptr && meta->src != *qp->peer) return drop(DropReason::bad_peer);
  if (qp->cack_psn && wire::is_data(static_cast<wire::Opcode>(p.bth.opcode))) {
    using reliability::RecvWindow;
    const RecvWindow window(base::Psn(*qp->cack_psn + 1), qp->mpr * 128u);
    int64_t seq = 0;
    const auto verdict = window.classify(base::Psn(p.bth.psn), seq);
    if (verdict == RecvWindow::Verdict::above) return nack(wire::NackReason::psn_oor_window, p, meta);
  }
  return ok;
}

nb::dict judge_frame(const Context& c, base::ByteView bytes) {
  wire::Frame f;
  wire::Packet p;
  const DropReason r = wire::parse_frame(bytes, c.rules, f, p);
  if (r != DropReason::none) return drop(r);
  if (f.trim == wire::TrimClass::none) return judge(c, p, &f.meta);
  if (find_qp(c, p.bth.dqp) == nullptr) return drop(DropReason::bad_qpn);
  return nack(
      f.trim == wire::TrimClass::trimmed ? wire::NackReason::trimmed : wire::NackReason::trimmed_lasthop, p,
      &f.meta);
}

// A header alone: it must be long enough, and BTH must name a version and an opcode that exist.
DropReason judge_header(const std::string& layer, base::ByteView bytes) {
  if (layer == "BTH") {
    wire::Bth h;
    if (!wire::parse_bth(bytes, h)) return DropReason::truncated;
    if (h.tver != 0) return DropReason::bad_tver;
    return wire::is_known(h.opcode) ? DropReason::none : DropReason::bad_opcode;
  }
  size_t need = wire::kSethBytes + wire::kCcStateBytes;
  if (layer != "SETH+CC_STATE") need = encode_layer(layer, nb::dict()).size();
  return bytes.size() < need ? DropReason::truncated : DropReason::none;
}

void derive_sack(const wire::Seth& s, nb::dict& d) {
  const base::Psn cack(s.cack_psn);
  const base::Psn base = cack + s.sack_offset;
  d["sack_base_psn"] = base.value;
  if (!s.pr) {
    const uint32_t trigger = (cack + s.ack_psn_offset).value;
    d["ack_psn"] = trigger;
    d["trigger_psn"] = trigger;
  }
  nb::list received, missing;
  uint64_t rest = s.sack_bitmap;
  for (int32_t i = 0; rest != 0; ++i, rest >>= 1) {
    const base::Psn psn = base + i;
    if (!cack.before(psn)) continue;  // says nothing (2.9)
    ((rest & 1) != 0 ? received : missing).append(psn.value);
  }
  d["received_psns"] = received;
  d["missing_psns"] = missing;
}

void derive_frame(base::ByteView bytes, nb::dict& d) {
  constexpr uint32_t kNominalOverhead = 40;  // an IPv6 header, whatever the carrier (7.3)
  wire::Frame f;
  wire::Packet p;
  if (wire::parse_frame(bytes, {}, f, p) != DropReason::none) return;
  d["reflected_entropy"] = wire::reflected_entropy(f.meta);
  d["udp_length"] = f.udp.length;
  d["nominal_pktsize"] = f.udp.length + kNominalOverhead;
  if (f.trim != wire::TrimClass::none) {
    nb::dict n = nack(
        f.trim == wire::TrimClass::trimmed ? wire::NackReason::trimmed : wire::NackReason::trimmed_lasthop, p,
        &f.meta);
    nb::del(n["result"]);
    d["expected_nack"] = n;
    return;
  }
  d["icrc_wire"] = nb::bytes(f.datagram.data() + f.datagram.size() - 4, 4).attr("hex")();
  if (p.bth.opcode == static_cast<uint8_t>(wire::Opcode::sack)) derive_sack(p.seth, d);
}

}  // namespace

nb::dict classify_layer(const std::string& layer, base::ByteView bytes, const nb::dict& context) {
  const Context c = read_context(context);
  if (layer == "IPV4" || layer == "IPV6" || layer == "SRV6" || layer == "IPV6_TRIMMED")
    return judge_frame(c, bytes);
  if (layer == "IB") {
    wire::Packet p;
    const DropReason r = wire::parse_ib(bytes, p);
    return r != DropReason::none ? drop(r) : judge(c, p, nullptr);
  }
  if (const DropReason r = judge_header(layer, bytes); r != DropReason::none) return drop(r);
  nb::dict ok;
  ok["result"] = "ok";
  return ok;
}

nb::dict derive_layer(const std::string& layer, const nb::dict& fields, base::ByteView bytes) {
  nb::dict d;
  if (layer == "SETH+CC_STATE") {
    wire::Seth s;
    if (wire::parse_seth(bytes, s)) derive_sack(s, d);
  } else if (layer == "IB") {
    wire::Packet p;
    if (wire::parse_ib(bytes, p) == DropReason::none &&
        p.bth.opcode == static_cast<uint8_t>(wire::Opcode::sack)) {
      derive_sack(p.seth, d);
    }
  } else if (layer == "IPV4" || layer == "IPV6" || layer == "SRV6" || layer == "IPV6_TRIMMED") {
    derive_frame(bytes, d);
  } else if (layer == "CALC") {
    return calculate(fields);
  }
  return d;
}

}  // namespace mrc::bindings
