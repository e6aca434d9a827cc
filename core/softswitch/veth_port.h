// The port of one host as a device: the near end of a veth pair whose far end is in the host's network
// namespace, so that every program of that host reaches the fabric. Decides how packets get between device
// and fabric; leaves making devices to Python. Packets are split by the host (no segmentation offload there);
// checksums that its kernel left open stay open.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "softswitch/attachment.h"
#include "softswitch/fabric.h"

namespace mrc::softswitch {

struct DeviceSpec {
  uint32_t node = 0;   // host
  std::string device;  // in the network namespace of this thread
  std::array<uint8_t, 6> own_mac{}, host_mac{};
};

class VethPort : public Attachment {
 public:
  VethPort(Fabric& fabric, const DeviceSpec& spec);
  // 0 or errno: no such device, no right to packet sockets.
  int open(int rcvbuf);
  [[nodiscard]] int fd() const override { return socket_.get(); }
  bool receive(Inbox& inbox, base::Instant now, int64_t clock_offset_ns) override;
  void deliver(FrameId frame) override { out_.push_back(frame); }
  void flush() override;
  void read_errors() override;
  // Sets the near end down or up: the far end loses its carrier or gets it back.
  void tell_link() override;

 private:
  static constexpr size_t kVnetBytes = 10, kEthernetBytes = 14, kHeadBytes = kVnetBytes + kEthernetBytes;
  using Head = std::array<uint8_t, kHeadBytes>;

  void packet(base::ByteView bytes, base::Instant at);
  [[nodiscard]] Head head_of(const Frame& f) const;

  Fabric* fabric_;
  DeviceSpec spec_;
  bool up_ = true;
  Socket socket_;
  std::vector<FrameId> out_;
};

}  // namespace mrc::softswitch
