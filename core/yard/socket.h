// Sockets, addresses and clocks of the yardsticks. Decides which socket options a bare program would set;
// leaves what is sent to the yardsticks.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

namespace mrc::yard {

struct Target {
  std::string address;  // "127.0.0.1" or "fd00::1"; empty: any IPv6 address
  uint16_t port = 0;
};

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  void set_flow_label(uint32_t label);  // 20 bits; IPv6 only, ignored otherwise
};

// Throws std::invalid_argument for text that is no numeric address.
Address parse(const Target& target);

struct SocketOptions {
  bool gro = false;          // UDP_GRO
  bool flow_labels = false;  // IPV6_FLOWINFO_SEND
  int buffer_bytes = 16 << 20;
};

// A UDP socket; every failure is a std::system_error that names the call.
class Socket {
 public:
  Socket(const Address& local, bool bind_it, const SocketOptions& options);
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  void connect_to(const Address& peer) const;
  // Waits until something can be read, for `ms` at most.
  void wait_readable(int ms) const;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_ = -1;
};

double seconds_now();          // CLOCK_MONOTONIC
double thread_cpu_seconds();   // user and system time of this thread
void check_seconds(double s);  // throws std::invalid_argument unless 0 < s <= 3600

constexpr size_t kSlot = 65536;  // one GRO burst fits
// `hot` bytes, or a walk through `cold` bytes in steps of a slot when `cold` is larger. Touched when made.
class Arena {
 public:
  Arena(size_t hot, uint64_t cold);
  [[nodiscard]] char* at() { return memory_.data() + offset_; }
  void advance(size_t bytes);

 private:
  std::vector<char> memory_;
  size_t cold_, offset_ = 0;
};

// Largest sizes a UDP_SEGMENT run may have; throws std::invalid_argument beyond them.
void check_run(uint32_t payload, uint32_t segments);
// Writes the UDP_SEGMENT control message into `space` (kSegmentSpace bytes) and hooks it into `header`.
constexpr size_t kSegmentSpace = 24;
void set_segment_size(msghdr& header, char* space, uint16_t payload);
// Segment size of a received burst; 0: a single datagram.
uint32_t segment_size(msghdr& header);

}  // namespace mrc::yard
