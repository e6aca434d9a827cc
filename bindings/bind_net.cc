// NetDriver: one engine endpoint over UDP sockets. Every call that takes the driver's lock gives the GIL away
// first; blocking waits are Python's own poll() on event_fd. Keeps lent buffers alive until their region is
// deregistered.
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>

#include "addresses.h"
#include "buffers.h"
#include "engine_attr.h"
#include "errno_error.h"
#include "net/driver.h"
#include "net_driver.h"

namespace nb = nanobind;

namespace mrc::bindings {

namespace {

using base::Instant;
using engine::Endpoint;

net::PlaneConfig plane_from(const nb::dict& d) {
  net::PlaneConfig p;
  DictReader r(d, "plane");
  r.read("address", p.address);
  r.read("udp_port", p.udp_port);
  r.read("evs", p.evs);
  r.read("force_source_ports", p.force_source_ports);
  r.read("bytes_per_second", p.bytes_per_second);
  r.read("udp_checksum", p.udp_checksum);
  r.read("gateway", p.gateway);
  r.finish();
  return p;
}

void read_loop(DictReader& r, net::DriverConfig& c) {
  std::string progress = "thread", batching = "auto";
  r.read("progress", progress);
  r.read("batching", batching);
  if (progress != "thread" && progress != "caller")
    throw nb::value_error("driver: progress is 'thread' or 'caller'");
  if (batching != "auto" && batching != "gso" && batching != "mmsg")
    throw nb::value_error("driver: batching is 'auto', 'gso' or 'mmsg'");
  c.progress = progress == "caller" ? net::Progress::caller : net::Progress::thread;
  c.batching = batching == "mmsg" ? net::Batching::single : net::Batching::runs;
  r.read("cpus", c.cpus);
  uint32_t spin_us = 0;
  if (!r.read("spin_us", spin_us)) return;
  if (spin_us > 1'000'000) throw nb::value_error("driver: spin_us is 0 to 1000000");
  c.spin = base::Duration::micros(spin_us);
}

net::DriverConfig driver_config_from(const nb::dict& d) {
  net::DriverConfig c;
  DictReader r(d, "driver");
  r.read("seed", c.engine.seed);
  r.read("p_key", c.engine.p_key);
  r.read("hop_limit", c.engine.hop_limit);
  r.read("send_timestamps", c.engine.send_timestamps);
  r.read("accept_only_known_peers", c.engine.accept_only_known_peers);
  r.read("endpoint_responses_per_second", c.engine.endpoint_responses_per_second);
  r.read("ev_probes_per_second", c.engine.ev_probes_per_second);
  r.read("rcvbuf", c.rcvbuf);
  r.read("sndbuf", c.sndbuf);
  r.read("impair_seed", c.impair_seed);
  read_loop(r, c);
  std::vector<nb::dict> planes;
  r.read("planes", planes);
  r.finish();
  for (const nb::dict& p : planes) c.planes.push_back(plane_from(p));
  return c;
}

impair::Rule rule_from(const nb::dict& d) {
  impair::Rule rule;
  DictReader r(d, "rule");
  r.read("port", rule.port);
  r.read("ev", rule.ev);
  uint8_t dir = 3;
  r.read("dir", dir);
  if (dir < 1 || dir > 3) throw nb::value_error("rule: dir is 1 (tx), 2 (rx) or 3 (both)");
  rule.dir = static_cast<impair::Dir>(dir);
  r.read("from_ns", rule.from.ns);
  r.read("until_ns", rule.until.ns);
  r.read("down", rule.down);
  r.read("drop_ppm", rule.drop_ppm);
  r.read("dup_ppm", rule.dup_ppm);
  r.read("reorder_ppm", rule.reorder_ppm);
  r.read("corrupt_ppm", rule.corrupt_ppm);
  r.read("trim_ppm", rule.trim_ppm);
  r.read("ce_ppm", rule.ce_ppm);
  r.read("delay_ns", rule.delay);
  r.read("jitter_ns", rule.jitter);
  r.read("reorder_delay_ns", rule.reorder_delay);
  r.read("rate_bps", rule.rate_bps);
  r.read("queue_bytes", rule.queue_bytes);
  r.read("ecn_bytes", rule.ecn_bytes);
  r.read("trim_on_overflow", rule.trim_on_overflow);
  r.read("control_too", rule.control_too);
  r.finish();
  return rule;
}

// (wr_id, opcode, addr, length, lkey, remote_addr, rkey, imm, signaled, solicited)
using RawSend =
    std::tuple<uint64_t, uint8_t, uint64_t, uint32_t, uint32_t, uint64_t, uint32_t, uint32_t, bool, bool>;

engine::SendWr send_wr_from(const RawSend& raw) {
  engine::SendWr wr;
  uint8_t opcode = 0;
  std::tie(wr.wr_id, opcode, wr.addr, wr.length, wr.lkey, wr.remote_addr, wr.rkey, wr.imm, wr.signaled,
           wr.solicited) = raw;
  if (opcode > 1) throw nb::value_error("opcode: 0 (write) or 1 (write with immediate)");
  wr.opcode = static_cast<reliability::WrOpcode>(opcode);
  return wr;
}

class NetDriver {
  void alive() const {
    if (getpid() != owner_) throw ErrnoError(ECHILD, "this process was forked; open a driver of its own");
    if (closed_) throw ErrnoError(EBADF, "the driver is closed");
  }
  template <typename F>
  auto without_gil(F f) {
    alive();
    const nb::gil_scoped_release nogil;
    return f();
  }
  // Runs `f(endpoint, now)` with the engine locked and the GIL free.
  template <typename F>
  auto run(F f) {
    return without_gil([&] {
      std::optional<std::invoke_result_t<F&, Endpoint&, Instant>> out;
      driver_->with([&](Endpoint& e, Instant now) { out.emplace(f(e, now)); });
      return std::move(*out);
    });
  }

 public:
  explicit NetDriver(const nb::dict& config) : owner_(getpid()) {
    const net::DriverConfig c = driver_config_from(config);
    std::string why;
    int error = 0;
    {
      const nb::gil_scoped_release nogil;
      auto opened = net::Driver::open(c, why);
      if (opened.ok()) {
        driver_ = std::move(opened.value());
      } else {
        error = opened.error();
      }
    }
    if (error != 0) throw ErrnoError(error, why);
  }

  ~NetDriver() {
    if (getpid() == owner_) {
      close();
      return;
    }
    // A forked child has neither the thread nor the right to touch the sockets: leave everything as it is.
    (void)new std::shared_ptr<net::Driver>(std::move(driver_));
    for (auto& [key, buffer] : buffers_) (void)buffer.release();
  }

  // Stops the thread, closes the sockets, lets all buffers go. Idempotent.
  void close() {
    if (getpid() != owner_) return;
    closed_ = true;
    {
      const nb::gil_scoped_release nogil;
      driver_->close();
    }
    std::map<uint32_t, std::unique_ptr<HeldBuffer>> gone;
    {
      const std::lock_guard lock(buffers_mutex_);
      gone.swap(buffers_);
    }
  }

  std::shared_ptr<net::Driver> shared() const {
    alive();
    return driver_;
  }

  // --- resources ---
  uint32_t alloc_pd() {
    return run([](Endpoint& e, Instant) { return e.alloc_pd(); });
  }
  void dealloc_pd(uint32_t pd) {
    check(run([=](Endpoint& e, Instant) { return e.dealloc_pd(pd); }), "dealloc_pd");
  }

  nb::tuple reg_mr(uint32_t pd, nb::handle object, uint32_t access, bool need_write,
                   std::optional<uint64_t> iova) {
    alive();
    auto buffer = hold_buffer(object, need_write);
    const uint64_t addr = buffer->addr, length = buffer->length, at = iova.value_or(addr);
    const auto mr = run([=](Endpoint& e, Instant) { return e.reg_mr(pd, addr, length, access, at); });
    check(mr.error(), "reg_mr");
    {
      const std::lock_guard lock(buffers_mutex_);
      buffers_[mr.value().lkey] = std::move(buffer);
    }
    return nb::make_tuple(mr.value().lkey, mr.value().rkey, addr, length, at);
  }
  void dereg_mr(uint32_t lkey) {
    check(run([=](Endpoint& e, Instant) { return e.dereg_mr(lkey); }), "dereg_mr");
    std::unique_ptr<HeldBuffer> gone;  // its release may run Python code: not under the mutex
    const std::lock_guard lock(buffers_mutex_);
    if (auto it = buffers_.find(lkey); it != buffers_.end()) {
      gone = std::move(it->second);
      buffers_.erase(it);
    }
  }

  uint32_t create_cq(uint32_t cqe) {
    const auto cq = run([=](Endpoint& e, Instant) { return e.create_cq(cqe); });
    check(cq.error(), "create_cq");
    return cq.value();
  }
  void destroy_cq(uint32_t cq) {
    check(run([=](Endpoint& e, Instant) { return e.destroy_cq(cq); }), "destroy_cq");
  }
  void req_notify_cq(uint32_t cq, bool solicited_only) {
    check(run([=](Endpoint& e, Instant) { return e.req_notify_cq(cq, solicited_only); }), "req_notify_cq");
  }
  std::vector<uint32_t> take_notified_cqs() {
    return run([](Endpoint& e, Instant) {
      std::vector<uint32_t> out;
      e.take_notified_cqs(out);
      return out;
    });
  }

  uint32_t create_qp(const nb::dict& init) {
    const engine::QpInit i = qp_init_from(init);
    const auto qpn = run([&](Endpoint& e, Instant) { return e.create_qp(i); });
    check(qpn.error(), "create_qp");
    return qpn.value();
  }
  void modify_qp(uint32_t qpn, const nb::dict& attr) {
    const engine::QpAttr a = qp_attr_from(attr);
    check(run([&](Endpoint& e, Instant now) { return e.modify_qp(now, qpn, a); }), "modify_qp");
  }
  nb::dict query_qp(uint32_t qpn) {
    const auto a = run([=](Endpoint& e, Instant) { return e.query_qp(qpn); });
    check(a.error(), "query_qp");
    return to_dict(a.value());
  }
  void destroy_qp(uint32_t qpn) {
    check(run([=](Endpoint& e, Instant now) { return e.destroy_qp(now, qpn); }), "destroy_qp");
  }
  uint32_t random_psn() {
    return run([](Endpoint& e, Instant) { return e.random_psn(); });
  }

  // --- work ---
  // Posts in order until one is refused: (how many were taken, errno of the refusal or 0).
  std::pair<size_t, int> post_send_many(uint32_t qpn, const std::vector<RawSend>& raw) {
    std::vector<engine::SendWr> wrs;
    wrs.reserve(raw.size());
    for (const RawSend& r : raw) wrs.push_back(send_wr_from(r));
    return run([&](Endpoint& e, Instant now) {
      for (size_t i = 0; i < wrs.size(); ++i) {
        if (const int error = e.post_send(now, qpn, wrs[i])) return std::pair{i, error};
      }
      return std::pair{wrs.size(), 0};
    });
  }
  std::pair<size_t, int> post_recv_many(uint32_t qpn, const std::vector<uint64_t>& ids) {
    return run([&](Endpoint& e, Instant now) {
      for (size_t i = 0; i < ids.size(); ++i) {
        if (const int error = e.post_recv(now, qpn, ids[i])) return std::pair{i, error};
      }
      return std::pair{ids.size(), 0};
    });
  }
  // [(wr_id, status, opcode, vendor_err, byte_len, imm, qpn, with_imm)]
  nb::list poll_completions(uint32_t cq, size_t max) {
    std::vector<engine::Completion> done(std::min<size_t>(max, 4096));
    done.resize(run([&](Endpoint& e, Instant) { return e.poll_completion(cq, done); }));
    nb::list out;
    for (const engine::Completion& c : done) {
      out.append(nb::make_tuple(c.wr_id, static_cast<uint8_t>(c.status), static_cast<uint8_t>(c.opcode),
                                c.vendor_err, c.byte_len, c.imm, c.qpn, c.with_imm));
    }
    return out;
  }
  nb::list poll_events(size_t max) {
    const auto events = run([=](Endpoint& e, Instant) {
      std::vector<engine::Event> out;
      engine::Event one;
      while (out.size() < max && e.poll_event(one)) out.push_back(one);
      return out;
    });
    nb::list out;
    for (const engine::Event& e : events) out.append(to_dict(e));
    return out;
  }

  // --- paths ---
  void set_port_up(uint8_t port, bool up) {
    check(run([=](Endpoint& e, Instant now) { return e.set_port_up(now, port, up); }), "set_port_up");
  }
  void set_ev_state(uint32_t qpn, uint32_t ev, uint8_t state) {
    check(run([=](Endpoint& e, Instant now) {
            return e.set_ev_state(now, qpn, ev, static_cast<ev::State>(state));
          }),
          "set_ev_state");
  }
  void replace_ev(uint32_t qpn, uint32_t ev, uint32_t with, uint8_t port) {
    check(run([=](Endpoint& e, Instant now) { return e.replace_ev(now, qpn, ev, ev::PathId{with, port}); }),
          "replace_ev");
  }
  uint16_t send_ev_probe(uint8_t local_port, const std::string& address, uint16_t udp_port, uint32_t ev,
                         uint8_t dscp) {
    const engine::PeerPort peer{local_port, parse_address(address), udp_port, local_port, nullptr};
    const auto id = run([&](Endpoint& e, Instant now) { return e.send_ev_probe(now, peer, ev, dscp); });
    check(id.error(), "send_ev_probe");
    return id.value();
  }

  // --- looking in ---
  nb::dict qp_stats(uint32_t qpn) {
    const auto s = run([=](Endpoint& e, Instant) { return e.qp_stats(qpn); });
    check(s.error(), "qp_stats");
    return to_dict(s.value());
  }
  void move_peer(uint32_t qpn, const nb::dict& attr) {
    const engine::QpAttr a = qp_attr_from(attr);
    if (!a.peer_ports || a.peer_ports->size() != 1)
      throw nb::value_error("move_peer: one entry of peer_ports");
    check(run([&](Endpoint& e, Instant now) { return e.move_peer(now, qpn, a.peer_ports->front()); }),
          "move_peer");
  }

  nb::list path_stats(uint32_t qpn) {
    const auto rows = run([=](Endpoint& e, Instant) { return e.path_stats(qpn); });
    nb::list out;
    for (const engine::PathStats& p : rows) out.append(to_dict(p));
    return out;
  }
  nb::dict stats() {
    const auto engine_stats = run([](Endpoint& e, Instant) { return e.stats(); });
    nb::dict d = to_dict(engine_stats);
    const net::DriverStats s = without_gil([this] { return driver_->stats(); });
    d["rx_datagrams"] = s.rx_datagrams;
    d["tx_datagrams"] = s.tx_datagrams;
    d["rx_bytes"] = s.rx_bytes;
    d["tx_bytes"] = s.tx_bytes;
    d["local_rx_drops"] = s.local_rx_drops;
    d["tx_would_block"] = s.tx_would_block;
    d["tx_errors"] = s.tx_errors;
    d["tx_too_big"] = s.tx_too_big;
    d["impaired_lost"] = s.impaired_lost;
    d["wakeups"] = s.wakeups;
    d["bad_source"] = s.bad_source;
    return d;
  }
  nb::list planes() {
    const auto infos = without_gil([this] { return driver_->planes(); });
    nb::list out;
    for (const net::PlaneInfo& p : infos) {
      nb::dict d;
      d["port"] = p.port;
      d["address"] = p.address;
      d["udp_port"] = p.udp_port;
      d["up"] = p.up;
      d["flow_labels"] = p.flow_labels;
      d["mtu"] = p.mtu;
      d["rcvbuf"] = p.rcvbuf_granted;
      d["sndbuf"] = p.sndbuf_granted;
      d["evs"] = nb::cast(p.tags);
      d["segments"] = p.segments;
      d["note"] = p.note;
      out.append(d);
    }
    return out;
  }
  uint64_t trace_digest() {
    return run([](Endpoint& e, Instant) { return e.trace_digest(); });
  }
  size_t qp_count() {
    return run([](Endpoint& e, Instant) { return e.qp_count(); });
  }
  void progress(int64_t max_wait_ns) {
    without_gil([=, this] {
      driver_->progress(base::Duration{max_wait_ns});
      return 0;
    });
  }
  int event_fd() const { return driver_->event_fd(); }
  void drain_event_fd() {
    without_gil([this] {
      driver_->drain_event_fd();
      return 0;
    });
  }
  int64_t now_ns() const { return driver_->now().ns; }
  std::string failure() {
    return without_gil([this] { return driver_->failure(); });
  }
  bool closed() const { return closed_; }

  // --- impairments ---
  uint64_t add_rule(const nb::dict& rule) {
    const impair::Rule r = rule_from(rule);
    return without_gil([&] { return driver_->add_rule(r); });
  }
  void clear_rules() {
    without_gil([this] {
      driver_->clear_rules();
      return 0;
    });
  }
  int64_t last_data_tx_ns(uint8_t port, std::optional<uint32_t> ev) {
    return without_gil([=, this] { return driver_->last_data_tx(port, ev.value_or(0), !ev.has_value()).ns; });
  }

 private:
  const pid_t owner_;
  std::shared_ptr<net::Driver> driver_;
  std::atomic<bool> closed_ = false;
  std::mutex buffers_mutex_;
  std::map<uint32_t, std::unique_ptr<HeldBuffer>> buffers_;  // by lkey
};

}  // namespace

std::shared_ptr<net::Driver> live_driver(nb::handle net_driver) {
  return nb::cast<const NetDriver&>(net_driver).shared();
}

}  // namespace mrc::bindings

void bind_net(nb::module_& m) {
  using D = mrc::bindings::NetDriver;
  nb::class_<D>(m, "NetDriver", "One engine endpoint over UDP sockets, with its own I/O thread.")
      .def(nb::init<const nb::dict&>(), nb::arg("config"))
      .def("close", &D::close)
      .def("progress", &D::progress, nb::arg("max_wait_ns"),
           "progress=\"caller\" only: one turn of the loop, then a sleep of at most this when there is "
           "nothing to do.")
      .def_prop_ro("closed", &D::closed)
      .def("alloc_pd", &D::alloc_pd)
      .def("dealloc_pd", &D::dealloc_pd, nb::arg("pd"))
      .def("reg_mr", &D::reg_mr, nb::arg("pd"), nb::arg("buffer"), nb::arg("access"), nb::arg("need_write"),
           nb::arg("iova") = nb::none(), "(lkey, rkey, addr, length, iova)")
      .def("dereg_mr", &D::dereg_mr, nb::arg("lkey"))
      .def("create_cq", &D::create_cq, nb::arg("cqe"))
      .def("destroy_cq", &D::destroy_cq, nb::arg("cq"))
      .def("req_notify_cq", &D::req_notify_cq, nb::arg("cq"), nb::arg("solicited_only"))
      .def("take_notified_cqs", &D::take_notified_cqs)
      .def("create_qp", &D::create_qp, nb::arg("init"))
      .def("modify_qp", &D::modify_qp, nb::arg("qpn"), nb::arg("attr"))
      .def("query_qp", &D::query_qp, nb::arg("qpn"))
      .def("destroy_qp", &D::destroy_qp, nb::arg("qpn"))
      .def("random_psn", &D::random_psn)
      .def("post_send_many", &D::post_send_many, nb::arg("qpn"), nb::arg("work"), "(posted, errno)")
      .def("post_recv_many", &D::post_recv_many, nb::arg("qpn"), nb::arg("wr_ids"), "(posted, errno)")
      .def("poll_completions", &D::poll_completions, nb::arg("cq"), nb::arg("max"),
           "[(wr_id, status, opcode, vendor_err, byte_len, imm, qpn, with_imm)]")
      .def("poll_events", &D::poll_events, nb::arg("max"))
      .def("set_port_up", &D::set_port_up, nb::arg("port"), nb::arg("up"))
      .def("set_ev_state", &D::set_ev_state, nb::arg("qpn"), nb::arg("ev"), nb::arg("state"))
      .def("replace_ev", &D::replace_ev, nb::arg("qpn"), nb::arg("ev"), nb::arg("with_ev"), nb::arg("port"))
      .def("send_ev_probe", &D::send_ev_probe, nb::arg("local_port"), nb::arg("address"), nb::arg("udp_port"),
           nb::arg("ev"), nb::arg("dscp"))
      .def("qp_stats", &D::qp_stats, nb::arg("qpn"))
      .def("move_peer", &D::move_peer, nb::arg("qpn"), nb::arg("attr"),
           "The peer's plane behind one local port has another address. `attr`: peer_ports with that one "
           "entry.")
      .def("path_stats", &D::path_stats, nb::arg("qpn"))
      .def("stats", &D::stats)
      .def("planes", &D::planes)
      .def("trace_digest", &D::trace_digest)
      .def("qp_count", &D::qp_count)
      .def("event_fd", &D::event_fd)
      .def("drain_event_fd", &D::drain_event_fd)
      .def("now_ns", &D::now_ns, "CLOCK_MONOTONIC, nanoseconds")
      .def("failure", &D::failure, "why the I/O thread stopped; empty while healthy")
      .def("add_rule", &D::add_rule, nb::arg("rule"))
      .def("clear_rules", &D::clear_rules)
      .def("last_data_tx_ns", &D::last_data_tx_ns, nb::arg("port"), nb::arg("ev") = nb::none());
}
