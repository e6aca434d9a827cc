// Entropy values for Python: expansion, SRv6 templates, EV-format and EV profiles, events, names of path
// policies. Decides names of members; every rule lives in core/ev.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "addresses.h"
#include "engine_attr.h"
#include "errno_error.h"
#include "ev/event_queue.h"
#include "ev/expand.h"
#include "ev/policy.h"
#include "ev/profile.h"
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

// --- profiles
// --------------------------------------------------------------------------------------------------------

using RawEntry = std::pair<nb::bytes, uint8_t>;  // value, port

ev::EvEntry entry_from(const RawEntry& raw) {
  ev::EvEntry e;
  if (raw.first.size() > e.value.bytes.size()) throw nb::value_error("EV: more than 32 bytes");
  std::memcpy(e.value.bytes.data(), raw.first.c_str(), raw.first.size());
  e.port = raw.second;
  return e;
}
nb::tuple to_tuple(const ev::EvEntry& e) {
  return nb::make_tuple(to_bytes(e.value.bytes.data(), e.value.bytes.size()), e.port);
}

template <typename E>
void read_enum(DictReader& r, const char* key, std::optional<E>& into) {
  std::optional<uint8_t> v;
  r.read(key, v);
  if (v) into = static_cast<E>(*v);  // the store refuses values it does not know
}

ev::StoreLimits limits_from(const nb::dict& d) {
  ev::StoreLimits l;
  DictReader r(d, "limits");
  r.read("max_formats", l.max_formats);
  r.read("max_profiles", l.max_profiles);
  r.read("max_evs", l.max_evs);
  r.read("max_evs_per_profile", l.max_evs_per_profile);
  r.read("count_alignment", l.count_alignment);
  r.read("max_compact_width", l.max_compact_width);
  r.read("format_modes", l.format_modes);
  r.read("ev_modes", l.ev_modes);
  r.read("op_max_entries", l.op_max_entries);
  r.read("phy_port_mask", l.phy_port_mask);
  r.read("caps", l.caps);
  r.finish();
  return l;
}

nb::dict limits_of(const ev::ProfileStore& s) {
  const ev::StoreLimits& l = s.limits();
  nb::dict d;
  d["max_formats"] = l.max_formats;
  d["max_profiles"] = l.max_profiles;
  d["max_evs"] = l.max_evs;
  d["free_evs"] = s.free_evs();
  d["max_evs_per_profile"] = l.max_evs_per_profile;
  d["count_alignment"] = l.count_alignment;
  d["max_compact_width"] = l.max_compact_width;
  d["format_modes"] = l.format_modes;
  d["ev_modes"] = l.ev_modes;
  d["op_max_entries"] = l.op_max_entries;
  d["phy_port_mask"] = l.phy_port_mask;
  d["caps"] = l.caps;
  return d;
}

void modify_format(ev::ProfileStore& s, uint64_t id, const nb::dict& d) {
  ev::FormatModify m;
  DictReader r(d, "EV format profile");
  read_enum(r, "state", m.state);
  read_enum(r, "cur_state", m.cur_state);
  read_enum(r, "mode", m.mode);
  r.read("fields", m.fields);
  nb::dict t;
  if (r.read("address_template", t)) {
    DictReader tr(t, "address_template");
    read_template(tr, m.address_template.emplace());
    tr.finish();
  }
  r.finish();
  check(s.modify_format(id, m), "EV format profile: change refused");
}

template <typename T>
nb::object or_none(const std::optional<T>& v) {
  if constexpr (std::is_enum_v<T>)
    return v ? nb::cast(static_cast<unsigned>(*v)) : nb::none();
  else
    return v ? nb::cast(*v) : nb::none();
}

nb::dict query_format(const ev::ProfileStore& s, uint64_t id) {
  const ev::FormatAttr a = s.query_format(id);
  nb::dict d;
  d["state"] = static_cast<unsigned>(a.state);
  d["mode"] = or_none(a.mode);
  d["fields"] = or_none(a.fields);
  d["address_template"] = nb::none();
  if (a.address_template) {
    const ev::Srv6Template& t = *a.address_template;
    nb::dict o;
    o["template"] = mrc::bindings::format_address(t.address);
    o["block_bits"] = t.block_bits;
    o["usid_bits"] = t.usid_bits;
    o["n_slots"] = t.n_slots;
    o["plane_bits"] = t.plane_bits;
    o["plane_shift"] = t.plane_shift;
    o["uplink_bits"] = t.uplink_bits;
    o["uplink_shift"] = t.uplink_shift;
    o["uplink_slot"] = t.uplink_slot;
    d["address_template"] = o;
  }
  return d;
}

ev::EvBatch batch_from(const nb::dict& d) {
  ev::EvBatch b;
  DictReader r(d, "batch");
  uint8_t op = 0;
  std::vector<nb::dict> entries;
  if (!r.read("op", op)) throw nb::value_error("batch: op is needed");
  r.read("entries", entries);
  r.finish();
  b.op = static_cast<ev::EvOp>(op);
  for (const nb::dict& e : entries) {
    ev::EvOpEntry& out = b.entries.emplace_back();
    DictReader er(e, "entry");
    RawEntry raw;
    if (er.read("ev", raw)) out.ev = entry_from(raw);
    if (er.read("ev_new", raw)) out.ev_new = entry_from(raw);
    er.read("state", out.state);
    er.read("all_copies", out.all_copies);
    er.finish();
  }
  return b;
}

ev::EvModify ev_modify_from(const nb::dict& d) {
  ev::EvModify m;
  DictReader r(d, "EV profile");
  read_enum(r, "state", m.state);
  read_enum(r, "cur_state", m.cur_state);
  read_enum(r, "mode", m.mode);
  r.read("fmt_id", m.fmt_id);
  r.read("count", m.count);
  r.read("min_active", m.min_active);
  r.read("event_mask", m.event_mask);
  std::vector<nb::dict> fields;
  if (r.read("fields", fields)) m.fields = fields_from(fields);
  nb::dict batch;
  if (r.read("batch", batch)) m.batch = batch_from(batch);
  r.finish();
  return m;
}

ev::StateOf state_of_from(const nb::object& callable) {
  if (callable.is_none()) return {};
  return [callable](ev::PathId p) -> std::optional<ev::State> {
    const nb::object answer = callable(p.tag, p.port);
    if (answer.is_none()) return std::nullopt;
    return nb::cast<uint32_t>(answer) == ev::kStateAssumedBad ? ev::State::assumed_bad : ev::State::good;
  };
}

nb::dict modify_ev(ev::ProfileStore& s, uint64_t id, const nb::dict& change, const nb::object& state_of) {
  ev::EvModify m = ev_modify_from(change);
  std::vector<ev::EvEffect> effects;
  nb::dict out;
  out["errno"] = s.modify_ev(id, m, effects, state_of_from(state_of));
  nb::list told;
  for (const ev::EvEffect& e : effects) {
    told.append(nb::make_tuple(e.was.tag, e.was.port, e.now.tag, e.now.port, static_cast<unsigned>(e.state)));
  }
  out["effects"] = told;
  nb::list entries;
  if (m.batch) {
    for (const ev::EvOpEntry& e : m.batch->entries) entries.append(nb::make_tuple(to_tuple(e.ev), e.state));
  }
  out["entries"] = entries;
  out["count"] = m.batch ? m.batch->count : 0;
  return out;
}

nb::dict query_ev(const ev::ProfileStore& s, uint64_t id) {
  const ev::EvAttr a = s.query_ev(id);
  nb::dict d;
  d["state"] = static_cast<unsigned>(a.state);
  d["mode"] = or_none(a.mode);
  d["fmt_id"] = or_none(a.fmt_id);
  d["count"] = or_none(a.count);
  d["min_active"] = or_none(a.min_active);
  d["event_mask"] = or_none(a.event_mask);
  d["fields"] = nb::none();
  if (a.fields) {
    nb::list fields;
    for (const ev::Field& f : *a.fields) {
      nb::dict o;
      o["width"] = f.width;
      o["init_val"] = f.init_val;
      o["min_val"] = f.min_val;
      o["max_val"] = f.max_val;
      o["mask"] = f.mask;
      fields.append(o);
    }
    d["fields"] = fields;
  }
  d["users"] = s.users(id);
  return d;
}

nb::dict make_set(const ev::ProfileStore& s, uint64_t id, uint64_t seed, uint32_t ports) {
  const auto made = s.make_set(id, seed, ports);
  check(made.error(), "EV profile: not ONLINE, or it has no EV on these ports");
  const ev::EvSet& set = made.value();
  const auto paths = [](const std::vector<ev::PathId>& from) {
    nb::list l;
    for (const ev::PathId& p : from) l.append(nb::make_tuple(p.tag, p.port));
    return l;
  };
  const auto values = [](const std::vector<ev::EvValue>& from) {
    nb::list l;
    for (const ev::EvValue& v : from) l.append(to_bytes(v.bytes.data(), v.bytes.size()));
    return l;
  };
  nb::dict d;
  d["active"] = paths(set.active);
  d["backup"] = paths(set.backup);
  d["active_values"] = values(set.active_values);
  d["backup_values"] = values(set.backup_values);
  nb::list marks;
  for (const auto& m : set.marks) marks.append(nb::make_tuple(m.tag, static_cast<unsigned>(m.state)));
  d["marks"] = marks;
  d["min_active"] = set.min_active;
  return d;
}

void bind_profiles(nb::module_& m) {
  using Store = ev::ProfileStore;
  nb::class_<Store>(
      m, "EvProfileStore",
      "EV-format and EV profiles by id (reference 12.1 to 12.3). Enumerations are numbers of the API.")
      .def(
          "__init__", [](Store* self, const nb::dict& limits) { new (self) Store(limits_from(limits)); },
          "limits"_a = nb::dict())
      .def("limits", &limits_of, "What the device can do, and `free_evs`.")
      .def("modify_format", &modify_format, "id"_a, "change"_a,
           "Applies {cur_state, state, mode, fields, address_template} whole or not at all. OSError: EINVAL, "
           "E2BIG, EBUSY.")
      .def("query_format", &query_format, "id"_a,
           "{state, mode, fields, address_template}; a blank id is in INIT.")
      .def("modify_ev", &modify_ev, "id"_a, "change"_a, "state_of"_a = nb::none(),
           "Applies {cur_state, state, mode, fmt_id, count, min_active, event_mask, fields, batch}; batch = "
           "{op, entries\n"
           "[{ev: (bytes, port), ev_new, state, all_copies}]}. state_of(tag, port): state over the QPs, or "
           "None.\n"
           "Returns {errno (0: done), count, entries [((bytes, port), state)], effects [(was tag, was port, "
           "now tag, now\n"
           "port, state)] that QPs must hear}; the batch stops at its first error, entries before it are "
           "applied.")
      .def("query_ev", &query_ev, "id"_a,
           "All attributes, count as adjusted, and `users`; a blank id is in INIT.")
      .def(
          "hold", [](Store& s, uint64_t id) { check(s.acquire(id), "EV profile: not ONLINE"); }, "id"_a,
          "For a QP: the profile cannot leave ONLINE until release().")
      .def(
          "release", [](Store& s, uint64_t id) { check(s.release(id), "EV profile: not in use"); }, "id"_a)
      .def("make_set", &make_set, "id"_a, "seed"_a, "ports"_a,
           "The EVs of one QP over a port mask (bit N = port N): {active, backup [(tag, port)], "
           "active_values,\n"
           "backup_values [bytes], marks [(tag, state)], min_active}. OSError(EINVAL): not ONLINE, no EV on "
           "these ports.")
      .def(
          "wants_event",
          [](const Store& s, uint64_t id, uint8_t state) {
            return s.wants_event(id, static_cast<ev::State>(state));
          },
          "id"_a, "state"_a)
      .def(
          "entry_of",
          [](const Store& s, uint64_t id, uint32_t tag, uint8_t port) {
            const auto e = s.entry_of(id, ev::PathId{tag, port});
            return e ? nb::object(to_tuple(*e)) : nb::object(nb::none());
          },
          "id"_a, "tag"_a, "port"_a,
          "How the controller names a path: (bytes, port), None when it is not of this profile.")
      .def("format_ids", &Store::format_ids, "Ids that are not blank, ascending.")
      .def("ids", &Store::profile_ids, "Ids that are not blank, ascending.");
}

void bind_events(nb::module_& m) {
  nb::class_<ev::EventQueue>(m, "EvEventQueue",
                             "EV events for a controller; never overruns (reference 12.5).")
      .def(nb::init<size_t>(), "capacity"_a)
      .def(
          "push",
          [](ev::EventQueue& q, uint64_t profile, const RawEntry& e, uint32_t state) {
            q.push(ev::EvEvent{profile, entry_from(e), state, 0});
          },
          "profile_id"_a, "ev"_a, "state"_a)
      .def("note_dropped", &ev::EventQueue::note_dropped, "n"_a,
           "Count events that were lost before they came here.")
      .def(
          "poll",
          [](ev::EventQueue& q, size_t n) {
            nb::list out;
            for (std::optional<ev::EvEvent> e; out.size() < n && (e = q.poll());) {
              out.append(nb::make_tuple(e->profile_id, to_tuple(e->ev), e->state, e->drop_count));
            }
            return out;
          },
          "n"_a, "At most n of [(profile id, (bytes, port), state, events dropped before it)].")
      .def("__len__", &ev::EventQueue::size);
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
  bind_profiles(m);
  bind_events(m);
}
