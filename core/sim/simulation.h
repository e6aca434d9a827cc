// One run: windows of virtual time over a fabric, a transport and a workload.
//
// Nothing a node does is felt elsewhere earlier than one lookahead L (shortest link delay plus shortest
// frame). So time goes on in windows of L, and inside a window every host and every egress port runs alone,
// in exact time order: there is no global event queue, and a node's memory is fetched once for all it does in
// a window. Faults and samples cut windows, so they happen at their exact times. Deterministic: no order
// depends on addresses, threads or clocks.
#pragma once

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

  [[nodiscard]] Ps now() const { return now_; }
  [[nodiscard]] uint64_t windows() const { return windows_; }
  [[nodiscard]] uint64_t hops() const { return hops_; }
  [[nodiscard]] uint64_t violations() const { return violations_; }
  [[nodiscard]] const Tasks& tasks() const { return tasks_; }
  [[nodiscard]] const Totals& totals() const { return totals_; }
  [[nodiscard]] const Series& series() const { return sampler_.series(); }
  [[nodiscard]] const Watch& watch() const { return watch_; }
  [[nodiscard]] const Fabric& fabric() const { return fabric_; }
  [[nodiscard]] const std::vector<PcapRecord>& pcap() const { return pcap_; }
  [[nodiscard]] size_t memory_bytes() const;

 private:
  struct Event {
    Ps at = 0;
    FaultSpec what;
    bool notice = false;  // the host learns of its port
  };

  [[nodiscard]] std::string check_spec() const;
  std::string plan_faults();
  State next_window(Ps& begin, Ps& end);
  void step(Ps begin, Ps end);
  void sort_arrivals(Ps begin);
  void run_hosts(Ps begin, Ps end);
  void run_host(uint32_t host, Ps begin, Ps end);
  void run_ports(Ps end);
  void run_coupled(Ps begin, Ps end);
  bool run_port(PortId id, Ps end);  // true: something is left in its queues
  void gather(uint32_t first);
  void depart(PortId id, Port& p, FrameId f, Ps start);
  void carry(PortId id, Port& p, FrameId f, Ps sent);  // the last bit is on the line
  void lose(FrameId f, uint64_t& counter);
  void wake(uint32_t host, Ps at) { wake_[host] = std::min(wake_[host], at); }
  void apply(const Event& e);
  void set_link(PortId id, bool up);
  void list(PortId id);

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
  Calendar calendar_;
  Ps lookahead_ = 1, now_ = 0, until_ = kNever;
  uint64_t windows_ = 0, hops_ = 0, violations_ = 0;
  bool any_switch_down_ = false;

  std::vector<Event> events_;  // sorted; next_event_ is the first that has not happened
  size_t next_event_ = 0;
  std::vector<Ps> wake_;                         // by host
  std::vector<uint32_t> host_head_, host_tail_;  // arrivals of this window
  std::vector<Record> cur_;
  std::vector<uint32_t> cur_next_;
  std::vector<PortId> active_, still_;  // ports with something to do
  std::vector<Arrival> arrivals_;       // scratch
  std::vector<Hosts::Sent> sent_;       // scratch
  std::vector<Pause> pauses_in_, pauses_out_;
  std::vector<uint32_t> busy_switches_;
  std::vector<PcapRecord> pcap_;
  std::vector<bool> pcap_port_;
  static constexpr size_t kMaxPcap = 1'000'000;
};

}  // namespace mrc::sim
