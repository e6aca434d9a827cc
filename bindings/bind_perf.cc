// Traffic for measuring (core/perf) for Python: settings and results are dicts, and run() works without the
// GIL for as long as it was told. Memory is given as buffers, which are held as long as the object lives.
#include <atomic>
#include <cerrno>

#include "buffers.h"
#include "engine_attr.h"
#include "errno_error.h"
#include "net_driver.h"
#include "perf/ping_pong.h"
#include "perf/pump.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mrc::bindings {

namespace {

using base::Duration;
using perf::Histogram;

nb::dict to_dict(const Histogram& h) {
  nb::dict d;
  d["count"] = h.count();
  d["mean_ns"] = h.mean();
  d["min_ns"] = h.min();
  d["p50_ns"] = h.quantile(0.5);
  d["p90_ns"] = h.quantile(0.9);
  d["p99_ns"] = h.quantile(0.99);
  d["p999_ns"] = h.quantile(0.999);
  d["max_ns"] = h.max();
  return d;
}

nb::dict to_dict(const perf::Timeline& t) {
  nb::dict d;
  d["start_ns"] = t.started_at().ns;
  d["width_ns"] = t.width().ns;
  d["bytes"] = nb::cast(t.bins());
  d["rest"] = t.rest();
  return d;
}

// Work requests read and write these addresses: nothing else may be given.
perf::Window window_of(const HeldBuffer& b) { return {b.addr, b.length}; }

// What both kinds of traffic need: the driver, the memory, and one caller at a time.
class Traffic {
 public:
  Traffic(const nb::handle& net_driver, const nb::handle& source, const nb::handle& landing)
      : net_driver_(nb::borrow<nb::object>(net_driver)),
        driver_(live_driver(net_driver)),
        source_(hold_buffer(source, true)),
        landing_(landing.is_valid() ? hold_buffer(landing, true) : nullptr) {}

 protected:
  class Claim {
   public:
    explicit Claim(const Traffic& t) : busy_(t.busy_) {
      if (busy_.exchange(true)) throw nb::value_error("another thread is in this object");
    }
    ~Claim() { busy_ = false; }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;

   private:
    std::atomic<bool>& busy_;
  };
  template <typename F>
  auto alone(F f) {
    (void)live_driver(net_driver_);
    const Claim claim(*this);
    const nb::gil_scoped_release nogil;
    return f();
  }

  nb::object net_driver_;
  std::shared_ptr<net::Driver> driver_;
  std::unique_ptr<HeldBuffer> source_, landing_;
  mutable std::atomic<bool> busy_ = false;
};

class PerfPump : public Traffic {
 public:
  PerfPump(const nb::handle& net_driver, const nb::dict& config, const nb::handle& source)
      : Traffic(net_driver, source, {}), pump_(*driver_, config_from(config, *source_)) {}

  void start(const nb::dict& job) {
    const perf::Job j = job_from(job);
    check(alone([&] { return pump_.start(j); }), "start");
  }
  void start_passive() {
    alone([&] { return pump_.start_passive(), 0; });
  }
  bool run(int64_t most_ns) {
    return alone([&] { return pump_.run(Duration{most_ns}); });
  }
  void rest(int64_t most_ns) {
    alone([&] { return pump_.rest(Duration{most_ns}), 0; });
  }
  void stop() {
    alone([&] { return pump_.stop(), 0; });
  }
  nb::dict result() const {
    const Claim claim(*this);
    const perf::PumpResult& r = pump_.result();
    nb::dict d;
    d["from_ns"] = r.from.ns;
    d["to_ns"] = r.to.ns;
    d["bytes"] = r.bytes;
    d["messages"] = r.messages;
    d["posted"] = r.posted;
    d["errors"] = r.errors;
    d["first_error"] = static_cast<uint8_t>(r.first_error);
    d["received"] = r.received;
    d["in_flight"] = pump_.in_flight();
    d["qp_bytes"] = nb::cast(r.qp_bytes);
    d["latency"] = to_dict(pump_.latency());
    return d;
  }
  nb::dict sent() const {
    const Claim claim(*this);
    return to_dict(pump_.sent());
  }
  nb::dict arrived() const {
    const Claim claim(*this);
    return to_dict(pump_.arrived());
  }

 private:
  static perf::PumpConfig config_from(const nb::dict& d, const HeldBuffer& source) {
    perf::PumpConfig c;
    DictReader r(d, "pump");
    r.read("cq", c.cq);
    r.read("qpns", c.qpns);
    r.read("lkey", c.lkey);
    r.read("rkey", c.rkey);
    r.read("target_addr", c.target.addr);
    r.read("target_length", c.target.length);
    r.read("recv_depth", c.recv_depth);
    r.read("own_thread", c.own_thread);
    r.read("watch", c.watch);
    r.read("bin_ns", c.bin);
    r.finish();
    if (c.bin.ns < 100'000) throw nb::value_error("pump: bin_ns is 100,000 at least");
    c.source = window_of(source);
    return c;
  }
  static perf::Job job_from(const nb::dict& d) {
    perf::Job j;
    bool imm = false;
    DictReader r(d, "job");
    r.read("imm", imm);
    r.read("size", j.size);
    r.read("depth", j.depth);
    r.read("iters", j.iters);
    r.read("duration_ns", j.duration);
    r.read("region", j.region);
    r.finish();
    if (imm) j.op = reliability::WrOpcode::rdma_write_imm;
    return j;
  }

  perf::Pump pump_;
};

class PerfPingPong : public Traffic {
 public:
  PerfPingPong(const nb::handle& net_driver, const nb::dict& config, const nb::handle& source,
               const nb::handle& landing)
      : Traffic(net_driver, source, landing), game_(*driver_, config_from(config, *source_, *landing_)) {}

  void start(const nb::dict& rally) {
    perf::Rally y;
    DictReader r(rally, "rally");
    r.read("size", y.size);
    r.read("imm", y.imm);
    r.read("serve", y.serve);
    r.read("iters", y.iters);
    r.read("duration_ns", y.duration);
    r.read("warm_up", y.warm_up);
    r.finish();
    if (y.size > source_->length || y.size > landing_->length)
      throw nb::value_error("rally: size exceeds the memory");
    check(alone([&] { return game_.start(y); }), "start");
  }
  bool run(int64_t most_ns) {
    return alone([&] { return game_.run(Duration{most_ns}); });
  }
  void rest(int64_t most_ns) {
    alone([&] { return game_.rest(Duration{most_ns}), 0; });
  }
  void stop() {
    alone([&] { return game_.stop(), 0; });
  }
  nb::dict result() const {
    const Claim claim(*this);
    nb::dict d;
    d["from_ns"] = game_.from().ns;
    d["to_ns"] = game_.to().ns;
    d["answered"] = game_.answered();
    d["errors"] = game_.errors();
    d["first_error"] = static_cast<uint8_t>(game_.first_error());
    d["round_trip"] = to_dict(game_.round_trip());
    return d;
  }

 private:
  static perf::PingPongConfig config_from(const nb::dict& d, const HeldBuffer& source,
                                          const HeldBuffer& landing) {
    perf::PingPongConfig c;
    DictReader r(d, "ping-pong");
    r.read("cq", c.cq);
    r.read("qpn", c.qpn);
    r.read("lkey", c.lkey);
    r.read("rkey", c.rkey);
    r.read("target_addr", c.target);
    r.read("recv_depth", c.recv_depth);
    r.read("own_thread", c.own_thread);
    r.finish();
    c.source = source.addr;
    c.landing = reinterpret_cast<const uint8_t*>(landing.addr);
    return c;
  }

  perf::PingPong game_;
};

}  // namespace
}  // namespace mrc::bindings

void bind_perf(nb::module_& m) {
  using mrc::bindings::PerfPingPong;
  using mrc::bindings::PerfPump;
  using mrc::perf::Histogram;
  nb::class_<PerfPump>(m, "PerfPump", "Keeps work requests in flight on many queue pairs, and counts.")
      .def(nb::init<const nb::handle&, const nb::dict&, const nb::handle&>(), nb::arg("driver"),
           nb::arg("config"), nb::arg("source"),
           "config: {cq, qpns, lkey, rkey, target_addr, target_length, recv_depth, own_thread, watch, "
           "bin_ns}")
      .def("start", &PerfPump::start, nb::arg("job"), "job: {imm, size, depth, iters, duration_ns, region}")
      .def("start_passive", &PerfPump::start_passive, "only count what arrives")
      .def("run", &PerfPump::run, nb::arg("most_ns"), "True when the job is done and nothing is in flight")
      .def("rest", &PerfPump::rest, nb::arg("most_ns"), "drive the transport between jobs")
      .def("stop", &PerfPump::stop, "post no more")
      .def("result", &PerfPump::result)
      .def("sent", &PerfPump::sent, "{start_ns, width_ns, bytes, rest}: completed, by time")
      .def("arrived", &PerfPump::arrived, "{start_ns, width_ns, bytes, rest}: placed by the peer, by time");
  nb::class_<PerfPingPong>(m, "PerfPingPong", "One message there, one back.")
      .def(nb::init<const nb::handle&, const nb::dict&, const nb::handle&, const nb::handle&>(),
           nb::arg("driver"), nb::arg("config"), nb::arg("source"), nb::arg("landing"),
           "config: {cq, qpn, lkey, rkey, target_addr, recv_depth, own_thread}")
      .def("start", &PerfPingPong::start, nb::arg("rally"),
           "rally: {size, imm, serve, iters, duration_ns, warm_up}; the first landing bytes must be 0")
      .def("run", &PerfPingPong::run, nb::arg("most_ns"), "True when the round trips are done")
      .def("rest", &PerfPingPong::rest, nb::arg("most_ns"), "drive the transport between rallies")
      .def("stop", &PerfPingPong::stop)
      .def("result", &PerfPingPong::result);
  nb::class_<Histogram>(m, "PerfHistogram", "Values in fixed memory; quantiles are right to 1/256.")
      .def(nb::init<>())
      .def(
          "record_many",
          [](Histogram& h, const std::vector<int64_t>& values) {
            for (const int64_t v : values) h.record(v);
          },
          nb::arg("values"))
      .def("quantile", &Histogram::quantile, nb::arg("q"))
      .def_prop_ro("count", &Histogram::count)
      .def_prop_ro("min", &Histogram::min)
      .def_prop_ro("max", &Histogram::max)
      .def_prop_ro("mean", &Histogram::mean);
}
