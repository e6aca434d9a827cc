// Plain structs of the engine's face: what an application asks for and what it gets back.
// Names follow the verbs and mrc.h attributes (reference 10, 11).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ip_addr.h"
#include "base/result.h"
#include "base/time.h"
#include "cc/controller.h"
#include "ev/table.h"
#include "reliability/requester.h"
#include "reliability/responder.h"
#include "wire/packet.h"

namespace mrc::engine {

using base::Duration;
using base::Errno;
using base::Instant;
using base::IpAddr;
using reliability::Status;

inline constexpr uint32_t kMaxPorts = 32;

// One NIC port = one plane. Numbers are 1-based; bit N of every port mask is port N.
struct PortConfig {
  IpAddr addr;                   // local address packets leave from and arrive at
  uint16_t udp_port = 4791;      // where this end listens (D-01)
  int64_t bytes_per_second = 0;  // 0 = unknown: does not raise the cc link rate
  // AUTO mode EVs of this port; empty: invent random ones. UDP drivers put their source ports (or flow
  // labels) here.
  std::vector<uint32_t> auto_tags;
};

// SRv6: the packet of an EV goes to `via`, a uSID list whose last entry is the peer (reference 3.1). Switches
// shift it until the peer's own address is left, which is what the peer sees and what the iCRC covers.
struct EvRoute {
  uint32_t tag = 0;
  IpAddr via;
};

// Where the peer's planes are. Local port i talks to `ports[i]`; a missing entry means: no such plane there.
struct PeerPort {
  uint8_t local_port = 0;
  IpAddr addr;
  uint16_t udp_port = 4791;
  uint8_t remote_port = 0;
  std::shared_ptr<const std::vector<EvRoute>> routes{};  // sorted by tag; EVs without one go to `addr`
  [[nodiscard]] const IpAddr& via(uint32_t tag) const;
};

struct EndpointConfig {
  uint64_t seed = 1;  // QPNs, PSNs, keys, EV order
  wire::Dscps dscps;
  uint16_t p_key = 0xFFFF;
  uint8_t hop_limit = 64;
  bool send_timestamps = true;
  bool accept_only_known_peers = true;  // endpoint operations (9.4)
  uint32_t endpoint_responses_per_second = 10'000;
  uint32_t ev_probes_per_second = 100'000;  // reliability probes, whole endpoint (section 8)
  // New data goes out in runs of about this many bytes on one EV, for drivers that pay per run rather than
  // per packet; 0: a new EV for every packet. QpAttr.ev_run overrides it.
  uint32_t run_bytes = 0;
  // All QPs towards one peer together have no more in flight than the largest window of one of them.
  bool share_window = false;
  uint32_t max_qps = 1u << 20, max_mrs = 1u << 20, max_cqs = 1u << 16;
};

struct Access {
  static constexpr uint32_t local_write = 1, remote_write = 2, remote_read = 4, remote_atomic = 8;
};
struct MrInfo {
  uint32_t lkey = 0, rkey = 0;
};

enum class QpState : uint8_t { reset, init, rtr, rts, sqd, sqe, err };  // IBV_QPS_* order

struct QpInit {
  uint32_t pd = 0, send_cq = 0, recv_cq = 0;
  uint32_t max_send_wr = 128, max_recv_wr = 128;
  bool sq_sig_all = false;
  std::optional<uint32_t> qpn;  // tests and vectors only: ask for this number (EEXIST, EINVAL)
};

// EV set of a QP: explicit lists, or AUTO from the ports when both are empty.
struct EvSetSpec {
  std::vector<ev::PathId> active, backup;
};

// modify_qp: only engaged members count. Each must be legal for the transition (reference 10.2, D-24) or
// EINVAL.
struct QpAttr {
  std::optional<QpState> state, cur_state;
  // INIT
  std::optional<uint32_t> access_flags;
  std::optional<EvSetSpec> ev_set;
  std::optional<uint32_t> ev_count;  // AUTO: active EVs (default 128), backup 25 %
  std::optional<ev::TableConfig> ev_table;
  std::optional<std::string> ev_policy;  // default "bitmap"
  std::optional<uint32_t> ev_run;  // packets on one EV before the next; 0/absent: EndpointConfig.run_bytes
  std::optional<std::string> cc_algorithm;  // default "uet-1.0-nscc"
  std::optional<cc::CcConfig> cc_config;
  std::optional<uint64_t> ev_profile_id, cc_profile_id;  // resolved by the caller through the profile stores
  // RTR
  std::optional<uint32_t> dest_qpn, rq_psn, path_mtu;  // path_mtu in bytes
  std::optional<std::vector<PeerPort>> peer_ports;
  std::optional<uint8_t> mpr_dest;  // x128 PSNs
  std::optional<uint16_t> max_wimm_dest;
  std::optional<uint32_t> cap;  // QP_CAP bits: trim nack unsupported 1, dynamic mpr 2, svc time unsupported 4
  std::optional<bool> trimming;  // fabric trims and the peer NACKs trims: use TRIMMABLE classes
  // False: packets leave with 0 in the place of the iCRC, and those that arrive so are taken unchecked. Only
  // when both ends agreed beforehand: one that did not drops them. INIT or RTR, and never changed after;
  // absent: on.
  std::optional<bool> icrc;
  // Several SACKs for one trigger when many packets are out of order (6.5); absent: yes, as software can
  // afford it.
  std::optional<bool> extra_sacks;
  std::optional<uint32_t> sack_bytes;
  std::optional<Duration> sack_timer, rq_empty_grace;
  // RTS
  std::optional<uint32_t> sq_psn;
  std::optional<uint8_t> mpr, timeout, linear_cnt, exp_cnt;
  std::optional<uint16_t> max_wimm;
  std::optional<Duration> hold_time, min_ack_timeout, reorder_min_time;
  std::optional<Duration> base_rtt;  // configured base RTT; 0/absent: 12 us
  // Queueing delay that counts as a mark, for fabrics without ECN; 0/absent: marks come from the fabric
  // alone.
  std::optional<Duration> delay_mark;
  // 6.13: at most one EV probe for the reverse set in this time, and in an RTT; absent: 1 ms, for hosts whose
  // RTT is their own scheduling.
  std::optional<Duration> reverse_probe_min;
  std::optional<int64_t> max_cwnd;  // bytes, for instance the peer's receive buffer
  // Experiments (docs/sim-ablations.md). RTR: control packets keep the first EV of each plane; absent: no.
  // RTS: packets that were overtaken count as lost; absent: yes.
  std::optional<bool> fixed_reverse_ev, fast_loss;
};

struct SendWr {
  uint64_t wr_id = 0;
  reliability::WrOpcode opcode = reliability::WrOpcode::rdma_write;
  uint64_t addr = 0;  // local address inside the MR of lkey
  uint32_t length = 0, lkey = 0;
  uint64_t remote_addr = 0;
  uint32_t rkey = 0, imm = 0;
  bool signaled = true, solicited = false;
};

enum class WcOpcode : uint8_t { rdma_write = 1, recv_rdma_with_imm = 129 };
struct Completion {
  uint64_t wr_id = 0;
  Status status = Status::success;
  WcOpcode opcode = WcOpcode::rdma_write;
  uint32_t vendor_err = 0, byte_len = 0, imm = 0, qpn = 0;
  bool with_imm = false;
};

// One datagram that arrived: its UDP payload lives until the call it is given to returns.
struct Datagram {
  wire::DatagramMeta meta;
  base::ByteView bytes;
};

// One datagram to send: `head` bytes were written to the caller's buffer, the payload lies in registered
// memory. The driver sends head | payload | pad zero bytes | iCRC; `finish` (transmit.h) computes the last
// two.
struct Transmit {
  wire::DatagramMeta meta;  // src, dst, ports, flow label, dscp, ecn, local port
  IpAddr via;               // where the network is told to take it: meta.dst, or a uSID list that ends there
  uint32_t tag = 0;         // EV wire tag
  uint32_t head_len = 0;
  const uint8_t* payload = nullptr;  // valid until the next call that can release the work request
  uint32_t payload_len = 0;
  uint8_t pad = 0;
  bool is_data = false, rtx = false;
  bool icrc = true;           // false: the place of the iCRC holds 0
  uint32_t qpn = 0, psn = 0;  // psn: of data
};

enum class EventKind : uint8_t {
  qp_error,
  ev_state,
  port_local,
  port_remote,
  port_moved,
  cq_overrun,
  endpoint_response,
  qp_drained
};
struct Event {
  EventKind kind{};
  Instant at;
  uint32_t qpn = 0, cq = 0;
  Status status = Status::success;  // qp_error
  uint8_t port = 0;
  bool up = false;    // port_local, port_remote
  ev::StateEvent ev;  // ev_state
  uint16_t request_id = 0;
  Duration rtt{};        // endpoint_response
  uint64_t dropped = 0;  // events lost before this one
};

struct PathStats {
  uint32_t tag = 0;
  uint8_t port = 0;
  ev::State state{};
  bool active = false;
  ev::EvCounters counters;
};
struct QpStats {
  QpState state{};
  uint32_t next_psn = 0, unack_psn = 0, cack_psn = 0;
  reliability::RequesterCounters tx;
  reliability::ResponderCounters rx;
  cc::Snapshot cc;
  std::vector<cc::NamedCounter> cc_counters;
  Duration srtt{}, rttvar{};
  uint64_t sacks_rx = 0, nacks_rx = 0, acks_rx = 0, unknown_ev = 0, probes_tx = 0, probe_answers = 0;
  uint32_t queued = 0;
  int64_t outstanding = 0;
  size_t memory_bytes = 0;
};
struct EndpointStats {
  std::array<uint64_t, static_cast<size_t>(wire::DropReason::count_)> drops{};  // indexed by DropReason
  uint64_t datagrams_rx = 0, datagrams_tx = 0, data_rx = 0, data_tx = 0, endpoint_requests_rx = 0,
           endpoint_responses_tx = 0, endpoint_refused = 0, unknown_endpoint_op = 0, events_dropped = 0;
  std::array<uint64_t, kMaxPorts + 1> port_tx_bytes{}, port_rx_bytes{};
};

inline const IpAddr& PeerPort::via(uint32_t tag) const {
  if (routes == nullptr) return addr;
  const auto at = std::lower_bound(routes->begin(), routes->end(), tag,
                                   [](const EvRoute& r, uint32_t t) { return r.tag < t; });
  return at != routes->end() && at->tag == tag ? at->via : addr;
}

}  // namespace mrc::engine
