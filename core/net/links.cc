// Links and addresses that come and go under the planes of a driver: who is up, and where a plane lives now.
#include <sys/epoll.h>

#include "net/driver_impl.h"

namespace mrc::net {

using base::Instant;

void Driver::Impl::check_links(Instant now) {
  for (size_t i = 0; i < planes.size(); ++i) {
    if (planes[i].gateway()) follow_gateway(i, now);
    if (plane_nic[i].empty()) continue;
    auto nic = interface_of(planes[i].address());
    bool up = nic && nic->up && bindable(planes[i].address());
    if (!nic && move_plane(i, now)) up = true;
    if (up == plane_up[i]) continue;
    // The sockets stay as they are: bound to an address, they work again as soon as it is back.
    plane_up[i] = up;
    endpoint.set_port_up(now, static_cast<uint8_t>(i + 1), up);
  }
}

void Driver::Impl::follow_gateway(size_t i, Instant now) {
  const bool up = planes[i].gateway()->up();
  if (up == plane_up[i]) return;
  plane_up[i] = up;
  endpoint.set_port_up(now, static_cast<uint8_t>(i + 1), up);
}

// The interface is there and has another address instead (B02). EVs stay what they are: a source port that is
// not open at the new address is opened when it is first used.
bool Driver::Impl::move_plane(size_t i, Instant now) {
  std::vector<HostAddress> taken;
  for (const UdpPlane& p : planes) taken.push_back(p.address());
  const auto to = another_address(plane_nic[i], planes[i].address(), taken);
  if (!to || !bindable(*to)) return false;
  UdpPlane fresh;
  if (fresh.reopen(planes[i], *to) != 0) return false;
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u32 = static_cast<uint32_t>(i);
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fresh.fd(), &e) != 0) return false;
  if (endpoint.set_port_address(now, static_cast<uint8_t>(i + 1), to->ip, fresh.udp_port()) != 0)
    return false;
  planes[i] = std::move(fresh);  // closes the old sockets, which takes them out of epoll
  backlogs[i] = Backlog{};
  readable |= 1u << i;
  // Whoever sees the event may look at once.
  plane_up[i] = false;
  return true;
}

}  // namespace mrc::net
