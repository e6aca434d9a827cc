// Collectives (core/coll) for Python: a runner on a driver, programs as tuples, jobs to wait for. Every call
// that takes the driver's lock gives the GIL away first. Buffers are held until their job is over.
#include <nanobind/stl/string.h>
#include <unistd.h>

#include <map>
#include <mutex>

#include "buffers.h"
#include "coll/reduce.h"
#include "coll_host.h"
#include "engine_attr.h"
#include "net_driver.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mrc::bindings {

namespace {

using coll::Program;

// (kind, peer, src_buf, src_off, dst_buf, dst_off, nbytes, flags, deps)
using RawStep = std::tuple<uint8_t, uint32_t, uint8_t, uint64_t, uint8_t, uint64_t, uint64_t, uint8_t,
                           std::vector<uint32_t>>;

struct PyProgram {
  std::shared_ptr<const Program> program;
};

void make_program(PyProgram* self, uint32_t dtype, uint32_t op, uint32_t ranks, uint64_t scratch_bytes,
                  const std::vector<RawStep>& steps, std::vector<uint64_t> prints,
                  std::vector<uint64_t> bases) {
  coll::ProgramSpec spec{dtype, op, ranks, scratch_bytes, {}, {}, std::move(prints), std::move(bases)};
  spec.steps.reserve(steps.size());
  spec.deps.reserve(steps.size());
  for (const RawStep& raw : steps) {
    coll::Step s;
    s.kind = static_cast<coll::Kind>(std::get<0>(raw));
    s.peer = std::get<1>(raw);
    s.src_buf = static_cast<coll::Buf>(std::get<2>(raw));
    s.src = std::get<3>(raw);
    s.dst_buf = static_cast<coll::Buf>(std::get<4>(raw));
    s.dst = std::get<5>(raw);
    s.bytes = std::get<6>(raw);
    s.flags = std::get<7>(raw);
    spec.steps.push_back(s);
    spec.deps.push_back(std::get<8>(raw));
  }
  std::string why;
  auto program = Program::compile(std::move(spec), why);
  if (program == nullptr) throw nb::value_error(("program: " + why).c_str());
  new (self) PyProgram{std::move(program)};
}

// Memory of one job: held objects, or an address somebody else answers for.
struct Lent {
  coll::Memory memory;
  std::unique_ptr<HeldBuffer> held;
};

Lent lend(const nb::handle& object, bool need_write, uint64_t need, const char* what) {
  Lent out;
  std::pair<uint64_t, uint64_t> raw;
  if (object.is_none()) {
  } else if (nb::isinstance<nb::tuple>(object)) {
    if (!nb::try_cast(object, raw))
      throw nb::type_error((std::string(what) + ": a tuple is (address, bytes)").c_str());
    out.memory = {raw.first, raw.second};
  } else {
    out.held = hold_buffer(object, need_write);
    out.memory = {out.held->addr, out.held->length};
  }
  if (out.memory.bytes < need) {
    throw nb::value_error((std::string(what) + ": the program needs " + std::to_string(need) +
                           " bytes, the buffer has " + std::to_string(out.memory.bytes))
                              .c_str());
  }
  return out;
}

const char* cause_of(const coll::Failure& f) {
  switch (f.cause) {
    case coll::Failure::Cause::mismatch:
      return "mismatch";
    case coll::Failure::Cause::protocol:
      return "protocol";
    case coll::Failure::Cause::aborted:
      return "aborted";
    case coll::Failure::Cause::closed:
      return "closed";
    case coll::Failure::Cause::lane:
      break;
  }
  switch (f.status) {
    case engine::Status::local_length_error:
      return "local_length_error";
    case engine::Status::local_protection_error:
      return "local_protection_error";
    case engine::Status::local_qp_operation_error:
      return "local_qp_operation_error";
    case engine::Status::flush_error:
      return "flush_error";
    case engine::Status::retry_exceeded:
      return "retry_exceeded";
    case engine::Status::remote_access_error:
      return "peer_gave_up";  // it has closed its memory to us
    case engine::Status::remote_invalid_request:
      return "remote_invalid_request";
    case engine::Status::remote_operation_error:
      return "remote_operation_error";
    case engine::Status::success:
      break;
  }
  return "unknown";
}

nb::object to_dict(const std::shared_ptr<const coll::Failure>& f) {
  if (f == nullptr) return nb::none();
  nb::dict d;
  d["peer"] = f->peer;
  d["status"] = cause_of(*f);
  d["job"] = f->job;
  d["ours"] = f->ours;
  d["theirs"] = f->theirs;
  d["reason"] = f->reason;
  return d;
}

// Buffers of running jobs. They are let go with the GIL held, by the next call that notices.
class Lendings {
 public:
  void keep(const std::shared_ptr<CollTask>& task, Lent a, Lent b) {
    if (a.held == nullptr && b.held == nullptr) return;
    kept_[task->id] = {task, std::move(a), std::move(b)};
  }
  void sweep() {
    if (kept_.empty()) return;
    std::vector<Kept> gone;  // letting go may run Python code that comes back here
    for (auto it = kept_.begin(); it != kept_.end();) {
      if (!it->second.task->over()) {
        ++it;
        continue;
      }
      gone.push_back(std::move(it->second));
      it = kept_.erase(it);
    }
  }
  void leak() {
    for (auto& [id, k] : kept_) {
      (void)k.a.held.release();
      (void)k.b.held.release();
    }
    kept_.clear();
  }

 private:
  struct Kept {
    std::shared_ptr<CollTask> task;
    Lent a, b;
  };
  std::map<uint64_t, Kept> kept_;
};

// What runner and jobs share. Touched with the GIL held, `host` apart.
struct Shared {
  std::shared_ptr<CollHost> host;
  Lendings lendings;
  pid_t owner = getpid();

  void alive() const {
    if (getpid() != owner) throw ErrnoError(ECHILD, "this process was forked; open a runner of its own");
  }
  template <typename F>
  auto without_gil(F f) {
    alive();
    const nb::gil_scoped_release nogil;
    return f(*host);
  }
  ~Shared() {
    // A forked child must not touch what its parent's threads may be in the middle of.
    if (getpid() != owner) (void)new std::shared_ptr<CollHost>(std::move(host));
  }
};

class PyJob {
 public:
  PyJob(std::shared_ptr<Shared> shared, std::shared_ptr<CollTask> task)
      : shared_(std::move(shared)), task_(std::move(task)) {}

  uint8_t wait(int64_t timeout_ns) {
    // In slices, so that the interpreter can take a signal (Ctrl-C) between them.
    constexpr int64_t kSlice = 100'000'000;
    int64_t left = timeout_ns;
    while (left != 0 && !task_->over()) {
      const int64_t slice = left < 0 ? kSlice : std::min(left, kSlice);
      shared_->without_gil([&](CollHost& h) { return h.wait(*task_, base::Duration{slice}); });
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      if (left > 0) left -= slice;
    }
    return status();
  }
  uint8_t status() {
    if (task_->over()) shared_->lendings.sweep();
    return static_cast<uint8_t>(task_->state());
  }
  bool done() { return status() != 0; }
  nb::object failure() const { return to_dict(task_->failure()); }
  std::vector<uint32_t> waiting_for() { return progress_now().waiting_for; }
  std::pair<uint32_t, uint32_t> progress() {
    const auto p = progress_now();
    return {p.done, p.total};
  }
  uint64_t id() const { return task_->id; }
  uint64_t bytes() const { return task_->bytes; }
  bool watch() {
    return shared_->without_gil([&](CollHost& h) { return h.watch(*task_); });
  }

 private:
  coll::Runner::Progress progress_now() {
    if (task_->over()) return {};
    return shared_->without_gil([&](CollHost& h) { return h.progress(task_->id); });
  }
  std::shared_ptr<Shared> shared_;
  std::shared_ptr<CollTask> task_;
};

class PyRunner {
  template <typename F>
  auto with(F f) {
    return shared_->without_gil([&](CollHost& h) {
      return h.with([&](coll::Runner& r, engine::Endpoint& e, base::Instant now) { return f(r, e, now); });
    });
  }

 public:
  explicit PyRunner(const nb::handle& net_driver) : shared_(std::make_shared<Shared>()) {
    auto driver = live_driver(net_driver);
    const nb::gil_scoped_release nogil;
    shared_->host = CollHost::open(driver);
  }
  ~PyRunner() {
    if (getpid() == shared_->owner) {
      close();
    } else {
      shared_->lendings.leak();
    }
  }
  void close() {
    if (getpid() != shared_->owner) return;
    shared_->without_gil([](CollHost& h) { return h.close(), 0; });
    shared_->lendings.sweep();
  }

  uint32_t pd() {
    return with([](auto& r, auto&, auto) { return r.pd(); });
  }
  uint32_t cq() {
    return with([](auto& r, auto&, auto) { return r.cq(); });
  }
  nb::dict open_lane_memory() {
    coll::RemoteMemory face;
    const auto id = with([&](coll::Runner& r, engine::Endpoint& e, base::Instant) {
      auto made = r.open_lane_memory(e);
      if (made.ok()) face = r.lane_memory(made.value());
      return made;
    });
    check(id.error(), "open_lane_memory");
    nb::dict d;
    d["memory"] = id.value();
    d["addr"] = face.addr;
    d["rkey"] = face.rkey;
    d["slots"] = face.slots;
    d["slot_bytes"] = face.slot_bytes;
    d["table"] = face.table;
    d["guard"] = face.guard;
    d["token"] = face.token;
    return d;
  }
  void close_lane_memory(uint32_t id) {
    check(with([=](auto& r, auto& e, auto) { return r.close_lane_memory(e, id); }), "close_lane_memory");
  }
  uint32_t add_lane(uint32_t qpn, uint32_t memory, const nb::dict& remote) {
    coll::RemoteMemory m;
    DictReader reader(remote, "remote");
    uint32_t its_memory = 0;
    reader.read("memory", its_memory);  // of the peer's own use
    reader.read("addr", m.addr);
    reader.read("rkey", m.rkey);
    reader.read("slots", m.slots);
    reader.read("slot_bytes", m.slot_bytes);
    reader.read("table", m.table);
    reader.read("local_pid", m.local_pid);
    reader.read("guard", m.guard);
    reader.read("token", m.token);
    reader.finish();
    const auto lane = with([&](auto& r, auto& e, auto now) { return r.add_lane(e, now, qpn, memory, m); });
    check(lane.error(), "add_lane: no such queue pair or memory, or the peer's slots differ from ours");
    return lane.value();
  }
  nb::object lane_heard_ns(uint32_t lane) {
    const base::Instant at = with([=](auto& r, auto&, auto) { return r.heard(lane); });
    return at.is_never() ? nb::none() : nb::cast(at.ns);
  }
  void close_lane(uint32_t lane) {
    check(with([=](auto& r, auto& e, auto now) { return r.close_lane(e, now, lane); }), "close_lane");
    shared_->lendings.sweep();
  }
  uint32_t new_group(const std::vector<int64_t>& lanes, uint32_t rank) {
    const auto g = with([&](auto& r, auto&, auto) { return r.new_group(lanes, rank); });
    check(g.error(), "new_group: one lane a rank, -1 for our own, each in one group only");
    return g.value();
  }
  void close_group(uint32_t group) {
    check(with([=](auto& r, auto& e, auto now) { return r.close_group(e, now, group); }), "close_group");
    shared_->lendings.sweep();
  }
  void abort(uint32_t group, const std::string& reason) {
    check(with([&](auto& r, auto& e, auto now) { return r.abort(e, now, group, reason); }), "abort");
    shared_->lendings.sweep();
  }
  PyJob submit(uint32_t group, const PyProgram& program, const nb::handle& input, const nb::handle& output,
               double factor) {
    shared_->alive();
    shared_->lendings.sweep();
    const Program& p = *program.program;
    Lent in = lend(input, false, p.input_bytes(), "input");
    Lent out = lend(output, p.writes(coll::Buf::output), p.output_bytes(), "output");
    const coll::Memory a = in.memory, b = out.memory;
    auto task =
        shared_->without_gil([&](CollHost& h) { return h.submit(group, program.program, a, b, factor); });
    shared_->lendings.keep(task, std::move(in), std::move(out));
    return {shared_, std::move(task)};
  }
  int event_fd() const { return shared_->host->event_fd(); }
  std::vector<uint64_t> take_finished() {
    shared_->alive();
    shared_->lendings.sweep();
    return shared_->host->take_finished();
  }
  nb::object failure_of(uint32_t group) {
    return to_dict(with([=](auto& r, auto&, auto) { return r.failure_of(group); }));
  }
  nb::dict stats() {
    const coll::RunnerStats s = with([](auto& r, auto&, auto) { return r.stats(); });
    nb::dict d;
    d["jobs"] = s.jobs;
    d["jobs_done"] = s.jobs_done;
    d["jobs_failed"] = s.jobs_failed;
    d["eager_tx"] = s.eager_tx;
    d["eager_rx"] = s.eager_rx;
    d["data_tx"] = s.data_tx;
    d["data_rx"] = s.data_rx;
    d["announce_tx"] = s.announce_tx;
    d["announce_rx"] = s.announce_rx;
    d["credit_tx"] = s.credit_tx;
    d["credit_rx"] = s.credit_rx;
    d["parked"] = s.parked;
    d["bytes_tx"] = s.bytes_tx;
    d["bytes_rx"] = s.bytes_rx;
    d["bytes_reduced"] = s.bytes_reduced;
    d["local_bytes"] = s.local_bytes;
    d["local_refused"] = s.local_refused;
    d["drop_late"] = s.drop_late;
    d["drop_malformed"] = s.drop_malformed;
    d["drop_stray"] = s.drop_stray;
    d["lanes_failed"] = s.lanes_failed;
    return d;
  }

 private:
  std::shared_ptr<Shared> shared_;
};

coll::DType dtype_from(uint32_t t) {
  if (t >= static_cast<uint32_t>(coll::DType::count_)) throw nb::value_error("dtype: 0 to 14");
  return static_cast<coll::DType>(t);
}

void reduce_now(uint32_t dtype, uint32_t op, const nb::handle& acc, const nb::handle& src) {
  const coll::DType t = dtype_from(dtype);
  if (op >= static_cast<uint32_t>(coll::Op::count_) || !coll::supports(t, static_cast<coll::Op>(op)))
    throw nb::value_error("the operator has no meaning for this element type");
  const auto a = hold_buffer(acc, true), s = hold_buffer(src, false);
  if (a->length != s->length || a->length % coll::size_of(t) != 0)
    throw nb::value_error("the buffers differ in length, or cut an element in two");
  const nb::gil_scoped_release nogil;
  coll::reduce(t, static_cast<coll::Op>(op), reinterpret_cast<void*>(a->addr),
               reinterpret_cast<const void*>(s->addr), a->length / coll::size_of(t));
}

void scale_now(uint32_t dtype, const nb::handle& dst, const nb::handle& src, double factor, bool divide) {
  const coll::DType t = dtype_from(dtype);
  if (!coll::scalable(t)) throw nb::value_error("only floating and complex types are scaled");
  const auto d = hold_buffer(dst, true), s = hold_buffer(src, false);
  if (d->length != s->length || d->length % coll::size_of(t) != 0)
    throw nb::value_error("the buffers differ in length, or cut an element in two");
  const nb::gil_scoped_release nogil;
  coll::scale(t, reinterpret_cast<void*>(d->addr), reinterpret_cast<const void*>(s->addr), factor, divide,
              d->length / coll::size_of(t));
}

}  // namespace
}  // namespace mrc::bindings

void bind_coll(nb::module_& m) {
  using namespace mrc::bindings;  // NOLINT(google-build-using-namespace)
  nb::class_<PyProgram>(m, "CollProgram",
                        "A collective as one rank sees it: steps with dependencies, checked.")
      .def("__init__", &make_program, nb::arg("dtype"), nb::arg("op"), nb::arg("ranks"),
           nb::arg("scratch_bytes"), nb::arg("steps"), nb::arg("prints") = std::vector<uint64_t>{},
           nb::arg("bases") = std::vector<uint64_t>{},
           "steps: [(kind, peer, src_buf, src_off, dst_buf, dst_off, nbytes, flags, deps)]")
      .def_prop_ro("input_bytes", [](const PyProgram& p) { return p.program->input_bytes(); })
      .def_prop_ro("output_bytes", [](const PyProgram& p) { return p.program->output_bytes(); });
  nb::class_<PyJob>(m, "CollJob", "One collective that was submitted.")
      .def_prop_ro("id", &PyJob::id)
      .def("wait", &PyJob::wait, nb::arg("timeout_ns"),
           "status; negative: no limit. Runs the driver's loop meanwhile.")
      .def("status", &PyJob::status, "0 pending, 1 done, 2 failed, 3 aborted")
      .def("done", &PyJob::done)
      .def("failure", &PyJob::failure, "None, or {peer, status, job, ours, theirs, reason}")
      .def("waiting_for", &PyJob::waiting_for, "ranks that have to do something first")
      .def("progress", &PyJob::progress, "(steps done, steps)")
      .def("bytes", &PyJob::bytes, "payload sent and received by this rank")
      .def("watch", &PyJob::watch, "True: its id will come from take_finished(); False: it is over");
  nb::class_<PyRunner>(m, "CollRunner", "Runs collectives within the loop of a driver.")
      .def(nb::init<const nb::handle&>(), nb::arg("driver"))
      .def("close", &PyRunner::close)
      .def_prop_ro("pd", &PyRunner::pd)
      .def_prop_ro("cq", &PyRunner::cq)
      .def_prop_ro_static("recv_depth", [](const nb::handle&) { return mrc::coll::Runner::kRecvDepth; })
      .def_prop_ro_static("eager_max", [](const nb::handle&) { return mrc::coll::kEagerMax; })
      .def_prop_ro_static("window", [](const nb::handle&) { return mrc::coll::kWindow; })
      .def_prop_ro_static(
          "local_payload", [](const nb::handle&) { return true; },
          "add_lane() knows local_pid: long messages of that process are read from its memory")
      .def("open_lane_memory", &PyRunner::open_lane_memory,
           "{memory, addr, rkey, slots, slot_bytes, table, guard, token}")
      .def("close_lane_memory", &PyRunner::close_lane_memory, nb::arg("memory"), "of which no lane was made")
      .def("add_lane", &PyRunner::add_lane, nb::arg("qpn"), nb::arg("memory"), nb::arg("remote"))
      .def("lane_heard_ns", &PyRunner::lane_heard_ns, nb::arg("lane"),
           "when its peer last acknowledged or sent anything, by the driver's clock; None: not yet")
      .def("close_lane", &PyRunner::close_lane, nb::arg("lane"),
           "its group fails; destroy the queue pair afterwards")
      .def("new_group", &PyRunner::new_group, nb::arg("lanes"), nb::arg("rank"),
           "lanes by rank, -1 for our own")
      .def("close_group", &PyRunner::close_group, nb::arg("group"), "what still runs is aborted")
      .def("abort", &PyRunner::abort, nb::arg("group"), nb::arg("reason"))
      .def("failure_of", &PyRunner::failure_of, nb::arg("group"), "as CollJob.failure()")
      .def("submit", &PyRunner::submit, nb::arg("group"), nb::arg("program"), nb::arg("input").none(),
           nb::arg("output").none(), nb::arg("factor") = 1.0,
           "buffers: objects that lend memory, (address, bytes), or None")
      .def("event_fd", &PyRunner::event_fd, "readable when a watched job is over")
      .def("take_finished", &PyRunner::take_finished, "ids of watched jobs that are over")
      .def("stats", &PyRunner::stats);
  m.def("coll_reduce", &reduce_now, nb::arg("dtype"), nb::arg("op"), nb::arg("acc"), nb::arg("src"),
        "acc = op(acc, src), element by element");
  m.def("coll_scale", &scale_now, nb::arg("dtype"), nb::arg("dst"), nb::arg("src"), nb::arg("factor"),
        nb::arg("divide") = false, "dst = src * factor, or src / factor");
}
