#include "net/link_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace mrc::net {

LinkWatch::LinkWatch() : socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)) {
  if (!socket_) return;
  sockaddr_nl local{};
  local.nl_family = AF_NETLINK;
  local.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&local), sizeof local) != 0) socket_.reset();
}

bool LinkWatch::drain() {
  alignas(nlmsghdr) std::array<char, 8192> buffer{};
  bool heard = false;
  while (true) {
    const ssize_t n = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (n > 0) {
      heard = true;  // the state is read afresh; what exactly changed does not matter
      continue;
    }
    if (n < 0 && errno == ENOBUFS) {
      heard = true;
      continue;
    }
    return heard;
  }
}

}  // namespace mrc::net
