// softmrc._core: the engine and its drivers for Python. Few, coarse calls; the Python rooms give them their
// names.
#include <nanobind/nanobind.h>

#include "errno_error.h"

namespace nb = nanobind;

void bind_host(nb::module_& m);
void bind_net(nb::module_& m);
void bind_wire(nb::module_& m);
void bind_ev(nb::module_& m);
void bind_cc(nb::module_& m);
void bind_coll(nb::module_& m);
void bind_perf(nb::module_& m);
void bind_policy(nb::module_& m);
void bind_sim(nb::module_& m);
void bind_softswitch(nb::module_& m);
void bind_yard(nb::module_& m);
#ifdef SOFTMRC_WITH_TESTING
void bind_testing(nb::module_& m);
#endif

namespace {

void translate(const std::exception_ptr& p, void*) {
  try {
    std::rethrow_exception(p);
  } catch (const mrc::bindings::ErrnoError& e) {
    PyObject* args = Py_BuildValue("(is)", e.number, e.what());
    if (args == nullptr) return;
    PyErr_SetObject(PyExc_OSError, args);
    Py_DECREF(args);
  }
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "The softmrc engine, its UDP driver and its wire codec.";
  nb::set_leak_warnings(true);  // a report at exit fails the test run
  nb::register_exception_translator(translate);
  // A forked child keeps its parent's objects for ever, on purpose.
  m.def("set_leak_warnings", [](bool on) { nb::set_leak_warnings(on); }, nb::arg("on"));
  bind_wire(m);
  bind_ev(m);
  bind_cc(m);
  bind_host(m);
  bind_net(m);
  bind_perf(m);
  bind_coll(m);
  bind_yard(m);
  bind_sim(m);
  bind_policy(m);
  bind_softswitch(m);
#ifdef SOFTMRC_WITH_TESTING
  bind_testing(m);
#endif
}
