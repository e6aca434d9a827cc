// Tells when addresses or links of this host change: an unprivileged rtnetlink subscription.
#pragma once

#include "net/fd.h"

namespace mrc::net {

class LinkWatch {
 public:
  // Without netlink (a strict sandbox) the fd is -1 and nothing is ever reported.
  LinkWatch();
  explicit LinkWatch(int fd) : socket_(fd) {}
  [[nodiscard]] int fd() const { return socket_.get(); }
  // Empties the socket. True when something about links or addresses was said (or messages were lost).
  bool drain();

 private:
  Fd socket_;
};

}  // namespace mrc::net
