// Runs fabrics in real time: threads, each for some fabrics (planes never meet, so no packet crosses
// threads), with the loopback sockets of their hosts. Decides when to look and how often; leaves forwarding
// to fabric.h and what sockets say to host_port.h. Every public method may be called from any thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "softswitch/fabric.h"
#include "softswitch/veth_port.h"

namespace mrc::softswitch {

struct RunnerSpec {
  std::vector<FabricSpec> fabrics;
  std::vector<std::vector<DeviceSpec>> devices;  // by fabric: hosts on devices; the others are on loopback
  uint32_t threads = 1;
  uint32_t address = 0x7F000001;  // loopback address of the hosts' sockets, host order
  int rcvbuf = 4 << 20;
  // Packets are looked after this often at most; what they experience is exact to the nanosecond all the
  // same.
  base::Duration quantum = base::Duration::micros(50);
};

struct RunnerStats {
  uint64_t turns = 0;        // of all threads
  uint64_t late_max_ns = 0;  // most that a thread came late to an event
  uint64_t busy_ns = 0;      // CPU time of all threads
  size_t frames = 0, clients = 0;
};

class Runner {
 public:
  // On failure null, and `why` says what failed and what to do.
  static std::unique_ptr<Runner> open(const RunnerSpec& spec, std::string& why);
  ~Runner();  // close()
  void close();

  // UDP port of a host's loopback socket; 0: no such host.
  [[nodiscard]] uint16_t socket_port(size_t fabric, uint32_t host) const;
  // False: no such fabric or port.
  bool set_fault(size_t fabric, uint32_t port, const PortFault& fault);
  [[nodiscard]] std::vector<PortCounters> port_counters(size_t fabric) const;
  [[nodiscard]] std::vector<NodeCounters> node_counters(size_t fabric) const;
  [[nodiscard]] std::vector<PortFault> faults(size_t fabric) const;
  [[nodiscard]] RunnerStats stats() const;
  // Writes what enters the lines of these ports to a file in pcap format, until it is told the same file with
  // no ports. Several at a time. 0 or errno.
  int capture(size_t fabric, const std::vector<uint32_t>& ports, const std::string& file);
  [[nodiscard]] std::string failure() const;  // "" while all threads run

 private:
  struct Shard;
  struct Seat {
    size_t shard = 0, slot = 0;
  };
  Runner();
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<Seat> seats_;  // by fabric
};

}  // namespace mrc::softswitch
