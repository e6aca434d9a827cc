#include "softswitch/inbox.h"

#include <netinet/udp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "softswitch/attachment.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace mrc::softswitch {

Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Inbox::Inbox() : bytes_(new uint8_t[kMessages * kSlot]) {
  for (size_t i = 0; i < kMessages; ++i) {
    iov_[i] = {bytes_.get() + i * kSlot, kSlot};
    msghdr& m = messages_[i].msg_hdr;
    m.msg_name = &from_[i];
    m.msg_iov = &iov_[i];
    m.msg_iovlen = 1;
    m.msg_control = &control_[i];
  }
}

int Inbox::receive(int fd) {
  for (mmsghdr& m : messages_) {
    m.msg_hdr.msg_namelen = sizeof(sockaddr_storage);
    m.msg_hdr.msg_controllen = kControl;
  }
  const int n = recvmmsg(fd, messages_.data(), kMessages, MSG_DONTWAIT, nullptr);
  return n >= 0 ? n : -errno;
}

Inbox::Arrival Inbox::arrival(size_t i, base::Instant now, int64_t clock_offset_ns) {
  Arrival a;
  a.at = now;
  msghdr& m = messages_[i].msg_hdr;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
      int segment = 0;
      std::memcpy(&segment, CMSG_DATA(c), sizeof segment);
      a.segment = static_cast<size_t>(std::max(segment, 0));
    } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
      timespec t{};
      std::memcpy(&t, CMSG_DATA(c), sizeof t);
      const int64_t ns = int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
      a.at = std::min(now, base::Instant{ns - clock_offset_ns});
    }
  }
  return a;
}

}  // namespace mrc::softswitch
