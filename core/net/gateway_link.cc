#include "net/gateway_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "net/clock.h"
#include "wire/gateway.h"

namespace mrc::net {

using wire::GatewayMessage;
using wire::GatewayVerb;

namespace {

constexpr int kTries = 10, kTryMs = 100;
// Longer than any queue takes: a message that says more is not believed.
constexpr int64_t kMaxPauseNs = 50'000'000;

std::optional<SockAddr> parse_where(const std::string& where) {
  const size_t colon = where.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string why;
  const auto host = parse_address(where.substr(0, colon), why);
  const unsigned long port = std::strtoul(where.c_str() + colon + 1, nullptr, 10);
  if (!host || !host->v4() || port == 0 || port > 65'535) return std::nullopt;
  return to_sockaddr(host->ip, static_cast<uint16_t>(port), 0);
}

// The answer to the bind with that cookie; nothing: none came in time, or the switch is not there.
std::optional<GatewayMessage> ask(int fd, const GatewayMessage& m) {
  std::array<uint8_t, wire::kGatewayMessageBytes> out{};
  wire::emit_gateway_message(m, out.data());
  for (int i = 0; i < kTries; ++i) {
    if (send(fd, out.data(), out.size(), MSG_NOSIGNAL) < 0 && errno == ECONNREFUSED) return std::nullopt;
    pollfd p{fd, POLLIN, 0};
    while (poll(&p, 1, kTryMs) == 1) {
      std::array<uint8_t, wire::kGatewayMessageBytes + 1> in;
      const ssize_t n = recv(fd, in.data(), in.size(), 0);
      if (n < 0 && errno == ECONNREFUSED) return std::nullopt;
      GatewayMessage got;
      if (n > 0 && wire::parse_gateway_message({in.data(), static_cast<size_t>(n)}, got) &&
          got.cookie == m.cookie)
        return got;
    }
  }
  return std::nullopt;
}

}  // namespace

int GatewayLink::open(int fd, const std::string& where, const HostAddress& plane, uint16_t udp_port,
                      std::string& why) {
  const auto gateway = parse_where(where);
  if (!gateway || plane.v4()) {
    why = "a gateway is written like 127.0.0.1:4000 and carries IPv6 planes; not '" + where + "' for " +
          to_text(plane);
    return EINVAL;
  }
  if (connect(fd, gateway->get(), gateway->length) != 0) {
    const int e = errno;
    why = "cannot reach the switch at " + where + ": " + std::strerror(e);
    return e;
  }
  GatewayMessage m;
  m.verb = GatewayVerb::bind;
  m.udp_port = udp_port;
  m.cookie = static_cast<uint64_t>(monotonic_now().ns);
  m.address = plane.ip;
  const auto got = ask(fd, m);
  if (!got) {
    why = "no switch answers at " + where + "; is the lab up (softmrc lab status)?";
    return ENETUNREACH;
  }
  if (got->verb != GatewayVerb::bound) {
    const int e = got->value != 0 && got->value < 4096 ? static_cast<int>(got->value) : EPROTO;
    why = "the switch does not bind " + to_text(plane) + " port " + std::to_string(udp_port) + ": " +
          std::strerror(e);
    if (e == EADDRINUSE) why += "; another process of this host owns it: choose another UDP port";
    if (e == EADDRNOTAVAIL) why += "; that address belongs to another host of the fabric";
    return e;
  }
  udp_port_ = got->udp_port;
  mtu_ = got->mtu;
  up_ = got->up;
  return 0;
}

void GatewayLink::message(base::ByteView bytes, base::Instant now) {
  GatewayMessage m;
  if (!wire::parse_gateway_message(bytes, m)) return;
  if (m.verb == GatewayVerb::link) up_ = m.up;
  if (m.verb == GatewayVerb::pause)
    paused_until_ = now + base::Duration{std::min<int64_t>(m.value, kMaxPauseNs)};
}

}  // namespace mrc::net
