// One NIC of up to 32 ports, without I/O: datagrams and time in, datagrams, completions and events out.
// Decides demultiplexing, fairness between QPs, endpoint operations and memory access;
// leaves sockets, clocks and threads to the driver.
//
// Call order of a driver loop (everything else may be called between any two steps):
//   handle_datagram* -> handle_timeout (when poll_timeout() <= now) -> poll_transmit until false
//   -> poll_completion / poll_event -> sleep until poll_timeout(), a datagram or a command.
// `now` never goes backwards. Not thread-safe: one owner at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "engine/types.h"

namespace mrc::engine {

class Endpoint {
 public:
  explicit Endpoint(const EndpointConfig& config);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // --- ports
  // -------------------------------------------------------------------------------------------------
  base::Result<uint8_t> add_port(const PortConfig& port);  // number; ENOSPC beyond 32
  // Local link state. Down: its EVs go ASSUMED_BAD(port), peers are told (9.2). EINVAL: no such port.
  Errno set_port_up(Instant now, uint8_t port, bool up);
  [[nodiscard]] uint32_t ports_up() const;
  // The link of a port came back with another address: what leaves from now on leaves from there. Peers take
  // nothing from an address they do not know: tell them (move_peer there). EINVAL: no such port, another
  // family.
  Errno set_port_address(Instant now, uint8_t port, const IpAddr& addr, uint16_t udp_port);
  // The peer behind this QP has another address on one of its planes: `to.local_port` says which. Its remote
  // port and the EVs stay. EINVAL: no such plane of that peer, another family, bad routes.
  Errno move_peer(Instant now, uint32_t qpn, const PeerPort& to);

  // --- resources
  // ---------------------------------------------------------------------------------------------
  uint32_t alloc_pd();
  Errno dealloc_pd(uint32_t pd);  // EBUSY, EINVAL
  // `addr` = memory (0: phantom region without bytes, for simulators); `iova`: address peers use.
  base::Result<MrInfo> reg_mr(uint32_t pd, uint64_t addr, uint64_t length, uint32_t access, uint64_t iova);
  Errno dereg_mr(uint32_t lkey);  // EBUSY while a posted WR reads it
  base::Result<uint32_t> create_cq(uint32_t cqe);
  Errno destroy_cq(uint32_t cq);  // EBUSY while QPs use it
  // After this, the next completion (or the next solicited one) sets cq_notified() once.
  Errno req_notify_cq(uint32_t cq, bool solicited_only);
  base::Result<uint32_t> create_qp(const QpInit& init);  // QPN; EINVAL, ENOMEM
  Errno modify_qp(Instant now, uint32_t qpn, const QpAttr& attr);
  Errno destroy_qp(Instant now, uint32_t qpn);
  base::Result<QpAttr> query_qp(uint32_t qpn) const;

  // --- work
  // --------------------------------------------------------------------------------------------------
  Errno post_send(Instant now, uint32_t qpn, const SendWr& wr);  // EINVAL state/args, ENOMEM queue full
  Errno post_recv(Instant now, uint32_t qpn, uint64_t wr_id);
  size_t poll_completion(uint32_t cq, std::span<Completion> out);
  // CQs whose armed notification fired since the last call.
  void take_notified_cqs(std::vector<uint32_t>& out);
  bool poll_event(Event& out);
  // Completions or events since the last call: cheaper than to ask for them after every step.
  bool take_news();
  // Events and CQ notifications waiting to be fetched; a driver wakes the application when this grows.
  [[nodiscard]] size_t pending_notices() const;

  // --- the driver's side
  // -------------------------------------------------------------------------------------
  void handle_datagram(Instant now, const wire::DatagramMeta& meta, base::ByteView bytes);
  // Several that arrived together: cheaper than one by one, with the same outcome.
  void handle_datagrams(Instant now, std::span<const Datagram> batch);
  void handle_timeout(Instant now);
  // `ports`: bit N = port N can take a packet now. `head` >= wire::kMaxHeaderBytes. Bounded work per call.
  bool poll_transmit(Instant now, uint32_t ports, base::MutByteView head, Transmit& out);
  // What poll_transmit() gave so far leaves now: a run under way ends with it.
  void end_run();
  [[nodiscard]] Instant poll_timeout() const;
  // The socket refused this transmit for a reason of its path (EHOSTUNREACH, ENETUNREACH, ...): 5.11, loss on
  // that EV.
  void on_send_failed(Instant now, const Transmit& t);
  // The socket had no room for this transmit until now: that wait says nothing about its path.
  void on_sent_late(Instant now, const Transmit& t);
  // 7.8: occupancy of the receive queue, 0..100 %.
  void set_receive_pressure(uint8_t percent);

  // For drivers of very many endpoints: asks the cache for what the next calls will read. Stages 0, 1, 2 in
  // this order, each some time before the next; changes nothing.
  void prefetch(int stage) const;

  // --- paths and endpoint operations
  // -------------------------------------------------------------------------
  Errno set_ev_state(Instant now, uint32_t qpn, uint32_t tag, ev::State state);
  Errno replace_ev(Instant now, uint32_t qpn, uint32_t tag, ev::PathId with);
  // EV probe (9.1): the answer is an endpoint_response event with this id. EAGAIN: rate limit, EINVAL.
  base::Result<uint16_t> send_ev_probe(Instant now, const PeerPort& peer, uint32_t tag, uint8_t dscp);

  // --- looking in
  // --------------------------------------------------------------------------------------------
  [[nodiscard]] base::Result<QpStats> qp_stats(uint32_t qpn) const;
  [[nodiscard]] std::vector<PathStats> path_stats(uint32_t qpn) const;
  [[nodiscard]] const EndpointStats& stats() const;
  [[nodiscard]] uint64_t trace_digest() const;  // same seed, same calls => same value
  [[nodiscard]] size_t qp_count() const;
  [[nodiscard]] uint32_t random_psn();  // from the seeded generator

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mrc::engine
