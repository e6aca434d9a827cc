// An engine errno on its way to Python, where it becomes OSError and, one layer up, VerbsError.
#pragma once

#include <stdexcept>
#include <string>

namespace mrc::bindings {

struct ErrnoError : std::runtime_error {
  ErrnoError(int n, const std::string& what) : std::runtime_error(what), number(n) {}
  int number;
};

inline void check(int number, const char* what) {
  if (number != 0) throw ErrnoError(number, what);
}

}  // namespace mrc::bindings
