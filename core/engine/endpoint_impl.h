// The state behind engine::Endpoint and the steps its files share. Private to core/engine.
#pragma once

#include <deque>
#include <set>

#include "base/number_map.h"
#include "engine/cq.h"
#include "engine/endpoint.h"
#include "engine/endpoint_ops.h"
#include "engine/qp.h"
#include "engine/scheduler.h"
#include "engine/timer_heap.h"
#include "wire/icrc.h"

namespace mrc::engine {

struct Endpoint::Impl {
  explicit Impl(const EndpointConfig& c);

  struct QpSlot {
    std::unique_ptr<Qp> qp;
    std::optional<uint32_t> peer;  // in ops
    bool error_reported = false;
    bool waiting = false;  // for room in its share
  };

  Qp* find(uint32_t qpn) const;
  QpSlot* slot_of(uint32_t qpn);
  // After anything happened to a QP: completions to CQs, state changes to events, timer and ready list.
  void settle(Instant now, uint32_t slot);
  // The same once for all packets in a row that are of one QP.
  void settle_later(Instant now, uint32_t slot);
  void settle_pending(Instant now);
  // A deadline that moves with every packet sent is looked up when somebody asks for it.
  void wake_waiting(const Share& share, uint32_t slot);
  void reschedule(uint32_t slot, const Transmit& t);
  void retime_later(uint32_t slot);
  void retime();
  void handle(Instant now, const wire::DatagramMeta& meta, base::ByteView bytes);
  // Of many QPs none is in the cache when its turn comes: memory is asked for those that follow, in stages,
  // while others are served. Hints alone.
  static constexpr size_t kStages = 3;
  void prefetch_stage(uint32_t slot, size_t stage) const;
  void prefetch_of(std::span<const Datagram> batch, size_t at, size_t stage) const;
  // The slots that come next, by `nth`(k): the nearer one is, the later its stage.
  template <typename F>
  void look_ahead(size_t count, F nth) const {
    for (size_t k = 0; k < std::min(count, kStages); ++k) prefetch_stage(nth(k), kStages - 1 - k);
  }
  void settle_ops(Instant now);
  void drain_completions(Instant now, Qp& qp);
  void drain_ev_events(Qp& qp);
  void push_event(const Event& e);
  void receive_trimmed(Instant now, const wire::DatagramMeta& meta, base::ByteView bytes, bool lasthop);
  void receive(Instant now, const wire::DatagramMeta& meta, base::ByteView bytes);
  // The packet says that its iCRC was left off, and is for a QP whose ends agreed to that.
  bool is_unsealed(const wire::DatagramMeta& meta, base::ByteView bytes) const;
  void drop(wire::DropReason reason) { ++stats.drops[static_cast<size_t>(reason)]; }
  void start_reverse_probe(Instant now, Qp& qp);
  void tell_reverse(Instant now, uint32_t slot, const OpsOutcome& o);
  void count_tx(const Transmit& t);
  base::Result<uint32_t> new_qpn(const QpInit& init);

  static constexpr size_t kMaxEvents = 8192;
  static constexpr uint32_t kNoSlot = UINT32_MAX;
  static constexpr uint32_t kOpsTimer = 0;  // timer ids: 0 = endpoint operations, slot + 1 = QP

  EndpointConfig config;
  base::Rng rng;
  EndpointStats stats;
  base::TraceDigest trace;
  MrTable mrs;
  TokenBucket probe_budget;
  QpEnv env;
  EndpointOps ops;
  std::vector<std::unique_ptr<Cq>> cqs;  // handle = index + 1
  std::vector<uint32_t> armed_fired;
  std::set<uint32_t> pds;
  uint32_t next_pd = 1;
  std::vector<QpSlot> qps;
  std::vector<uint32_t> free_slots;
  base::NumberMap by_qpn;
  std::deque<std::pair<Instant, uint32_t>> quarantine;  // 10.3: QPNs not to be used again yet
  std::set<uint32_t> quarantined;
  Scheduler scheduler;
  TimerHeap timers;
  wire::PrefixCache icrc_prefix;
  static constexpr uint32_t kTurnPackets = 64;
  uint32_t turn_slot = kNoSlot, turn_packets = 0;  // whose turn it is
  bool news = false;                               // take_news()
  uint32_t unsettled = kNoSlot, untimed = kNoSlot;
  std::vector<uint32_t> due;  // scratch of handle_timeout
  std::deque<Event> events;
  std::vector<ev::StateEvent> ev_scratch;
  uint32_t last_ports = 0;
  Instant last_now{};
  Instant restore_until{};  // 7.8: restore_cwnd is repeated for two RTTs
};

}  // namespace mrc::engine
