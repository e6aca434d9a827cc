// QPs of one endpoint towards one peer share the room in front of it: each has a window of its own (reference
// 7), and a thousand of them would fill the receiver's buffer a thousand times. Decides who waits; leaves
// windows to cc/. Only for drivers that ask for it (EndpointConfig.share_window): a NIC has its own
// scheduler. They also take turns to look whether their paths for answers still work, and share those.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "base/ip_addr.h"
#include "base/time.h"
#include "ev/policy.h"
#include "reliability/ring.h"

namespace mrc::engine {

struct Share {
  int64_t outstanding = 0;  // bytes in flight of all members
  int64_t granted = 0;      // bytes that members may send in turns that have begun
  int64_t limit = 0;        // the largest window of any of them
  uint32_t members = 0;
  reliability::Ring<uint32_t> waiting;  // slots of QPs that had new data and found no room
  // EV probes of all members (6.13): a thousand of them asking for the same paths would have time for little
  // else.
  base::Instant probe_free{INT64_MIN / 2};  // nobody asks before
  base::Instant probe_turn{INT64_MIN / 2};  // the turn given away last
  uint8_t probe_plane = 0;
  // The path for answers of each plane that a member found to work last: all answer on it, since packets of
  // one path leave together, and a thousand paths a thousand system calls' work. Kept for a moment, or there
  // would be another one with every packet that arrives.
  void proven(base::Instant now, ev::PathId path) {
    Way& way = ways_[path.port & 31];
    const uint32_t bit = 1u << (path.port & 31);
    if ((known_ & bit) != 0 && way.tag != path.tag && now - way.at < kKeep) return;
    way = {path.tag, now};
    known_ |= bit;
  }
  void lost(uint32_t tag) {
    for (uint32_t p = 0; p < ways_.size(); ++p) {
      if (ways_[p].tag == tag) known_ &= ~(1u << p);
    }
  }
  void port_down(uint8_t port) { known_ &= ~(1u << (port & 31)); }
  [[nodiscard]] std::optional<uint32_t> answer_tag(uint8_t port) const {
    return (known_ & (1u << (port & 31))) != 0 ? std::optional(ways_[port & 31].tag) : std::nullopt;
  }
  // Room for a whole turn: single packets in turn would make every QP acknowledge every packet.
  [[nodiscard]] bool has_room() const {
    const int64_t used = outstanding + granted;
    return used == 0 || limit - used >= (limit < kTurnBytes ? turn() / 2 : turn());
  }
  // Small windows are shared in small turns: nobody waits until the whole of one is empty.
  [[nodiscard]] int64_t turn() const {
    return limit < kTurnBytes ? std::max<int64_t>(limit / 2, 1) : kTurnBytes;
  }
  static constexpr int64_t kTurnBytes = 192 * 1024;

 private:
  struct Way {
    uint32_t tag = 0;
    base::Instant at{};
  };
  static constexpr base::Duration kKeep = base::Duration::millis(1);
  std::array<Way, 32> ways_{};  // by plane
  uint32_t known_ = 0;
};

class Shares {
 public:
  Share* join(const base::IpAddr& peer) {
    std::unique_ptr<Share>& s = by_peer_[peer];
    if (!s) s = std::make_unique<Share>();
    ++s->members;
    return s.get();
  }
  void leave(const base::IpAddr& peer) {
    const auto it = by_peer_.find(peer);
    if (it == by_peer_.end() || --it->second->members > 0) return;
    waiting_ -= it->second->waiting.size();
    by_peer_.erase(it);
  }
  void wait(Share& s, uint32_t slot) {
    s.waiting.push_back(slot);
    ++waiting_;
  }
  // Calls `begin(s, slot)` for those whose turn begins in `s`; it adds to `granted` unless the QP is gone.
  template <typename F>
  void wake(Share& s, F begin) {
    while (s.has_room() && !s.waiting.empty()) {
      const uint32_t slot = s.waiting.front();
      s.waiting.pop_front();
      --waiting_;
      begin(s, slot);
    }
  }
  // The same for every peer.
  template <typename F>
  void wake_all(F begin) {
    if (waiting_ == 0) return;
    for (auto& [peer, s] : by_peer_) wake(*s, begin);
  }

 private:
  std::map<base::IpAddr, std::unique_ptr<Share>> by_peer_;
  size_t waiting_ = 0;
};

}  // namespace mrc::engine
