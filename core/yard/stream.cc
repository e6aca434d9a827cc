#include "yard/stream.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "yard/counting.h"

namespace mrc::yard {
namespace {

constexpr uint32_t kMostBatch = 1024;

bool passing(int error) {
  return error == EAGAIN || error == ENOBUFS || error == ECONNREFUSED || error == EINTR;
}

class Sender {
 public:
  explicit Sender(const SendConfig& c)
      : c_(c),
        socket_(parse(c.from.address.empty() ? Target{c.to.at(0).address, 0} : c.from),
                !c.from.address.empty(), {.gro = false, .flow_labels = c.labels}),
        arena_(size_t{c.payload} * c.segments * c.batch, c.cold_bytes),
        names_(c.batch),
        vectors_(c.batch),
        controls_(c.batch),
        messages_(c.batch) {
    for (const Target& t : c.to) to_.push_back(parse(t));
  }

  Figures run() {
    window_ = Window(c_.window, seconds_now());
    send_for(c_.seconds, f_, [this] {
      if (c_.window == 0 || room()) send_once();
    });
    return f_;
  }

 private:
  // True when another call fits the window.
  bool room() {
    read_acks();
    if (window_.has_room(f_.datagrams, c_.segments * c_.batch)) return true;
    if (!c_.spin) socket_.wait_readable(2);
    f_.refused += window_.reopen(f_.datagrams, seconds_now());
    return false;
  }

  void read_acks() {
    std::array<uint64_t, 2> ack{};
    while (recv(socket_.fd(), ack.data(), sizeof ack, MSG_DONTWAIT) == sizeof ack)
      window_.on_ack(ack[0], f_.datagrams, seconds_now());
  }

  void fill() {
    const size_t bytes = size_t{c_.payload} * c_.segments;
    for (uint32_t i = 0; i < c_.batch; ++i) {
      names_[i] = to_[next_to_];
      next_to_ = (next_to_ + 1) % to_.size();
      if (c_.labels) names_[i].set_flow_label(label_ = label_ % 0xffff + 1);
      vectors_[i] = {arena_.at() + i * bytes, bytes};
      msghdr& h = messages_[i].msg_hdr;
      h = {};
      h.msg_name = names_[i].raw();
      h.msg_namelen = names_[i].length;
      h.msg_iov = &vectors_[i];
      h.msg_iovlen = 1;
      if (c_.segments > 1) set_segment_size(h, controls_[i].data(), static_cast<uint16_t>(c_.payload));
    }
    arena_.advance(bytes * c_.batch);
  }

  void send_once() {
    // One destination, no label and hot memory: nothing changes from call to call.
    if (f_.calls == 0 || c_.labels || to_.size() > 1 || c_.cold_bytes > 0) fill();
    int n = 0;
    if (c_.batch == 1) {
      n = sendmsg(socket_.fd(), &messages_[0].msg_hdr, 0) < 0 ? -1 : 1;
    } else {
      n = sendmmsg(socket_.fd(), messages_.data(), c_.batch, 0);
    }
    ++f_.calls;
    if (n < 0) {
      if (!passing(errno)) throw std::system_error(errno, std::generic_category(), "send");
      ++f_.refused;
      return;
    }
    f_.datagrams += uint64_t{c_.segments} * static_cast<uint64_t>(n);
    f_.bytes += uint64_t{c_.segments} * c_.payload * static_cast<uint64_t>(n);
  }

  const SendConfig& c_;
  Socket socket_;
  Arena arena_;
  std::vector<Address> to_, names_;
  std::vector<iovec> vectors_;
  std::vector<std::array<char, kSegmentSpace>> controls_;
  std::vector<mmsghdr> messages_;
  size_t next_to_ = 0;
  uint32_t label_ = 0;
  Window window_{0, 0};
  Figures f_;
};

class Receiver {
 public:
  explicit Receiver(const ReceiveConfig& c)
      : c_(c),
        socket_(parse(c.at), true, {.gro = c.gro}),
        arena_(kSlot * c.batch, c.cold_bytes),
        from_(c.batch),
        vectors_(c.batch),
        controls_(c.batch),
        messages_(c.batch) {}

  Figures run() {
    return count_arrivals(c_, f_, [this] { return take(); });
  }

 private:
  bool take() {
    for (uint32_t i = 0; i < c_.batch; ++i) {
      vectors_[i] = {arena_.at() + kSlot * i, kSlot};
      msghdr& h = messages_[i].msg_hdr;
      h = {};
      h.msg_name = from_[i].raw();
      h.msg_namelen = sizeof from_[i].storage;
      h.msg_iov = &vectors_[i];
      h.msg_iovlen = 1;
      if (c_.gro) {
        h.msg_control = controls_[i].data();
        h.msg_controllen = controls_[i].size();
      }
    }
    const int n = receive();
    if (n <= 0) {
      if (!c_.spin) socket_.wait_readable(20);
      return false;
    }
    ++f_.calls;
    for (int i = 0; i < n; ++i) count(messages_[static_cast<size_t>(i)]);
    arena_.advance(kSlot * static_cast<size_t>(n));
    if (c_.ack_every > 0 && total_ - acked_ >= c_.ack_every)
      acknowledge(messages_[static_cast<size_t>(n) - 1]);
    return true;
  }

  int receive() {
    if (c_.batch > 1) return recvmmsg(socket_.fd(), messages_.data(), c_.batch, MSG_DONTWAIT, nullptr);
    const ssize_t r = recvmsg(socket_.fd(), &messages_[0].msg_hdr, MSG_DONTWAIT);
    messages_[0].msg_len = r > 0 ? static_cast<uint32_t>(r) : 0;
    return r < 0 ? -1 : 1;
  }

  void count(mmsghdr& m) {
    const uint32_t size = c_.gro ? segment_size(m.msg_hdr) : 0;
    const uint64_t datagrams = size > 0 ? (m.msg_len + size - 1) / size : 1;
    f_.bytes += m.msg_len;
    f_.datagrams += datagrams;
    total_ += datagrams;
  }

  void acknowledge(const mmsghdr& m) {
    const std::array<uint64_t, 2> ack{total_, 0};
    acked_ = total_;
    // A lost acknowledgement is covered by the next one.
    (void)sendto(socket_.fd(), ack.data(), sizeof ack, MSG_DONTWAIT,
                 static_cast<const sockaddr*>(m.msg_hdr.msg_name), m.msg_hdr.msg_namelen);
  }

  const ReceiveConfig& c_;
  Socket socket_;
  Arena arena_;
  std::vector<Address> from_;
  std::vector<iovec> vectors_;
  std::vector<std::array<char, 128>> controls_;
  std::vector<mmsghdr> messages_;
  uint64_t total_ = 0, acked_ = 0;
  Figures f_;
};

void check_batch(uint32_t batch) {
  if (batch < 1 || batch > kMostBatch) throw std::invalid_argument("batch must be 1 to 1024");
}

}  // namespace

Figures send_stream(const SendConfig& config) {
  check_run(config.payload, config.segments);
  check_batch(config.batch);
  check_seconds(config.seconds);
  if (config.to.empty()) throw std::invalid_argument("no destination");
  return Sender(config).run();
}

Figures receive_stream(const ReceiveConfig& config, const std::function<void()>& ready) {
  check_batch(config.batch);
  check_seconds(config.seconds);
  check_seconds(config.patience);
  if (!(config.warm_up >= 0 && config.warm_up <= 60)) throw std::invalid_argument("warm_up must be 0 to 60");
  Receiver receiver(config);
  if (ready) ready();
  return receiver.run();
}

}  // namespace mrc::yard
