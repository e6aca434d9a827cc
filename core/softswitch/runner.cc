#include "softswitch/runner.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <exception>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>

#include "softswitch/capture.h"
#include "softswitch/host_port.h"
#include "softswitch/veth_port.h"

namespace mrc::softswitch {

using base::Duration;
using base::Instant;

namespace {

int64_t clock_ns(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}
Instant monotonic_now() { return {clock_ns(CLOCK_MONOTONIC)}; }
int64_t clock_offset() { return clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC); }

constexpr Duration kTellEvery = Duration::millis(100);
constexpr int kTellTimes = 5;  // a message to a full socket is lost, five in half a second are not
constexpr int kReads = 4;      // batches read from one socket a turn

}  // namespace

struct Runner::Shard {
  using Captures = std::map<std::string, Capture>;
  static void show(void* captures, uint32_t port, Instant at, base::ByteView bytes) {
    for (auto& [file, capture] : *static_cast<Captures*>(captures)) capture.packet(port, at, bytes);
  }
  struct Host {
    std::unique_ptr<Attachment> port;
    int tell_left = 0;
    Instant tell_at{};
  };
  struct Slot {
    std::unique_ptr<Fabric> fabric;
    // By file; where it is must not change, the fabric's watch points at it.
    std::unique_ptr<Captures> captures = std::make_unique<Captures>();
    std::vector<uint32_t> host_index;  // node -> index in hosts; UINT32_MAX: no host
  };

  std::vector<Slot> slots;
  std::vector<Host> hosts;
  Duration quantum{};
  mutable std::mutex mutex;  // everything above and below it while the thread runs
  RunnerStats stats;
  std::string failed;
  Socket epoll, wake_fd;
  Inbox inbox;
  std::vector<Delivery> arrived;
  std::atomic<bool> stop{false};
  std::thread thread;

  int add(const FabricSpec& spec, const RunnerSpec& runner, const std::vector<DeviceSpec>& devices,
          std::string& why);
  int open(std::string& why);
  void run();
  Instant turn();
  void read_all(Instant now);
  void advance(Instant now);
  void tell(Instant now);
  void wait(Instant until);
  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_fd.get(), &one, sizeof one);
  }
};

namespace {

// The device of a host, where one is named, else a loopback socket.
std::unique_ptr<Attachment> attach(Fabric& fabric, uint32_t node, const RunnerSpec& runner,
                                   const std::vector<DeviceSpec>& devices, std::string& why) {
  const auto device =
      std::find_if(devices.begin(), devices.end(), [node](const DeviceSpec& d) { return d.node == node; });
  int e = 0;
  if (device != devices.end()) {
    auto port = std::make_unique<VethPort>(fabric, *device);
    if (e = port->open(runner.rcvbuf); e == 0) return port;
    why = "device " + device->device + ": " + std::strerror(e);
    if (e == EPERM) why += "; packet sockets need CAP_NET_RAW in this network namespace";
  } else {
    auto port = std::make_unique<HostPort>(fabric, node);
    if (e = port->open(runner.address, runner.rcvbuf); e == 0) return port;
    why = std::string("no loopback socket for a host's port: ") + std::strerror(e);
  }
  if (e == EMFILE || e == ENFILE) why += "; raise the limit of open files (ulimit -n): one a host and plane";
  return nullptr;
}

}  // namespace

int Runner::Shard::add(const FabricSpec& spec, const RunnerSpec& runner,
                       const std::vector<DeviceSpec>& devices, std::string& why) {
  Slot s;
  s.fabric = std::make_unique<Fabric>(spec, why);
  if (!why.empty()) return EINVAL;
  s.host_index.assign(spec.nodes.size(), UINT32_MAX);
  for (uint32_t node = 0; node < spec.nodes.size(); ++node) {
    if (!spec.nodes[node].host) continue;
    auto port = attach(*s.fabric, node, runner, devices, why);
    if (port == nullptr) return EINVAL;
    s.host_index[node] = static_cast<uint32_t>(hosts.size());
    hosts.push_back({std::move(port)});
  }
  slots.push_back(std::move(s));
  return 0;
}

int Runner::Shard::open(std::string& why) {
  epoll = Socket(epoll_create1(EPOLL_CLOEXEC));
  wake_fd = Socket(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  int bad = epoll.get() < 0 || wake_fd.get() < 0 ? 1 : 0;
  const auto watch = [&](int fd, uint32_t tag) {
    epoll_event e{};
    e.events = EPOLLIN;
    e.data.u32 = tag;
    return epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &e) != 0 ? 1 : 0;
  };
  for (uint32_t i = 0; bad == 0 && i < hosts.size(); ++i) bad += watch(hosts[i].port->fd(), i);
  if (bad == 0) bad += watch(wake_fd.get(), UINT32_MAX);
  if (bad != 0) why = "no descriptors for a switch thread; raise the limit of open files (ulimit -n)";
  return bad != 0 ? EMFILE : 0;
}

void Runner::Shard::run() {
  prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
  try {
    while (!stop.load()) {
      const Instant began = monotonic_now();
      const Instant until = turn();
      wait(std::max(until, began + quantum));
      // Whatever woke us: a moment later more will have come, and one look is enough for all.
      const Instant earliest = began + quantum;
      if (const Duration left = earliest - monotonic_now(); left.ns > 0) {
        const timespec t{0, static_cast<long>(left.ns)};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &t, nullptr);
      }
    }
  } catch (const std::exception& e) {
    const std::lock_guard lock(mutex);
    failed = std::string("a switch thread ended: ") + e.what();
  }
}

Instant Runner::Shard::turn() {
  const std::lock_guard lock(mutex);
  const Instant now = monotonic_now();
  Instant next = Instant::never();
  for (const Slot& s : slots) next = std::min(next, s.fabric->next());
  if (next < now) stats.late_max_ns = std::max(stats.late_max_ns, static_cast<uint64_t>((now - next).ns));
  read_all(now);
  advance(now);
  for (Host& h : hosts) h.port->end_turn(now);
  tell(now);
  ++stats.turns;
  stats.busy_ns = static_cast<uint64_t>(clock_ns(CLOCK_THREAD_CPUTIME_ID));
  next = Instant::never();
  for (const Slot& s : slots) next = std::min(next, s.fabric->next());
  for (const Host& h : hosts) {
    if (h.tell_left > 0) next = std::min(next, h.tell_at);
  }
  return next;
}

void Runner::Shard::read_all(Instant now) {
  const int64_t offset = clock_offset();
  std::array<epoll_event, 64> ready;
  const int n = epoll_wait(epoll.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < n; ++i) {
    const uint32_t tag = ready[static_cast<size_t>(i)].data.u32;
    if (tag < hosts.size()) {
      if ((ready[static_cast<size_t>(i)].events & EPOLLERR) != 0) hosts[tag].port->read_errors();
      for (int k = 0; k < kReads && hosts[tag].port->receive(inbox, now, offset); ++k) {
      }
    } else {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_fd.get(), &count, sizeof count);
    }
  }
}

void Runner::Shard::advance(Instant now) {
  for (Slot& s : slots) {
    arrived.clear();
    s.fabric->advance(now, arrived);
    for (const Delivery& d : arrived) hosts[s.host_index[d.host]].port->deliver(d.frame);
    if (!arrived.empty()) {
      for (const uint32_t h : s.host_index) {
        if (h != UINT32_MAX) hosts[h].port->flush();
      }
    }
  }
}

void Runner::Shard::tell(Instant now) {
  for (Host& h : hosts) {
    if (h.tell_left == 0 || now < h.tell_at) continue;
    h.port->tell_link();
    --h.tell_left;
    h.tell_at = now + kTellEvery;
  }
}

void Runner::Shard::wait(Instant until) {
  std::array<epoll_event, 1> ready;
  const int64_t left = until.is_never() ? 1'000'000'000 : std::max<int64_t>((until - monotonic_now()).ns, 0);
  const timespec t{static_cast<time_t>(left / 1'000'000'000), static_cast<long>(left % 1'000'000'000)};
#ifdef SYS_epoll_pwait2
  if (syscall(SYS_epoll_pwait2, epoll.get(), ready.data(), 1, &t, nullptr, 0) >= 0 || errno != ENOSYS) return;
#endif
  epoll_wait(epoll.get(), ready.data(), 1, static_cast<int>((left + 999'999) / 1'000'000));
}

Runner::Runner() = default;
Runner::~Runner() { close(); }

std::unique_ptr<Runner> Runner::open(const RunnerSpec& spec, std::string& why) {
  if (spec.fabrics.empty() || spec.address >> 24 != 127) {
    why = "a switch needs a fabric and an address in 127.0.0.0/8";
    return nullptr;
  }
  std::unique_ptr<Runner> r(new Runner);
  const std::vector<DeviceSpec> none;
  const size_t threads = std::clamp<size_t>(spec.threads, 1, spec.fabrics.size());
  for (size_t i = 0; i < threads; ++i) {
    r->shards_.push_back(std::make_unique<Shard>());
    r->shards_.back()->quantum = spec.quantum;
  }
  for (size_t i = 0; i < spec.fabrics.size(); ++i) {
    Shard& s = *r->shards_[i % threads];
    r->seats_.push_back({i % threads, s.slots.size()});
    if (s.add(spec.fabrics[i], spec, i < spec.devices.size() ? spec.devices[i] : none, why) != 0)
      return nullptr;
  }
  for (const auto& s : r->shards_) {
    if (s->open(why) != 0) return nullptr;
  }
  try {
    for (const auto& s : r->shards_) s->thread = std::thread([m = s.get()] { m->run(); });
  } catch (const std::system_error& e) {
    why = std::string("cannot start a switch thread: ") + e.what() +
          "; raise the limit of processes (ulimit -u)";
    r->close();
    return nullptr;
  }
  return r;
}

void Runner::close() {
  for (const auto& s : shards_) {
    s->stop = true;
    s->wake();
  }
  for (const auto& s : shards_) {
    if (s->thread.joinable()) s->thread.join();
    for (Shard::Slot& slot : s->slots) slot.captures->clear();
  }
}

uint16_t Runner::socket_port(size_t fabric, uint32_t host) const {
  if (fabric >= seats_.size()) return 0;
  const Shard& s = *shards_[seats_[fabric].shard];
  const std::vector<uint32_t>& index = s.slots[seats_[fabric].slot].host_index;
  return host < index.size() && index[host] != UINT32_MAX ? s.hosts[index[host]].port->socket_port()
                                                          : uint16_t{0};
}

bool Runner::set_fault(size_t fabric, uint32_t port, const PortFault& fault) {
  if (fabric >= seats_.size()) return false;
  Shard& s = *shards_[seats_[fabric].shard];
  const std::lock_guard lock(s.mutex);
  Shard::Slot& slot = s.slots[seats_[fabric].slot];
  Fabric& f = *slot.fabric;
  if (port >= f.ports().size()) return false;
  const uint32_t from = f.ports()[port].from, to = f.ports()[port].to;
  const uint32_t node = f.nodes()[from].host ? from : to;
  const bool is_host = f.nodes()[node].host;
  const bool before = is_host && f.linked(node);
  f.set_fault(port, fault);
  if (is_host && before != f.linked(node)) {
    Shard::Host& h = s.hosts[slot.host_index[node]];
    h.port->tell_link();
    h.tell_left = kTellTimes - 1;
    h.tell_at = monotonic_now() + kTellEvery;
    s.wake();
  }
  return true;
}

std::vector<PortCounters> Runner::port_counters(size_t fabric) const {
  std::vector<PortCounters> out;
  if (fabric >= seats_.size()) return out;
  const Shard& s = *shards_[seats_[fabric].shard];
  const std::lock_guard lock(s.mutex);
  const Fabric& f = *s.slots[seats_[fabric].slot].fabric;
  for (uint32_t i = 0; i < f.ports().size(); ++i) out.push_back(f.port_counters(i));
  return out;
}

std::vector<NodeCounters> Runner::node_counters(size_t fabric) const {
  std::vector<NodeCounters> out;
  if (fabric >= seats_.size()) return out;
  const Shard& s = *shards_[seats_[fabric].shard];
  const std::lock_guard lock(s.mutex);
  const Fabric& f = *s.slots[seats_[fabric].slot].fabric;
  for (uint32_t i = 0; i < f.nodes().size(); ++i) out.push_back(f.counters(i));
  return out;
}

std::vector<PortFault> Runner::faults(size_t fabric) const {
  std::vector<PortFault> out;
  if (fabric >= seats_.size()) return out;
  const Shard& s = *shards_[seats_[fabric].shard];
  const std::lock_guard lock(s.mutex);
  for (const Port& p : s.slots[seats_[fabric].slot].fabric->ports()) out.push_back(p.fault);
  return out;
}

RunnerStats Runner::stats() const {
  RunnerStats out;
  for (const auto& s : shards_) {
    const std::lock_guard lock(s->mutex);
    out.turns += s->stats.turns;
    out.busy_ns += s->stats.busy_ns;
    out.late_max_ns = std::max(out.late_max_ns, s->stats.late_max_ns);
    for (const Shard::Slot& slot : s->slots) out.frames += slot.fabric->frames().in_use();
    for (const Shard::Host& h : s->hosts) out.clients += h.port->clients();
  }
  return out;
}

int Runner::capture(size_t fabric, const std::vector<uint32_t>& ports, const std::string& file) {
  if (fabric >= seats_.size()) return EINVAL;
  Shard& s = *shards_[seats_[fabric].shard];
  const std::lock_guard lock(s.mutex);
  Shard::Slot& slot = s.slots[seats_[fabric].slot];
  slot.captures->erase(file);
  const int error = ports.empty() ? 0 : (*slot.captures)[file].start(file, ports, clock_offset());
  if (error != 0) slot.captures->erase(file);
  slot.fabric->set_watch(slot.captures->empty() ? nullptr : &Shard::show, slot.captures.get());
  return error;
}

std::string Runner::failure() const {
  for (const auto& s : shards_) {
    const std::lock_guard lock(s->mutex);
    if (!s->failed.empty()) return s->failed;
  }
  return {};
}

}  // namespace mrc::softswitch
