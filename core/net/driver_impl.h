// The state behind net::Driver. `mutex` guards the engine, the impairments and everything marked so; the rest
// belongs to whoever runs the loop: the I/O thread, or a caller in help().
#pragma once

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "net/backlog.h"
#include "net/baton.h"
#include "net/clock.h"
#include "net/driver.h"
#include "net/fair_mutex.h"
#include "net/frame_heap.h"
#include "net/link_watch.h"
#include "net/rx_batch.h"
#include "net/tx_batch.h"
#include "net/udp_linux.h"

namespace mrc::net {

struct Driver::Impl {
  explicit Impl(const DriverConfig& c) : config(c), endpoint(engine_config(c)), line(c.impair_seed) {}

  // A system call a run costs little more than one a packet.
  static engine::EndpointConfig engine_config(const DriverConfig& c) {
    engine::EndpointConfig e = c.engine;
    e.share_window = true;
    if (e.run_bytes == 0 && c.batching == Batching::runs) e.run_bytes = TxBatch::kMaxRunBytes;
    return e;
  }
  int open(std::string& why);
  int open_plane(size_t i, base::Rng& rng, std::set<uint32_t>& taken, std::string& why);
  void run();  // the I/O thread
  // A turn of the loop by whichever thread has it; nothing once the driver stops.
  base::Instant guarded_turn();
  bool help(const std::function<bool()>& done, base::Instant deadline);
  void stop_client(const std::string& why);
  // Receives, serves timers, transmits: one bounded batch of each. Until when there is nothing to do then.
  base::Instant turn();
  base::Instant next_wakeup();
  // Sleeps in the kernel, after looking again for a while when the gaps are shorter than `spin` / `gaps`.
  void wait(base::Instant now, base::Instant until, int64_t gaps);
  using Ready = std::array<epoll_event, engine::kMaxPorts + 2>;
  void absorb(const Ready& ready, int n);               // what epoll_wait returned
  void look_now();                                      // at all descriptors
  bool look_by_reading();                               // true when there is something for read_planes()
  void fetch(size_t i, size_t most);                    // one read of a plane into `batch`
  bool read_planes();                                   // true when there may be more
  void hand_over(size_t i, uint64_t dropped);           // what was fetched, to the engine
  void ingest(engine::Datagram& r, base::Instant now);  // locked
  bool deliver_held(base::Instant now);                 // locked; true when more is due
  bool transmit(base::Instant now);                     // locked; true when there may be more
  bool impair_outgoing(base::Instant now, TxBatch::Slot& s);  // locked; true when the packet is dealt with
  uint32_t hold_back(base::Instant now);  // locked: ports whose links have enough to do; sets held_until
  void note_data(base::Instant now, const engine::Transmit& t);  // locked
  void after_send(base::Instant now, const engine::Transmit& t, int error, size_t bytes);
  void hold(base::Instant at, bool outgoing, const wire::DatagramMeta& meta, const base::IpAddr& via,
            std::vector<uint8_t> bytes);
  void park(base::Instant now, const engine::Transmit& t, std::vector<uint8_t> bytes);
  void retry_stuck(base::Instant now);               // locked
  void announce();                                   // locked: event_fd follows the engine's notices
  void check_links(base::Instant now);               // locked, by the I/O thread (links.cc)
  void follow_gateway(size_t i, base::Instant now);  // locked: the state its switch told last
  bool move_plane(size_t i, base::Instant now);      // the same; true when it has another address now
  void die(const std::string& what);
  void wake();
  [[nodiscard]] bool forked() const { return generation != fork_generation(); }
  [[nodiscard]] UdpPlane& plane(uint8_t port) { return planes[port - 1u]; }
  static uint64_t path_key(uint8_t port, uint32_t tag) { return (uint64_t{port} << 32) | tag; }
  // The UDP payload of a packet, gathered.
  static void gather(const TxBatch::Slot& s, bool trailer, std::vector<uint8_t>& out);

  static constexpr size_t kTxPerLock = TxBatch::kMax, kHeldPerLock = 64, kMaxStuck = 4096, kMaxPaths = 65'536;
  // Of one plane in one batch: what a full socket makes us keep must not wait for long.
  static constexpr size_t kBatchBytes = 256 * 1024;
  static constexpr int kDrains = 8;  // batches read before timers are served
  // Longer gaps: sleeping costs less than looking. A thread that waits for its own result pays for a look,
  // not for another one's wake-up.
  static constexpr int64_t kGapsPerSpin = 8, kGapsOfHelper = 1;
  static constexpr base::Duration kBlockedRetry = base::Duration::micros(500);
  static constexpr uint64_t kLooksAnEpoll = 32;  // while looks are reads: one at everything else
  static constexpr size_t kSingles = 4, kShort = 1024;
  static constexpr size_t kNoPlane = SIZE_MAX;

  const uint32_t generation = fork_generation();
  DriverConfig config;
  mutable FairMutex mutex;
  engine::Endpoint endpoint;                  // guarded
  impair::Line line;                          // guarded
  FrameHeap held;                             // guarded
  DriverStats stats;                          // guarded
  std::vector<UdpPlane> planes;               // receive() by the I/O thread alone, everything else guarded
  std::vector<Backlog> backlogs;              // guarded, by plane
  std::vector<bool> plane_up;                 // guarded
  std::vector<std::string> plane_nic;         // interface that held its address when it was opened; none: ""
  std::vector<base::Instant> last_data_port;  // guarded, by port
  std::unordered_map<uint64_t, base::Instant> last_data_path;  // guarded, by path_key()
  uint64_t last_key = 0;  // guarded: the entry written last, and where it is
  base::Instant* last_entry = nullptr;
  size_t noticed = 0;  // guarded: notices of the engine already announced
  std::string failed;  // guarded

  Fd epoll, wake_fd, event_fd;
  LinkWatch links;
  std::thread thread;
  std::mutex closing;
  bool closed = false;             // guarded by `closing`
  std::shared_ptr<Client> client;  // guarded by `mutex`
  Baton baton;
  std::atomic<bool> stop{false}, sleeping{false};

  // Of whoever runs the loop: held for a turn, and to take note of what the kernel reported.
  std::mutex loop;
  uint32_t readable = 0;           // by plane index: the kernel said there is something
  uint32_t writable = UINT32_MAX;  // by port: its sockets took the last packet
  base::Instant blocked_until = base::Instant::never();
  base::Instant held_until = base::Instant::never();  // a link that had enough to do may take more then
  // Packets a socket had no room for: they go first once there is room. Nothing else is offered to their
  // plane.
  struct Stuck {
    engine::Transmit t;
    std::vector<uint8_t> bytes;
  };
  std::deque<Stuck> stuck;
  bool received = false;       // the last turn found datagrams
  base::Instant busy_until{};  // spinning pays until then
  base::Duration usual_gap{};  // smoothed: how long there was nothing to do
  RxBatch rx;
  std::vector<engine::Datagram> batch;
  // What `batch` holds: of which plane, from how many messages of the kernel.
  struct Fetched {
    size_t plane = kNoPlane, messages = 0;
    uint64_t dropped = 0;
  };
  Fetched fetched;
  size_t fetched_at_once = 0;            // looks in a row that found something
  bool last_was_short = false;           // the datagram read last
  std::atomic<bool> sent_little{false};  // by whoever sent last, with_flush() among them
  TxBatch tx;
  std::vector<uint8_t> fill;  // percent, by plane
  uint8_t told_pressure = 0;
  uint64_t wakeups = 0;
};

}  // namespace mrc::net
