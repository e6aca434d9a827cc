// One run: windows of virtual time over a fabric, a transport and a workload.
//
// Nothing a node does is felt elsewhere earlier than one lookahead L (shortest link delay plus shortest
// frame). Links join only neighbouring tiers, so the nodes fall into two sides, hosts and T1s here, T0s and
// T2s there, and each side can go on to L beyond what the other has done: they take turns with windows of 2
// L. Inside a window every host and every egress port runs alone, in exact time order: there is no global
// event queue, and a node's memory is fetched once for all it does in a window. Faults and samples cut
// windows, so they happen at their exact times. Deterministic: no order depends on addresses, threads or
// clocks.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string>

#include "sim/calendar.h"
#include "sim/coupled.h"
#include "sim/fabric.h"
#include "sim/series.h"
#include "sim/stack.h"

namespace mrc::sim {

struct RunSpec {
  FabricSpec fabric;
  Routing routing = Routing::srv6;
  Workload workload;
  std::vector<FaultSpec> faults;
  WatchSpec watch;
  uint32_t groups = 1;
  uint32_t qps_per_pair = 1;
  uint64_t seed = 1;
  int64_t until_ns = -1;       // -1: until all tasks are done
  double shared_alpha = 0;     // dynamic threshold of a shared buffer; 0: any port may take all of it
  int64_t port_notice_ns = 0;  // from a NIC port's failure to the moment its host knows
  bool check = false;          // invariants, counted in violations()
  std::function<bool()> stop;  // asked now and then while connections are opened; true: give up
};

struct PcapRecord {
  Ps at = 0;  // last bit on the line
  PortId port = kNoPort;
  Frame frame;
};

class Simulation {
 public:
  // Makes the transport of a run.
  using MakeHosts = std::function<std::unique_ptr<Hosts>(Env&)>;
  // The text says what cannot be run, empty if it can.
  std::string build(RunSpec spec, const MakeHosts& make);

  enum class State : uint8_t {
    running,
    done,
    until,
    stuck
  };  // stuck: open tasks, and nothing will happen any more
  // Goes on for about `budget` frame hops.
  State run(uint64_t budget);
  void finish();  // fills the totals; call once at the end

  [[nodiscard]] Ps now() const { return std::min(sides_[0].done, sides_[1].done); }
  [[nodiscard]] uint64_t windows() const { return windows_; }
  [[nodiscard]] uint64_t hops() const { return hops_; }
  [[nodiscard]] uint64_t violations() const { return violations_; }
  [[nodiscard]] const Tasks& tasks() const { return tasks_; }
  [[nodiscard]] const Totals& totals() const { return totals_; }
  [[nodiscard]] const Series& series() const { return sampler_.series(); }
  [[nodiscard]] const Watch& watch() const { return watch_; }
  [[nodiscard]] const Fabric& fabric() const { return fabric_; }
  [[nodiscard]] const std::vector<PcapRecord>& pcap() const { return pcap_; }

 private:
  struct Event {
    Ps at = 0;
    FaultSpec what;
    bool notice = false;  // the host learns of its port
  };

  struct Side {
    Ps done = 0;  // it has run up to here
    Calendar calendar;
    std::vector<PortId> active;           // ports with something to do
    std::vector<uint32_t> busy_switches;  // the same of coupled switches
    size_t next_event = 0, sampled = 0;
  };
  [[nodiscard]] uint32_t side_of(uint32_t node) const { return fabric_.side_of(node); }

  [[nodiscard]] std::string check_spec() const;
  std::string plan_faults();
  State skip_idle();
  [[nodiscard]] Ps next_line() const;
  void advance(uint32_t which, Ps target);
  void sample(uint32_t which);
  void sort_arrivals(Side& side);
  bool keep(Side& side, Record& r);
  [[nodiscard]] uint32_t slot_of(const Record& r) const {  // of ranges_
    return r.kind() == Record::Kind::host ? fabric_.port_count() + r.id() : r.id();
  }
  void run_hosts(Ps begin, Ps end);
  void run_host(uint32_t host, Ps begin, Ps end);
  void prefetch_arrivals(PortId id);
  void run_ports(Side& side, Ps end);
  void run_coupled(Side& side, Ps begin, Ps end);
  bool run_port(PortId id, Ps end);  // true: something is left in its queues
  // The arrivals of one receiver in order, taken out of the window's; `slot`: a port, or port_count() + host.
  std::span<const Arrival> gather(uint32_t slot);
  void depart(PortId id, Port& p, FrameId frame, Frame& f, Ps start);
  void carry(PortId id, Port& p, FrameId frame, Frame& f, Ps sent);  // the last bit is on the line
  void lose(FrameId f, uint64_t& counter);
  void wake(uint32_t host, Ps at) {
    wake_[host] = std::min(wake_[host], at);
    min_wake_ = std::min(min_wake_, at);
  }
  void apply(const Event& e, uint32_t which);  // what of it belongs to that side
  void set_link(PortId id, bool up);

  RunSpec spec_;
  Fabric fabric_;
  FramePool pool_;
  Tasks tasks_;
  Totals totals_;
  Watch watch_;
  Sampler sampler_;
  std::unique_ptr<Env> env_;
  std::unique_ptr<Hosts> hosts_;
  std::unique_ptr<Coupled> coupled_;
  std::array<Side, 2> sides_;
  Ps lookahead_ = 1, until_ = kNever, min_wake_ = kNever;
  uint64_t windows_ = 0, hops_ = 0, violations_ = 0;
  bool any_switch_down_ = false;

  std::vector<Event> events_;  // sorted
  std::vector<Ps> wake_;       // by host
  // Arrivals of this window: as they came, and by receiver (ports, then hosts) in one array.
  struct Range {
    uint32_t first = 0, end = 0;
    [[nodiscard]] bool empty() const { return first == end; }
  };
  std::vector<Record> cur_;
  std::vector<Range> ranges_;
  std::vector<uint32_t> touched_;  // receivers with arrivals, scratch
  std::vector<Arrival> arrivals_;
  std::vector<PortId> active_, still_;  // ports with something to do
  std::vector<Hosts::Sent> sent_;       // scratch
  std::vector<Pause> pauses_in_, pauses_out_;
  std::vector<PcapRecord> pcap_;
  std::vector<bool> pcap_port_;
  static constexpr size_t kMaxPcap = 1'000'000;
};

}  // namespace mrc::sim
