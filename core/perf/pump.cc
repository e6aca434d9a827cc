// One step: take completions, post what there is room for, look at the clock.
#include "perf/pump.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace mrc::perf {

using engine::Completion;
using engine::Endpoint;
using engine::Errno;
using engine::Status;

namespace {
constexpr uint64_t kMaxInFlight = uint64_t{1} << 24;
constexpr uint64_t kAlign = 64;
constexpr uint64_t kSeqMask = 0xFFFF'FFFF;
}  // namespace

Pump::Pump(net::Driver& driver, PumpConfig config)
    : loop_(driver, config.cq, config.own_thread),
      config_(std::move(config)),
      lanes_(config_.qpns.size()),
      sent_(config_.bin),
      arrived_(config_.bin) {}

// Queue pairs get equal parts; where the whole is too small for that, parts overlap.
Window Pump::part(const Window& whole, size_t lane) const {
  const uint64_t walked = job_.region == 0 ? whole.length : std::min(job_.region, whole.length);
  const uint64_t share = walked / lanes_.size() / kAlign * kAlign;
  const uint64_t length = std::max<uint64_t>(share, job_.size);
  const uint64_t room = std::max(walked, length) - length;
  const uint64_t at = room == 0 ? 0 : std::min(lane * length, room);
  return Window{whole.addr + at, length};
}

void Pump::begin() {
  stopping_ = over_ = false;
  first_step_ = true;
  deadline_ = Instant::never();
  result_ = PumpResult{};
  result_.qp_bytes.assign(lanes_.size(), 0);
  latency_.clear();
}

Errno Pump::start(const Job& job) {
  if (in_flight_ != 0) return EBUSY;
  if (lanes_.empty() || job.depth == 0 || job.depth > kMaxInFlight / lanes_.size()) return EINVAL;
  if (job.size > config_.source.length || job.size > config_.target.length) return EINVAL;
  job_ = job;
  active_ = true;
  begin();
  posted_at_.assign(lanes_.size() * job.depth, 0);
  ready_.clear();
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const bool dead = lanes_[i].dead;
    lanes_[i] = Lane{};
    lanes_[i].dead = dead;
    lanes_[i].source = part(config_.source, i);
    lanes_[i].target = part(config_.target, i);
    make_ready(i);
  }
  return 0;
}

void Pump::start_passive() {
  active_ = watching_ = false;
  begin();
}

void Pump::stop() { stopping_ = true; }

bool Pump::wants_more(const Lane& lane) const {
  return active_ && !stopping_ && !lane.dead && (job_.iters == 0 || lane.posted < job_.iters);
}

bool Pump::finished() const {
  if (in_flight_ != 0) return false;
  if (!active_ || stopping_) return stopping_;
  return std::none_of(lanes_.begin(), lanes_.end(), [this](const Lane& l) { return wants_more(l); });
}

void Pump::make_ready(size_t lane) {
  if (lanes_[lane].waiting) return;
  lanes_[lane].waiting = true;
  ready_.push_back(lane);
}

bool Pump::run(Duration most) {
  if (over_) {
    rest(most);  // the peer may need us still
    return true;
  }
  const Instant end = loop_.now() + most;
  for (;;) {
    Instant now;
    loop_.with([&](Endpoint& e, Instant at) {
      now = at;
      step(e, now);
      over_ = finished();
      if (over_) close_window(now);
    });
    if (over_ || now >= end) return over_;
    loop_.pause(std::min({end, deadline_ > now ? deadline_ : end, arrived_.due()}) - now);
  }
}

void Pump::rest(Duration most) {
  measuring_ = false;
  const Instant end = loop_.now() + most;
  for (;;) {
    Instant now;
    loop_.with([&](Endpoint& e, Instant at) {
      reap(e, now = at);
      look_at_arrivals(e, now);
    });
    if (now >= end) return;
    loop_.pause(std::min(end, arrived_.due()) - now);
  }
}

void Pump::step(Endpoint& e, Instant now) {
  if (first_step_) {
    first_step_ = false;
    result_.from = now;
    measuring_ = active_;
    sent_ = Timeline(config_.bin);
    sent_.start(now, 0);
    if (!watching_) {
      arrived_ = Timeline(config_.bin);
      placed_before_ = config_.watch ? placed(e) : 0;
    }
    watching_ = !active_;
    if (active_ && job_.duration > Duration{}) deadline_ = now + job_.duration;
    for (size_t i = 0; i < lanes_.size() && !receives_posted_; ++i) refill(e, now, i, config_.recv_depth);
    receives_posted_ = true;
  }
  reap(e, now);
  if (measuring_ && (stopping_ || now >= deadline_)) close_window(now);
  if (now >= deadline_) stop();
  sent_.note(now, result_.bytes);
  look_at_arrivals(e, now);
  post(e, now);
}

uint64_t Pump::placed(const Endpoint& e) const {
  uint64_t sum = 0;
  for (const uint32_t qpn : config_.qpns) {
    const auto s = e.qp_stats(qpn);
    if (s.ok()) sum += s.value().rx.bytes_placed;
  }
  return sum;
}

// The passive end and both ends of a two-way test: how much the peer has written here.
void Pump::look_at_arrivals(Endpoint& e, Instant now) {
  // Bin by bin, and once more when it ends.
  if (!config_.watch || (!stopping_ && !arrived_.due().is_never() && now < arrived_.due())) return;
  const uint64_t sum = placed(e);
  if (!arrived_.due().is_never()) return arrived_.note(now, sum);
  if (sum == placed_before_) return;
  arrived_.start(now, placed_before_);
  arrived_.note(now, sum);
}

void Pump::reap(Endpoint& e, Instant now) {
  std::array<Completion, 256> done;
  size_t n = 0;
  do {
    n = e.poll_completion(config_.cq, done);
    for (size_t i = 0; i < n; ++i) {
      const Completion& c = done[i];
      if ((c.wr_id & kRecv) == 0) {
        on_send_done(c, now);
      } else if (c.status == Status::success) {
        ++result_.received;
        refill(e, now, static_cast<size_t>((c.wr_id & ~kRecv) >> 32), 1);
      }
    }
  } while (n == done.size());
}

void Pump::on_send_done(const Completion& c, Instant now) {
  const auto i = static_cast<size_t>(c.wr_id >> 32);
  if (i >= lanes_.size()) return;
  Lane& lane = lanes_[i];
  ++lane.done;
  --in_flight_;
  if (c.status != Status::success) {
    if (result_.errors++ == 0) result_.first_error = c.status;
    lane.dead = true;
    return;
  }
  if (wants_more(lane)) make_ready(i);
  if (!measuring_) return;
  latency_.record(now.ns - posted_at_[i * job_.depth + (c.wr_id & kSeqMask) % job_.depth]);
  ++result_.messages;
  result_.bytes += job_.size;
  result_.qp_bytes[i] += job_.size;
  result_.to = now;
}

void Pump::refill(Endpoint& e, Instant now, size_t lane, uint32_t count) {
  for (uint32_t k = 0; k < count; ++k) {
    if (e.post_recv(now, config_.qpns[lane], kRecv | (uint64_t{lane} << 32)) != 0) return;
  }
}

void Pump::post(Endpoint& e, Instant now) {
  // A lane that has no room now is listed again by its next completion.
  for (size_t k = 0; k < ready_.size(); ++k) {
    const size_t i = ready_[k];
    lanes_[i].waiting = false;
    while (wants_more(lanes_[i]) && lanes_[i].posted - lanes_[i].done < job_.depth && post_one(e, now, i)) {
    }
  }
  ready_.clear();
}

bool Pump::post_one(Endpoint& e, Instant now, size_t i) {
  Lane& lane = lanes_[i];
  engine::SendWr wr;
  wr.wr_id = (uint64_t{i} << 32) | (lane.posted & kSeqMask);
  wr.opcode = job_.op;
  wr.addr = lane.source.addr + lane.source_at;
  wr.length = job_.size;
  wr.lkey = config_.lkey;
  wr.remote_addr = lane.target.addr + lane.target_at;
  wr.rkey = config_.rkey;
  const Errno error = e.post_send(now, config_.qpns[i], wr);
  if (error == ENOMEM && lane.posted > lane.done) return false;  // the queue is shorter than depth
  if (error != 0) {
    ++result_.errors;
    if (result_.first_error == Status::success) result_.first_error = Status::local_qp_operation_error;
    lane.dead = true;
    return false;
  }
  posted_at_[i * job_.depth + (lane.posted & kSeqMask) % job_.depth] = now.ns;
  ++lane.posted;
  ++in_flight_;
  ++result_.posted;
  const auto next = [this](uint64_t at, const Window& w) {
    const uint64_t after = at + (job_.size + kAlign - 1) / kAlign * kAlign;
    return after + job_.size <= w.length ? after : 0;
  };
  lane.source_at = next(lane.source_at, lane.source);
  lane.target_at = next(lane.target_at, lane.target);
  return true;
}

// With a duration all that completed within it counts; with iterations, all there is until the last
// completion.
void Pump::close_window(Instant now) {
  if (!measuring_) return;
  measuring_ = false;
  if (deadline_ <= now || stopping_ || result_.messages == 0) result_.to = now;
  sent_.note(result_.to, result_.bytes);
}

}  // namespace mrc::perf
