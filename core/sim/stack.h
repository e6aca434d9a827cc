// What every transport of the simulator is to the window loop, and the loop of one host through one window.
//
// CONTRACT for a transport `S` (MrcStack, RoceStack, TcpStack), one object for all hosts of a run:
//   std::string open(const std::vector<Pair>&)      connections that the workload uses; text: why not
//   void post(Ps now, uint32_t host, TaskId)        a send of this host starts (call tasks.on_posted when the
//   first
//                                                    packet may go; tasks.on_delivered at the destination,
//                                                    on_acked at the source)
//   void receive(Ps now, uint32_t host, FrameId)    a frame has arrived; the stack gives it back to the pool
//   Ps next_timer(uint32_t host) const              kNever if none
//   void on_timer(Ps now, uint32_t host)
//   uint32_t wants(uint32_t host) const             bit N: something may be sendable on plane N. Cheap, may
//   be too many bool transmit(Ps now, uint32_t host, uint32_t free, Frame& out)   `free`: planes whose line
//   is idle. Fills src, dst, plane,
//                                                    size, tag, class, ecn, dscp, trim fields, head. False:
//                                                    nothing now.
//   void on_port(Ps now, uint32_t host, uint8_t plane, bool up)       the NIC noticed its own link
//   void on_pause(Ps now, uint32_t host, uint8_t plane, bool paused)  PFC reached the NIC
//   void add_totals(Totals&) const; void at_end(...)
// A host's calls happen in time order; calls of different hosts inside one window do not.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/fabric.h"
#include "sim/frame.h"
#include "sim/tasks.h"
#include "sim/totals.h"

namespace mrc::sim {

struct Arrival {
  Ps at = 0;
  FrameId frame = kNoFrame;
  PortId in_port = kNoPort;  // the port it left the last node by
};

// A connection between two hosts: `a` < `b`, one for each QP index that the workload uses.
struct Pair {
  uint32_t a = 0, b = 0;
  uint32_t qps = 1;
};

// What a stack may use of its run. `sent` hands a frame to the fabric (simulation.h).
struct Env {
  Fabric& fabric;
  FramePool& pool;
  Tasks& tasks;
  Totals& totals;
  Watch& watch;
  uint64_t seed = 1;
  const std::function<bool()>& stop;  // RunSpec's; may be empty
};

class Hosts {
 public:
  virtual ~Hosts() = default;
  virtual std::string open(const std::vector<Pair>& pairs) = 0;
  // Runs one host from `begin` to `end` (not included). Frames it sends go to `out` with the time the line
  // took them.
  struct Sent {
    Ps at = 0;  // last bit on the line
    PortId port = kNoPort;
    FrameId frame = kNoFrame;
  };
  virtual void run(uint32_t host, std::span<const Arrival> in, Ps begin, Ps end, std::vector<Sent>& out) = 0;
  // When the host wants to run next without anything arriving; kNever: never.
  [[nodiscard]] virtual Ps next_wake(uint32_t host) const = 0;
  virtual void on_port(Ps now, uint32_t host, uint8_t plane, bool up) = 0;
  virtual void on_pause(Ps now, uint32_t host, uint8_t plane, bool paused) = 0;
  virtual void add_totals(Totals& t) const = 0;
  // A hint before run(): stages 0, 1, 2, 3.
  virtual void prefetch(uint32_t host, int stage) const = 0;
};

template <typename S>
class HostsOf final : public Hosts {
 public:
  template <typename... A>
  explicit HostsOf(Env& env, A&&... args) : env_(env), stack_(env, std::forward<A>(args)...) {}
  std::string open(const std::vector<Pair>& pairs) override { return stack_.open(pairs); }
  void run(uint32_t host, std::span<const Arrival> in, Ps begin, Ps end, std::vector<Sent>& out) override {
    size_t i = 0;
    uint32_t repeats = 0;
    for (Ps now = begin;;) {
      // Everything of this instant, then what may be sent, then on to the next instant.
      for (TaskId t; env_.tasks.next_start(host) <= now && env_.tasks.take_send(host, now, t);)
        stack_.post(now, host, t);
      if (stack_.next_timer(host) <= now) stack_.on_timer(now, host);
      Ps next = send(host, now, out);
      if (i < in.size()) next = std::min(next, in[i].at);
      next = std::min({next, stack_.next_timer(host), env_.tasks.next_start(host)});
      // A stack that stays due without doing anything must not stop time.
      if (next > now) {
        repeats = 0;
      } else if (++repeats > kMaxRepeats) {
        ++env_.totals.timer_stalls;
        next = now + kPsPerNs;
      }
      if (next >= end) return;
      if (next > now) now = next;
      for (; i < in.size() && in[i].at <= now; ++i) {
        if (i + 3 < in.size()) env_.pool.prefetch_all(in[i + 3].frame);
        stack_.receive(in[i].at, host, in[i].frame);
      }
    }
  }
  [[nodiscard]] Ps next_wake(uint32_t host) const override {
    Ps next = std::min(stack_.next_timer(host), env_.tasks.next_start(host));
    for (uint32_t w = stack_.wants(host); w != 0; w &= w - 1) {
      const PortId p = env_.fabric.nic_port(host, static_cast<uint8_t>(__builtin_ctz(w)));
      if (p != kNoPort && takes(env_.fabric.port(p))) next = std::min(next, takes_at(env_.fabric.port(p)));
    }
    return next;
  }
  void on_port(Ps now, uint32_t host, uint8_t plane, bool up) override {
    stack_.on_port(now, host, plane, up);
  }
  void on_pause(Ps now, uint32_t host, uint8_t plane, bool paused) override {
    stack_.on_pause(now, host, plane, paused);
  }
  void add_totals(Totals& t) const override { stack_.add_totals(t); }
  void prefetch(uint32_t host, int stage) const override {
    if constexpr (requires { stack_.prefetch(host, stage); }) stack_.prefetch(host, stage);
  }
  S& stack() { return stack_; }

 private:
  static bool takes(const Port& p) { return p.up || p.unseen; }
  // When the port takes its next frame: while the line is busy, a stack may have `kNicQueue` bytes wait
  // behind it, as NICs do. Without that, a sender whose window is the limit sends by the line that happens to
  // be idle, and planes that fall out of step stay behind.
  static Ps takes_at(const Port& p) {
    if constexpr (requires { S::kNicQueue; }) return p.free_at - serialization(p.per_byte, S::kNicQueue);
    return p.free_at;
  }
  // Sends what the idle lines take at `now`; the time to try again, kNever if there is nothing to send.
  Ps send(uint32_t host, Ps now, std::vector<Sent>& out) {
    for (;;) {
      const uint32_t wants = stack_.wants(host);
      if (wants == 0) return kNever;
      uint32_t free = 0;
      Ps next = kNever;
      for (uint32_t w = wants; w != 0; w &= w - 1) {
        const auto plane = static_cast<uint8_t>(__builtin_ctz(w));
        const PortId id = env_.fabric.nic_port(host, plane);
        if (id == kNoPort) continue;
        const Port& p = env_.fabric.port(id);
        if (!takes(p)) continue;  // the stack hears of it by on_port
        if (const Ps at = takes_at(p); at <= now) {
          free |= 1u << plane;
        } else {
          next = std::min(next, at);
        }
      }
      if (free == 0) return next;
      const FrameId id = env_.pool.take();
      Frame& f = env_.pool[id];
      if (!stack_.transmit(now, host, free, f)) {
        env_.pool.give(id);
        return next;
      }
      f.next = kNoFrame;
      if (env_.fabric.routing() == Routing::srv6 && !env_.fabric.address(f)) {
        ++env_.totals.frames_sent;  // and lost at once
        ++env_.totals.drops_no_route;
        env_.pool.give(id);
        continue;
      }
      const PortId port = env_.fabric.nic_port(host, f.plane);
      Port& p = env_.fabric.port(port);
      p.free_at = std::max(now, p.free_at) + serialization(p.per_byte, f.size);
      out.push_back({p.free_at, port, id});
    }
  }

  static constexpr uint32_t kMaxRepeats = 10'000;  // of one instant
  Env& env_;
  S stack_;
};

}  // namespace mrc::sim
