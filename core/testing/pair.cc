#include "testing/pair.h"

#include <algorithm>

#include "impair/trim.h"

namespace mrc::testing {

namespace {
constexpr uint32_t kAllPorts = UINT32_MAX;
constexpr uint32_t kMaxFullMicros = 30;
}  // namespace

base::IpAddr Pair::address(bool v4, int side, uint8_t plane) {
  if (v4) return base::IpAddr::v4(10, plane, 0, static_cast<uint8_t>(1 + side));
  base::IpAddr a;
  a.bytes[0] = 0xfd;
  a.bytes[7] = plane;
  a.bytes[15] = static_cast<uint8_t>(1 + side);
  return a;
}

Pair::Pair(const PairConfig& config)
    : config_(config), rng_(config.seed), host_rng_(config.seed ^ 0x4057), line_(rng_.next()) {
  boot(0);
  boot(1);
}

void Pair::boot(int i) {
  Side& s = ends_[static_cast<size_t>(i)];
  engine::EndpointConfig c = config_.endpoint;
  c.seed = rng_.next();
  s.endpoint = std::make_unique<engine::Endpoint>(c);
  for (uint8_t plane = 1; plane <= config_.planes; ++plane) {
    engine::PortConfig p;
    p.addr = address(config_.ipv4, i, plane);
    p.bytes_per_second = config_.port_bytes_per_second;
    p.bytes_per_second = config_.bytes_per_second;
    // Tags name side, plane and EV, so that a rule or a failing test can point at one path.
    for (uint32_t k = 0; k < config_.evs_per_plane; ++k) {
      const uint32_t port = 2048u + plane * 256u + k;
      p.auto_tags.push_back(config_.ipv4 ? port : (static_cast<uint32_t>(plane) << 24) | (k << 16) | port);
    }
    s.endpoint->add_port(p);
  }
}

void Pair::restart(int i) {
  ++ends_[static_cast<size_t>(i)].incarnation;
  boot(i);
}

std::vector<engine::PeerPort> Pair::peer_ports(int of) const {
  std::vector<engine::PeerPort> out;
  for (uint8_t plane = 1; plane <= config_.planes; ++plane) {
    out.push_back(engine::PeerPort{plane, address(config_.ipv4, 1 - of, plane), 4791, plane, nullptr});
  }
  return out;
}

std::vector<uint8_t> Pair::fresh_buffer() {
  if (spare_.empty()) return {};
  std::vector<uint8_t> b = std::move(spare_.back());
  spare_.pop_back();
  return b;
}

void Pair::push(Frame f) {
  if (heap_.size() >= config_.max_frames) {
    ++overflow_;
    return;
  }
  f.order = order_++;
  heap_.push_back(std::move(f));
  std::push_heap(heap_.begin(), heap_.end(), later);
}

void Pair::inject(int to, const wire::DatagramMeta& meta, base::ByteView bytes, Duration delay) {
  Frame f;
  f.at = now_ + delay;
  f.to = to;
  f.meta = meta;
  f.bytes.assign(bytes.begin(), bytes.end());
  push(std::move(f));
}

void Pair::carry(int from, const engine::Transmit& t, const std::vector<uint8_t>& bytes) {
  const auto dir = from == 0 ? impair::Dir::tx : impair::Dir::rx;
  const impair::Verdict v =
      line_.judge(now_, dir, t.meta.port, t.tag, bytes.size(), t.is_data, t.meta.ecn == 2);
  if (v.drop) return;
  Frame f;
  f.to = 1 - from;
  f.meta = t.meta;
  f.at = v.deliver_at + config_.one_way;
  f.bytes = fresh_buffer();
  if (v.trim) {
    impair::trim_packet(bytes, f.bytes);
    f.meta.dscp = config_.endpoint.dscps.trimmed;
  } else {
    f.bytes.assign(bytes.begin(), bytes.end());
  }
  if (v.mark_ce) f.meta.ecn = 3;
  if (v.corrupt) impair::corrupt(f.bytes, v.corrupt_bit);
  if (v.duplicate) {
    Frame twin = f;
    twin.at = v.duplicate_at + config_.one_way;
    push(std::move(twin));
  }
  push(std::move(f));
}

uint32_t Pair::writable_ports(int i) const {
  if (config_.port_full_ppm == 0) return kAllPorts;
  const auto& full = ends_[static_cast<size_t>(i)].full_until;
  uint32_t mask = 0;
  for (uint32_t p = 0; p < full.size(); ++p) mask |= full[p] <= now_ ? 1u << p : 0;
  return mask;
}

Instant Pair::next_writable() const {
  Instant at = Instant::never();
  if (config_.port_full_ppm == 0) return at;
  for (const Side& s : ends_) {
    for (const Instant t : s.full_until) {
      if (t > now_) at = std::min(at, t);
    }
  }
  return at;
}

bool Pair::leaves(int i, const engine::Transmit& t) {
  if (host_rng_.chance_ppm(config_.port_full_ppm)) {
    ends_[static_cast<size_t>(i)].full_until[t.meta.port & 31] =
        now_ + Duration::micros(1 + host_rng_.below(kMaxFullMicros));
  }
  if (!host_rng_.chance_ppm(config_.send_fail_ppm)) return true;
  side(i).on_send_failed(now_, t);
  return false;
}

void Pair::pump(int i) {
  engine::Endpoint& e = side(i);
  uint8_t head[wire::kMaxHeaderBytes];
  engine::Transmit t;
  while (e.poll_transmit(now_, writable_ports(i), head, t)) {
    scratch_.clear();
    scratch_.insert(scratch_.end(), head, head + t.head_len);
    scratch_.insert(scratch_.end(), t.payload, t.payload + t.payload_len);
    const engine::Trailer end = engine::finish(t, head);
    scratch_.insert(scratch_.end(), end.bytes, end.bytes + end.length);
    ++sent_;
    if (on_transmit) on_transmit(i, t, scratch_);
    if (leaves(i, t)) carry(i, t, scratch_);
  }
}

void Pair::flush() {
  pump(0);
  pump(1);
}

bool Pair::step() {
  const Instant frame = heap_.empty() ? Instant::never() : heap_.front().at;
  const Instant timer = std::min(side(0).poll_timeout(), side(1).poll_timeout());
  const Instant writable = next_writable();
  if (frame.is_never() && timer.is_never() && writable.is_never()) return false;
  now_ = std::max(now_, std::min({frame, timer, writable}));
  if (writable < frame && writable < timer) {
    flush();
    return true;
  }
  if (frame <= timer) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    Frame f = std::move(heap_.back());
    heap_.pop_back();
    side(f.to).handle_datagram(now_, f.meta, f.bytes);
    spare_.push_back(std::move(f.bytes));
    pump(f.to);
    return true;
  }
  for (int i = 0; i < 2; ++i) {
    if (side(i).poll_timeout() > now_) continue;
    side(i).handle_timeout(now_);
    pump(i);
  }
  return true;
}

bool Pair::run_until(const std::function<bool()>& done, Instant deadline) {
  while (!done()) {
    const Instant frame = heap_.empty() ? Instant::never() : heap_.front().at;
    const Instant next = std::min({frame, side(0).poll_timeout(), side(1).poll_timeout(), next_writable()});
    if (next > deadline || !step()) {
      now_ = std::max(now_, deadline);
      return done();
    }
  }
  return true;
}

void Pair::run_for(Duration d) {
  const Instant end = now_ + d;
  run_until([] { return false; }, end);
}

}  // namespace mrc::testing
