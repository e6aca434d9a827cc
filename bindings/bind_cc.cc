// Congestion control for Python: one controller run over a list of events, the names there are, and CC
// profiles. A whole sequence is one call; the differential test compares it with a plain transcription of
// reference 7.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cerrno>

#include "cc/controller.h"
#include "cc/profile.h"
#include "engine_attr.h"
#include "errno_error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using mrc::base::Duration;
using mrc::base::Instant;
namespace cc = mrc::cc;

cc::LinkParams link_from(const nb::dict& d) {
  cc::LinkParams l;
  mrc::bindings::DictReader r(d, "link");
  r.read("bytes_per_second", l.bytes_per_second);
  r.read("base_rtt_ns", l.base_rtt);
  r.read("mtu", l.mtu);
  r.read("trimming", l.trimming);
  r.finish();
  return l;
}

cc::NackKind kind_from(const std::string& name) {
  if (name == "trimmed") return cc::NackKind::trimmed;
  if (name == "trimmed_lasthop") return cc::NackKind::trimmed_lasthop;
  if (name == "other") return cc::NackKind::other;
  throw nb::value_error(("nack kind: " + name).c_str());
}

// Every event says what it is in "event"; times are ns since the start of the sequence.
void apply(cc::Controller& c, const nb::dict& d) {
  mrc::bindings::DictReader r(d, "event");
  std::string what;
  Instant now;
  int64_t bytes = 0;
  std::optional<Duration> rtt;
  r.read("event", what);
  r.read("now_ns", now.ns);
  if (what == "send") {
    r.read("nominal", bytes);
    c.on_send(now, bytes);
  } else if (what == "ack") {
    cc::AckEvent e;
    e.now = now;
    r.read("newly", e.newly_bytes);
    r.read("ecn", e.ecn);
    r.read("rtt_ns", e.rtt);
    r.read("pen", e.rcv_cwnd_pen);
    r.read("restore", e.restore_cwnd);
    c.on_ack(e);
  } else if (what == "nack") {
    std::string kind = "other";
    r.read("nominal", bytes);
    r.read("rtt_ns", rtt);
    r.read("kind", kind);
    c.on_nack(cc::NackEvent{now, bytes, kind_from(kind), rtt});
  } else if (what == "loss") {
    cc::LossEvent e;
    e.now = now;
    r.read("nominal", e.nominal);
    r.read("timeout", e.timeout);
    c.on_loss(e);
  } else if (what == "outstanding") {
    r.read("bytes", bytes);
    c.on_outstanding(bytes);
  } else if (what == "link") {
    nb::dict link;
    r.read("link", link);
    c.on_link(now, link_from(link));
  } else {
    throw nb::value_error(("event: " + what).c_str());
  }
  r.finish();
}

nb::tuple run(const std::string& algorithm, const nb::dict& config, const nb::dict& link,
              const nb::list& events) {
  auto made =
      cc::make_controller(algorithm, mrc::bindings::cc_config_from(config), link_from(link), Instant{});
  mrc::bindings::check(made.error(), "congestion control: algorithm, settings or link");
  cc::Controller& c = *made.value();
  nb::list trace;
  for (const nb::handle h : events) {
    apply(c, nb::cast<nb::dict>(h));
    const cc::Snapshot s = c.snapshot();
    trace.append(nb::make_tuple(s.cwnd, s.inflight, s.max_wnd));
  }
  nb::dict counters;
  for (const cc::NamedCounter& n : c.counters()) counters[n.name] = n.value;
  return nb::make_tuple(trace, counters);
}

// Members as in cc::CcProfileChange; states by their API numbers. algorithm "" is the API's NULL.
cc::CcProfileChange change_from(const nb::dict& d) {
  cc::CcProfileChange c;
  mrc::bindings::DictReader r(d, "CC profile");
  const auto state = [&r](const char* key) -> std::optional<mrc::base::ProfileState> {
    uint8_t v = 0;
    if (!r.read(key, v)) return std::nullopt;
    if (v > 2) throw mrc::bindings::ErrnoError(EINVAL, "CC profile: no such state");
    return static_cast<mrc::base::ProfileState>(v);
  };
  c.cur_state = state("cur_state");
  c.state = state("state");
  r.read("algorithm", c.algorithm);
  nb::dict config;
  if (r.read("config", config)) c.config = mrc::bindings::cc_config_from(config);
  r.finish();
  return c;
}

nb::dict to_dict(const cc::CcProfile& p) {
  nb::dict d;
  d["state"] = static_cast<unsigned>(p.state);
  d["algorithm"] = p.algorithm ? nb::cast(*p.algorithm) : nb::none();
  d["config"] = p.config ? nb::object(mrc::bindings::to_dict(*p.config)) : nb::none();
  d["users"] = p.users;
  return d;
}

void bind_profiles(nb::module_& m) {
  using Store = cc::CcProfileStore;
  nb::class_<Store>(m, "CcProfileStore", "CC profiles by id; reference 12.2.")
      .def(
          "__init__",
          [](Store* self, size_t max_profiles, bool modify_online) {
            new (self) Store(cc::CcProfileLimits{max_profiles, modify_online});
          },
          "max_profiles"_a = cc::CcProfileLimits{}.max_profiles,
          "modify_online"_a = cc::CcProfileLimits{}.modify_online)
      .def(
          "modify",
          [](Store& s, uint64_t id, const nb::dict& change) {
            mrc::bindings::check(s.modify(id, change_from(change)), "CC profile: change refused");
          },
          "id"_a, "change"_a,
          "Applies {cur_state, state, algorithm, config} whole or not at all.\n"
          "OSError: EINVAL for what the state or the settings do not allow, EBUSY while QPs hold it.")
      .def(
          "query", [](const Store& s, uint64_t id) { return to_dict(s.query(id)); }, "id"_a,
          "{state, algorithm, config, users}; a blank id is in INIT.")
      .def(
          "hold",
          [](Store& s, uint64_t id) {
            const auto held = s.hold(id);
            mrc::bindings::check(held.error(), "CC profile: not ONLINE");
            return to_dict(held.value());
          },
          "id"_a, "For a QP: the profile, which then cannot leave ONLINE until release().")
      .def("release", &Store::release, "id"_a)
      .def("ids", &Store::ids, "Ids that are not blank, ascending.");
}

}  // namespace

void bind_cc(nb::module_& m) {
  m.def("cc_algorithms", &cc::algorithms, "Names of the congestion control algorithms, sorted.");
  m.def("cc_run", &run, "algorithm"_a, "config"_a, "link"_a, "events"_a,
        "Runs one controller over events: ([(cwnd, inflight, max_wnd) after each], {branch: count}).\n"
        "Bytes and ns. OSError(EINVAL) for an unknown algorithm or settings out of range; ValueError for a "
        "bad event.");
  m.def(
      "cc_check_config",
      [](const std::string& algorithm, const nb::dict& config) {
        mrc::bindings::check(cc::check_config(algorithm, mrc::bindings::cc_config_from(config)),
                             "congestion control: algorithm or settings");
      },
      "algorithm"_a, "config"_a, "Raises OSError(EINVAL) for what cc_run would refuse.");
  bind_profiles(m);
}
