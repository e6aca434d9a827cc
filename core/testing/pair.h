// Two endpoints joined by impaired planes in virtual time: the stage of the C++ stories, of chaos and of the
// fuzzers. Decides when frames arrive and when timers fire; leaves what goes wrong to impair::Line.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "engine/endpoint.h"
#include "engine/transmit.h"
#include "impair/line.h"

namespace mrc::testing {

using base::Duration;
using base::Instant;

struct PairConfig {
  uint8_t planes = 4;
  uint32_t evs_per_plane = 4;
  uint64_t seed = 1;
  Duration one_way = Duration::micros(5);  // of every plane, before impairments
  bool ipv4 = false;
  int64_t port_bytes_per_second = 0;  // what the endpoints believe; 0 = unknown
  int64_t bytes_per_second = 0;       // what the ports say of each plane; 0 = unknown
  size_t max_frames = 200'000;        // in flight at once; more are dropped (and would be a bug)
  // The sender's own host: after a packet its port takes no more for a while, or the socket refuses the
  // packet.
  uint32_t port_full_ppm = 0, send_fail_ppm = 0;
  engine::EndpointConfig endpoint;  // seed is replaced
};

class Pair {
 public:
  explicit Pair(const PairConfig& config);

  engine::Endpoint& side(int i) { return *ends_[static_cast<size_t>(i)].endpoint; }
  // A new incarnation: QPs, keys and numbers of the old one are gone, its packets still fly.
  void restart(int i);
  impair::Line& line() { return line_; }
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] const PairConfig& config() const { return config_; }
  [[nodiscard]] std::vector<engine::PeerPort> peer_ports(int of) const;  // as seen by side `of`

  // Sends whatever the endpoints want to send now. Call after commands.
  void flush();
  // Runs the earliest event. False: nothing will ever happen again.
  bool step();
  // Steps until `done` or the virtual deadline; the value is done().
  bool run_until(const std::function<bool()>& done, Instant deadline);
  // Moves time on without an event, for schedules; never past the next event.
  void run_for(Duration d);

  // Called for every datagram as it is handed to the network: side, description, UDP payload bytes.
  std::function<void(int, const engine::Transmit&, base::ByteView)> on_transmit;
  [[nodiscard]] uint64_t frames_sent() const { return sent_; }
  [[nodiscard]] uint64_t frames_overflowed() const { return overflow_; }
  [[nodiscard]] size_t frames_in_flight() const { return heap_.size(); }
  // A frame that nobody sent, for stories about strangers.
  void inject(int to, const wire::DatagramMeta& meta, base::ByteView bytes, Duration delay);

 private:
  struct Side {
    std::unique_ptr<engine::Endpoint> endpoint;
    uint64_t incarnation = 0;
    std::array<Instant, 32> full_until{};  // by port; only with port_full_ppm
  };
  struct Frame {
    Instant at;
    uint64_t order = 0;
    int to = 0;
    wire::DatagramMeta meta;
    std::vector<uint8_t> bytes;
  };
  static bool later(const Frame& a, const Frame& b) {
    return a.at > b.at || (a.at == b.at && a.order > b.order);
  }

  void boot(int i);
  void pump(int i);
  // Whether the packet leaves this host.
  bool leaves(int i, const engine::Transmit& t);
  [[nodiscard]] uint32_t writable_ports(int i) const;
  [[nodiscard]] Instant next_writable() const;
  void carry(int from, const engine::Transmit& t, const std::vector<uint8_t>& bytes);
  void push(Frame f);
  std::vector<uint8_t> fresh_buffer();
  static base::IpAddr address(bool v4, int side, uint8_t plane);

  PairConfig config_;
  base::Rng rng_, host_rng_;
  std::array<Side, 2> ends_;
  impair::Line line_;
  Instant now_{};
  std::vector<Frame> heap_;
  std::vector<std::vector<uint8_t>> spare_;
  std::vector<uint8_t> scratch_;
  uint64_t order_ = 0, sent_ = 0, overflow_ = 0;
};

}  // namespace mrc::testing
