// Connectionless operations on QPN 2: EV probes and port status updates (reference 9).
// Decides whom to answer and what to repeat; leaves the effect on QPs to the endpoint, which reads
// `Outcome`s.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "engine/token_bucket.h"
#include "engine/types.h"
#include "ev/policy.h"

namespace mrc::engine {

// The planes of one remote endpoint, shared by all QPs that lead there.
struct Peer {
  std::vector<PeerPort> ports;
  uint32_t qps = 0;    // 0 = free entry
  uint32_t guide = 0;  // slot of the QP that came last: it may know which paths work
  TokenBucket responses{1};
  // Port status we still have to get confirmed (9.2).
  bool status_open = false;
  uint16_t status_id = 0;
  uint32_t status_turn = 0;
  Instant status_next = Instant::never();
  Duration status_interval{};
  // Of the last report sent: never the same twice, so that the other end can order them.
  uint16_t status_stamp = 0;
  // Reports of the peer come by different planes and may overtake one another.
  uint16_t heard_stamp = 0;
  Instant heard_at{INT64_MIN / 2};
};

struct OpsOutcome {
  enum class Kind : uint8_t { port_status, probe_answer, probe_lost } kind{};
  IpAddr from;  // port_status: who reports
  uint16_t from_udp_port = 0;
  uint32_t port_mask = 0;
  uint16_t request_id = 0;          // probes
  std::optional<uint32_t> qp_slot;  // probe sent for this QP's reverse set; absent: for the controller
  ev::PathId path;
  Instant sent_at{};
  Duration rtt{};
  uint8_t arrival_port = 0;
};

class EndpointOps {
 public:
  EndpointOps(const EndpointConfig& config, const std::vector<PortConfig>& ports, EndpointStats& stats,
              base::Rng rng);

  uint32_t acquire_peer(const std::vector<PeerPort>& ports, uint32_t slot = 0);
  void release_peer(uint32_t id);

  // The EV of a port on which the QP in a slot would answer that peer; without one, any is drawn (6.13).
  using Guide = std::function<std::optional<uint32_t>(uint32_t slot, const IpAddr& peer, uint8_t port)>;
  void set_guide(Guide guide) { guide_ = std::move(guide); }
  void set_ports_up(uint32_t ports_up) { ports_up_ = ports_up; }
  // A local port changed: tell every peer until it confirms.
  void announce_ports(Instant now, uint32_t ports_up);
  // EAGAIN: all 65,536 ids are open; EINVAL: no such local port.
  base::Result<uint16_t> probe(Instant now, const PeerPort& to, uint32_t tag, uint8_t dscp,
                               std::optional<uint32_t> qp_slot, Duration patience);

  void on_request(Instant now, const wire::DatagramMeta& meta, const wire::Packet& p);
  void on_response(Instant now, const wire::DatagramMeta& meta, const wire::Packet& p);

  bool transmit(uint32_t ports, base::MutByteView head, Transmit& out);
  [[nodiscard]] bool wants_to_send() const { return !out_.empty(); }
  [[nodiscard]] Instant deadline() const;
  void on_deadline(Instant now);
  bool take_outcome(OpsOutcome& out);

 private:
  static constexpr Duration kStampMemory = Duration::millis(4);
  static constexpr size_t kMaxQueued = 1024;
  static constexpr size_t kMaxOpenProbes = 16'384;
  static constexpr size_t kMaxReplies = 4;
  struct Message {
    PeerPort to;
    uint32_t tag = 0;
    uint8_t dscp = 0, ecn = 0;
    wire::Packet packet;
  };
  struct OpenProbe {
    Instant sent_at, expires_at;
    ev::PathId path;
    std::optional<uint32_t> qp_slot;
  };

  // Who can have sent a datagram. Several endpoints of one host share its address.
  struct Senders {
    Peer* first = nullptr;  // nobody known: null
    std::array<uint16_t, kMaxReplies> udp_ports{};
    size_t count = 0;
    std::shared_ptr<const std::vector<EvRoute>> routes;
    void add(uint16_t port);
  };
  Senders find_senders(const wire::DatagramMeta& meta);
  static bool is_news(Instant now, Peer& peer, uint16_t stamp);
  void confirm_status(Instant now, const IpAddr& from, uint16_t id);
  uint32_t reply_tag(uint8_t port, uint32_t request_entropy);
  [[nodiscard]] std::shared_ptr<const std::vector<EvRoute>> known_routes(const PeerPort& to) const;
  void enqueue(Message m);
  void send_status(Instant now, Peer& peer);
  std::optional<uint16_t> new_id();

  const EndpointConfig& config_;
  const std::vector<PortConfig>& ports_;
  EndpointStats& stats_;
  base::Rng rng_;
  uint32_t ports_up_ = 0;
  std::vector<Peer> peers_;
  std::map<IpAddr, std::vector<uint32_t>> by_address_;
  std::deque<Message> out_;
  std::map<uint16_t, OpenProbe> open_;  // by request id; ordered, so that expiry order is reproducible
  std::deque<OpsOutcome> outcomes_;
  Guide guide_;
  uint16_t next_id_;
  uint32_t reply_turn_ = 0;
};

}  // namespace mrc::engine
