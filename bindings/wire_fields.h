// The names that vectors give to header fields, one list a header, used for reading and writing dicts alike.
// Decides names and ranges; leaves layouts to core/wire and layers to wire_layers.cc.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "addresses.h"
#include "wire/frame.h"

namespace mrc::bindings {

namespace nb = nanobind;

// Fills members from a dict. Absent names keep their default; a value that does not fit, and after finish() a
// name nobody asked for, is a ValueError that names header and field.
class FieldReader {
 public:
  FieldReader(nb::dict d, std::string where) : d_(std::move(d)), where_(std::move(where)) {}

  template <typename T>
  void operator()(const char* name, T& member, unsigned bits) {
    seen_.insert(name);
    if (!d_.contains(name)) return;
    const nb::object o = d_[name];
    if constexpr (std::is_same_v<T, bool>) {
      member = number(o, name, 0, 1) != 0;
    } else if constexpr (std::is_signed_v<T>) {
      const int64_t half = int64_t{1} << (bits - 1);
      int64_t v = 0;
      if (!nb::try_cast(o, v) || v < -half || v >= half) refuse(name, o);
      member = static_cast<T>(v);
    } else {
      member = static_cast<T>(number(o, name, 0, bits == 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1));
    }
  }
  void operator()(const char* name, base::IpAddr& member) {
    seen_.insert(name);
    if (!d_.contains(name)) return;
    std::string text;
    if (!nb::try_cast(d_[name], text)) refuse(name, d_[name]);
    member = parse_address(text);
  }
  void skip(const char* name) { seen_.insert(name); }
  void finish() const {
    for (const auto& [key, value] : d_) {
      if (!seen_.contains(nb::str(key).c_str())) {
        throw std::invalid_argument(where_ + ": unknown field '" + nb::str(key).c_str() + "'");
      }
    }
  }

 private:
  uint64_t number(const nb::object& o, const char* name, uint64_t low, uint64_t high) const {
    uint64_t v = 0;
    if (!nb::try_cast(o, v) || v < low || v > high) refuse(name, o);
    return v;
  }
  [[noreturn]] void refuse(const char* name, const nb::object& o) const {
    throw std::invalid_argument(where_ + "." + name + ": value " + nb::repr(o).c_str() + " does not fit");
  }

  nb::dict d_;
  std::string where_;
  std::set<std::string> seen_;
};

class FieldWriter {
 public:
  template <typename T>
  void operator()(const char* name, T& member, unsigned) {
    if constexpr (std::is_same_v<T, bool>) {
      dict[name] = member ? 1 : 0;
    } else {
      dict[name] = member;
    }
  }
  void operator()(const char* name, base::IpAddr& member) { dict[name] = format_address(member); }
  void skip(const char*) {}
  nb::dict dict;
};

template <typename V>
void fields(V& v, wire::Bth& h) {
  v("opcode", h.opcode, 8), v("se", h.se, 1), v("m", h.m, 1), v("pad", h.pad, 2), v("tver", h.tver, 4);
  v("p_key", h.p_key, 16), v("var_res", h.var_res, 8), v("dqp", h.dqp, 24), v("a", h.a, 1), v("r", h.r, 1);
  v("rtx", h.rtx, 1), v("ts", h.ts, 1), v("inv_res", h.inv_res, 4), v("psn", h.psn, 24);
}
template <typename V>
void fields(V& v, wire::Meth& h) {
  v("rqmsn", h.rqmsn, 16), v("msn", h.msn, 16);
}
template <typename V>
void fields(V& v, wire::Tseth& h) {
  v("tx_timestamp", h.tx_timestamp, 16), v("tsr", h.tsr, 1), v("reserved", h.reserved, 11),
      v("ftype", h.ftype, 4);
}
template <typename V>
void fields(V& v, wire::Reth& h) {
  v("va", h.va, 64), v("r_key", h.r_key, 32), v("dmalen", h.dmalen, 32);
}
template <typename V>
void fields(V& v, wire::ImmDt& h) {
  v("imm", h.imm, 32);
}
template <typename V>
void fields(V& v, wire::Aeth& h) {
  v("syndrome", h.syndrome, 8), v("msn", h.msn, 24);
}
template <typename V, typename H>
void start_fields(V& v, H& h) {
  v("type", h.type, 4), v("nh", h.nh, 5);
}
template <typename V>
void fields(V& v, wire::Seth& h) {
  start_fields(v, h);
  v("m", h.m, 2), v("pr", h.pr, 1);
  // pr decides which of the two names the bytes 2-3 have; a reader has seen it by now.
  if (h.pr)
    v("probe_id", h.probe_id, 16);
  else
    v("ack_psn_offset", h.ack_psn_offset, 16);
  v("entropy", h.entropy, 32), v("spdcid", h.spdcid, 16), v("dpdcid", h.dpdcid, 16);
  v("cack_psn", h.cack_psn, 24), v("cc_type", h.cc_type, 4), v("cc_fl", h.cc_fl, 4), v("mpr", h.mpr, 8);
  v("sack_offset", h.sack_offset, 16), v("sack_bitmap", h.sack_bitmap, 64);
}
template <typename V>
void fields(V& v, wire::CcState& h) {
  v("tx_timestamp", h.tx_timestamp, 16), v("ooo_count", h.ooo_count, 15),
      v("restore_cwnd", h.restore_cwnd, 1);
  v("rcv_cwnd_pen", h.rcv_cwnd_pen, 7), v("rcvd_bytes", h.rcvd_bytes, 24);
}
template <typename V>
void fields(V& v, wire::Neth& h) {
  start_fields(v, h);
  v("nack_reason", h.nack_reason, 8), v("vendor_info", h.vendor_info, 8), v("entropy", h.entropy, 32);
  v("spdcid", h.spdcid, 16), v("dpdcid", h.dpdcid, 16), v("nack_psn", h.nack_psn, 24);
  v("cc_type", h.cc_type, 4), v("cc_fl", h.cc_fl, 4), v("tx_timestamp", h.tx_timestamp, 16);
}
template <typename V>
void fields(V& v, wire::Peth& h) {
  start_fields(v, h);
  v("vendor_info", h.vendor_info, 8), v("probe_id", h.probe_id, 16), v("spdcid", h.spdcid, 16);
  v("dpdcid", h.dpdcid, 16), v("tx_timestamp", h.tx_timestamp, 16), v("tsr", h.tsr, 1),
      v("ftype", h.ftype, 4);
}
template <typename V>
void fields(V& v, wire::Erth& h) {
  start_fields(v, h);
  v("op", h.op, 2), v("vendor_info", h.vendor_info, 8), v("port_status_mask", h.port_status_mask, 32);
  v("tx_timestamp", h.tx_timestamp, 16), v("tsr", h.tsr, 1), v("ftype", h.ftype, 4);
}
template <typename V>
void fields(V& v, wire::Eeth& h) {
  start_fields(v, h);
  v("op", h.op, 2), v("tx_timestamp", h.tx_timestamp, 16);
}
template <typename V>
void fields(V& v, wire::Ipv6& h) {
  v("src", h.src), v("dst", h.dst), v("dscp", h.dscp, 6), v("ecn", h.ecn, 2),
      v("flow_label", h.flow_label, 20);
  v("next_header", h.next_header, 8), v("hop_limit", h.hop_limit, 8),
      v("payload_length", h.payload_length, 16);
}
template <typename V>
void fields(V& v, wire::Ipv4& h) {
  v("src", h.src), v("dst", h.dst), v("dscp", h.dscp, 6), v("ecn", h.ecn, 2), v("ttl", h.ttl, 8),
      v("id", h.id, 16);
  v("df", h.df, 1), v("mf", h.mf, 1), v("fragment_offset", h.fragment_offset, 13),
      v("protocol", h.protocol, 8);
  v("total_length", h.total_length, 16), v("checksum", h.checksum, 16);
}
template <typename V>
void fields(V& v, wire::Udp& h) {
  v("src_port", h.src_port, 16), v("dst_port", h.dst_port, 16), v("length", h.length, 16);
  v("checksum", h.checksum, 16);
}
template <typename V>
void fields(V& v, wire::Srh& h) {
  v("next_header", h.next_header, 8), v("hdr_ext_len", h.hdr_ext_len, 8),
      v("routing_type", h.routing_type, 8);
  v("segments_left", h.segments_left, 8), v("last_entry", h.last_entry, 8), v("flags", h.flags, 8);
  v("tag", h.tag, 16), v("segment", h.segment);
}

template <typename H>
void read(const nb::dict& d, const char* where, H& h) {
  FieldReader r(d, where);
  fields(r, h);
  r.finish();
}
template <typename H>
nb::dict write(H& h) {
  FieldWriter w;
  fields(w, h);
  return w.dict;
}

}  // namespace mrc::bindings
