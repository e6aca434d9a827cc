// Packets of chosen ports into a pcap file (nanosecond stamps, link type "raw IP"), for any reader of such
// files.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"

namespace mrc::softswitch {

class Capture {
 public:
  Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() { stop(); }

  // Begins anew; `clock_offset_ns` is what to add to a stamp to get the time of day. 0 or errno.
  int start(const std::string& file, const std::vector<uint32_t>& ports, int64_t clock_offset_ns);
  void stop();
  [[nodiscard]] bool running() const { return file_ != nullptr; }
  void packet(uint32_t port, base::Instant at, base::ByteView bytes);

 private:
  std::FILE* file_ = nullptr;
  std::vector<bool> ports_;
  int64_t offset_ns_ = 0;
};

}  // namespace mrc::softswitch
