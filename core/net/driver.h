// Drives one engine::Endpoint over ordinary UDP sockets: the only room with sockets, a thread and a clock.
// Decides how datagrams reach the kernel and when the engine runs; leaves every protocol decision to the
// engine.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/endpoint.h"
#include "impair/line.h"
#include "net/batching.h"

namespace mrc::net {

struct PlaneConfig {
  std::string address;              // "127.0.0.1", "fd00::1", "fe80::1%eth1"
  uint16_t udp_port = 0;            // 0: the kernel picks one; read it back from planes()
  uint32_t evs = 16;                // AUTO EVs of this plane: source-port sockets (IPv4), flow labels (IPv6)
  bool force_source_ports = false;  // IPv6: use a socket pool instead of flow labels
  int64_t bytes_per_second = 0;     // link rate if known
  // IPv6 only; false: UDP checksum 0. For uSID lists over real links: the sum is made for the first address
  // of the list and would be wrong at the last. Costs runs (UDP_SEGMENT), which the kernel then refuses.
  bool udp_checksum = true;
  // "127.0.0.1:4000": the address is not of this kernel but of a fabric in user space, whose switch takes and
  // brings packets there. They are 48 bytes longer on loopback than on the fabric, whose MTU holds as it is.
  std::string gateway;
};
struct PlaneInfo {
  uint8_t port = 0;
  std::string address;
  uint16_t udp_port = 0;
  bool up = true, flow_labels = false, segments = false;  // segments: runs are cut up by the kernel
  uint32_t mtu = 0;
  int rcvbuf_granted = 0, sndbuf_granted = 0;
  std::vector<uint32_t> tags;
  std::string note;
};  // what is not as asked for, and the remedy; empty when all is well
// Who runs the loop that receives, serves timers and sends. `thread`: one of the driver's own. `caller`:
// whoever calls progress(), which saves the hand-over between two threads.
enum class Progress : uint8_t { thread, caller };
struct DriverConfig {
  engine::EndpointConfig engine;
  std::vector<PlaneConfig> planes;
  int rcvbuf = 4 << 20, sndbuf = 1 << 20;
  uint64_t impair_seed = 1;
  Progress progress = Progress::thread;
  Batching batching = Batching::runs;
  base::Duration spin = base::Duration::micros(50);  // looking for more before sleeping
  // Where the I/O thread is kept; empty: wherever the system puts it. Not for Progress::caller, whose thread
  // is its owner's.
  std::vector<uint32_t> cpus;
};
struct DriverStats {
  uint64_t rx_datagrams = 0, tx_datagrams = 0, rx_bytes = 0, tx_bytes = 0, local_rx_drops = 0,
           tx_would_block = 0, tx_errors = 0, wakeups = 0,
           bad_source = 0,  // packets whose source port (an EV given by the user) this host could not open
      tx_too_big = 0,       // refused because they exceed the path MTU; among tx_errors as well
      impaired_lost = 0;
};  // held back by impairment rules beyond the memory set aside for them

// A room that works for the application within the loop, where its completions are: collectives. Called with
// the engine locked, by whichever thread runs the loop.
class Client {
 public:
  virtual ~Client() = default;
  // After what arrived and the timers, before what is to be sent. Bounded work; true: there is more to do at
  // once.
  virtual bool step(engine::Endpoint& e, base::Instant now) = 0;
  // No step follows: the driver was closed, or died. The engine must not be used any more.
  virtual void on_stop(const std::string& why) = 0;
};

// Every public method is thread-safe. The I/O thread never calls user code and never takes the GIL.
class Driver {
 public:
  // On failure `why` says what failed, for which plane, and what to do.
  static base::Result<std::unique_ptr<Driver>> open(const DriverConfig& config, std::string& why);
  ~Driver();     // close()
  void close();  // stops the thread, closes sockets; idempotent

  // Runs `f` with the engine locked and the time of the call, then wakes the I/O thread. Fair: a caller waits
  // for one batch of the I/O thread at most. Throws std::logic_error in a forked child, whose engine may be
  // half-way through anything; the other methods answer with nothing there, and failure() says why.
  void with(const std::function<void(engine::Endpoint&, base::Instant)>& f);
  // The same, and what `f` posted leaves from the calling thread, as far as it fits in one batch.
  void with_flush(const std::function<void(engine::Endpoint&, base::Instant)>& f);
  // EBUSY: there is one. Null takes it away; its on_stop() is not called then.
  base::Errno set_client(std::shared_ptr<Client> client);
  // The calling thread runs the loop until done() or `deadline`, which saves two hand-overs when what it
  // waits for arrives. `done` is called often, without any lock. False, at once, when another thread does so
  // already. The I/O thread stands back meanwhile and a moment longer, since whoever waited may wait again
  // soon.
  bool help(const std::function<bool()>& done, base::Instant deadline);
  // Progress::caller only: one turn of the loop; when nothing had arrived, a sleep of at most `max_wait`
  // (negative: no limit), and what woke it is read. What that calls for leaves with the next call, so call
  // again soon. From one thread at a time. Throws std::logic_error for a driver with a thread, and in a
  // forked child.
  void progress(base::Duration max_wait);
  // Readable when a CQ notification fired, or an event is waiting, or the driver died. Reset by
  // drain_event_fd().
  [[nodiscard]] int event_fd() const;
  void drain_event_fd();
  [[nodiscard]] std::vector<PlaneInfo> planes() const;
  [[nodiscard]] DriverStats stats() const;
  [[nodiscard]] base::Instant now() const;  // CLOCK_MONOTONIC, shared by all processes of a host

  uint64_t add_rule(const impair::Rule& rule);  // id; rule times are CLOCK_MONOTONIC
  void clear_rules();
  // Time the last data packet was handed to the network (or to a dropping rule) on a plane / one of its EVs.
  [[nodiscard]] base::Instant last_data_tx(uint8_t port, uint32_t tag, bool whole_port) const;
  [[nodiscard]] std::string failure() const;  // "" while healthy

 private:
  Driver();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mrc::net
