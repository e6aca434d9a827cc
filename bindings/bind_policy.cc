// Path policies and congestion controllers written in Python, behind the interfaces of ev/policy.h and
// cc/controller.h. Decides how calls and values cross the border; leaves names, base classes and factories to
// softmrc.sim.policies, which is asked for a new object by name: nothing of Python is kept in C++ statics.
// An exception of user code leaves the run as it is. For simulation only (in_simulation.h).
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <cerrno>
#include <map>

#include "cc/nscc_math.h"
#include "engine_attr.h"
#include "errno_error.h"
#include "ev/policy.h"
#include "in_simulation.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

namespace base = mrc::base;
namespace ev = mrc::ev;
namespace cc = mrc::cc;
using mrc::bindings::InSimulation;

constexpr const char* kModule = "softmrc.sim.policies";

// What a Python policy sees of its EVs. Valid during the call it is given to; later calls are refused.
class Slots {
 public:
  [[nodiscard]] size_t size() const { return view().size(); }
  [[nodiscard]] uint32_t tag(size_t slot) const { return at(slot).path(slot).tag; }
  [[nodiscard]] unsigned port(size_t slot) const { return at(slot).path(slot).port; }
  [[nodiscard]] bool good(size_t slot) const { return at(slot).good(slot); }
  [[nodiscard]] bool skip(size_t slot) const { return at(slot).skip(slot); }
  void clear_skip(size_t slot) const {
    const ev::SlotView& checked = at(slot);
    if (writable_ == nullptr) throw nb::value_error("clear_skip: reset() only looks");
    if (checked.skip(slot)) writable_->clear_skip(slot);
  }
  [[nodiscard]] uint32_t below(uint32_t n) const {
    if (rng_ == nullptr) gone();
    return rng_->below(n);
  }

  // Lends the view and the dice for one call.
  class Lend {
   public:
    Lend(Slots& s, const ev::SlotView* view, ev::SlotView* writable, base::Rng& rng) : slots_(s) {
      s.view_ = view;
      s.writable_ = writable;
      s.rng_ = &rng;
    }
    ~Lend() { slots_.view_ = slots_.writable_ = nullptr, slots_.rng_ = nullptr; }
    Lend(const Lend&) = delete;
    Lend& operator=(const Lend&) = delete;

   private:
    Slots& slots_;
  };

 private:
  [[noreturn]] static void gone() { throw nb::value_error("slots: used outside of the call they came with"); }
  [[nodiscard]] const ev::SlotView& view() const {
    if (view_ == nullptr) gone();
    return *view_;
  }
  [[nodiscard]] const ev::SlotView& at(size_t slot) const {
    if (slot >= view().size()) throw nb::index_error("slots: no such slot");
    return *view_;
  }
  const ev::SlotView* view_ = nullptr;
  ev::SlotView* writable_ = nullptr;
  base::Rng* rng_ = nullptr;
};

const char* name_of(ev::PathPolicy::Signal s) {
  switch (s) {
    case ev::PathPolicy::Signal::ok:
      return "ok";
    case ev::PathPolicy::Signal::ecn:
      return "ecn";
    case ev::PathPolicy::Signal::trimmed:
      return "trimmed";
    case ev::PathPolicy::Signal::lost:
      break;
  }
  return "lost";
}

class PyPolicy final : public ev::PathPolicy {
 public:
  // With the GIL.
  explicit PyPolicy(const std::string& name)
      : name_(name),
        object_(nb::module_::import_(kModule).attr("new_policy")(name)),
        next_(object_.attr("next")),
        feedback_(object_.attr("feedback")),
        slots_(nb::cast(Slots{})) {}
  ~PyPolicy() override {
    const nb::gil_scoped_acquire gil;
    for (nb::object* o : {&object_, &next_, &feedback_, &slots_}) o->reset();
  }
  PyPolicy(const PyPolicy&) = delete;
  PyPolicy& operator=(const PyPolicy&) = delete;

  void reset(const ev::SlotView& slots, base::Rng& rng) override {
    const nb::gil_scoped_acquire gil;
    const Slots::Lend lend(nb::cast<Slots&>(slots_), &slots, nullptr, rng);
    object_.attr("reset")(slots_);
  }

  std::optional<size_t> next(ev::SlotView& slots, uint32_t ports, std::optional<uint32_t> avoid,
                             base::Rng& rng) override {
    const nb::gil_scoped_acquire gil;
    const Slots::Lend lend(nb::cast<Slots&>(slots_), &slots, &slots, rng);
    const nb::object chosen = next_(slots_, ports, avoid);
    if (chosen.is_none()) return std::nullopt;
    size_t slot = 0;
    if (!nb::try_cast(chosen, slot))
      throw nb::type_error(("path policy " + name_ + ": next() returns a slot or None").c_str());
    if (slot >= slots.size())
      throw nb::value_error(("path policy " + name_ + ": next() returned slot " + std::to_string(slot) +
                             " of " + std::to_string(slots.size()))
                                .c_str());
    if ((ports & (1u << slots.path(slot).port)) == 0)
      throw nb::value_error(("path policy " + name_ + ": next() returned an EV of port " +
                             std::to_string(slots.path(slot).port) +
                             ", which is not among `ports` (bit N is port N)")
                                .c_str());
    return slot;
  }

  void feedback(size_t slot, Signal signal) override {
    const nb::gil_scoped_acquire gil;
    feedback_(slot, name_of(signal));
  }

 private:
  std::string name_;
  nb::object object_, next_, feedback_, slots_;
};

// LinkParams, and what section 7.1 derives from them with the settings given.
struct Link {
  int64_t bytes_per_second = 0, base_rtt_ns = 0, mtu = 0, window = 0, target_delay_ns = 0,
          min_base_rtt_ns = 0;
  bool trimming = false;
};

Link link_of(const cc::CcConfig& c, const cc::LinkParams& l) {
  const cc::NsccParams p = cc::derive_params(c, l);
  return {l.bytes_per_second, p.base_rtt.ns,     l.mtu,     static_cast<int64_t>(p.max_wnd),
          p.target_qdelay.ns, p.min_base_rtt.ns, l.trimming};
}

class PyController final : public cc::Controller {
 public:
  // With the GIL.
  PyController(const std::string& name, const cc::CcConfig& config, const cc::LinkParams& link,
               base::Instant now)
      : config_(config),
        object_(nb::module_::import_(kModule).attr("new_controller")(name, mrc::bindings::to_dict(config),
                                                                     link_of(config, link), now.ns)),
        can_send_(object_.attr("can_send")) {}
  ~PyController() override {
    const nb::gil_scoped_acquire gil;
    can_send_.reset();
    object_.reset();
  }
  PyController(const PyController&) = delete;
  PyController& operator=(const PyController&) = delete;

  void on_send(base::Instant now, int64_t nominal) override { call("on_send", now.ns, nominal); }
  void on_ack(const cc::AckEvent& e) override { call("on_ack", e); }
  void on_nack(const cc::NackEvent& e) override { call("on_nack", e); }
  void on_loss(const cc::LossEvent& e) override { call("on_loss", e); }
  void on_outstanding(int64_t outstanding) override { call("on_outstanding", outstanding); }
  void on_link(base::Instant now, const cc::LinkParams& link) override {
    call("on_link", now.ns, link_of(config_, link));
  }
  [[nodiscard]] bool can_send() const override {
    const nb::gil_scoped_acquire gil;
    return nb::cast<bool>(can_send_());
  }
  [[nodiscard]] bool wants_ack(int64_t nominal, int64_t peer_sack_bytes) const override {
    const nb::gil_scoped_acquire gil;
    return nb::cast<bool>(object_.attr("wants_ack")(nominal, peer_sack_bytes));
  }
  [[nodiscard]] cc::Snapshot snapshot() const override {
    const nb::gil_scoped_acquire gil;
    using Six = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t>;
    Six s;
    if (!nb::try_cast(object_.attr("snapshot")(), s))
      throw nb::type_error("controller: snapshot() returns a Snapshot, six whole numbers");
    const auto [cwnd, inflight, most, rtt, delay, target] = s;
    return {cwnd, inflight, most, base::Duration{rtt}, base::Duration{delay}, base::Duration{target}};
  }
  [[nodiscard]] std::vector<cc::NamedCounter> counters() const override {
    const nb::gil_scoped_acquire gil;
    std::vector<cc::NamedCounter> out;
    for (const auto& [key, value] : nb::cast<nb::dict>(object_.attr("counters")())) {
      const auto name = names_.try_emplace(nb::cast<std::string>(key)).first;
      out.push_back({name->first.c_str(), nb::cast<uint64_t>(value)});
    }
    return out;
  }

 private:
  template <typename... A>
  void call(const char* method, const A&... arguments) {
    const nb::gil_scoped_acquire gil;
    object_.attr(method)(arguments...);
  }

  cc::CcConfig config_;
  nb::object object_, can_send_;
  mutable std::map<std::string, char> names_;  // that counters() points to
};

const char* name_of(cc::NackKind k) {
  switch (k) {
    case cc::NackKind::trimmed:
      return "trimmed";
    case cc::NackKind::trimmed_lasthop:
      return "trimmed_lasthop";
    case cc::NackKind::other:
      break;
  }
  return "other";
}

std::optional<int64_t> ns_of(const std::optional<base::Duration>& d) {
  return d ? std::optional(d->ns) : std::nullopt;
}

void bind_events(nb::module_& m) {
  nb::class_<cc::AckEvent>(m, "SimAck", "One SACK, as a controller hears of it.")
      .def_prop_ro("now_ns", [](const cc::AckEvent& e) { return e.now.ns; })
      .def_ro("newly_bytes", &cc::AckEvent::newly_bytes, "Nominal bytes that are new; 0 for an old SACK.")
      .def_ro("ecn", &cc::AckEvent::ecn)
      .def_prop_ro("rtt_ns", [](const cc::AckEvent& e) { return ns_of(e.rtt); })
      .def_ro("rcv_cwnd_pen", &cc::AckEvent::rcv_cwnd_pen)
      .def_ro("restore_cwnd", &cc::AckEvent::restore_cwnd)
      .def_ro("spurious_bytes", &cc::AckEvent::spurious_bytes)
      .def_ro("delayed", &cc::AckEvent::delayed);
  nb::class_<cc::NackEvent>(m, "SimNack", "One NACK.")
      .def_prop_ro("now_ns", [](const cc::NackEvent& e) { return e.now.ns; })
      .def_ro("nominal", &cc::NackEvent::nominal, "Bytes that leave what is in flight.")
      .def_prop_ro(
          "kind", [](const cc::NackEvent& e) { return name_of(e.kind); }, "trimmed, trimmed_lasthop, other.")
      .def_prop_ro("rtt_ns", [](const cc::NackEvent& e) { return ns_of(e.rtt); });
  nb::class_<cc::LossEvent>(m, "SimLoss", "One transmission that was lost.")
      .def_prop_ro("now_ns", [](const cc::LossEvent& e) { return e.now.ns; })
      .def_ro("nominal", &cc::LossEvent::nominal, "Bytes that leave what is in flight.")
      .def_ro("timeout", &cc::LossEvent::timeout)
      .def_ro("failure", &cc::LossEvent::failure, "Its plane is silent: no sign of congestion.");
  nb::class_<Link>(m, "SimLink", "What a QP's planes are like, and defaults derived from it (reference 7.1).")
      .def_ro("bytes_per_second", &Link::bytes_per_second)
      .def_ro("base_rtt_ns", &Link::base_rtt_ns)
      .def_ro("mtu", &Link::mtu, "Nominal bytes of a full packet.")
      .def_ro("trimming", &Link::trimming)
      .def_ro("window", &Link::window, "Largest window.")
      .def_ro("target_delay_ns", &Link::target_delay_ns)
      .def_ro("min_base_rtt_ns", &Link::min_base_rtt_ns, "Floor of a measured base RTT.");
}

void bind_slots(nb::module_& m) {
  nb::class_<Slots>(m, "SimSlots", "The EVs of a QP in use, while a path policy is asked.")
      .def("__len__", &Slots::size)
      .def("tag", &Slots::tag, "slot"_a, "EV of the slot.")
      .def("port", &Slots::port, "slot"_a, "Plane of the slot, from 1.")
      .def("good", &Slots::good, "slot"_a)
      .def("skip", &Slots::skip, "slot"_a, "It was marked or trimmed, and is to be passed over once.")
      .def("clear_skip", &Slots::clear_skip, "slot"_a, "It has been passed over.")
      .def("below", &Slots::below, "n"_a, "A number of 0 to n - 1 from the run's own dice.");
}

}  // namespace

void bind_policy(nb::module_& m) {
  bind_slots(m);
  bind_events(m);
  m.def(
      "register_policy",
      [](const std::string& name) {
        const ev::PolicyFactory make = [name]() -> std::unique_ptr<ev::PathPolicy> {
          if (!InSimulation::here()) return nullptr;
          const nb::gil_scoped_acquire gil;
          return std::make_unique<PyPolicy>(name);
        };
        mrc::bindings::check(ev::register_policy(name, make), "path policy: the name is taken");
      },
      "name"_a, "Makes softmrc.sim.policies.new_policy(name) a path policy. OSError: EEXIST.");
  m.def(
      "register_controller",
      [](const std::string& name) {
        const cc::Factory make = [name](const cc::CcConfig& c, const cc::LinkParams& l,
                                        base::Instant now) -> std::unique_ptr<cc::Controller> {
          if (!InSimulation::here()) return nullptr;
          const nb::gil_scoped_acquire gil;
          return std::make_unique<PyController>(name, c, l, now);
        };
        mrc::bindings::check(cc::register_controller(name, make), "controller: the name is taken");
      },
      "name"_a, "Makes softmrc.sim.policies.new_controller(name, ...) a controller. OSError: EEXIST.");
}
