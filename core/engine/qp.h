// One QP: the only place where requester, responder, EV table and congestion control meet (reference 5, 6,
// 10). Decides what one event means for each of them; leaves demultiplexing, timers and fairness to the
// endpoint.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "base/trace.h"
#include "engine/mr_table.h"
#include "engine/plane_balance.h"
#include "engine/probes.h"
#include "engine/run.h"
#include "engine/share.h"
#include "engine/token_bucket.h"
#include "engine/types.h"
#include "ev/reverse_set.h"
#include "ev/table.h"
#include "reliability/requester.h"
#include "reliability/responder.h"
#include "reliability/ring.h"
#include "reliability/rto.h"

namespace mrc::engine {

// What a QP may use of its endpoint.
struct QpEnv {
  const EndpointConfig& config;
  MrTable& mrs;
  EndpointStats& stats;
  base::TraceDigest& trace;
  TokenBucket& probe_budget;
  std::vector<PortConfig> ports;  // index 0 is port 1
  uint32_t ports_up = 0;
  uint8_t rcv_cwnd_pen = 0;  // 7.8, current receive pressure
  bool restore_cwnd = false;
  Run run;
  Shares shares{};
};

enum class TxResult : uint8_t { sent, nothing, no_port, no_room };

class Qp final : private reliability::Placement {
 public:
  Qp(QpEnv& env, uint32_t slot, uint32_t qpn, const QpInit& init, base::Rng rng);
  ~Qp() override { leave_share(); }

  // --- lifecycle (qp_modify.cc) ---
  Errno modify(Instant now, const QpAttr& attr);
  void enter_error(Instant now, Status cause, uint8_t vendor_err);
  void set_usable_ports(Instant now);  // ports_up or the peer's report changed
  // 9.2: bit N = the peer can receive on its port N. Never removes the last usable port (9.4).
  void on_peer_ports(Instant now, uint32_t remote_mask);
  Errno move_peer(const PeerPort& to);  // endpoint.h

  // --- work ---
  Errno post_send(Instant now, const SendWr& wr);
  Errno post_recv(uint64_t wr_id);
  bool pop_completion(Completion& out, bool& solicited);

  // --- packets in (qp_rx.cc); the endpoint has done checks 1..11 ---
  void on_packet(Instant now, const wire::DatagramMeta& meta, const wire::Packet& p, uint32_t nominal);
  void on_trimmed(Instant now, const wire::DatagramMeta& meta, const wire::Packet& p, bool lasthop);
  void on_send_failed(Instant now, const Transmit& t);
  void on_sent_late(Instant now, const Transmit& t);
  void on_reverse_probe(Instant now, ev::PathId path, Instant sent_at, bool answered);
  // Another QP towards this peer had no answer on that EV.
  void forget_reverse(uint32_t tag);

  // --- packets out (qp_tx.cc) ---
  TxResult transmit(Instant now, uint32_t ports, base::MutByteView head, Transmit& out);
  // 6.13: the path to try by an EV probe, when receipts without own data make the reverse set go stale.
  std::optional<ev::PathId> take_reverse_probe(Instant now);
  // A further one in the same interval, while the path of a plane is looked for.
  std::optional<ev::PathId> more_reverse_probe(Instant now);
  static constexpr int kReverseProbesAtOnce = 4;
  // How long its answer may take before the path counts as dead.
  [[nodiscard]] Duration reverse_patience() const;
  // The EV of a plane to answer the peer's endpoint requests on: proven, else GOOD.
  std::optional<uint32_t> answer_tag(uint8_t port);

  // False: certainly nothing to send now. A QP that only receives is asked for its answers alone.
  [[nodiscard]] bool may_send(Instant now) const;
  // Null unless windows are shared. Call count_share() after anything that moved what is in flight.
  [[nodiscard]] Share* share() { return share_; }
  void count_share();
  void begin_turn();  // it may send a turn's worth now

  [[nodiscard]] Instant deadline() const;
  void on_deadline(Instant now);

  // --- looking in ---
  [[nodiscard]] bool may_receive() const;
  [[nodiscard]] bool knows_peer(const IpAddr& src, uint8_t port) const;
  [[nodiscard]] bool has_peer_address(const IpAddr& src) const;
  // Whether the QP leads to the endpoint at that address and UDP port.
  [[nodiscard]] bool leads_to(const IpAddr& addr, uint16_t udp_port) const;
  [[nodiscard]] const PeerPort* peer(uint8_t port) const;
  [[nodiscard]] QpStats stats() const;
  [[nodiscard]] size_t memory_bytes() const;
  void prefetch_parts() const;   // endpoint.h
  void prefetch_queues() const;  // what the parts point to
  [[nodiscard]] QpAttr query() const { return attr_; }
  [[nodiscard]] QpState state() const { return state_; }
  [[nodiscard]] uint32_t qpn() const { return qpn_; }
  [[nodiscard]] uint32_t slot() const { return slot_; }
  [[nodiscard]] const QpInit& init() const { return init_; }
  [[nodiscard]] ev::EvTable* table() { return table_.get(); }
  [[nodiscard]] const ev::EvTable* table() const { return table_.get(); }
  [[nodiscard]] Status error_cause() const { return error_cause_; }
  // False: the ends agreed to leave the iCRC off.
  [[nodiscard]] bool sealed() const { return attr_.icrc.value_or(true); }
  [[nodiscard]] const std::vector<PeerPort>& peer_ports() const { return peers_; }
  [[nodiscard]] uint32_t usable_ports() const { return usable_ports_; }

 private:
  Outcome place(uint64_t va, uint32_t rkey, base::ByteView payload, uint32_t length) override;

  Errno check_attr(const QpAttr& a) const;
  Errno to_init(const QpAttr& a);
  Errno to_rtr(Instant now);
  Errno to_rts(Instant now);
  void to_reset();
  Errno modify_live(Instant now, const QpAttr& a);
  ev::TableConfig table_config() const;
  cc::LinkParams link_params() const;
  void merge(const QpAttr& a);

  void on_sack(Instant now, const wire::DatagramMeta& meta, const wire::Packet& p);
  void on_nack(Instant now, const wire::Packet& p);
  void on_ack(Instant now, const wire::Packet& p);
  void sync_timing();
  // Hands losses and refusals of `effects_` to ev and cc, and the QP to ERR when they are fatal.
  void apply_effects(Instant now);
  void after_responder(Instant now);
  [[nodiscard]] bool too_slow(Instant now, const std::optional<Duration>& rtt) const;
  [[nodiscard]] Duration reverse_rtt() const;
  void hasten_reverse_probe(Instant now);
  // When this QP asks next, if one of all that lead to its peer asks in `interval`.
  [[nodiscard]] Instant reverse_turn(Instant now, Duration interval);
  [[nodiscard]] uint32_t reverse_planes();       // to be asked about now: the next one of the peer, or any
  [[nodiscard]] Duration reverse_least() const;  // between two probes towards the peer
  // Answers may go there: so says feedback, or an EV probe.
  void prove(Instant now, ev::PathId path);
  // The path that all QPs of the peer answer on, on a plane; nullopt: this QP has a path of its own.
  [[nodiscard]] std::optional<ev::PathId> common_path(uint8_t port) const;
  // Something that went out on this EV arrived; `good`: and its path is one for answers, too.
  void note_feedback(Instant now, uint32_t tag, bool good);

  TxResult try_transmit(Instant now, uint32_t ports, base::MutByteView head, Transmit& out);
  TxResult send_control(Instant now, uint32_t ports, base::MutByteView head, Transmit& out);
  TxResult send_probe(Instant now, uint32_t ports, base::MutByteView head, Transmit& out);
  TxResult send_data(Instant now, uint32_t ports, base::MutByteView head, Transmit& out);
  std::optional<ev::PathId> control_path(Instant now, uint32_t ports);
  void fill(const wire::Packet& p, ev::PathId path, uint8_t dscp, uint8_t ecn, base::MutByteView head,
            Transmit& out);
  void emit_probe(Instant now, ev::PathId path, bool tail, base::MutByteView head, Transmit& out);
  std::optional<ev::PathId> tail_path(Instant now, uint32_t usable);
  uint8_t data_dscp(bool rtx) const;
  [[nodiscard]] bool keeps_level() const;
  // Where a packet that a queue refused is sent again: in the plane of that queue, or the others would carry
  // its part. 0: anywhere.
  [[nodiscard]] uint32_t repair_planes(const reliability::PlannedPacket& plan) const;
  // Which of `usable` may take new data now, so that planes stay equal.
  uint32_t level_planes(Instant now, uint32_t usable);
  // What may leave now, and over which of `usable`.
  std::optional<reliability::PlannedPacket> plan_data(Instant now, uint32_t usable, uint32_t& planes);
  std::optional<ev::PathId> repair_path(Instant now, uint32_t planes, uint32_t usable,
                                        std::optional<uint32_t> avoid);
  std::optional<ev::PathId> data_path(Instant now, uint32_t usable, int64_t bytes);
  void release_pins();
  void leave_share();
  void end_turn();
  void use_turn(int64_t bytes);

  QpEnv& env_;
  uint32_t slot_, qpn_;
  QpInit init_;
  base::Rng rng_;
  QpState state_ = QpState::reset;
  Status error_cause_ = Status::success;
  // A work request may have completed: data and SACKs never do that, and they are most of what comes.
  bool maybe_done_ = true;
  QpAttr attr_;  // everything given so far
  std::unique_ptr<reliability::Requester> req_;
  std::unique_ptr<reliability::Responder> rsp_;
  std::unique_ptr<ev::EvTable> table_;
  std::unique_ptr<cc::Controller> cc_;
  std::optional<ev::ReverseSet> reverse_;
  reliability::RttEstimator rtt_;
  ProbeTable probes_;
  reliability::Effects effects_;
  std::vector<PeerPort> peers_;          // sorted by local port
  uint32_t remote_usable_ = UINT32_MAX;  // by local port number
  uint32_t usable_ports_ = 0;
  uint32_t pmtu_ = 1024;
  Share* share_ = nullptr;
  IpAddr share_key_;                // the peer as it was when the share was joined
  int64_t shared_ = 0, grant_ = 0;  // our parts of share_->outstanding and ->granted
  PlaneBalance balance_;
  bool trimming_ = false;
  uint8_t last_rx_port_ = 0;
  Instant tried_at_{-1};  // last transmit() that found nothing it could send
  Instant budget_retry_ = Instant::never();
  uint32_t tail_second_ = 0;  // planes of which one still has to take the second probe of a pair (5.7)
  // Reverse probing (6.13).
  static constexpr Duration kMinReverseProbeInterval = Duration::millis(1);
  // While at least so much arrives for each of them, EV probes visit every plane once an RTT; else one an RTT
  // does.
  static constexpr uint32_t kPacketsAProbe = 4;
  Instant reverse_due_ = Instant::never(), reverse_asked_{INT64_MIN / 2}, reverse_turn_{INT64_MIN / 2};
  Instant peer_answered_{INT64_MIN / 2};  // when the latest EV probe that was answered had been sent
  reliability::RttEstimator reverse_rtt_;
  uint32_t rx_since_probe_ = 0;
  bool feedback_since_probe_ = false;
  // No path for answers is known, and data has become rare: of many paths that died at once, most are dead.
  // Several are tried at a time then, whether something arrives or not.
  static constexpr uint32_t kProbesInDoubt = 64;
  uint32_t doubt_probes_ = 0;
  bool looking_ = false;
  Instant last_data_at_{INT64_MIN / 2};
  // Rings, not deques: an empty std::deque holds 600 bytes.
  reliability::Ring<uint64_t> early_recvs_;   // posted in INIT
  reliability::Ring<uint64_t> local_errors_;  // work requests refused by a local check
  reliability::Ring<uint64_t> flushed_;       // posted in ERR
  reliability::Ring<uint32_t> pins_;          // lkeys of posted work requests, oldest first; 0 = none
  uint64_t sacks_rx_ = 0, nacks_rx_ = 0, acks_rx_ = 0, unknown_ev_ = 0, probes_tx_ = 0, probe_answers_ = 0;
  Duration told_base_rtt_{};
  static constexpr Duration kEcnWorks = Duration::seconds(1);
  Instant ecn_seen_at_{INT64_MIN / 2};
  // A receiver that cannot keep up drops in front of itself, and no path is to blame (7.8).
  static constexpr Duration kPressureMemory = Duration::millis(50);
  Instant pressed_at_{INT64_MIN / 2};
  std::array<Instant, kMaxPorts> heard_{};  // last feedback about each plane
};

}  // namespace mrc::engine
