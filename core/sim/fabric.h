// The built fabric: nodes, ports, and the static forwarding of every switch. Decides where a frame goes next,
// exactly as a switch with static routes does: uSID shift and lookup (reference 4.5), EV bits (STEV), or a
// salted hash. Leaves queues to port.h and aqm.h and time to the window loop.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/config.h"

namespace mrc::sim {

// uSIDs inside a plane's block: two bits of kind, 14 of number. A host's is its number below its T0, from 1:
// a uSID of 0 ends a list.
inline constexpr uint16_t kSidHost = 0, kSidT0 = 1, kSidT1 = 2, kSidT2 = 3;
constexpr uint16_t make_sid(uint16_t kind, uint32_t index) {
  return static_cast<uint16_t>((uint32_t{kind} << 14) | index);
}
inline constexpr uint32_t kMaxSidIndex = (1u << 14) - 1;

// Where a frame arrives: a host, or the egress port of a switch it was routed to. kDrop: nowhere.
struct Hop {
  enum class Kind : uint8_t { port, host, drop } kind = Kind::drop;
  uint32_t id = 0;
};

class Fabric {
 public:
  // The text says what cannot be built, empty if it can. Does not keep a pointer to `spec`.
  std::string build(const FabricSpec& spec, Routing routing, uint64_t seed);

  [[nodiscard]] uint32_t hosts() const { return hosts_; }
  [[nodiscard]] uint8_t planes() const { return planes_; }
  [[nodiscard]] uint32_t nodes() const { return hosts_ + static_cast<uint32_t>(switches_.size()); }
  [[nodiscard]] bool is_host(uint32_t node) const { return node < hosts_; }
  // 0: hosts and T1s, 1: T0s and T2s. Links join different sides.
  [[nodiscard]] uint32_t side_of(uint32_t node) const {
    return node < hosts_ ? 0 : (switches_[node - hosts_].spec.tier + 1u) & 1u;
  }
  [[nodiscard]] Port& port(PortId p) { return ports_[p]; }
  [[nodiscard]] const Port& port(PortId p) const { return ports_[p]; }
  // Inlined by force, see FramePool.
  [[gnu::always_inline]] void prefetch(PortId p) const {
    __builtin_prefetch(&ports_[p], 1);
    __builtin_prefetch(reinterpret_cast<const char*>(&ports_[p]) + 64, 1);
    __builtin_prefetch(reinterpret_cast<const char*>(&ports_[p]) + 128, 1);
  }
  [[nodiscard]] uint32_t port_count() const { return static_cast<uint32_t>(ports_.size()); }
  [[nodiscard]] const QueueRules& rules(const Port& p) const { return rules_[p.queue]; }
  // The NIC's egress of that plane (1-based); kNoPort: the host has no such port.
  [[nodiscard]] PortId nic_port(uint32_t host, uint8_t plane) const {
    return nic_[host * planes_ + plane - 1u];
  }

  // Number of paths from one host to another in a plane; 0: none. Path k of them is what EV tag k means.
  [[nodiscard]] uint32_t path_count(uint32_t src, uint32_t dst, uint8_t plane) const;
  // Whether path k exists (hand-made fabrics have holes).
  [[nodiscard]] bool path_exists(uint32_t src, uint32_t dst, uint8_t plane, uint32_t k) const;
  // Egress ports along path k, the NIC's first; false: none.
  bool walk(uint32_t src, uint32_t dst, uint8_t plane, uint32_t k, std::vector<PortId>& out) const;
  // Source side: the uSID list of the frame's tag (reference 4.5: the NIC expands the EV). False: no such
  // path.
  bool address(Frame& f) const;
  // The frame has just left by `from`; where does it arrive?
  [[nodiscard]] Hop next(PortId from, Frame& f) const;
  // One way without queues, for a packet of `bytes`; 0 if there is no path.
  [[nodiscard]] Ps one_way(uint32_t src, uint32_t dst, uint8_t plane, uint32_t bytes) const;
  // Shortest delay of any link, with the shortest frame: nothing a node does is felt elsewhere earlier.
  [[nodiscard]] Ps lookahead() const;

  [[nodiscard]] bool switch_up(uint32_t node) const { return switches_[node - hosts_].up; }
  void set_switch_up(uint32_t node, bool up) { switches_[node - hosts_].up = up; }
  [[nodiscard]] std::optional<uint32_t> t0_of(uint32_t host, uint8_t plane) const;  // node
  [[nodiscard]] bool pfc() const { return pfc_xoff_ != 0; }
  [[nodiscard]] uint32_t pfc_xoff() const { return pfc_xoff_; }
  [[nodiscard]] uint32_t pfc_xon() const { return pfc_xon_; }
  [[nodiscard]] uint32_t shared_buffer() const { return shared_buffer_; }
  // Ports of one switch depend on each other: PFC, or a buffer they share (coupled.h).
  [[nodiscard]] bool coupled() const { return pfc() || shared_buffer_ != 0; }
  [[nodiscard]] Routing routing() const { return routing_; }

 private:
  struct Range {
    uint16_t lo = 0, hi = 0;
    uint32_t first = 0;  // of sw_ports_
  };
  struct Switch {
    SwitchSpec spec;
    uint16_t sid = 0;
    bool up = true;
    uint32_t first = 0, count = 0;   // of sw_ports_
    uint32_t up_first = 0;           // ports to higher tiers: up_first .. first + count
    uint32_t down_row = UINT32_MAX;  // of down_, one entry a T0 of the plane; UINT32_MAX: tier 0
    bool complete = false;           // T1: leads down to every T0 of its plane; T0: all its T1s do
    uint64_t salt = 0;
    std::vector<Range> ranges;
    [[nodiscard]] uint32_t ups() const { return first + count - up_first; }
  };
  // Egress ports that lead down to a T0: down_ports_[first .. first + count).
  struct Down {
    uint32_t first = 0, count = 0;
  };

  std::string check(const FabricSpec& spec) const;
  void make_ports(const FabricSpec& spec, uint64_t seed);
  std::string make_adjacency(const FabricSpec& spec);
  void make_ranges();
  void make_down();
  void mark_complete();
  [[nodiscard]] uint16_t sid_of(uint32_t node, uint32_t parent) const;
  [[nodiscard]] PortId lookup(const Switch& s, uint16_t sid) const;
  [[nodiscard]] PortId pick(std::span<const PortId> group, const Switch& s, const Frame& f) const;
  [[nodiscard]] std::span<const PortId> downs(const Switch& s, uint32_t t0) const;
  [[nodiscard]] std::span<const PortId> ups(const Switch& s) const {
    return {sw_ports_.data() + s.up_first, s.ups()};
  }
  [[nodiscard]] PortId forward_usid(const Switch& s, Frame& f) const;
  [[nodiscard]] PortId forward_stev(const Switch& s, const Frame& f) const;
  [[nodiscard]] PortId forward_ecmp(const Switch& s, const Frame& f) const;

  [[nodiscard]] const Switch& sw(uint32_t node) const { return switches_[node - hosts_]; }

  uint32_t hosts_ = 0;
  uint8_t planes_ = 1;
  Routing routing_ = Routing::srv6;
  uint32_t pfc_xoff_ = 0, pfc_xon_ = 0, shared_buffer_ = 0;
  std::vector<Port> ports_;
  std::vector<QueueRules> rules_;
  std::vector<PortId> nic_;         // host x plane
  std::vector<uint16_t> host_sid_;  // host x plane
  std::vector<uint32_t> host_t0_;   // host x plane: switch node, UINT32_MAX: none
  std::vector<Switch> switches_;
  std::vector<PortId> sw_ports_;    // by switch, by neighbour uSID
  std::vector<uint16_t> sw_sids_;   // beside sw_ports_: uSID of the neighbour,
  std::vector<uint32_t> sw_nodes_;  // and its node
  std::vector<uint32_t> t0_count_;  // by plane
  std::vector<uint32_t> t0_row_;    // by switch: index among the T0s of its plane
  std::vector<Down> down_;
  std::vector<PortId> down_ports_;
};

}  // namespace mrc::sim
