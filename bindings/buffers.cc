#include "buffers.h"

#include <nanobind/ndarray.h>

#include <string>

namespace nb = nanobind;

namespace mrc::bindings {

namespace {

[[noreturn]] void refuse(const std::string& why) { throw nb::value_error(why.c_str()); }

template <typename Range>
std::string list(const Range& values, size_t n) {
  std::string out = "(";
  for (size_t i = 0; i < n; ++i) out += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return out + ")";
}

class ProtocolBuffer final : public HeldBuffer {
 public:
  explicit ProtocolBuffer(nb::handle object, bool need_write) {
    // Strides first: a buffer that is refused for them should say which they are.
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
      PyErr_Clear();
      refuse("the object's memory cannot be lent: indirect or locked");
    }
    const auto fail = [this](const std::string& why) {
      PyBuffer_Release(&view_);
      refuse(why);
    };
    if (PyBuffer_IsContiguous(&view_, 'C') == 0 && PyBuffer_IsContiguous(&view_, 'F') == 0) {
      const auto ndim = static_cast<size_t>(view_.ndim);
      fail("the buffer is not contiguous: shape " + list(view_.shape, ndim) + ", strides " +
           list(view_.strides, ndim) + " bytes; pass a contiguous copy");
    }
    if (need_write && view_.readonly != 0) fail("the buffer is read-only, but it would be written to");
    addr = reinterpret_cast<uint64_t>(view_.buf);
    length = static_cast<uint64_t>(view_.len);
    writable = view_.readonly == 0;
  }
  ~ProtocolBuffer() override { PyBuffer_Release(&view_); }
  ProtocolBuffer(const ProtocolBuffer&) = delete;
  ProtocolBuffer& operator=(const ProtocolBuffer&) = delete;

 private:
  Py_buffer view_{};
};

class DlpackBuffer final : public HeldBuffer {
 public:
  DlpackBuffer(nb::handle object, bool need_write) {
    nb::ndarray<> any;
    writable = nb::try_cast(object, any);
    nb::ndarray<nb::ro> fixed;
    if (!writable && !nb::try_cast(object, fixed))
      refuse("the object lends no memory: neither the buffer protocol nor DLPack");
    if (writable) fixed = nb::ndarray<nb::ro>(any);
    if (fixed.device_type() != nb::device::cpu::value) refuse("the array is not in CPU memory");
    if (need_write && !writable) refuse("the array is read-only, but it would be written to");
    check_layout(fixed);
    addr = reinterpret_cast<uint64_t>(fixed.data());
    length = fixed.nbytes();
    array_ = std::move(fixed);
  }

 private:
  static void check_layout(const nb::ndarray<nb::ro>& a) {
    if (a.size() == 0) return;
    int64_t expect = 1;
    std::string shape = "(", strides = "(";
    bool contiguous = true;
    for (size_t i = a.ndim(); i-- > 0;) {
      if (a.shape(i) != 1 && a.stride(i) != expect) contiguous = false;
      expect *= static_cast<int64_t>(a.shape(i));
    }
    for (size_t i = 0; i < a.ndim(); ++i) {
      const char* comma = i == 0 ? "" : ", ";
      shape += comma;
      shape += std::to_string(a.shape(i));
      strides += comma;
      strides += std::to_string(a.stride(i));
    }
    if (!contiguous)
      refuse("the array is not contiguous: shape " + shape + "), strides " + strides +
             ") elements; pass a contiguous copy");
  }
  nb::ndarray<nb::ro> array_;
};

}  // namespace

std::unique_ptr<HeldBuffer> hold_buffer(nb::handle object, bool need_write) {
  if (PyObject_CheckBuffer(object.ptr()) != 0) return std::make_unique<ProtocolBuffer>(object, need_write);
  return std::make_unique<DlpackBuffer>(object, need_write);
}

}  // namespace mrc::bindings
