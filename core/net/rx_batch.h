// Reading of messages, and room for what one call brings, shared by the planes of a driver: buffers that hold
// a whole run of datagrams as UDP_GRO delivers it.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>

namespace mrc::net {

class RxBatch {
 public:
  static constexpr size_t kMessages = 16;
  static constexpr size_t kSlot = 65'536;  // no UDP payload is longer
  static constexpr size_t kControl = 256;

  RxBatch();
  // Reads what waits at `fd`, `most` messages at the most (1 to kMessages), without waiting. EAGAIN is the
  // usual end; an ICMP error of one peer is cleared by having been read.
  size_t fill(int fd, size_t most);
  [[nodiscard]] mmsghdr& message(size_t i) { return messages_[i]; }
  [[nodiscard]] const sockaddr_storage& from(size_t i) const { return from_[i]; }
  [[nodiscard]] const uint8_t* bytes(size_t i) const { return bytes_.get() + i * kSlot; }

 private:
  struct alignas(cmsghdr) Control {
    std::array<char, kControl> bytes;
  };
  std::array<mmsghdr, kMessages> messages_{};
  std::array<iovec, kMessages> iov_{};
  std::array<sockaddr_storage, kMessages> from_{};
  std::array<Control, kMessages> control_{};
  std::unique_ptr<uint8_t[]> bytes_;  // not cleared: what nobody sends costs no memory
};

}  // namespace mrc::net
