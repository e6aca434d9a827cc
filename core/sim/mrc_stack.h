// MRC on every host of the fabric: one engine::Endpoint a NIC, the same engine that runs on sockets. Decides
// what a NIC around the engine does: connections set up out of band, work requests for tasks, EV numbers and
// their expansion. Payload is elided: phantom regions, and only header bytes travel.
//
// The remote address of a write names its task: task << 32 | offset. So a frame tells whose bytes it carries.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/prefetch.h"
#include "engine/endpoint.h"
#include "sim/stack.h"

namespace mrc::sim {

struct MrcConfig {
  uint32_t evs = 128, backups = 32;  // of a QP, over all planes
  uint32_t mtu = 4096;
  std::string cc = "uet-1.0-nscc", policy = "bitmap";
  cc::CcConfig cc_config;
  bool trimming = true;
  uint32_t sack_bytes = 16 * 1024;
  uint8_t mpr = 8;                  // x128 PSNs
  uint16_t max_wimm = 32;           // messages of a QP in flight
  int64_t base_rtt_ns = 0;          // 0: from the fabric, for each pair
  int64_t tail_timer_ns = 200'000;  // the loss timer of paper-results B.7
  uint8_t linear_cnt = 7, exp_cnt = 7;
  int64_t hold_time_ns = 0;  // above zero: in place of the retry budget
  ev::TableConfig table;     // probes, floor; RTT members are set from the fabric
  int64_t reorder_min_ns = 0;
  bool denylist = false;  // EVs avoid links that are dead at the start (a controller has told)
  bool timestamps = true;
  // Experiments, docs/sim-ablations.md; others are in `table`.
  bool fixed_ev = false;          // one EV a QP, of a plane drawn for its pair, and no spare
  bool fast_loss = true;          // false: losses are found by probes and the timer only
  bool fixed_reverse_ev = false;  // control packets keep one EV a plane
};

class MrcStack {
 public:
  static constexpr uint32_t kNicQueue = 4300;  // bytes that may wait behind a busy line: one full packet
  MrcStack(Env& env, const MrcConfig& config);

  std::string open(const std::vector<Pair>& pairs);
  void post(Ps now, uint32_t host, TaskId task);
  void receive(Ps now, uint32_t host, FrameId frame);
  [[nodiscard]] Ps next_timer(uint32_t host) const { return hosts_[host].timer; }
  void on_timer(Ps now, uint32_t host);
  [[nodiscard]] uint32_t wants(uint32_t host) const { return hosts_[host].wants; }
  bool transmit(Ps now, uint32_t host, uint32_t free, Frame& out);
  void on_port(Ps now, uint32_t host, uint8_t plane, bool up);
  void on_pause(Ps, uint32_t, uint8_t, bool) {}  // MRC fabrics have no PFC
  void add_totals(Totals& t) const;
  void prefetch(uint32_t host, int stage) const {
    const Host& h = hosts_[host];
    if (stage == 0) return base::prefetch(h);
    if (h.endpoint) h.endpoint->prefetch(stage - 1);
  }

 private:
  struct Link {                                       // one QP of a host
    uint32_t peer = 0, qpn = 0, rkey = 0, index = 0;  // rkey: of the peer; index: inside the pair
  };
  // Work of a task that the send queue has not taken yet.
  struct Backlog {
    TaskId task = 0;
    int64_t left = 0, offset = 0;
  };
  struct Queue {
    std::vector<Backlog> waiting;  // first in, first out; short
    uint32_t posted = 0;           // work requests in the send queue
  };
  struct Host {
    std::unique_ptr<engine::Endpoint> endpoint;
    uint32_t pd = 0, cq = 0, lkey = 0, rkey = 0;
    uint32_t wants = 0, planes = 0;
    Ps timer = kNever;
    std::vector<Link> links;     // by peer, then index
    std::vector<Queue> queues;   // beside links
    std::vector<uint32_t> turn;  // round robin of a peer's QPs, beside links (at its first)
  };

  std::string make_host(uint32_t host);
  std::string connect(const Pair& pair, uint32_t index);
  std::string bring_up(uint32_t host, const Link& link, const Link& back);
  // Bit N: the two hosts talk on plane N.
  [[nodiscard]] uint32_t planes_of(uint32_t host, const Link& link) const;
  engine::EvSetSpec draw_evs(uint32_t src, uint32_t dst, uint32_t planes, base::Rng& rng);
  void draw_plane(uint32_t src, uint32_t dst, uint8_t plane, uint32_t want, base::Rng& rng,
                  std::vector<uint32_t>& out);
  [[nodiscard]] bool dead_at_start(uint32_t src, uint32_t dst, uint8_t plane, uint32_t k) const;
  // Posts what the send queue has room for.
  void feed(Ps now, uint32_t host, uint32_t link);
  void after(Ps now, uint32_t host);      // news and timer
  void take_news(Ps now, uint32_t host);  // completions and events
  void complete(Ps now, uint32_t host, const engine::Completion& c);
  [[nodiscard]] uint32_t link_of_qpn(const Host& h, uint32_t qpn) const;
  [[nodiscard]] base::IpAddr address(uint32_t host, uint8_t plane) const;

  Env& env_;
  MrcConfig config_;
  std::vector<Host> hosts_;
  std::vector<uint32_t> scratch_;
  std::array<engine::Completion, 16> completions_;  // scratch
  uint64_t control_sent_ = 0, data_sent_ = 0, rtx_sent_ = 0, new_bytes_ = 0, ev_bad_ = 0, qp_errors_ = 0;
};

}  // namespace mrc::sim
