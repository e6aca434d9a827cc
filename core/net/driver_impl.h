// The state behind net::Driver. `mutex` guards the engine, the impairments and everything marked so; the sockets and
// their batches belong to the I/O thread alone.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "net/clock.h"
#include "net/driver.h"
#include "net/frame_heap.h"
#include "net/link_watch.h"
#include "net/udp_linux.h"

namespace mrc::net {

struct Driver::Impl {
  Impl(const DriverConfig& c) : config(c), endpoint(c.engine), line(c.impair_seed) {}

  int open(std::string& why);
  void run();                                   // the I/O thread
  base::Instant next_wakeup();
  void wait(base::Instant until);
  void read_planes();
  void ingest(UdpPlane::Received& r, base::Instant now);        // locked
  void deliver_held(base::Instant now);                          // locked
  bool transmit(base::Instant now);                              // locked; true when there may be more
  void transmit_one(base::Instant now, const engine::Transmit& t, const uint8_t* head);   // locked
  void transmit_impaired(base::Instant now, const engine::Transmit& t, const uint8_t* head, const impair::Verdict& v);
  void after_send(base::Instant now, SendOutcome o, const engine::Transmit& t);
  void hold(base::Instant at, bool outgoing, const wire::DatagramMeta& meta, std::vector<uint8_t> bytes);
  void announce();                                               // locked: event_fd follows the engine's notices
  void check_links(base::Instant now);                           // locked
  void retry_blocked(base::Instant now);
  void die(const std::string& what);
  void wake();
  [[nodiscard]] UdpPlane& plane(uint8_t port) { return planes[port - 1u]; }

  static constexpr size_t kTxPerLock = 64;
  static constexpr base::Duration kBlockedRetry = base::Duration::micros(500);

  DriverConfig config;
  mutable std::mutex mutex;
  engine::Endpoint endpoint;                    // guarded
  impair::Line line;                            // guarded
  FrameHeap held;                               // guarded
  DriverStats stats;                            // guarded
  std::vector<UdpPlane> planes;
  std::vector<bool> plane_up;                   // guarded
  std::vector<base::Instant> last_data_port;    // guarded, by port
  std::unordered_map<uint32_t, base::Instant> last_data_tag;   // guarded; one entry an EV of this driver
  size_t noticed = 0;                           // guarded: notices of the engine already announced
  std::string failed;                           // guarded

  Fd epoll, wake_fd, event_fd;
  LinkWatch links;
  std::thread thread;
  std::atomic<bool> stop{false}, sleeping{false};
  uint32_t writable = UINT32_MAX;               // I/O thread: ports whose socket took the last packet
  base::Instant blocked_until = base::Instant::never();
  // A packet the socket had no room for: it goes first once there is room.
  struct Stuck { wire::DatagramMeta meta; std::vector<uint8_t> bytes; };
  std::deque<Stuck> stuck;
  std::vector<UdpPlane::Received> batch;
  bool closed = false;
};

}  // namespace mrc::net
