#include "addresses.h"

#include <arpa/inet.h>

#include <algorithm>
#include <stdexcept>

namespace mrc::bindings {

base::IpAddr parse_address(const std::string& text) {
  const std::string bare = text.substr(0, text.find('%'));
  base::IpAddr a;
  if (inet_pton(AF_INET6, bare.c_str(), a.bytes.data()) == 1) return a;
  uint8_t v4[4];
  if (inet_pton(AF_INET, bare.c_str(), v4) == 1) return base::IpAddr::v4(v4[0], v4[1], v4[2], v4[3]);
  throw std::invalid_argument("not an IP address: '" + text + "'");
}

std::string format_address(const base::IpAddr& a) {
  char text[INET6_ADDRSTRLEN] = {};
  if (a.is_v4()) {
    inet_ntop(AF_INET, a.bytes.data() + 12, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, a.bytes.data(), text, sizeof text);
  }
  return text;
}

}  // namespace mrc::bindings
