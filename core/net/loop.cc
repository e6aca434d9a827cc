// The I/O thread: receive, time, transmit, sleep. One bounded batch a turn under the lock, so that callers get in.
#include <sys/epoll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "impair/trim.h"
#include "net/driver_impl.h"

namespace mrc::net {

using base::Duration;
using base::Instant;

void Driver::Impl::run() {
  // Timers of tens of microseconds matter here; the default slack of 50 us does not.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  while (!stop.load()) {
    read_planes();
    bool more = false;
    Instant until;
    {
      const std::lock_guard lock(mutex);
      const Instant now = monotonic_now();
      deliver_held(now);
      if (endpoint.poll_timeout() <= now) endpoint.handle_timeout(now);
      retry_blocked(now);
      more = transmit(now);
      announce();
      // Under the lock: a command given from now on finds `sleeping` set and wakes us.
      until = more ? Instant{} : next_wakeup();
      sleeping.store(!more);
    }
    wait(until);
    sleeping.store(false);
  }
}

Instant Driver::Impl::next_wakeup() { return std::min({endpoint.poll_timeout(), held.next(), blocked_until}); }

void Driver::Impl::wait(Instant until) {
  timespec timeout{};
  timespec* limit = nullptr;
  if (!until.is_never()) {
    const int64_t left = std::max<int64_t>((until - monotonic_now()).ns, 0);
    timeout.tv_sec = left / 1'000'000'000;
    timeout.tv_nsec = left % 1'000'000'000;
    limit = &timeout;
  }
  epoll_event ready[8];
  const int n = epoll_pwait2(epoll.get(), ready, 8, limit, nullptr);
  if (n < 0 && errno != EINTR) return die(std::string("epoll_pwait2: ") + std::strerror(errno));
  for (int i = 0; i < n; ++i) {
    if (ready[i].data.u32 == UINT32_MAX) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_fd.get(), &count, sizeof count);
    } else if (ready[i].data.u32 == UINT32_MAX - 1 && links.drain()) {
      const std::lock_guard lock(mutex);
      check_links(monotonic_now());
    }
  }
  const std::lock_guard lock(mutex);
  ++stats.wakeups;
}

void Driver::Impl::die(const std::string& what) {
  {
    const std::lock_guard lock(mutex);
    failed = what;
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(event_fd.get(), &one, sizeof one);
  stop = true;
}

void Driver::Impl::read_planes() {
  uint8_t fullest = 0;
  bool any = false;
  for (size_t i = 0; i < planes.size(); ++i) {
    batch.clear();
    uint64_t dropped = 0;
    const size_t n = planes[i].receive(batch, dropped);
    if (n == 0 && dropped == 0) continue;
    any = true;
    fullest = std::max(fullest, planes[i].occupancy());
    const std::lock_guard lock(mutex);
    stats.local_rx_drops += dropped;
    stats.rx_datagrams += n;
    const Instant now = monotonic_now();
    for (UdpPlane::Received& r : batch) {
      r.meta.port = static_cast<uint8_t>(i + 1);
      stats.rx_bytes += r.bytes.size();
      ingest(r, now);
    }
  }
  if (!any) return;
  const std::lock_guard lock(mutex);
  endpoint.set_receive_pressure(fullest);
}

void Driver::Impl::ingest(UdpPlane::Received& r, Instant now) {
  if (line.empty()) return endpoint.handle_datagram(now, r.meta, r.bytes);
  const bool is_data = !r.bytes.empty() && (wire::is_data(static_cast<wire::Opcode>(r.bytes[0])));
  const uint32_t ev = wire::reflected_entropy(r.meta);
  const impair::Verdict v = line.judge(now, impair::Dir::rx, r.meta.port, ev, r.bytes.size() + 48, is_data, r.meta.ecn == wire::kEcnEct0);
  if (v.drop) return;
  if (v.mark_ce) r.meta.ecn = wire::kEcnCe;
  std::vector<uint8_t> bytes(r.bytes.begin(), r.bytes.end());
  if (v.trim) {
    impair::trim_packet(r.bytes, bytes);
    r.meta.dscp = config.engine.dscps.trimmed;
  }
  if (v.corrupt) impair::corrupt(bytes, v.corrupt_bit);
  if (v.duplicate) hold(v.duplicate_at, false, r.meta, bytes);
  if (v.deliver_at > now) return hold(v.deliver_at, false, r.meta, std::move(bytes));
  endpoint.handle_datagram(now, r.meta, bytes);
}

void Driver::Impl::hold(Instant at, bool outgoing, const wire::DatagramMeta& meta, std::vector<uint8_t> bytes) {
  HeldFrame f;
  f.at = at;
  f.outgoing = outgoing;
  f.meta = meta;
  f.bytes = std::move(bytes);
  held.push(std::move(f));
}

void Driver::Impl::deliver_held(Instant now) {
  while (held.next() <= now) {
    HeldFrame f = held.pop();
    if (f.outgoing) {
      // Impaired copies are lost when a socket has no room: that is what a busy link does.
      if (plane(f.meta.port).send(f.meta, f.bytes) == SendOutcome::would_block) ++stats.tx_would_block;
    } else {
      endpoint.handle_datagram(now, f.meta, f.bytes);
    }
    held.recycle(std::move(f.bytes));
  }
}

void Driver::Impl::retry_blocked(Instant now) {
  if (now < blocked_until) return;
  while (!stuck.empty()) {
    Stuck& s = stuck.front();
    if (plane(s.meta.port).send(s.meta, s.bytes) == SendOutcome::would_block) {
      blocked_until = now + kBlockedRetry;
      return;
    }
    stuck.pop_front();
  }
  blocked_until = Instant::never();
  writable = UINT32_MAX;
}

bool Driver::Impl::transmit(Instant now) {
  uint8_t head[wire::kMaxHeaderBytes];
  engine::Transmit t;
  for (size_t i = 0; i < kTxPerLock; ++i) {
    if (!endpoint.poll_transmit(now, writable, head, t)) return false;
    transmit_one(now, t, head);
  }
  return true;
}

void Driver::Impl::transmit_one(Instant now, const engine::Transmit& t, const uint8_t* head) {
  ++stats.tx_datagrams;
  stats.tx_bytes += t.head_len + t.payload_len + t.pad + 4;
  if (t.is_data) {
    last_data_port[t.meta.port] = now;
    last_data_tag[t.tag] = now;
  }
  if (!line.empty()) {
    const size_t size = t.head_len + t.payload_len + t.pad + 4u + 48u;
    const impair::Verdict v = line.judge(now, impair::Dir::tx, t.meta.port, t.tag, size, t.is_data, t.meta.ecn == wire::kEcnEct0);
    if (v.drop) return;
    if (v.trim || v.mark_ce || v.corrupt || v.duplicate || v.deliver_at > now) return transmit_impaired(now, t, head, v);
  }
  const engine::Trailer end = engine::finish(t, head);
  const SendOutcome o = plane(t.meta.port).send(t, head, end);
  if (o == SendOutcome::would_block) {
    // Kept, not lost: the plane is not offered to the engine until this one is gone.
    ++stats.tx_would_block;
    writable &= ~(1u << t.meta.port);
    blocked_until = now + kBlockedRetry;
    Stuck s;
    s.meta = t.meta;
    s.bytes.assign(head, head + t.head_len);
    s.bytes.insert(s.bytes.end(), t.payload, t.payload + t.payload_len);
    s.bytes.insert(s.bytes.end(), end.bytes, end.bytes + end.length);
    stuck.push_back(std::move(s));
    return;
  }
  after_send(now, o, t);
}

void Driver::Impl::transmit_impaired(Instant now, const engine::Transmit& t, const uint8_t* head, const impair::Verdict& v) {
  std::vector<uint8_t> bytes = held.buffer();
  bytes.assign(head, head + t.head_len);
  bytes.insert(bytes.end(), t.payload, t.payload + t.payload_len);
  wire::DatagramMeta meta = t.meta;
  if (v.trim) {
    std::vector<uint8_t> cut;
    impair::trim_packet(bytes, cut);
    bytes = std::move(cut);
    meta.dscp = config.engine.dscps.trimmed;
  } else {
    const engine::Trailer end = engine::finish(t, head);
    bytes.insert(bytes.end(), end.bytes, end.bytes + end.length);
  }
  if (v.mark_ce) meta.ecn = wire::kEcnCe;
  if (v.corrupt) impair::corrupt(bytes, v.corrupt_bit);
  if (v.duplicate) hold(v.duplicate_at, true, meta, bytes);
  if (v.deliver_at > now) return hold(v.deliver_at, true, meta, std::move(bytes));
  after_send(now, plane(meta.port).send(meta, bytes), t);
  held.recycle(std::move(bytes));
}

void Driver::Impl::after_send(Instant now, SendOutcome o, const engine::Transmit& t) {
  if (o != SendOutcome::path_error) return;
  ++stats.tx_errors;
  endpoint.on_send_failed(now, t);
}

void Driver::Impl::check_links(Instant now) {
  for (size_t i = 0; i < planes.size(); ++i) {
    const auto nic = interface_of(planes[i].address());
    const bool up = nic && nic->up;
    if (up == plane_up[i]) continue;
    plane_up[i] = up;
    endpoint.set_port_up(now, static_cast<uint8_t>(i + 1), up);
  }
}

}  // namespace mrc::net
