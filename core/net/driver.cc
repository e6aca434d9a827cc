// Opening, closing and the calls of the application. The I/O thread: loop.cc.
#include "net/driver.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "net/cpus.h"
#include "net/driver_impl.h"

namespace mrc::net {

using base::Instant;

namespace {

constexpr const char* kForked = "used after fork: a child has no I/O thread; open a driver of its own there";

int add_reader(int epoll, int fd, uint32_t tag) {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u32 = tag;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

}  // namespace

Driver::Driver() = default;
Driver::~Driver() {
  if (!impl_) return;
  if (impl_->forked()) {
    // The engine may be half-way through a step and its lock taken; the descriptors were closed at the fork.
    (void)impl_.release();
    return;
  }
  close();
}

int Driver::Impl::open_plane(size_t i, base::Rng& rng, std::set<uint32_t>& taken, std::string& why) {
  const PlaneConfig& c = config.planes[i];
  const auto address = parse_address(c.address, why);
  if (!address) return EINVAL;
  PlaneOptions o;
  o.address = *address;
  o.udp_port = c.udp_port;
  o.evs = c.evs;
  o.force_source_ports = c.force_source_ports;
  o.batching = config.batching;
  o.udp_checksum = c.udp_checksum;
  o.gateway = c.gateway;
  o.rcvbuf = config.rcvbuf;
  o.sndbuf = config.sndbuf;
  o.hop_limit = config.engine.hop_limit;
  if (const int e = planes[i].open(o, rng, taken, why); e != 0) return e;
  engine::PortConfig port;
  port.addr = o.address.ip;
  port.udp_port = planes[i].udp_port();
  port.bytes_per_second = c.bytes_per_second;
  port.auto_tags = planes[i].tags();
  const auto added = endpoint.add_port(port);
  if (!added.ok()) why = "'" + c.address + "' cannot be a plane: " + std::strerror(added.error());
  return added.error();
}

int Driver::Impl::open(std::string& why) {
  if (config.planes.empty() || config.planes.size() >= engine::kMaxPorts) {
    why = "an endpoint has 1 to " + std::to_string(engine::kMaxPorts - 1) + " planes, not " +
          std::to_string(config.planes.size());
    return EINVAL;
  }
  epoll = Fd(epoll_create1(EPOLL_CLOEXEC));
  wake_fd = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  event_fd = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll || !wake_fd || !event_fd) {
    why = "no descriptors for the I/O thread; raise the limit of open files (ulimit -n)";
    return EMFILE;
  }
  base::Rng rng(config.engine.seed ^ 0x9E3779B97F4A7C15ULL);
  std::set<uint32_t> taken;
  planes.resize(config.planes.size());
  for (size_t i = 0; i < planes.size(); ++i) {
    if (const int e = open_plane(i, rng, taken, why); e != 0) {
      why = "plane " + std::to_string(i + 1) + ": " + why;
      return e;
    }
    // An address outside every interface (a local route, AnyIP) has no link whose state could be watched.
    const auto nic = planes[i].gateway() ? std::nullopt : interface_of(planes[i].address());
    plane_nic.push_back(nic ? nic->name : std::string{});
  }
  plane_up.assign(planes.size(), true);
  backlogs.assign(planes.size(), Backlog{});
  fill.assign(planes.size(), 0);
  last_data_port.assign(planes.size() + 1, Instant{});
  int failed_adds = 0;
  for (uint32_t i = 0; i < planes.size(); ++i) failed_adds += add_reader(epoll.get(), planes[i].fd(), i);
  failed_adds += add_reader(epoll.get(), wake_fd.get(), UINT32_MAX);
  if (links.fd() >= 0) failed_adds += add_reader(epoll.get(), links.fd(), UINT32_MAX - 1);
  if (failed_adds != 0) {
    why = "epoll refused a socket; raise sysctl fs.epoll.max_user_watches";
    return ENOSPC;
  }
  check_links(monotonic_now());
  return 0;
}

base::Result<std::unique_ptr<Driver>> Driver::open(const DriverConfig& config, std::string& why) {
  using R = base::Result<std::unique_ptr<Driver>>;
  std::unique_ptr<Driver> d(new Driver);
  d->impl_ = std::make_unique<Impl>(config);
  if (const int e = d->impl_->open(why); e != 0) return R::error(e);
  if (config.progress == Progress::caller) {
    if (config.cpus.empty()) return d;
    why = "this driver has no thread of its own to keep on CPUs: whoever calls progress() is the one";
    return R::error(EINVAL);
  }
  try {
    d->impl_->thread = std::thread([m = d->impl_.get()] { m->run(); });
  } catch (const std::system_error& e) {
    why = std::string("cannot start the I/O thread: ") + e.what() +
          "; raise the limit of processes (ulimit -u)";
    return R::error(EAGAIN);
  }
  if (const int e = keep_on(d->impl_->thread, config.cpus, why); e != 0) return R::error(e);
  return d;
}

void Driver::close() {
  if (impl_->forked()) return;
  const std::lock_guard closing(impl_->closing);
  if (impl_->closed) return;
  impl_->closed = true;
  impl_->stop = true;
  impl_->wake();
  impl_->baton.stop();
  if (impl_->thread.joinable()) impl_->thread.join();
  const std::lock_guard turn(impl_->loop);  // of a caller in help()
  const std::lock_guard lock(impl_->mutex);
  impl_->stop_client("the driver was closed");
  impl_->planes.clear();
  impl_->links = LinkWatch(-1);
}

void Driver::Impl::wake() {
  const uint64_t one = 1;
  // The counter can only saturate, and then the thread is awake anyway.
  [[maybe_unused]] const ssize_t n = ::write(wake_fd.get(), &one, sizeof one);
}

void Driver::with(const std::function<void(engine::Endpoint&, Instant)>& f) {
  if (impl_->forked()) throw std::logic_error(kForked);
  {
    const std::lock_guard lock(impl_->mutex);
    f(impl_->endpoint, monotonic_now());
    impl_->announce();
  }
  if (impl_->sleeping.exchange(false)) impl_->wake();
}

void Driver::with_flush(const std::function<void(engine::Endpoint&, Instant)>& f) {
  if (impl_->forked()) throw std::logic_error(kForked);
  {
    const std::lock_guard lock(impl_->mutex);
    const Instant now = monotonic_now();
    f(impl_->endpoint, now);
    if (!impl_->planes.empty()) impl_->transmit(now);
    impl_->announce();
  }
  if (impl_->sleeping.exchange(false)) impl_->wake();
}

base::Errno Driver::set_client(std::shared_ptr<Client> client) {
  if (impl_->forked()) return ECHILD;
  const std::lock_guard lock(impl_->mutex);
  if (client != nullptr && impl_->client != nullptr) return EBUSY;
  if (client != nullptr && (impl_->stop.load() || !impl_->failed.empty())) return EBADF;
  impl_->client = std::move(client);
  return 0;
}

bool Driver::help(const std::function<bool()>& done, Instant deadline) {
  if (impl_->forked()) throw std::logic_error(kForked);
  if (impl_->config.progress == Progress::thread) return impl_->help(done, deadline);
  while (!done() && monotonic_now() < deadline && !impl_->stop.load())
    progress(std::min(deadline - monotonic_now(), base::Duration::seconds(1)));
  return true;
}

void Driver::progress(base::Duration max_wait) {
  Impl& m = *impl_;
  if (m.forked()) throw std::logic_error(kForked);
  if (m.config.progress != Progress::caller) throw std::logic_error("this driver has a thread of its own");
  if (m.stop.load()) return;
  Instant until = m.guarded_turn();
  const Instant now = monotonic_now();
  if (m.received || until <= now) {  // the caller may have something to do about it
    m.sleeping = false;
    return;
  }
  if (max_wait.ns >= 0) until = std::min(until, now + max_wait);
  m.wait(now, until, Impl::kGapsPerSpin);
  // Answers leave in the next turn, together with what the caller sends because of what it gets to see now.
  const std::lock_guard loop(m.loop);
  if (!m.stop.load()) m.read_planes();
}

// The descriptor is written when notices came since it was last announced; the application fetches them
// itself.
void Driver::Impl::announce() {
  const size_t pending = endpoint.pending_notices();
  if (pending > noticed) {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(event_fd.get(), &one, sizeof one);
  }
  noticed = pending;
}

int Driver::event_fd() const { return impl_->event_fd.get(); }

void Driver::drain_event_fd() {
  if (impl_->forked()) return;
  const std::lock_guard lock(impl_->mutex);
  if (!impl_->failed.empty()) return;  // whoever waits must not wait for a dead thread
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = ::read(impl_->event_fd.get(), &count, sizeof count);
}

std::vector<PlaneInfo> Driver::planes() const {
  std::vector<PlaneInfo> out;
  if (impl_->forked()) return out;
  std::vector<HostAddress> addresses;
  {
    const std::lock_guard lock(impl_->mutex);
    for (size_t i = 0; i < impl_->planes.size(); ++i) {
      const UdpPlane& p = impl_->planes[i];
      PlaneInfo info;
      info.port = static_cast<uint8_t>(i + 1);
      info.address = to_text(p.address());
      info.udp_port = p.udp_port();
      info.up = impl_->plane_up[i];
      info.flow_labels = p.flow_labels();
      info.segments = p.segments();
      info.rcvbuf_granted = p.rcvbuf();
      info.sndbuf_granted = p.sndbuf();
      info.tags = p.tags();
      info.note = p.note();
      if (p.gateway()) info.mtu = p.gateway()->mtu();
      out.push_back(info);
      addresses.push_back(p.address());
    }
  }
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i].mtu != 0) continue;
    if (const auto nic = interface_of(addresses[i])) out[i].mtu = nic->mtu;
  }
  return out;
}

DriverStats Driver::stats() const {
  if (impl_->forked()) return {};
  const std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

Instant Driver::now() const { return monotonic_now(); }

uint64_t Driver::add_rule(const impair::Rule& rule) {
  if (impl_->forked()) throw std::logic_error(kForked);
  const std::lock_guard lock(impl_->mutex);
  return impl_->line.add_rule(rule);
}

void Driver::clear_rules() {
  if (impl_->forked()) return;
  const std::lock_guard lock(impl_->mutex);
  impl_->line.clear();
}

Instant Driver::last_data_tx(uint8_t port, uint32_t tag, bool whole_port) const {
  if (impl_->forked()) return {};
  const std::lock_guard lock(impl_->mutex);
  if (whole_port) return port < impl_->last_data_port.size() ? impl_->last_data_port[port] : Instant{};
  const auto it = impl_->last_data_path.find(Impl::path_key(port, tag));
  return it == impl_->last_data_path.end() ? Instant{} : it->second;
}

std::string Driver::failure() const {
  if (impl_->forked()) return kForked;
  const std::lock_guard lock(impl_->mutex);
  return impl_->failed;
}

}  // namespace mrc::net
