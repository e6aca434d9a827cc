#include "yard/duplex.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>

namespace mrc::yard {
namespace {

constexpr uint32_t kBatch = 8;
constexpr double kSilence = 0.2;
// A run is larger than this, an acknowledgement of its own is not.
constexpr uint32_t kLargestAck = 64;

class Rank {
 public:
  explicit Rank(const DuplexConfig& c)
      : c_(c),
        socket_(parse(c.at), true, {.gro = true}),
        rx_(kSlot * kBatch, c.cold_bytes),
        tx_(size_t{c.payload} * c.segments, c.cold_bytes) {
    socket_.connect_to(parse(c.to));
  }

  Figures run() {
    const double asked = seconds_now();
    double start = 0, cpu = 0;
    Figures result;
    progress_ = asked;
    while (true) {
      const bool took = take(), gave = give();
      const double now = seconds_now();
      if (!took && !gave && !c_.spin) socket_.wait_readable(5);
      reopen(now);
      if (first_ == 0) {
        if (now - asked > c_.patience) return {};
      } else if (start == 0 && now - first_ >= c_.warm_up) {
        start = now;
        cpu = thread_cpu_seconds();
        f_ = {};
      } else if (start > 0 && result.seconds == 0 && now - start >= c_.seconds) {
        result = f_;
        result.seconds = now - start;
        result.cpu_seconds = thread_cpu_seconds() - cpu;
      } else if (result.seconds > 0 && now - start >= c_.seconds + c_.linger) {
        return result;
      }
    }
  }

 private:
  bool take() {
    for (uint32_t i = 0; i < kBatch; ++i) {
      vectors_[i] = {rx_.at() + kSlot * i, kSlot};
      messages_[i].msg_hdr = {nullptr, 0, &vectors_[i], 1, nullptr, 0, 0};
    }
    const int n = recvmmsg(socket_.fd(), messages_.data(), kBatch, MSG_DONTWAIT, nullptr);
    if (n <= 0) return false;
    const double now = seconds_now();
    ++f_.calls;
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      if (messages_[i].msg_len < sizeof(uint64_t)) continue;
      uint64_t count = 0;
      std::memcpy(&count, vectors_[i].iov_base, sizeof count);
      count = std::min(count, sent_) + written_off_;
      count = std::min(count, sent_);
      if (count > acked_) {
        acked_ = count;
        progress_ = now;
      }
      if (messages_[i].msg_len <= kLargestAck) continue;
      if (first_ == 0) first_ = now;
      ++received_;
      f_.bytes += messages_[i].msg_len;
      f_.datagrams += (messages_[i].msg_len + c_.payload - 1) / c_.payload;
    }
    rx_.advance(kSlot * static_cast<size_t>(n));
    return true;
  }

  bool give() {
    if (sent_ - acked_ < c_.window) {
      std::memcpy(tx_.at(), &received_, sizeof received_);
      iovec v{tx_.at(), size_t{c_.payload} * c_.segments};
      std::array<char, kSegmentSpace> control{};
      msghdr h{};
      h.msg_iov = &v;
      h.msg_iovlen = 1;
      if (c_.segments > 1) set_segment_size(h, control.data(), static_cast<uint16_t>(c_.payload));
      if (sendmsg(socket_.fd(), &h, MSG_DONTWAIT) < 0) return false;
      tx_.advance(v.iov_len);
      ++sent_;
      told_ = received_;
      return true;
    }
    if (received_ == told_) return false;
    const std::array<uint64_t, 2> ack{received_, 0};
    if (send(socket_.fd(), ack.data(), sizeof ack, MSG_DONTWAIT) < 0) return false;
    told_ = received_;
    return true;
  }

  // What was lost is written off, or the window would stay closed.
  void reopen(double now) {
    if (sent_ == acked_ || now - progress_ <= kSilence) return;
    ++f_.refused;
    written_off_ += sent_ - acked_;
    acked_ = sent_;
    progress_ = now;
  }

  const DuplexConfig& c_;
  Socket socket_;
  Arena rx_, tx_;
  std::array<iovec, kBatch> vectors_{};
  std::array<mmsghdr, kBatch> messages_{};
  uint64_t sent_ = 0, acked_ = 0, written_off_ = 0, received_ = 0, told_ = 0;
  double progress_ = 0, first_ = 0;
  Figures f_;
};

}  // namespace

Figures run_duplex(const DuplexConfig& config, const std::function<void()>& ready) {
  check_run(config.payload, config.segments);
  check_seconds(config.seconds);
  check_seconds(config.patience);
  if (uint64_t{config.payload} * config.segments <= kLargestAck) {
    throw std::invalid_argument("a run must be larger than an acknowledgement");
  }
  if (config.window < 1 || config.window > 4096) throw std::invalid_argument("window must be 1 to 4096 runs");
  if (!(config.warm_up >= 0 && config.warm_up <= 60 && config.linger >= 0 && config.linger <= 60)) {
    throw std::invalid_argument("warm_up and linger must be 0 to 60");
  }
  Rank rank(config);
  if (ready) ready();
  return rank.run();
}

}  // namespace mrc::yard
