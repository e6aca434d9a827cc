// The simplest transport: a send becomes frames of one length, in order, without acknowledgement. What a
// fabric does to them can be worked out by hand. The path is the task's QP index, the plane its group + 1.
#pragma once

#include <vector>

#include "base/bytes.h"
#include "sim/simulation.h"
#include "sim/tests/shapes.h"

namespace mrc::sim::raw {

struct Got {
  Ps at = 0;
  TaskId task = 0;
  uint32_t number = 0;  // of the frame in its task
  Ecn ecn = Ecn::not_ect;
  Trim trim = Trim::none;
  uint32_t host = 0;
};

struct Config {
  uint32_t frame = 1000;  // bytes on the wire
  bool trimmable = false;
  bool control = false;  // frames of the control class
  std::vector<Got>* log = nullptr;
};

class Stack {
 public:
  Stack(Env& env, Config config) : env_(env), config_(config) {}
  std::string open(const std::vector<Pair>& /*pairs*/) {
    queue_.resize(env_.fabric.hosts());
    got_.resize(env_.tasks.count());
    return {};
  }
  void post(Ps now, uint32_t host, TaskId task) {
    const auto size = static_cast<uint64_t>(env_.tasks.spec().size[task]);
    queue_[host].push_back({task, static_cast<uint32_t>(size / config_.frame), 0});
    env_.tasks.on_posted(task, now);
  }
  void receive(Ps now, uint32_t host, FrameId id) {
    const Frame f = env_.pool[id];
    env_.pool.give(id);
    config_.log->push_back({now, f.flow, base::load_be32(f.head), f.ecn, f.trim, host});
    if (++got_[f.flow] * config_.frame < env_.tasks.spec().size[f.flow]) return;
    env_.tasks.on_delivered(f.flow, now);
    env_.tasks.on_acked(f.flow, now);
  }
  [[nodiscard]] Ps next_timer(uint32_t /*host*/) const { return kNever; }
  void on_timer(Ps /*now*/, uint32_t /*host*/) {}
  [[nodiscard]] uint32_t wants(uint32_t host) const {
    uint32_t planes = 0;
    for (const Item& i : queue_[host]) planes |= 1u << plane_of(i.task);
    return planes;
  }
  bool transmit(Ps /*now*/, uint32_t host, uint32_t free, Frame& out) {
    auto& q = queue_[host];
    for (auto it = q.begin(); it != q.end(); ++it) {
      const uint8_t plane = plane_of(it->task);
      if ((free >> plane & 1) == 0) continue;
      out = {};
      out.src = host;
      out.dst = static_cast<uint32_t>(env_.tasks.spec().peer[it->task]);
      out.plane = plane;
      out.tag = static_cast<uint32_t>(std::max(env_.tasks.spec().qp[it->task], 0));
      out.size = config_.frame;
      out.cls = config_.control ? Class::control : Class::data;
      out.ecn = Ecn::ect0;
      out.trimmable = config_.trimmable;
      out.trim_len = 60;
      out.flow = it->task;
      base::store_be32(out.head, it->sent++);
      if (it->sent == it->frames) q.erase(it);
      return true;
    }
    return false;
  }
  void on_port(Ps now, uint32_t host, uint8_t plane, bool up) { notices.push_back({now, host, plane, up}); }
  void on_pause(Ps /*now*/, uint32_t /*host*/, uint8_t /*plane*/, bool /*paused*/) {}
  void add_totals(Totals& /*t*/) const {}

  struct Notice {
    Ps at = 0;
    uint32_t host = 0;
    uint8_t plane = 0;
    bool up = false;
  };
  std::vector<Notice> notices;

 private:
  struct Item {
    TaskId task = 0;
    uint32_t frames = 0, sent = 0;
  };
  [[nodiscard]] uint8_t plane_of(TaskId t) const {
    return static_cast<uint8_t>(env_.tasks.spec().group[t] + 1);
  }
  Env& env_;
  Config config_;
  std::vector<std::vector<Item>> queue_;  // by host
  std::vector<int64_t> got_;              // frames, by task
};

// A fabric, sends, and what arrived.
struct Bench {
  RunSpec spec;
  Config config;
  std::vector<Got> log;
  Simulation sim;
  Stack* stack = nullptr;
  Simulation::State state{};
  explicit Bench(const FabricSpec& fabric, Routing routing = Routing::stev) {
    spec.fabric = fabric;
    spec.routing = routing;
    spec.workload.dep_ptr.push_back(0);
    spec.groups = 31;
    spec.check = true;
  }
  void send(int32_t src, int32_t dst, int64_t size, int64_t start_ns = 0, int32_t path = 0,
            int32_t plane = 1) {
    Workload& w = spec.workload;
    w.kind.push_back(0);
    w.node.push_back(src);
    w.peer.push_back(dst);
    w.qp.push_back(path);
    w.group.push_back(plane - 1);
    w.size.push_back(size);
    w.start.push_back(start_ns);
    w.delay.push_back(0);
    w.dep_ptr.push_back(0);
  }
  void fault(FaultKind kind, uint32_t target, int64_t at_ns, double value = 0, uint8_t directions = 3) {
    FaultSpec f;
    f.at_ns = at_ns;
    f.kind = kind;
    f.target = target;
    f.directions = directions;
    f.value = value;
    spec.faults.push_back(f);
  }
  // Link number between two nodes.
  [[nodiscard]] uint32_t link(uint32_t a, uint32_t b) const {
    for (uint32_t i = 0; i < spec.fabric.links.size(); ++i) {
      if (spec.fabric.links[i].a == a && spec.fabric.links[i].b == b) return i;
    }
    REQUIRE(false);
    return 0;
  }
  // To the end, or as far as it goes.
  void run() {
    config.log = &log;
    const std::string bad = sim.build(spec, [&](Env& env) {
      auto hosts = std::make_unique<HostsOf<Stack>>(env, config);
      stack = &hosts->stack();
      return hosts;
    });
    if (!bad.empty()) std::fprintf(stderr, "%s\n", bad.c_str());
    REQUIRE(bad.empty());
    while ((state = sim.run(1000)) == Simulation::State::running) {
    }
    sim.finish();
    CHECK_EQ(sim.violations(), uint64_t{0});
  }
  [[nodiscard]] Ps delivered(TaskId t) const { return sim.tasks().times().delivered[t]; }
};

}  // namespace mrc::sim::raw
