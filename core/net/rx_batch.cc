#include "net/rx_batch.h"

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

void RxBatch::rewind() {
  for (mmsghdr& m : messages_) {
    m.msg_hdr.msg_namelen = sizeof(sockaddr_storage);
    m.msg_hdr.msg_controllen = kControl;
  }
}

}  // namespace mrc::net
