#include "net/tx_batch.h"

#include <algorithm>
#include <cerrno>
#include <numeric>

namespace mrc::net {

void TxBatch::keep(UdpPlane& plane) {
  Slot& s = slots_[size_++];
  s.plane = &plane;
  s.end = engine::finish(s.t, s.head.data());
  s.error = plane.prepare(s.t.meta, s.message);
  if (s.error != 0) return;
  s.message.add(s.head.data(), s.t.head_len);
  s.message.add(s.t.payload, s.t.payload_len);
  s.message.add(s.end.bytes, s.end.length);
}

void TxBatch::send_run(std::span<mmsghdr> headers, std::span<const uint8_t> order) {
  const int fd = slots_[order[0]].message.fd;
  size_t i = 0;
  int tries = 0;
  while (i < headers.size()) {
    const int n = sendmmsg(fd, &headers[i], static_cast<unsigned>(headers.size() - i), MSG_NOSIGNAL);
    if (n > 0) {
      for (int k = 0; k < n; ++k, ++i) slots_[order[i]].plane->on_sent(slots_[order[i]].message);
      tries = 0;
      continue;
    }
    const int error = n < 0 ? errno : EAGAIN;
    Slot& s = slots_[order[i]];
    if (tries++ < 3 && UdpPlane::amend(s.message, error)) continue;
    if (outcome_of(error) == SendOutcome::would_block) {
      for (; i < headers.size(); ++i) slots_[order[i]].error = error;
      return;
    }
    s.error = error;
    tries = 0;
    ++i;
  }
}

void TxBatch::send() {
  std::array<uint8_t, kMax> order{};
  std::array<mmsghdr, kMax> headers{};
  size_t n = 0;
  for (uint8_t i = 0; i < static_cast<uint8_t>(size_); ++i) {
    if (slots_[i].error == 0) order[n++] = i;
  }
  std::stable_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(n),
                   [this](uint8_t a, uint8_t b) { return slots_[a].message.fd < slots_[b].message.fd; });
  for (size_t i = 0; i < n; ++i) headers[i].msg_hdr = slots_[order[i]].message.header();
  for (size_t i = 0; i < n;) {
    size_t end = i + 1;
    while (end < n && slots_[order[end]].message.fd == slots_[order[i]].message.fd) ++end;
    send_run(std::span(headers).subspan(i, end - i), std::span(order).subspan(i, end - i));
    i = end;
  }
}

}  // namespace mrc::net
