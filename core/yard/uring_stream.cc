#include "yard/uring_stream.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "yard/counting.h"
#include "yard/uring.h"

namespace mrc::yard {

#ifndef MRC_YARD_URING

Figures send_stream_uring(const SendConfig&, bool) {
  throw std::system_error(ENOSYS, std::generic_category(), uring_missing());
}
Figures receive_stream_uring(const ReceiveConfig&, const std::function<void()>&) {
  throw std::system_error(ENOSYS, std::generic_category(), uring_missing());
}

#else

namespace {

constexpr unsigned kEntries = 64;
constexpr uint16_t kGroup = 1;
constexpr uint64_t kReceive = UINT64_MAX;  // user_data of the multishot receive; below it: slots of sends

bool passing(int error) {
  return error == EAGAIN || error == ENOBUFS || error == ECONNREFUSED || error == EINTR;
}

void check(int result, const char* what) {
  if (result < 0 && !passing(-result)) throw std::system_error(-result, std::generic_category(), what);
}

void prepare(io_uring_sqe* e, uint8_t opcode, uint64_t user_data) {
  e->opcode = opcode;
  e->flags = IOSQE_FIXED_FILE;
  e->user_data = user_data;
}

class UringSender {
 public:
  UringSender(const SendConfig& c, bool zero_copy)
      : c_(c),
        zero_copy_(zero_copy),
        to_(parse(c.to.at(0))),
        socket_(to_, false, {}),
        arena_(size_t{c.payload} * c.segments, c.cold_bytes),
        ring_(kEntries),
        acks_(ring_, kGroup, kAcks, kAckBytes) {
    ring_.use_socket(socket_.fd());
    for (uint32_t i = 0; i < kSlots; ++i) free_[free_count_++] = kSlots - 1 - i;
  }

  Figures run() {
    window_ = Window(c_.window, seconds_now());
    send_for(c_.seconds, f_, [this] { turn(); });
    return f_;
  }

 private:
  static constexpr uint32_t kSlots = 32, kAcks = 64;
  static constexpr size_t kAckBytes = 64;
  struct Slot {
    msghdr header{};
    iovec vector{};
    std::array<char, kSegmentSpace> control{};
  };

  void turn() {
    if (!listening_) listen();
    bool any = false;
    while (free_count_ > 0 && window_.has_room(started_, c_.segments) && post()) any = true;
    // Nothing may go out: sleep until something was acknowledged.
    ring_.submit(any || c_.spin ? 0 : 1, 0.002);
    ++f_.calls;
    ring_.reap([this](const io_uring_cqe& c) { c.user_data == kReceive ? on_ack(c) : on_sent(c); });
    if (!any && window_.reopen(started_, seconds_now())) ++f_.refused;
  }

  void listen() {
    io_uring_sqe* e = ring_.next();
    if (e == nullptr) return;
    prepare(e, IORING_OP_RECV, kReceive);
    e->flags |= IOSQE_BUFFER_SELECT;
    e->ioprio = IORING_RECV_MULTISHOT;
    e->buf_group = kGroup;
    listening_ = true;
  }

  bool post() {
    io_uring_sqe* e = ring_.next();
    if (e == nullptr) return false;
    const uint32_t i = free_[--free_count_];
    Slot& s = slots_[i];
    const size_t bytes = size_t{c_.payload} * c_.segments;
    s.vector = {arena_.at(), bytes};
    s.header = {};
    s.header.msg_name = to_.raw();  // as the sender of stream.h: connecting would be a gain of its own
    s.header.msg_namelen = to_.length;
    s.header.msg_iov = &s.vector;
    s.header.msg_iovlen = 1;
    if (c_.segments > 1) set_segment_size(s.header, s.control.data(), static_cast<uint16_t>(c_.payload));
    arena_.advance(bytes);
    prepare(e, zero_copy_ ? IORING_OP_SENDMSG_ZC : IORING_OP_SENDMSG, i);
    e->addr = reinterpret_cast<uint64_t>(&s.header);
    e->len = 1;
    started_ += c_.segments;
    return true;
  }

  void on_sent(const io_uring_cqe& c) {
    const bool notice = (c.flags & IORING_CQE_F_NOTIF) != 0;
    if (!notice) {
      check(c.res, "io_uring send");
      if (c.res < 0) {
        ++f_.refused;
      } else {
        f_.datagrams += c_.segments;
        f_.bytes += uint64_t{c_.segments} * c_.payload;
      }
    }
    // Without copying, the memory is in use until a second completion says so.
    if ((c.flags & IORING_CQE_F_MORE) == 0) free_[free_count_++] = static_cast<uint32_t>(c.user_data);
  }

  void on_ack(const io_uring_cqe& c) {
    listening_ = (c.flags & IORING_CQE_F_MORE) != 0;
    if (c.res != -ENOBUFS) check(c.res, "io_uring receive");
    if ((c.flags & IORING_CQE_F_BUFFER) == 0) return;
    const uint32_t id = c.flags >> IORING_CQE_BUFFER_SHIFT;
    uint64_t count = 0;
    if (c.res >= static_cast<int>(sizeof count)) {
      std::memcpy(&count, acks_.at(id), sizeof count);
      window_.on_ack(count, started_, seconds_now());
    }
    acks_.give_back(id);
  }

  const SendConfig& c_;
  bool zero_copy_, listening_ = false;
  Address to_;
  Socket socket_;
  Arena arena_;
  std::array<Slot, kSlots> slots_{};
  std::array<uint32_t, kSlots> free_{};
  uint32_t free_count_ = 0;
  uint64_t started_ = 0;  // datagrams handed to the ring
  Window window_{0, 0};
  Figures f_;
  Uring ring_;
  ProvidedBuffers acks_;
};

class UringReceiver {
 public:
  explicit UringReceiver(const ReceiveConfig& c)
      : c_(c),
        socket_(parse(c.at), true, {.gro = c.gro}),
        ring_(kEntries),
        buffers_(ring_, kGroup, count_of(c), kHead + kSlot) {
    ring_.use_socket(socket_.fd());
    shape_.msg_namelen = sizeof(sockaddr_storage);
    shape_.msg_controllen = kControl;
  }

  Figures run() {
    return count_arrivals(c_, f_, [this] { return take(); });
  }

 private:
  static constexpr size_t kControl = 64;
  static constexpr size_t kHead = sizeof(io_uring_recvmsg_out) + sizeof(sockaddr_storage) + kControl;
  static constexpr uint32_t kAckSlots = 16;
  struct Ack {
    std::array<uint64_t, 2> words{};
    sockaddr_storage name{};
    iovec vector{};
    msghdr header{};
  };

  static uint32_t count_of(const ReceiveConfig& c) {
    return std::bit_ceil(static_cast<uint32_t>(std::max<uint64_t>(c.batch, c.cold_bytes / kSlot)));
  }

  bool take() {
    if (!listening_) listen();
    bool any = false;
    ring_.submit(c_.spin ? 0 : 1, 0.02);
    ++f_.calls;
    ring_.reap([&](const io_uring_cqe& c) {
      if (c.user_data == kReceive) any |= on_datagrams(c);
    });
    if (any && c_.ack_every > 0 && total_ - acked_ >= c_.ack_every) acknowledge();
    return any;
  }

  void listen() {
    io_uring_sqe* e = ring_.next();
    if (e == nullptr) return;
    prepare(e, IORING_OP_RECVMSG, kReceive);
    e->flags |= IOSQE_BUFFER_SELECT;
    e->ioprio = IORING_RECV_MULTISHOT;
    e->buf_group = kGroup;
    e->addr = reinterpret_cast<uint64_t>(&shape_);
    e->len = 1;
    listening_ = true;
  }

  // Head of a buffer: io_uring_recvmsg_out, then room for name and control as asked for, then the payload.
  bool on_datagrams(const io_uring_cqe& c) {
    listening_ = (c.flags & IORING_CQE_F_MORE) != 0;
    if (c.res != -ENOBUFS) check(c.res, "io_uring receive");
    if ((c.flags & IORING_CQE_F_BUFFER) == 0) return false;
    const uint32_t id = c.flags >> IORING_CQE_BUFFER_SHIFT;
    char* const at = buffers_.at(id);
    io_uring_recvmsg_out out{};
    std::memcpy(&out, at, sizeof out);
    msghdr h{};
    h.msg_control = at + sizeof out + sizeof(sockaddr_storage);
    h.msg_controllen = std::min<size_t>(out.controllen, kControl);
    const uint32_t size = c_.gro ? segment_size(h) : 0;
    const uint64_t datagrams = size > 0 ? (out.payloadlen + size - 1) / size : 1;
    f_.bytes += out.payloadlen;
    f_.datagrams += datagrams;
    total_ += datagrams;
    std::memcpy(&from_, at + sizeof out, sizeof from_);
    from_length_ = std::min<socklen_t>(out.namelen, sizeof from_);
    buffers_.give_back(id);
    return true;
  }

  void acknowledge() {
    io_uring_sqe* e = ring_.next();
    if (e == nullptr) return;
    // A slot comes round long after its packet left; a lost acknowledgement is covered by the next one.
    Ack& a = acks_[next_ack_++ % kAckSlots];
    a.words = {total_, 0};
    a.name = from_;
    a.vector = {a.words.data(), sizeof a.words};
    a.header = {};
    a.header.msg_name = &a.name;
    a.header.msg_namelen = from_length_;
    a.header.msg_iov = &a.vector;
    a.header.msg_iovlen = 1;
    prepare(e, IORING_OP_SENDMSG, 0);
    e->flags |= IOSQE_CQE_SKIP_SUCCESS;
    e->addr = reinterpret_cast<uint64_t>(&a.header);
    e->len = 1;
    acked_ = total_;
  }

  const ReceiveConfig& c_;
  Socket socket_;
  msghdr shape_{};
  sockaddr_storage from_{};
  socklen_t from_length_ = 0;
  std::array<Ack, kAckSlots> acks_{};
  uint32_t next_ack_ = 0;
  bool listening_ = false;
  uint64_t total_ = 0, acked_ = 0;
  Figures f_;
  Uring ring_;
  ProvidedBuffers buffers_;
};

}  // namespace

Figures send_stream_uring(const SendConfig& config, bool zero_copy) {
  check_run(config.payload, config.segments);
  check_seconds(config.seconds);
  if (config.to.size() != 1 || config.labels) throw std::invalid_argument("one destination, and no labels");
  return UringSender(config, zero_copy).run();
}

Figures receive_stream_uring(const ReceiveConfig& config, const std::function<void()>& ready) {
  check_seconds(config.seconds);
  check_seconds(config.patience);
  if (config.batch < 1 || config.batch > 1024 || config.cold_bytes > kSlot * 32'768) {
    throw std::invalid_argument("batch must be 1 to 1024, cold_bytes at most 2 GiB");
  }
  UringReceiver receiver(config);
  if (ready) ready();
  return receiver.run();
}

#endif

}  // namespace mrc::yard
