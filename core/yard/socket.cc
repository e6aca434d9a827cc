#include "yard/socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

// Since Linux 4.18 and 5.0; older C libraries do not name them, and linux/in6.h does not go with
// netinet/in.h.
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace mrc::yard {
namespace {

constexpr int kFlowInfoSend = 33;  // IPV6_FLOWINFO_SEND
constexpr uint32_t kLargestUdp = 65535 - 48;
constexpr uint32_t kMostSegments = 128;

[[noreturn]] void fail(const char* call) { throw std::system_error(errno, std::generic_category(), call); }

void set(int fd, int level, int name, int value, const char* what) {
  if (setsockopt(fd, level, name, &value, sizeof value) != 0) fail(what);
}

// Beyond rmem_max and wmem_max with privileges, up to them without.
void set_buffer(int fd, int forced, int plain, int bytes, const char* what) {
  if (setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof bytes) != 0) set(fd, SOL_SOCKET, plain, bytes, what);
}

}  // namespace

void Address::set_flow_label(uint32_t label) {
  if (storage.ss_family != AF_INET6) return;
  reinterpret_cast<sockaddr_in6*>(&storage)->sin6_flowinfo = htonl(label & 0xfffff);
}

Address parse(const Target& target) {
  Address a;
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&a.storage);
  auto* v4 = reinterpret_cast<sockaddr_in*>(&a.storage);
  if (target.address.empty() || inet_pton(AF_INET6, target.address.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(target.port);
    a.length = sizeof(sockaddr_in6);
  } else if (inet_pton(AF_INET, target.address.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(target.port);
    a.length = sizeof(sockaddr_in);
  } else {
    throw std::invalid_argument("not a numeric address: " + target.address);
  }
  return a;
}

Socket::Socket(const Address& local, bool bind_it, const SocketOptions& options)
    : fd_(socket(local.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  if (fd_ < 0) fail("socket");
  try {
    set_buffer(fd_, SO_RCVBUFFORCE, SO_RCVBUF, options.buffer_bytes, "SO_RCVBUF");
    set_buffer(fd_, SO_SNDBUFFORCE, SO_SNDBUF, options.buffer_bytes, "SO_SNDBUF");
    if (options.gro) set(fd_, IPPROTO_UDP, UDP_GRO, 1, "UDP_GRO");
    if (options.flow_labels && local.storage.ss_family == AF_INET6) {
      set(fd_, IPPROTO_IPV6, kFlowInfoSend, 1, "IPV6_FLOWINFO_SEND");
    }
    if (bind_it && bind(fd_, local.raw(), local.length) != 0) fail("bind");
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

Socket::~Socket() { ::close(fd_); }

void Socket::connect_to(const Address& peer) const {
  if (connect(fd_, peer.raw(), peer.length) != 0) fail("connect");
}

void Socket::wait_readable(int ms) const {
  pollfd p{fd_, POLLIN, 0};
  poll(&p, 1, ms);
}

double seconds_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double thread_cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

void check_seconds(double s) {
  if (!(s > 0 && s <= 3600)) throw std::invalid_argument("seconds must be more than 0 and at most 3600");
}

Arena::Arena(size_t hot, uint64_t cold) : cold_(cold) {
  if (cold > (uint64_t{4} << 30)) throw std::invalid_argument("cold memory of more than 4 GiB");
  memory_.assign(hot + static_cast<size_t>(cold), 7);
}

void Arena::advance(size_t bytes) {
  if (cold_ == 0) return;
  offset_ += bytes;
  if (offset_ > cold_) offset_ = 0;
}

void check_run(uint32_t payload, uint32_t segments) {
  if (payload < 16 || segments < 1 || segments > kMostSegments ||
      uint64_t{payload} * segments > kLargestUdp) {
    throw std::invalid_argument("payload 16 bytes or more, 1 to 128 segments, 65487 bytes in all");
  }
}

void set_segment_size(msghdr& header, char* space, uint16_t payload) {
  static_assert(CMSG_SPACE(sizeof(uint16_t)) <= kSegmentSpace);
  header.msg_control = space;
  header.msg_controllen = CMSG_SPACE(sizeof payload);
  cmsghdr* c = CMSG_FIRSTHDR(&header);
  c->cmsg_level = IPPROTO_UDP;
  c->cmsg_type = UDP_SEGMENT;
  c->cmsg_len = CMSG_LEN(sizeof payload);
  std::memcpy(CMSG_DATA(c), &payload, sizeof payload);
}

uint32_t segment_size(msghdr& header) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO) continue;
    int size = 0;
    std::memcpy(&size, CMSG_DATA(c), sizeof size);
    return size > 0 ? static_cast<uint32_t>(size) : 0;
  }
  return 0;
}

}  // namespace mrc::yard
