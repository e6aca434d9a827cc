// The sending half of one QP direction: which PSN carries what, which are lost, when a work request is done.
// Decides segmentation, windows 1 and 3 of reference 5.3, loss (5.7), NACK and Transport ACK handling
// (5.8, 5.9); leaves the EV to ev/, the congestion window to cc/, and packets, ports and probe identities to
// engine/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/seq.h"
#include "base/time.h"
#include "wire/packet.h"

namespace mrc::reliability {

using base::Duration;
using base::Instant;
using base::Psn;

struct RequesterConfig {
  Psn sq_psn;
  uint32_t pmtu = 1024;           // payload bytes of a full packet
  uint32_t mpr = 1024;            // PSNs (128 x the attribute)
  uint32_t mpr_sender_slack = 0;  // D-07
  bool dynamic_mpr = false;
  uint16_t max_wimm = 128;                            // WIMMs in flight granted by the peer
  uint16_t first_rqmsn = 0;                           // D-10
  uint32_t max_send_wr = 4096;                        // queued work requests, ENOMEM beyond
  uint8_t timeout = 12, linear_cnt = 7, exp_cnt = 8;  // 5.7; exp_cnt 25 = forever
  Duration min_ack_timeout = Duration::micros(1);     // D-15 clamp (software drivers: 1 ms)
  // Above zero: the retry budget is replaced by "no progress for this long"; retries back off to
  // hold_retry_cap at most.
  Duration hold_time{};
  Duration hold_retry_cap = Duration::millis(50);
  double reorder_bytes_factor = 1.5;
  uint32_t reorder_min_packets = 5;
  double reorder_time_factor = 1.0;
  // A fabric that trims loses nothing to congestion: what is silent for longer than the longest queue seen of
  // late is lost, and rule (b) follows the peak of the RTT.
  bool queues_seen = false;
  Duration reorder_min_time{};  // floor of rule (b): scheduling noise of a software host
  bool fast_loss = true;  // false (experiment): nothing is lost by being overtaken, only by probe and timer
};

enum class WrOpcode : uint8_t { rdma_write, rdma_write_imm };
struct WorkRequest {
  uint64_t wr_id = 0;
  WrOpcode opcode = WrOpcode::rdma_write;
  uint64_t local_addr = 0;  // address the driver reads payload from; never dereferenced here
  uint32_t length = 0;      // <= 2^31
  uint64_t remote_va = 0;
  uint32_t rkey = 0, imm = 0;
  bool signaled = true, solicited = false;
};

enum class Status : uint8_t {  // reference 10.3
  success,
  local_length_error,
  local_protection_error,
  local_qp_operation_error,
  flush_error,
  retry_exceeded,
  remote_invalid_request,
  remote_access_error,
  remote_operation_error,
};
struct SendCompletion {
  uint64_t wr_id = 0;
  Status status = Status::success;
  WrOpcode opcode{};
  uint32_t length = 0;
  uint8_t vendor_err = 0;
};

// One packet that may go out now. `peek` builds it, `commit` makes it happen.
struct PlannedPacket {
  Psn psn;
  wire::Opcode opcode{};
  uint16_t msn = 0, rqmsn = 0;
  uint64_t va = 0;
  uint32_t rkey = 0, dmalen = 0, imm = 0;
  uint64_t local_addr = 0;
  uint32_t length = 0;  // payload bytes
  bool rtx = false, solicited = false;
  bool last_of_message = false;
  bool last_before_idle = false;      // nothing more to send, or the PSN window closes after it
  std::optional<uint32_t> avoid_tag;  // EV of the lost or refused transmission
  uint8_t repair_port = 0;  // a queue of this plane trimmed it, which is where it is sent again; 0: anywhere
};

// What cc and the RTT estimator say; used by loss inference. Set before each on_* call.
struct Timing {
  Duration base_rtt, srtt, rttvar, target_delay;
  Duration rtt_peak{};  // longest RTT of late
  int64_t cwnd = 0, max_wnd = 0;
};

struct SackView {
  Psn cack;
  Psn bitmap_base;  // PSN of bit 0
  uint64_t bitmap = 0;
  uint32_t rcvd_bytes = 0;  // 24-bit counter, valid if has_cc
  bool has_cc = true;
  uint8_t mpr = 0;
  std::optional<Psn> trigger;  // ack_psn; absent with pr = 1
  bool rtx_echo = false;
  uint16_t echo_timestamp = 0;  // valid if has_cc and nonzero
};
struct NackView {
  wire::NackReason reason{};
  Psn psn;
  uint32_t entropy = 0;
  uint16_t echo_timestamp = 0;
};

enum class LossCause : uint8_t { inferred, probe, timeout };
struct Loss {
  Psn psn;
  uint32_t tag = 0;
  uint8_t port = 0;
  int64_t nominal = 0;
  Instant sent_at;
  LossCause cause{};
  // Something sent well after it was answered, so the peer was there and only its path can be at fault. An
  // expiry while everything is silent blames no path: more often than all of them at once, a host stood
  // still.
  bool blames_path = true;
};

// What one event did; the engine hands the parts to ev and cc. Reused buffers: clear() before each call.
struct Effects {
  bool valid = true;            // false: psn beyond what was ever sent (`bad_ack`); nothing else is set
  bool progress = false;        // unack_psn moved
  int64_t newly_bytes = 0;      // rcvd_bytes delta x 256
  std::optional<Duration> rtt;  // valid sample (7.4)
  std::vector<Loss> losses;     // each transmission once
  // Exactly one transmission refused by the NACK, if it was the latest one of its PSN:
  bool nack_counted = false;  // its nominal must leave inflight
  int64_t nack_nominal = 0;
  uint32_t spurious = 0;                // packets declared lost whose original arrived after all
  int64_t spurious_nominal = 0;         // their sizes, which the declaration took out of inflight
  std::vector<uint32_t> spurious_tags;  // their EVs, as far as they are known here
  bool late_original = false;           // one more: the packet that this SACK answers
  bool fatal = false;                   // the QP must go to ERR; completions are already queued
  void clear();
};

struct RequesterCounters {
  uint64_t data_tx = 0, rtx_trimmed = 0, rtx_lasthop = 0, rtx_other_nack = 0, rtx_inferred = 0, rtx_probe = 0,
           rtx_timeout = 0, rtx_ack_solicit = 0, spurious = 0, bad_ack = 0, timeouts = 0, window_full = 0,
           wimm_blocked = 0;
};

class Requester {
 public:
  explicit Requester(const RequesterConfig& config);
  ~Requester();

  // EINVAL: length > 2^31; ENOMEM: queue full.
  base::Errno post(const WorkRequest& wr);
  void set_timing(const Timing& t);

  // Next packet: oldest queued retransmission first, else new data if PSN and WIMM windows allow.
  [[nodiscard]] std::optional<PlannedPacket> peek(Instant now) const;
  // The same, of new data alone: while what is to be resent cannot leave.
  [[nodiscard]] std::optional<PlannedPacket> peek_new(Instant now) const;
  // It was handed to the network on `tag`/`port`, `nominal` bytes large.
  void commit(Instant now, const PlannedPacket& p, uint32_t tag, uint8_t port, int64_t nominal);
  // The transmission committed last on `tag` left only now.
  void on_sent_late(Instant now, Psn psn, uint32_t tag);
  // When a held-back retransmission (OOR window, NO_*) becomes sendable; never() if none waits on time.
  [[nodiscard]] Instant next_release() const;

  void on_sack(Instant now, const SackView& s, Effects& out);
  void on_nack(Instant now, const NackView& n, Effects& out);
  void on_transport_ack(Instant now, Psn psn, uint8_t syndrome, Effects& out);
  // Tail probe (5.7): due when nothing was acknowledged for the tail time, or only a Transport ACK is missing
  // for as long. The engine sends it on a GOOD EV of the plane of `longest_out` and on one of another plane.
  [[nodiscard]] Instant next_probe_at() const;
  // EV and port of what has been in flight longest; nullopt: nothing is.
  struct Way {
    uint32_t tag = 0;
    uint8_t port = 0;
  };
  [[nodiscard]] std::optional<Way> longest_out() const;
  void on_probe_sent(Instant now);
  // Call after on_sack of the same packet: PSNs sent before the probe and still missing are lost if the
  // answer shows low delay.
  void on_probe_answer(Instant now, Instant probe_sent_at, uint8_t port, Duration rtt, Effects& out);
  // A probe of any path that was sent then came back: the peer is there. Before on_sack of its answer, which
  // judges by it what was sent long before.
  void on_peer_alive(Instant probe_sent_at);
  [[nodiscard]] Instant next_timeout() const;  // ACK timer
  void on_timeout(Instant now, Effects& out);
  // A port came back: retry now instead of at the end of a long back-off.
  void retry_now(Instant now);
  // No port is left: what was never sent uses up the budget, too, as nothing else would end it.
  void strand(Instant now);
  void set_mpr(uint32_t psns);
  // Completes everything outstanding: the oldest with `first`, the rest flushed (5.11).
  void fail(Status first, uint8_t vendor_err = 0);

  [[nodiscard]] bool idle() const;                    // nothing queued, nothing outstanding
  [[nodiscard]] int64_t outstanding_nominal() const;  // sum over packets INFLIGHT (7.3 repair rule)
  [[nodiscard]] uint32_t queued() const;              // work requests not completed
  [[nodiscard]] Psn next_psn() const;
  [[nodiscard]] Psn unack_psn() const;
  [[nodiscard]] uint32_t retry_used() const;
  [[nodiscard]] uint32_t wimm_outstanding() const;
  [[nodiscard]] Instant last_progress() const;
  bool pop_completion(SendCompletion& out);
  // The latest transmission of that PSN was one of a whole payload; false also when it is not known any more.
  [[nodiscard]] bool was_full(Psn psn) const;
  [[nodiscard]] const RequesterCounters& counters() const;
  [[nodiscard]] size_t memory_bytes() const;
  void prefetch() const;         // what the next calls will read
  void prefetch_queues() const;  // and what that points to: some time after prefetch()

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mrc::reliability
