// Memory lent by Python objects: the buffer protocol first, DLPack on the CPU second.
// Decides what may become a memory region (contiguous; writable if a peer or we may write) and keeps it
// alive.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

namespace mrc::bindings {

class HeldBuffer {
 public:
  virtual ~HeldBuffer() = default;  // needs the GIL
  uint64_t addr = 0, length = 0;
  bool writable = false;
};

// Throws nb::value_error with the reason: no memory, wrong device, strides, read-only.
std::unique_ptr<HeldBuffer> hold_buffer(nanobind::handle object, bool need_write);

}  // namespace mrc::bindings
