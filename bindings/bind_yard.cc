// Bare yardsticks for Python (core/yard): each call is one role of one measurement, takes its settings as a
// dict, runs without the GIL for a bounded time and returns a dict of figures.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <system_error>
#include <utility>

#include "engine_attr.h"
#include "errno_error.h"
#include "yard/duplex.h"
#include "yard/packet_stream.h"
#include "yard/pingpong.h"
#include "yard/placement.h"
#include "yard/stream.h"
#include "yard/uring.h"
#include "yard/uring_stream.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using mrc::bindings::DictReader;
namespace yard = mrc::yard;

using Pair = std::pair<std::string, uint16_t>;

yard::Target target_from(const nb::handle h) {
  const auto t = nb::cast<nb::tuple>(h);
  if (t.size() != 2) throw nb::value_error("an end is (address, port)");
  return {nb::cast<std::string>(t[0]), nb::cast<uint16_t>(t[1])};
}

void read_target(DictReader& r, const char* key, yard::Target& out) {
  nb::tuple t;
  if (r.read(key, t)) out = target_from(t);
}

nb::dict to_dict(const yard::Figures& f) {
  nb::dict d;
  d["bytes"] = f.bytes;
  d["datagrams"] = f.datagrams;
  d["calls"] = f.calls;
  d["refused"] = f.refused;
  d["seconds"] = f.seconds;
  d["cpu_seconds"] = f.cpu_seconds;
  return d;
}

// Runs `f` without the GIL; errors of the operating system leave as OSError with their number.
template <typename F>
auto run(F f) {
  try {
    const nb::gil_scoped_release release;
    return f();
  } catch (const std::system_error& e) {
    throw mrc::bindings::ErrnoError(e.code().value(), e.what());
  } catch (const std::invalid_argument& e) {
    throw nb::value_error(e.what());
  }
}

// Tells Python that the socket is bound, from inside a call that gave the GIL away.
std::function<void()> teller(const nb::object& ready) {
  if (ready.is_none()) return {};
  return [&ready] {
    const nb::gil_scoped_acquire acquire;
    ready();
  };
}

nb::dict run_send(const nb::dict& config) {
  yard::SendConfig c;
  DictReader r(config, "yard_send");
  nb::list to;
  r.read("to", to);
  for (const nb::handle h : to) c.to.push_back(target_from(h));
  read_target(r, "from", c.from);
  r.read("payload", c.payload);
  r.read("segments", c.segments);
  r.read("batch", c.batch);
  r.read("window", c.window);
  r.read("cold_bytes", c.cold_bytes);
  r.read("labels", c.labels);
  r.read("spin", c.spin);
  r.read("seconds", c.seconds);
  bool ring = false, zero_copy = false, frames = false;
  r.read("io_uring", ring);
  r.read("zero_copy", zero_copy);
  r.read("af_packet", frames);
  r.finish();
  return to_dict(run([&] {
    if (frames) return yard::send_stream_packet(c);
    return ring ? yard::send_stream_uring(c, zero_copy) : yard::send_stream(c);
  }));
}

nb::dict run_receive(const nb::dict& config, const nb::object& ready) {
  yard::ReceiveConfig c;
  DictReader r(config, "yard_receive");
  read_target(r, "at", c.at);
  r.read("gro", c.gro);
  r.read("batch", c.batch);
  r.read("ack_every", c.ack_every);
  r.read("cold_bytes", c.cold_bytes);
  r.read("spin", c.spin);
  r.read("warm_up", c.warm_up);
  r.read("seconds", c.seconds);
  r.read("patience", c.patience);
  bool ring = false;
  r.read("io_uring", ring);
  r.finish();
  return to_dict(run([&] {
    return ring ? yard::receive_stream_uring(c, teller(ready)) : yard::receive_stream(c, teller(ready));
  }));
}

nb::dict run_duplex(const nb::dict& config, const nb::object& ready) {
  yard::DuplexConfig c;
  DictReader r(config, "yard_duplex");
  read_target(r, "at", c.at);
  read_target(r, "to", c.to);
  r.read("payload", c.payload);
  r.read("segments", c.segments);
  r.read("window", c.window);
  r.read("cold_bytes", c.cold_bytes);
  r.read("spin", c.spin);
  r.read("warm_up", c.warm_up);
  r.read("seconds", c.seconds);
  r.read("linger", c.linger);
  r.read("patience", c.patience);
  r.finish();
  return to_dict(run([&] { return yard::run_duplex(c, teller(ready)); }));
}

nb::dict run_ping(const nb::dict& config) {
  yard::PingConfig c;
  DictReader r(config, "yard_ping");
  read_target(r, "to", c.to);
  r.read("bytes", c.bytes);
  r.read("iterations", c.iterations);
  r.read("spin", c.spin);
  r.read("seconds", c.seconds);
  r.finish();
  const yard::RoundTrips t = run([&] { return yard::measure_pings(c); });
  nb::dict d;
  d["count"] = t.count;
  d["lost"] = t.lost;
  d["min_us"] = t.min_us;
  d["p50_us"] = t.p50_us;
  d["p90_us"] = t.p90_us;
  d["p99_us"] = t.p99_us;
  d["p999_us"] = t.p999_us;
  d["max_us"] = t.max_us;
  return d;
}

nb::dict run_pong(const nb::dict& config, const nb::object& ready) {
  yard::PongConfig c;
  DictReader r(config, "yard_pong");
  read_target(r, "at", c.at);
  r.read("spin", c.spin);
  r.read("seconds", c.seconds);
  r.finish();
  nb::dict d;
  d["answers"] = run([&] { return yard::answer_pings(c, teller(ready)); });
  return d;
}

}  // namespace

void bind_yard(nb::module_& m) {
  m.def("yard_send", &run_send, "config"_a,
        "Sends {to: [(address, port)], from, payload, segments, batch, window, cold_bytes, labels, spin, "
        "seconds,\n"
        "io_uring, zero_copy, af_packet}\n"
        "as fast as it can: {bytes, datagrams, calls, refused, seconds, cpu_seconds}. OSError, ValueError.");
  m.def("yard_receive", &run_receive, "config"_a, "ready"_a = nb::none(),
        "Counts at {at: (address, port), gro, batch, ack_every, cold_bytes, spin, warm_up, seconds, "
        "patience, io_uring}.\n"
        "`ready()` is called once the socket is bound. Figures as yard_send; zero when nothing came.");
  m.def("yard_duplex", &run_duplex, "config"_a, "ready"_a = nb::none(),
        "One end of {at, to, payload, segments, window, cold_bytes, spin, warm_up, seconds, linger, "
        "patience}:\n"
        "sends and receives in one loop. Figures of what arrived here.");
  m.def("yard_ping", &run_ping, "config"_a,
        "Round trips to {to, bytes, iterations, spin, seconds}: {count, lost, min_us, p50_us .. max_us}.");
  m.def("yard_pong", &run_pong, "config"_a, "ready"_a = nb::none(),
        "Answers at {at, spin, seconds}: {answers}.");
  m.def("yard_packet_missing", &yard::packet_missing,
        "Why no AF_PACKET socket can be opened here; \"\": one can.");
  m.def("yard_uring_missing", &yard::uring_missing, "Why there is no io_uring here; \"\": there is.");
  m.def(
      "yard_core_to_core_ns",
      [](int first, int second, uint32_t tries) {
        return run([&] { return yard::core_to_core_ns(first, second, tries); });
      },
      "first"_a, "second"_a, "tries"_a = 3,
      "One-way cache line latency between two CPUs, ns, best of `tries`; 0: this process may not use both.");
}
