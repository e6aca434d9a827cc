// Entropy values for Python: expansion, SRv6 templates, names of path policies.
// Decides names of members; every rule lives in core/ev.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cerrno>

#include "addresses.h"
#include "engine_attr.h"
#include "errno_error.h"
#include "ev/expand.h"
#include "ev/policy.h"
#include "ev/srv6_template.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using mrc::bindings::check;
using mrc::bindings::DictReader;
namespace base = mrc::base;
namespace ev = mrc::ev;

nb::bytes to_bytes(const uint8_t* p, size_t n) { return nb::bytes(reinterpret_cast<const char*>(p), n); }

std::vector<uint8_t> from_hex(const std::string& text) {
  std::vector<uint8_t> out;
  const auto digit = [&](char c) -> uint8_t {
    if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<uint8_t>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') return static_cast<uint8_t>(c - 'A' + 10);
    throw nb::value_error("ev_bits_hex: not hexadecimal");
  };
  if (text.size() % 2 != 0) throw nb::value_error("ev_bits_hex: an odd number of digits");
  for (size_t i = 0; i < text.size(); i += 2)
    out.push_back(static_cast<uint8_t>(digit(text[i]) << 4 | digit(text[i + 1])));
  return out;
}

ev::FormatMode mode_from(const std::string& name) {
  if (name == "UDP") return ev::FormatMode::udp;
  if (name == "STEV") return ev::FormatMode::stev;
  if (name == "SRV6") return ev::FormatMode::srv6;
  if (name == "SRV6_SRH") return ev::FormatMode::srv6_srh;
  throw nb::value_error(("format mode: " + name).c_str());
}

ev::Fields fields_from(const std::vector<nb::dict>& list) {
  ev::Fields out;
  for (const nb::dict& d : list) {
    ev::Field f;
    DictReader r(d, "field");
    r.read("width", f.width);
    r.read("init_val", f.init_val);
    r.read("min_val", f.min_val);
    r.read("max_val", f.max_val);
    r.read("mask", f.mask);
    r.finish();
    out.push_back(f);
  }
  return out;
}

nb::dict expand(const nb::dict& d) {
  ev::FormatWidths widths;
  std::vector<nb::dict> fields;
  std::string mode = "SRV6_SRH";
  std::string hex(64, '0');  // a question about the configuration alone has no EV bits
  DictReader r(d, "expansion");
  r.read("fmt_widths", widths);
  r.read("fields", fields);
  r.read("mode", mode);
  r.read("ev_bits_hex", hex);
  r.finish();
  const std::vector<uint8_t> bits = from_hex(hex);
  const auto x = ev::expand(widths, fields_from(fields), bits, static_cast<uint32_t>(bits.size() * 8),
                            ev::max_width(mode_from(mode)));
  check(x.error(), "EV expansion: fields and format do not fit");
  nb::dict out;
  out["value"] = to_bytes(x.value().value.bytes.data(), x.value().value.bytes.size());
  out["field_values"] = x.value().field_values;
  out["ev_bits_consumed"] = x.value().consumed;
  out["expanded_width"] = x.value().width;
  return out;
}

void read_template(DictReader& r, ev::Srv6Template& t) {
  std::string address;
  if (!r.read("template", address)) throw nb::value_error("template: an IPv6 address is needed");
  t.address = mrc::bindings::parse_address(address);
  r.read("block_bits", t.block_bits);
  r.read("usid_bits", t.usid_bits);
  r.read("n_slots", t.n_slots);
  r.read("plane_bits", t.plane_bits);
  r.read("plane_shift", t.plane_shift);
  r.read("uplink_bits", t.uplink_bits);
  r.read("uplink_shift", t.uplink_shift);
  r.read("uplink_slot", t.uplink_slot);
}

nb::bytes destination(const nb::dict& d) {
  ev::Srv6Template t;
  uint32_t value = 0;
  std::string mode;
  DictReader r(d, "SRv6 template");
  read_template(r, t);
  r.read("ev", value);
  r.read("mode", mode);
  r.finish();
  const auto a = ev::srv6_destination(t, value);
  check(a.error(), "SRv6 template: bad geometry, or the EV does not fit it");
  return to_bytes(a.value().bytes.data(), a.value().bytes.size());
}

nb::object ev_of(const nb::dict& d, const std::string& address) {
  ev::Srv6Template t;
  DictReader r(d, "SRv6 template");
  read_template(r, t);
  r.finish();
  check(ev::check_template(t), "SRv6 template: bad geometry");
  const auto value = ev::srv6_ev(t, mrc::bindings::parse_address(address));
  return value ? nb::object(nb::int_(*value)) : nb::object(nb::none());
}

}  // namespace

void bind_ev(nb::module_& m) {
  m.def("ev_policies", &ev::policies, "Names of the path policies, sorted.");
  m.def("ev_expand", &expand, "expansion"_a,
        "Expands compact EV bits (reference 4.4). Members: fmt_widths, fields [{width, init_val, min_val, "
        "max_val, mask}],\n"
        "ev_bits_hex, mode. Returns {value (32 bytes), field_values, ev_bits_consumed, expanded_width}.\n"
        "OSError(E2BIG, EINVAL) by the rules of 4.4; ValueError for malformed arguments.");
  m.def("ev_srv6_destination", &destination, "template"_a,
        "The 16 bytes of the SRv6 destination of member `ev` in a template (reference 4.5). OSError(EINVAL): "
        "out of range.");
  m.def("ev_srv6_ev", &ev_of, "template"_a, "address"_a,
        "The EV that a destination of this template carries, None when it is not one. OSError(EINVAL): a bad "
        "template.");
}
