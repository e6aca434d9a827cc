// Packets that leave together on one EV, for drivers that pay per run rather than per packet: the run under
// way is the endpoint's, so that packets of many QPs towards one port of a peer share it. Decides how long
// runs are; leaves the choice of the EV to the QP that starts one, and whether to join to each of the others.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/ip_addr.h"
#include "base/time.h"
#include "ev/policy.h"

namespace mrc::engine {

class Run {
 public:
  // Longest run in bytes; 0: a new EV for every packet.
  explicit Run(uint32_t limit) : limit_(limit) {}

  [[nodiscard]] bool used() const { return limit_ > 0; }
  // `bytes` more fit into the run under way.
  [[nodiscard]] bool has_room(int64_t bytes) const { return left_ >= bytes; }
  [[nodiscard]] ev::PathId path() const { return path_; }
  [[nodiscard]] const base::IpAddr& to() const { return to_; }

  // `evs`: how many the QP walks through.
  void start(ev::PathId path, const base::IpAddr& to, uint32_t evs = 1) {
    path_ = path;
    to_ = to;
    // No longer than kShare of time at the present rate, so that the other planes do not wait for their turn,
    // and than a walk over all EVs in kWalk allows: only an EV in use is found dead.
    const base::Duration share = std::min(kShare, kWalk / std::max(evs, 1u));
    left_ = std::min<int64_t>(limit_, static_cast<int64_t>(rate_ * static_cast<double>(share.ns)));
  }
  void add(int64_t bytes) { left_ -= bytes; }
  // What was sent is gone: more on the same EV would not join it.
  void end() { left_ = 0; }

  // `bytes` of data were sent. The rate is the best of the last intervals, so that a pause does not shorten
  // the runs after it at once.
  void measure(base::Instant now, int64_t bytes) {
    sent_ += bytes;
    const base::Duration gone = now - since_;
    if (gone < kInterval) return;
    const double rate = static_cast<double>(sent_) / static_cast<double>(gone.ns);
    rate_ = std::max(rate, rate_ * kDecay);
    sent_ = 0;
    since_ = now;
  }

 private:
  static constexpr base::Duration kInterval = base::Duration::micros(500),
                                  kShare = base::Duration::micros(200), kWalk = base::Duration::millis(10);
  static constexpr double kDecay = 0.98;
  uint32_t limit_;
  int64_t left_ = 0, sent_ = 0;
  double rate_ = 0;  // bytes a nanosecond
  base::Instant since_{};
  ev::PathId path_;
  base::IpAddr to_;
};

}  // namespace mrc::engine
