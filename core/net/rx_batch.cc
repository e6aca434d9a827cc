#include "net/rx_batch.h"

#include <algorithm>

namespace mrc::net {

RxBatch::RxBatch() : bytes_(new uint8_t[kMessages * kSlot]) {
  for (size_t i = 0; i < kMessages; ++i) {
    iov_[i] = {bytes_.get() + i * kSlot, kSlot};
    msghdr& m = messages_[i].msg_hdr;
    m.msg_name = &from_[i];
    m.msg_iov = &iov_[i];
    m.msg_iovlen = 1;
    m.msg_control = &control_[i];
  }
}

size_t RxBatch::fill(int fd, size_t most) {
  for (size_t i = 0; i < most; ++i) {
    messages_[i].msg_hdr.msg_namelen = sizeof(sockaddr_storage);
    messages_[i].msg_hdr.msg_controllen = kControl;
  }
  if (most == 1) {
    const ssize_t size = recvmsg(fd, &messages_[0].msg_hdr, MSG_DONTWAIT);
    messages_[0].msg_len = static_cast<unsigned>(std::max<ssize_t>(size, 0));
    return size >= 0 ? 1 : 0;
  }
  const int n = recvmmsg(fd, messages_.data(), static_cast<unsigned>(most), MSG_DONTWAIT, nullptr);
  return static_cast<size_t>(std::max(n, 0));
}

}  // namespace mrc::net
