// Whether this thread is inside a run of the simulator: policies and controllers written in Python work
// nowhere else. The driver's thread must never wait for the interpreter, nor meet its exceptions.
#pragma once

namespace mrc::bindings {

class InSimulation {
 public:
  InSimulation() { ++depth(); }
  ~InSimulation() { --depth(); }
  InSimulation(const InSimulation&) = delete;
  InSimulation& operator=(const InSimulation&) = delete;
  static bool here() { return depth() > 0; }

 private:
  static int& depth() {
    thread_local int n = 0;
    return n;
  }
};

}  // namespace mrc::bindings
