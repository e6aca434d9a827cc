#include "softswitch/capture.h"

#include <array>
#include <cerrno>
#include <cstring>

namespace mrc::softswitch {

namespace {
constexpr uint32_t kMagicNs = 0xA1B23C4D, kLinkTypeRaw = 101, kSnapLength = 65'535;
}  // namespace

int Capture::start(const std::string& file, const std::vector<uint32_t>& ports, int64_t clock_offset_ns) {
  stop();
  std::FILE* f = std::fopen(file.c_str(), "wbe");
  if (f == nullptr) return errno;
  struct Header {
    uint32_t magic = kMagicNs;
    uint16_t major = 2, minor = 4;
    uint32_t zone = 0, figures = 0, snap = kSnapLength, link = kLinkTypeRaw;
  } header;
  if (std::fwrite(&header, sizeof header, 1, f) != 1) {
    const int error = errno;
    std::fclose(f);
    return error != 0 ? error : EIO;
  }
  ports_.clear();
  for (const uint32_t p : ports) {
    if (p >= ports_.size()) ports_.resize(p + 1);
    ports_[p] = true;
  }
  offset_ns_ = clock_offset_ns;
  file_ = f;
  return 0;
}

void Capture::stop() {
  if (file_ != nullptr) std::fclose(file_);
  file_ = nullptr;
}

void Capture::packet(uint32_t port, base::Instant at, base::ByteView bytes) {
  if (file_ == nullptr || port >= ports_.size() || !ports_[port]) return;
  const int64_t ns = at.ns + offset_ns_;
  const auto size = static_cast<uint32_t>(bytes.size());
  const std::array<uint32_t, 4> head{static_cast<uint32_t>(ns / 1'000'000'000),
                                     static_cast<uint32_t>(ns % 1'000'000'000), size, size};
  // A full disk ends the capture, not the network.
  if (std::fwrite(head.data(), sizeof head, 1, file_) != 1 ||
      std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size())
    stop();
}

}  // namespace mrc::softswitch
