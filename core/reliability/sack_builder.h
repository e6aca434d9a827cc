// What the responder still has to say about single packets: triggers of SACKs and NACKs (reference 6.4
// to 6.7). Decides coalescing, the walk of the 64-bit window, and the contents; leaves when to trigger to the
// responder.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "reliability/recv_window.h"
#include "reliability/ring.h"
#include "wire/packet.h"

namespace mrc::reliability {

struct Trigger {
  enum class Kind : uint8_t { sack, probe, nack };
  int64_t seq = 0;  // packet that triggered it
  base::Instant arrived;
  uint32_t entropy = 0;
  uint16_t timestamp = 0;  // as received, 0 = none
  uint16_t probe_id = 0;
  Kind kind = Kind::sack;
  uint8_t m = 0;       // path feedback (6.6)
  uint8_t reason = 0;  // of a NACK
  bool rtx = false;
};

// Everything a SACK reports besides its trigger.
struct SackState {
  uint64_t rcvd_bytes = 0;
  uint8_t mpr = 0;
  uint8_t rcv_cwnd_pen = 0;
  bool restore_cwnd = false;
  bool service_time = false;
  bool extra_sacks = false;
};

class SackBuilder {
 public:
  // A receiver that did not run for a while finds all that its sockets hold at once. 8 KB, given back when
  // quiet.
  static constexpr size_t kMaxPending = 256;
  static constexpr size_t kIdlePending = 8;

  // False when a trigger was dropped because too many wait: a NACK, which names a packet that nothing else
  // does, takes the place of one that only says what any SACK says.
  bool push(const Trigger& t);
  [[nodiscard]] bool empty() const { return pending_.empty() && extra_left_ == 0; }
  // Builds the next packet; `entropy` is its trigger's. True for a SACK, false for a NACK.
  bool take(base::Instant now, const RecvWindow& window, const SackState& state, wire::Packet& out,
            uint32_t& entropy);
  void clear();
  [[nodiscard]] bool oversized() const { return pending_.capacity() > kIdlePending; }
  void shrink() { pending_.trim(kIdlePending); }
  [[nodiscard]] size_t bytes() const { return pending_.bytes(); }

 private:
  static constexpr uint32_t kBurst = 4;  // windows for one trigger in a row
  static bool same_echo(const Trigger& a, const Trigger& b);
  bool replace_plain(const Trigger& t);
  void build_sack(base::Instant now, const Trigger& t, const RecvWindow& window, const SackState& state,
                  wire::Packet& out);
  static void build_nack(const Trigger& t, const RecvWindow& window, wire::Packet& out);
  void fill_bitmap(const RecvWindow& window, wire::Seth& seth);

  Ring<Trigger> pending_;
  Trigger extra_;
  uint32_t extra_left_ = 0;
  int64_t lowest_unsacked_ = 0;
};

}  // namespace mrc::reliability
