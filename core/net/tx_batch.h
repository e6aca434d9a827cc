// The datagrams of one turn, handed to the kernel together: equally long ones of one path as one run, and one
// sendmmsg a socket. Payload goes out from where it lies. Decides the grouping; leaves what a refusal means
// to the loop.
#pragma once

#include <array>
#include <span>

#include "engine/transmit.h"
#include "net/udp_linux.h"
#include "wire/gateway.h"
#include "wire/icrc.h"

namespace mrc::net {

class TxBatch {
 public:
  static constexpr size_t kMax = 192;
  // What the kernel takes as one run: 64 KiB with all headers, and 64 datagrams before Linux 6.9.
  static constexpr uint32_t kMaxRunBytes = 65'400, kMaxRun = 64;
  static constexpr size_t kCopied = 256;  // payload up to here is cheaper copied than described
  struct Slot {
    engine::Transmit t;
    // Headers; with a short payload and the trailer behind them, for the kernel to fetch it all at once.
    std::array<uint8_t, wire::kMaxHeaderBytes + kCopied + sizeof(engine::Trailer::bytes)> head{};
    engine::Trailer end{};
    bool whole = false;  // it is all in `head`
    std::array<uint8_t, wire::kOuterBytes> outer{};
    uint8_t outer_len = 0;  // towards a gateway
    UdpPlane* plane = nullptr;
    int error = 0;  // 0: sent
    [[nodiscard]] size_t bytes() const { return size_t{t.head_len} + t.payload_len + end.length; }
    [[nodiscard]] size_t sent_bytes() const { return bytes() + outer_len; }
    void add_to(Message& m) const {
      m.add(outer.data(), outer_len);
      if (whole) return m.add(head.data(), bytes());
      m.add(head.data(), t.head_len);
      m.add(t.payload, t.payload_len);
      m.add(end.bytes, end.length);
    }
  };

  // The slot to fill next. It counts once keep() was called; before that it may be filled again.
  Slot& next() { return slots_[size_]; }
  // Computes the trailer of next().
  void keep(UdpPlane& plane);
  [[nodiscard]] bool full() const { return size_ == kMax; }
  [[nodiscard]] size_t size() const { return size_; }
  // Sends all; each slot's `error` says what became of it. Order within a path is kept for equal lengths.
  void send();
  [[nodiscard]] std::span<Slot> slots() { return {slots_.data(), size_}; }
  void clear() { size_ = 0; }

 private:
  static constexpr size_t kUrgentBytes = 512;
  static constexpr size_t kOpenRuns = 8;  // a packet may join one of the last few
  static constexpr uint8_t kNone = 0xFF;
  static constexpr size_t kParts = 4;  // of a packet
  struct Run {
    Message message;
    size_t bytes = 0, segment = 0;
    uint8_t first = 0, last = 0, before_last = 0, count = 0;  // slots, linked by next_
    bool open = false;
    bool tail = false;  // the last one is shorter than the others
  };

  void group();
  Run* run_for(const Slot& s);
  void join(Run& r, uint8_t i);
  [[nodiscard]] bool answers(const Run& r) const { return !slots_[r.first].t.is_data; }
  [[nodiscard]] bool same_path(const Run& r, const Slot& s) const;
  void gather(Run& r);
  void send_socket(std::span<mmsghdr> headers, std::span<const uint8_t> order);
  static int hand_down(int fd, std::span<mmsghdr> headers);
  void send_one_by_one(Run& r);
  void fail(const Run& r, int error);
  template <typename F>
  void each(const Run& r, F f) {
    for (uint8_t i = r.first; i != kNone; i = next_[i]) f(slots_[i]);
  }

  std::array<Slot, kMax> slots_;
  std::array<uint8_t, kMax> next_{};
  std::array<Run, kMax> runs_;
  std::array<iovec, kMax * kParts> parts_{};
  std::array<mmsghdr, kMax> headers_{};
  std::array<uint8_t, kMax> order_{};
  wire::PrefixCache icrc_prefix_;
  size_t size_ = 0, run_count_ = 0, part_count_ = 0;
};

}  // namespace mrc::net
