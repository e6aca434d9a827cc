// Text forms of addresses at the border to Python.
#pragma once

#include <string>

#include "base/ip_addr.h"

namespace mrc::bindings {

// IPv4 or IPv6 text, a scope ("%eth1") is cut off: the plane's socket knows it. Throws std::invalid_argument.
base::IpAddr parse_address(const std::string& text);
std::string format_address(const base::IpAddr& a);

}  // namespace mrc::bindings
