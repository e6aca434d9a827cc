// The turns of the loop: receive, time, transmit. One bounded batch a turn under the lock, so that callers
// get in. How it waits between them: wait.cc.
#include <sys/prctl.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <exception>
#include <numeric>

#include "impair/trim.h"
#include "net/driver_impl.h"

namespace mrc::net {

using base::Instant;

namespace {

constexpr size_t kUdpIpBytes = 48;  // what a rate-limited link carries besides the UDP payload

}  // namespace

void Driver::Impl::run() {
  // Timers of tens of microseconds matter here; the default slack of 50 us does not.
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  try {
    while (!stop.load()) {
      if (baton.claimed()) {
        wake();  // what woke this thread may have been meant for the one that has the loop now
        baton.stand_by(stop);
        continue;
      }
      const Instant until = guarded_turn();
      wait(monotonic_now(), until, kGapsPerSpin);
    }
  } catch (const std::exception& e) {
    die(std::string("the I/O thread ended: ") + e.what());
  }
}

Instant Driver::Impl::guarded_turn() {
  const std::lock_guard lock(loop);
  return stop.load() ? Instant{} : turn();
}

bool Driver::Impl::help(const std::function<bool()>& done, Instant deadline) {
  if (!baton.claim()) return false;
  if (sleeping.exchange(false)) wake();
  try {
    while (!stop.load()) {
      const Instant until = guarded_turn();
      if (done()) break;
      const Instant now = monotonic_now();
      if (now >= deadline) break;
      wait(now, std::min(until, deadline), kGapsOfHelper);
    }
  } catch (const std::exception& e) {
    die(std::string("a thread that ran the loop failed: ") + e.what());
  }
  // What the last turn said about sleeping was meant for this thread.
  sleeping.store(false);
  if (baton.release()) wake();
  return true;
}

Instant Driver::Impl::turn() {
  received = false;
  bool more = read_planes();
  std::unique_lock lock(mutex);
  Instant now = monotonic_now();
  for (int i = 0; i < kDrains && endpoint.poll_timeout() <= now; ++i) {
    // Before time runs out on anything: what arrived while we were not running is an answer, too.
    lock.unlock();
    look_now();
    const bool any = readable != 0;
    if (any) more = read_planes();
    lock.lock();
    now = monotonic_now();
    if (!any) break;
  }
  stats.wakeups = wakeups;
  more |= deliver_held(now);
  if (endpoint.poll_timeout() <= now) endpoint.handle_timeout(now);
  if (client != nullptr) more |= client->step(endpoint, now);
  retry_stuck(now);
  more |= transmit(now);
  announce();
  if (more) {
    busy_until = now + config.spin;
    return Instant{};
  }
  // Under the lock: a command given from now on finds `sleeping` set and wakes us.
  sleeping.store(true);
  return next_wakeup();
}

Instant Driver::Impl::next_wakeup() {
  return std::min({endpoint.poll_timeout(), held.next(), blocked_until, held_until});
}

void Driver::Impl::die(const std::string& what) {
  {
    const std::lock_guard lock(mutex);
    failed = what;
    stop_client(what);
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = ::write(event_fd.get(), &one, sizeof one);
  stop = true;
  wake();
  baton.stop();
}

// Locked.
void Driver::Impl::stop_client(const std::string& why) {
  if (client != nullptr) client->on_stop(why);
  client.reset();
}

bool Driver::Impl::read_planes() {
  bool any = false;
  for (uint32_t left = readable; left != 0; left &= left - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(left));
    if (fetched.plane != i) fetch(i, RxBatch::kMessages);
    // A whole batch: there may be more. Less, and the queue is empty now. The kernel's own count lags behind.
    const bool more = fetched.messages == RxBatch::kMessages;
    const uint64_t dropped = fetched.dropped;
    fetched.plane = kNoPlane;
    if (!more) readable &= ~(1u << i);
    fill[i] = more ? planes[i].occupancy() : uint8_t{0};
    if (dropped > 0) fill[i] = 100;
    any |= !batch.empty();
    hand_over(i, dropped);
  }
  received |= any;
  return readable != 0;
}

void Driver::Impl::hand_over(size_t i, uint64_t dropped) {
  const std::lock_guard lock(mutex);
  stats.local_rx_drops += dropped;
  stats.rx_datagrams += batch.size();
  const uint8_t fullest = *std::max_element(fill.begin(), fill.end());
  if (fullest != told_pressure) endpoint.set_receive_pressure(fullest);
  told_pressure = fullest;
  const Instant now = monotonic_now();
  if (!batch.empty()) busy_until = now + config.spin;
  if (planes[i].gateway()) follow_gateway(i, now);
  for (engine::Datagram& d : batch) {
    d.meta.port = static_cast<uint8_t>(i + 1);
    stats.rx_bytes += d.bytes.size();
  }
  if (line.empty()) {
    endpoint.handle_datagrams(now, batch);
  } else {
    for (engine::Datagram& d : batch) ingest(d, now);
  }
}

void Driver::Impl::ingest(engine::Datagram& r, Instant now) {
  const bool is_data = !r.bytes.empty() && wire::is_data(static_cast<wire::Opcode>(r.bytes[0]));
  const uint32_t ev = wire::reflected_entropy(r.meta);
  const impair::Verdict v = line.judge(now, impair::Dir::rx, r.meta.port, ev, r.bytes.size() + kUdpIpBytes,
                                       is_data, r.meta.ecn == wire::kEcnEct0);
  if (v.drop) return;
  if (v.mark_ce) r.meta.ecn = wire::kEcnCe;
  if (!v.trim && !v.corrupt && !v.duplicate && v.deliver_at <= now)
    return endpoint.handle_datagram(now, r.meta, r.bytes);
  std::vector<uint8_t> bytes = held.buffer();
  if (v.trim) {
    impair::trim_packet(r.bytes, bytes);
    r.meta.dscp = config.engine.dscps.trimmed;
  } else {
    bytes.assign(r.bytes.begin(), r.bytes.end());
  }
  if (v.corrupt) impair::corrupt(bytes, v.corrupt_bit);
  if (v.duplicate) hold(v.duplicate_at, false, r.meta, {}, bytes);
  if (v.deliver_at > now) return hold(v.deliver_at, false, r.meta, {}, std::move(bytes));
  endpoint.handle_datagram(now, r.meta, bytes);
  held.recycle(std::move(bytes));
}

void Driver::Impl::hold(Instant at, bool outgoing, const wire::DatagramMeta& meta, const base::IpAddr& via,
                        std::vector<uint8_t> bytes) {
  HeldFrame f;
  f.via = via;
  f.at = at;
  f.outgoing = outgoing;
  f.meta = meta;
  f.bytes = std::move(bytes);
  if (!held.push(std::move(f))) ++stats.impaired_lost;
}

bool Driver::Impl::deliver_held(Instant now) {
  for (size_t i = 0; i < kHeldPerLock && held.next() <= now; ++i) {
    HeldFrame f = held.pop();
    if (!f.outgoing) {
      endpoint.handle_datagram(now, f.meta, f.bytes);
      held.recycle(std::move(f.bytes));
      continue;
    }
    engine::Transmit
        t;  // qpn 0: what becomes of it now is the network's business, as for a packet already gone
    t.meta = f.meta;
    t.via = f.via;
    int error = EAGAIN;
    const bool room = (writable & (1u << f.meta.port)) != 0;
    if (room && plane(f.meta.port).send(f.meta, f.via, f.bytes, error) != SendOutcome::would_block) {
      after_send(now, t, error, f.bytes.size());
      held.recycle(std::move(f.bytes));
    } else {
      park(now, t, std::move(f.bytes));
    }
  }
  return held.next() <= now;
}

void Driver::Impl::park(Instant now, const engine::Transmit& t, std::vector<uint8_t> bytes) {
  ++stats.tx_would_block;
  writable &= ~(1u << t.meta.port);
  if (stuck.empty()) blocked_until = now + kBlockedRetry;
  if (stuck.size() >= kMaxStuck) {
    ++stats.impaired_lost;  // only packets let go by an impairment come on top of one batch
    return;
  }
  stuck.push_back(Stuck{t, std::move(bytes)});
  stuck.back().t.payload = nullptr;
}

void Driver::Impl::retry_stuck(Instant now) {
  if (now < blocked_until) return;
  uint32_t blocked = 0;
  std::deque<Stuck> still;
  for (Stuck& s : stuck) {
    const uint32_t bit = 1u << s.t.meta.port;
    int error = 0;
    if ((blocked & bit) != 0 ||
        plane(s.t.meta.port).send(s.t.meta, s.t.via, s.bytes, error) == SendOutcome::would_block) {
      blocked |= bit;
      still.push_back(std::move(s));
    } else {
      // It waited here, not on its path.
      if (error == 0) endpoint.on_sent_late(now, s.t);
      after_send(now, s.t, error, s.bytes.size());
    }
  }
  stuck.swap(still);
  writable = ~blocked;
  blocked_until = stuck.empty() ? Instant::never() : now + kBlockedRetry;
}

uint32_t Driver::Impl::hold_back(Instant now) {
  uint32_t held_back = 0;
  held_until = Instant::never();
  for (size_t i = 0; i < planes.size(); ++i) {
    Backlog& b = backlogs[i];
    if (!b.worth_asking()) continue;
    b.before_send(now, planes[i].waiting());
    if (b.room() > 0) continue;
    held_back |= 2u << i;
    held_until = std::min(held_until, b.retry_at(now));
  }
  return held_back;
}

bool Driver::Impl::transmit(Instant now) {
  tx.clear();
  std::array<size_t, engine::kMaxPorts + 1> filled{};
  uint32_t full = hold_back(now);  // ports that have enough in this batch
  const uint32_t held_back = full;
  bool more = true;
  for (size_t i = 0; i < TxBatch::kMax && more; ++i) {
    TxBatch::Slot& s = tx.next();
    more = endpoint.poll_transmit(now, writable & ~full, s.head, s.t);
    if (!more || impair_outgoing(now, s)) continue;
    const uint8_t port = s.t.meta.port;
    filled[port] += s.t.head_len + s.t.payload_len;
    const auto most = std::min<int64_t>(kBatchBytes, backlogs[port - 1u].room());
    if (filled[port] >= static_cast<size_t>(most)) full |= 1u << port;
    tx.keep(plane(port));
  }
  more |= (full & ~held_back) != 0;
  endpoint.end_run();
  tx.send();
  if (tx.size() > 0) sent_little.store(std::accumulate(filled.begin(), filled.end(), size_t{0}) <= kShort);
  for (size_t i = 0; i < planes.size(); ++i) {
    if (filled[i + 1] > 0 && backlogs[i].note_sent(static_cast<int64_t>(filled[i + 1])))
      backlogs[i].after_send(now, planes[i].waiting());
  }
  for (TxBatch::Slot& s : tx.slots()) {
    if (outcome_of(s.error) == SendOutcome::would_block) {
      std::vector<uint8_t> bytes;
      gather(s, true, bytes);
      park(now, s.t, std::move(bytes));
    } else {
      after_send(now, s.t, s.error, s.bytes());
    }
  }
  return more;
}

void Driver::Impl::gather(const TxBatch::Slot& s, bool trailer, std::vector<uint8_t>& out) {
  out.assign(s.head.data(), s.head.data() + s.t.head_len);
  if (s.t.payload_len > 0) out.insert(out.end(), s.t.payload, s.t.payload + s.t.payload_len);
  if (!trailer) return;
  const engine::Trailer end = engine::finish(s.t, s.head.data());
  out.insert(out.end(), end.bytes, end.bytes + end.length);
}

void Driver::Impl::note_data(Instant now, const engine::Transmit& t) {
  last_data_port[t.meta.port] = now;
  const uint64_t key = path_key(t.meta.port, t.tag);
  if (key != last_key || last_entry == nullptr) {
    if (last_data_path.size() >= kMaxPaths && !last_data_path.contains(key)) return;
    last_key = key;
    last_entry = &last_data_path[key];  // entries of a map stay where they are
  }
  *last_entry = now;
}

bool Driver::Impl::impair_outgoing(Instant now, TxBatch::Slot& s) {
  const engine::Transmit& t = s.t;
  if (t.is_data) note_data(now, t);
  if (line.empty()) return false;
  const size_t size = t.head_len + t.payload_len + t.pad + 4u + kUdpIpBytes;
  const impair::Verdict v =
      line.judge(now, impair::Dir::tx, t.meta.port, t.tag, size, t.is_data, t.meta.ecn == wire::kEcnEct0);
  if (v.drop) return true;
  if (v.mark_ce) s.t.meta.ecn = wire::kEcnCe;  // masked in the iCRC
  if (!v.trim && !v.corrupt && !v.duplicate && v.deliver_at <= now) return false;
  std::vector<uint8_t> bytes = held.buffer();
  wire::DatagramMeta meta = s.t.meta;
  gather(s, !v.trim, bytes);
  if (v.trim) {
    std::vector<uint8_t> cut = held.buffer();
    impair::trim_packet(bytes, cut);
    bytes.swap(cut);
    held.recycle(std::move(cut));
    meta.dscp = config.engine.dscps.trimmed;
  }
  if (v.corrupt) impair::corrupt(bytes, v.corrupt_bit);
  if (v.duplicate) hold(v.duplicate_at, true, meta, t.via, bytes);
  // Due at once or later: the next turn sends it.
  hold(v.deliver_at, true, meta, t.via, std::move(bytes));
  return true;
}

void Driver::Impl::after_send(Instant now, const engine::Transmit& t, int error, size_t bytes) {
  if (error == 0) {
    ++stats.tx_datagrams;
    stats.tx_bytes += bytes;
    return;
  }
  ++stats.tx_errors;
  if (error == EMSGSIZE) ++stats.tx_too_big;
  if (error == EADDRINUSE || error == EACCES || error == EMFILE) ++stats.bad_source;
  endpoint.on_send_failed(now, t);
}

}  // namespace mrc::net
