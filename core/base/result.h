// Result<T>: a value, or an errno that names why there is none. g++ 12 has no std::expected.
// For calls of the local user; bytes from the network yield drop reasons instead.
#pragma once

#include <cassert>
#include <optional>
#include <utility>

namespace mrc::base {

// 0 or a positive errno value, as the verbs calls return it.
using Errno = int;

template <typename T>
class Result {
 public:
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  static Result error(Errno e) {
    Result r;
    r.error_ = e;
    return r;
  }
  [[nodiscard]] bool ok() const { return error_ == 0; }
  [[nodiscard]] Errno error() const { return error_; }
  [[nodiscard]] const T& value() const {
    assert(ok());
    return *value_;
  }
  [[nodiscard]] T& value() {
    assert(ok());
    return *value_;
  }

 private:
  Result() = default;
  std::optional<T> value_;
  Errno error_ = 0;
};

}  // namespace mrc::base
