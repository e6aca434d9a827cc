// A fabric of switches as one machine in time: packets enter at hosts, follow their uSID lists (match 48
// bits, shift 16) over static tables, wait in queues, cross lines, and leave at hosts. Sans-IO and seeded:
// time is an argument, and equal calls have equal results however late they come. Decides forwarding and
// departure times; leaves sockets and threads to runner.h, queue rules to queue.h.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "softswitch/queue.h"

namespace mrc::softswitch {

struct NodeSpec {
  uint32_t block = 0;  // first 32 bits of every address of its plane
  uint16_t usid = 0;
  bool host = false;
};
// Directed. A cable is two of these, each naming the other as `reverse`.
struct PortSpec {
  uint32_t from = 0, to = 0, reverse = 0;
  uint64_t rate_bps = 0;
  base::Duration delay{};
  QueueRules rules;
};
// Packets whose first uSID (after the own one) is `usid` leave by one of `ports`: which, their flow decides.
struct RouteSpec {
  uint32_t node = 0;
  uint16_t usid = 0;
  bool adjacency = false;  // uA: the uSID names the link; it is shifted out on the way
  std::vector<uint32_t> ports;
};
struct FabricSpec {
  std::vector<NodeSpec> nodes;
  std::vector<PortSpec> ports;
  std::vector<RouteSpec> routes;
  wire::Dscps dscps;
  uint32_t mtu = 9000;  // bytes of IPv6 packet
  uint64_t seed = 1;
  size_t max_bytes = 512u << 20;  // of packets inside
};

struct NodeCounters {
  uint64_t sid_packets = 0, sid_bytes = 0;  // the own uSID was shifted out
  uint64_t forwarded = 0;                   // given to an egress queue
  uint64_t delivered = 0;                   // hosts
  std::array<uint64_t, static_cast<size_t>(Drop::count_)> drops{};
};

struct Delivery {
  uint32_t host = 0;  // node
  FrameId frame = kNoFrame;
};

class Fabric {
 public:
  // `why` names the first thing that does not fit; the fabric must not be used then.
  Fabric(const FabricSpec& spec, std::string& why);

  // A host puts a packet on its uplink. Not before now(), or it counts as now.
  void ingest(base::Instant at, uint32_t host, base::ByteView packet, PartialSum sum = {});
  // Everything up to `until`, in order. What arrived at hosts is appended; give its frames back.
  void advance(base::Instant until, std::vector<Delivery>& out);
  [[nodiscard]] base::Instant next() const {
    return heap_.empty() ? base::Instant::never() : heap_.front().at;
  }
  [[nodiscard]] base::Instant now() const { return now_; }
  FramePool& frames() { return pool_; }

  // False: no such port. A port that goes down loses what it holds.
  bool set_fault(uint32_t port, const PortFault& fault);
  // How long the uplink of a host is busy with what it holds.
  [[nodiscard]] base::Duration backlog(uint32_t host) const;
  // Both directions of a host's cable have a carrier.
  [[nodiscard]] bool linked(uint32_t host) const;
  void count_drop(uint32_t node, Drop reason) { ++counters_[node].drops[static_cast<size_t>(reason)]; }

  [[nodiscard]] const std::vector<Port>& ports() const { return ports_; }
  [[nodiscard]] const std::vector<NodeSpec>& nodes() const { return nodes_; }
  [[nodiscard]] const NodeCounters& counters(uint32_t node) const { return counters_[node]; }
  [[nodiscard]] PortCounters port_counters(uint32_t port) const;
  [[nodiscard]] uint32_t mtu() const { return mtu_; }
  [[nodiscard]] uint64_t host_rate(uint32_t host) const { return ports_[uplink_[host]].rate_bps; }
  // Packets put on the lines of these ports are shown to `watch`, with the time they begin; null: to nobody.
  using Watch = void (*)(void* self, uint32_t port, base::Instant at, base::ByteView packet);
  void set_watch(Watch watch, void* self) { watch_ = watch, watcher_ = self; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kEthernetBytes = 14;
  enum class What : uint8_t { enter, line_free, arrive };
  struct EventOf {
    base::Instant at;
    uint64_t order;
    uint32_t port;  // the uplink, for `enter`
    FrameId frame;
    What what;
  };
  struct Route {
    uint16_t usid = 0;
    bool adjacency = false;
    uint32_t first = 0, count = 0;  // in hops_
  };

  std::string wire_up(const FabricSpec& spec);
  void schedule(base::Instant at, What what, uint32_t port, FrameId frame);
  void handle(const EventOf& e, std::vector<Delivery>& out);
  void arrive(const EventOf& e, std::vector<Delivery>& out);
  void forward(uint32_t node, FrameId id);
  void drop(uint32_t node, FrameId id, Drop reason);
  void put(uint32_t port, FrameId id);
  void send_next(uint32_t port);
  [[nodiscard]] const Route* route_for(uint32_t node, uint16_t usid) const;
  [[nodiscard]] uint32_t pick(const Route& r, base::ByteView packet) const;
  [[nodiscard]] bool carrier(uint32_t port) const { return !ports_[port].fault.down; }

  std::vector<NodeSpec> nodes_;
  std::vector<Port> ports_;
  std::vector<uint32_t> reverse_, uplink_;
  std::vector<std::vector<Route>> tables_;  // by node, sorted
  std::vector<uint32_t> hops_;
  std::vector<NodeCounters> counters_;
  wire::Dscps dscps_;
  uint32_t mtu_;
  FramePool pool_;
  std::vector<EventOf> heap_;
  uint64_t order_ = 0;
  base::Instant now_{};
  Watch watch_ = nullptr;
  void* watcher_ = nullptr;
};

}  // namespace mrc::softswitch
