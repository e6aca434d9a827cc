// The driver inside a NetDriver, for bindings that run loops of their own over it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>

#include "net/driver.h"

namespace mrc::bindings {

// Throws nb::type_error when it is no NetDriver, and ErrnoError (EBADF, ECHILD) when that is closed or
// forked.
std::shared_ptr<net::Driver> live_driver(nanobind::handle net_driver);

}  // namespace mrc::bindings
