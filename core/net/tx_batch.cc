#include "net/tx_batch.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mrc::net {

void TxBatch::keep(UdpPlane& plane) {
  Slot& s = slots_[size_++];
  s.plane = &plane;
  s.error = 0;
  s.end = engine::finish(s.t, s.head.data(), &icrc_prefix_);
  s.whole = s.t.payload_len <= kCopied;
  if (s.whole) {
    uint8_t* const at = s.head.data() + s.t.head_len;
    if (s.t.payload_len > 0) std::memcpy(at, s.t.payload, s.t.payload_len);
    std::memcpy(at + s.t.payload_len, s.end.bytes, s.end.length);
  }
  s.outer_len = static_cast<uint8_t>(plane.outer(s.t.meta, s.t.via, s.bytes(), s.outer.data()));
}

bool TxBatch::same_path(const Run& r, const Slot& s) const {
  const Slot& f = slots_[r.first];
  const wire::DatagramMeta &a = f.t.meta, &b = s.t.meta;
  return f.t.tag == s.t.tag && f.plane == s.plane && a.dst_port == b.dst_port && a.src_port == b.src_port &&
         a.flow_label == b.flow_label && a.dscp == b.dscp && a.ecn == b.ecn && a.dst == b.dst &&
         f.t.via == s.t.via;
}

TxBatch::Run* TxBatch::run_for(const Slot& s) {
  if (!s.plane->segments()) return nullptr;
  const size_t oldest = run_count_ > kOpenRuns ? run_count_ - kOpenRuns : 0;
  for (size_t i = run_count_; i > oldest; --i) {
    Run& r = runs_[i - 1];
    if (r.open && same_path(r, s)) {
      const bool fits =
          s.sent_bytes() <= r.segment && r.bytes + s.sent_bytes() <= kMaxRunBytes && r.count < kMaxRun;
      if (answers(r) && !s.t.is_data) {
        // The order of answers does not matter: those of one length gather, a single shorter one goes last.
        if (fits && (s.sent_bytes() == r.segment || !r.tail)) return &r;
        continue;
      }
      if (fits) return &r;
      r.open = false;  // later packets of the path must not overtake this one
      return nullptr;
    }
  }
  return nullptr;
}

void TxBatch::join(Run& r, uint8_t i) {
  const size_t length = slots_[i].sent_bytes();
  if (r.tail) {  // before the shorter one at the end
    next_[i] = r.last;
    next_[r.before_last] = i;
    r.before_last = i;
  } else {
    next_[r.last] = i;
    r.before_last = r.last;
    r.last = i;
    r.tail = length < r.segment;
  }
  ++r.count;
  r.bytes += length;
  r.open = !r.tail || answers(r);  // a shorter one ends a run of data
}

void TxBatch::group() {
  run_count_ = 0;
  for (size_t i = 0; i < size_; ++i) {
    Slot& s = slots_[i];
    next_[i] = kNone;
    if (Run* r = run_for(s)) {
      join(*r, static_cast<uint8_t>(i));
      continue;
    }
    Run& r = runs_[run_count_];
    s.error = s.plane->prepare(s.t.meta, s.t.via, r.message);
    if (s.error != 0) continue;
    r.first = r.last = r.before_last = static_cast<uint8_t>(i);
    r.tail = false;
    r.count = 1;
    r.bytes = r.segment = s.sent_bytes();
    r.open = true;
    ++run_count_;
  }
}

void TxBatch::gather(Run& r) {
  r.message.parts = &parts_[part_count_];
  r.message.count = 0;
  each(r, [&](Slot& s) { s.add_to(r.message); });
  part_count_ += r.message.count;
  if (r.count > 1) r.message.set_segment(static_cast<uint16_t>(r.segment));
}

void TxBatch::fail(const Run& r, int error) {
  each(r, [error](Slot& s) { s.error = error; });
}

// The kernel refused a run: perhaps runs as such (a device without checksums, an old kernel).
void TxBatch::send_one_by_one(Run& r) {
  bool any = false;
  Message m = r.message;
  m.control_size -= CMSG_SPACE(sizeof(uint16_t));
  for (uint8_t i = r.first; i != kNone; i = next_[i]) {
    Slot& s = slots_[i];
    std::array<iovec, kParts> parts{};
    m.parts = parts.data();
    m.count = 0;
    s.add_to(m);
    const msghdr header = m.header();
    s.error = sendmsg(m.fd, &header, MSG_NOSIGNAL) >= 0 ? 0 : errno;
    any |= s.error == 0;
  }
  if (any) slots_[r.first].plane->refuse_segments();
}

// As sendmmsg, which costs more than a call for one needs.
int TxBatch::hand_down(int fd, std::span<mmsghdr> headers) {
  if (headers.size() == 1) return sendmsg(fd, &headers[0].msg_hdr, MSG_NOSIGNAL) >= 0 ? 1 : -1;
  return sendmmsg(fd, headers.data(), static_cast<unsigned>(headers.size()), MSG_NOSIGNAL);
}

void TxBatch::send_socket(std::span<mmsghdr> headers, std::span<const uint8_t> order) {
  size_t i = 0;
  int tries = 0;
  while (i < headers.size()) {
    const int fd = runs_[order[i]].message.fd;
    const int n = hand_down(fd, headers.subspan(i));
    if (n > 0) {
      for (int k = 0; k < n; ++k, ++i) slots_[runs_[order[i]].first].plane->on_sent(runs_[order[i]].message);
      tries = 0;
      continue;
    }
    const int error = n < 0 ? errno : EAGAIN;
    Run& r = runs_[order[i]];
    if (tries++ < 3 && UdpPlane::amend(r.message, error)) continue;
    if (outcome_of(error) == SendOutcome::would_block) {
      for (; i < headers.size(); ++i) fail(runs_[order[i]], error);
      return;
    }
    if (r.count > 1 && (error == EINVAL || error == EIO || error == EMSGSIZE || error == EOPNOTSUPP)) {
      send_one_by_one(r);
    } else {
      fail(r, error);
    }
    tries = 0;
    ++i;
  }
}

void TxBatch::send() {
  group();
  part_count_ = 0;
  for (size_t i = 0; i < run_count_; ++i) {
    gather(runs_[i]);
    order_[i] = static_cast<uint8_t>(i);
  }
  // A short message is what somebody waits for: it goes before acknowledgements, which nobody misses for a
  // microsecond.
  const auto urgent = [this](uint8_t i) {
    return runs_[i].count == 1 && slots_[runs_[i].first].t.is_data && runs_[i].bytes <= kUrgentBytes;
  };
  const auto by_socket = [&](uint8_t a, uint8_t b) {
    const int x = runs_[a].message.fd, y = runs_[b].message.fd;
    return x != y ? x < y : urgent(a) && !urgent(b);
  };
  if (!std::is_sorted(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(run_count_), by_socket))
    std::stable_sort(order_.begin(), order_.begin() + static_cast<ptrdiff_t>(run_count_), by_socket);
  for (size_t i = 0; i < run_count_; ++i) headers_[i].msg_hdr = runs_[order_[i]].message.header();
  for (size_t i = 0; i < run_count_;) {
    size_t end = i + 1;
    while (end < run_count_ && runs_[order_[end]].message.fd == runs_[order_[i]].message.fd) ++end;
    send_socket(std::span(headers_).subspan(i, end - i), std::span(order_).subspan(i, end - i));
    i = end;
  }
}

}  // namespace mrc::net
