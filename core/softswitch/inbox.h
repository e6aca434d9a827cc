// Room for what one recvmmsg brings, shared by the ports of a thread, and what the kernel says beside it.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/time.h"

namespace mrc::softswitch {

class Inbox {
 public:
  static constexpr size_t kMessages = 16, kSlot = 65'536 + 64, kControl = 128;
  struct alignas(cmsghdr) Control {
    std::array<char, kControl> bytes;
  };
  struct Arrival {
    size_t segment = 0;  // length of the datagrams of a run; 0: one datagram
    base::Instant at;    // when the kernel received it
  };

  Inbox();
  // What has arrived, at most kMessages; less than that: there is no more. Negative: errno.
  int receive(int fd);
  [[nodiscard]] const sockaddr_storage& from(size_t i) const { return from_[i]; }
  [[nodiscard]] const sockaddr_in& from_v4(size_t i) const {
    return reinterpret_cast<const sockaddr_in&>(from_[i]);
  }
  [[nodiscard]] base::ByteView bytes(size_t i) const {
    return {bytes_.get() + i * kSlot, messages_[i].msg_len};
  }
  // `clock_offset_ns`: time of day less monotonic time. Never later than `now`.
  [[nodiscard]] Arrival arrival(size_t i, base::Instant now, int64_t clock_offset_ns);

 private:
  std::array<mmsghdr, kMessages> messages_{};
  std::array<iovec, kMessages> iov_{};
  std::array<sockaddr_storage, kMessages> from_{};
  std::array<Control, kMessages> control_{};
  std::unique_ptr<uint8_t[]> bytes_;
};

}  // namespace mrc::softswitch
