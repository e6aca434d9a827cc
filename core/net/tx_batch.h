// The datagrams of one turn, handed to the kernel together: one sendmmsg a socket. Payload goes out from
// where it lies. Decides the grouping; leaves what a refusal means to the loop.
#pragma once

#include <array>
#include <span>

#include "net/udp_linux.h"

namespace mrc::net {

class TxBatch {
 public:
  static constexpr size_t kMax = 32;
  struct Slot {
    engine::Transmit t;
    std::array<uint8_t, wire::kMaxHeaderBytes> head{};
    engine::Trailer end{};
    UdpPlane* plane = nullptr;
    Message message;
    int error = 0;  // 0: sent
  };

  // The slot to fill next. It counts once keep() was called; before that it may be filled again.
  Slot& next() { return slots_[size_]; }
  // Computes the trailer and prepares the message of next().
  void keep(UdpPlane& plane);
  [[nodiscard]] bool full() const { return size_ == kMax; }
  [[nodiscard]] size_t size() const { return size_; }
  // Sends all; each slot's `error` says what became of it. Order within a socket is kept.
  void send();
  [[nodiscard]] std::span<Slot> slots() { return {slots_.data(), size_}; }
  void clear() { size_ = 0; }

 private:
  void send_run(std::span<mmsghdr> headers, std::span<const uint8_t> order);

  std::array<Slot, kMax> slots_;
  size_t size_ = 0;
};

}  // namespace mrc::net
