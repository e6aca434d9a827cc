// The UDP sockets of one plane: a receiver, and what it takes to put an EV on the wire without privileges: a
// pool of source ports over IPv4, a flow label per packet over IPv6. Decides socket options and ancillary
// data; leaves when to call it to the driver.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/transmit.h"
#include "net/address.h"
#include "net/fd.h"

namespace mrc::net {

struct PlaneOptions {
  HostAddress address;
  uint16_t udp_port = 0;
  uint32_t evs = 16;
  bool force_source_ports = false;
  int rcvbuf = 4 << 20, sndbuf = 1 << 20;
  uint8_t hop_limit = 64;
};

enum class SendOutcome : uint8_t { sent, would_block, path_error };
// What an errno of sendmsg means for the packet.
SendOutcome outcome_of(int error);

// One datagram on its way into sendmsg or sendmmsg. Do not copy once the parts are set.
struct Message {
  int fd = -1;
  SockAddr to;
  std::array<iovec, 3> parts{};
  size_t count = 0;
  bool stripped = false;  // of its flow label
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};

  void add(const void* data, size_t size) {
    if (size > 0) parts[count++] = {const_cast<void*>(data), size};  // NOLINT: iovec is not const-correct
  }
  msghdr header();
};

class UdpPlane {
 public:
  // Errno with `why`, or 0. `taken`: tags other planes use already, extended by this one's.
  int open(const PlaneOptions& options, base::Rng& rng, std::set<uint32_t>& taken, std::string& why);

  // Socket, address, class and marks of a packet into `m`. Errno when its source port cannot be had.
  int prepare(const wire::DatagramMeta& meta, Message& m);
  // The kernel refused `m`. True when `m` was changed so that trying again makes sense.
  static bool amend(Message& m, int error);
  // The kernel took `m`.
  void on_sent(const Message& m);
  // One packet whose UDP payload is `bytes`. `error` gets the errno of a refusal.
  SendOutcome send(const wire::DatagramMeta& meta, base::ByteView bytes, int& error);

  static constexpr size_t kBatch = 32;
  struct Received {
    wire::DatagramMeta meta;
    base::ByteView bytes;
  };
  // Up to kBatch datagrams; the views live until the next call. `dropped`: datagrams the kernel lost for want
  // of buffer space since the last call.
  size_t receive(std::vector<Received>& out, uint64_t& dropped);
  // Fill of the receive buffer in percent.
  [[nodiscard]] uint8_t occupancy() const;

  [[nodiscard]] int fd() const { return main_.get(); }
  [[nodiscard]] uint16_t udp_port() const { return udp_port_; }
  [[nodiscard]] const HostAddress& address() const { return options_.address; }
  [[nodiscard]] const std::vector<uint32_t>& tags() const { return tags_; }
  [[nodiscard]] bool flow_labels() const { return flow_labels_ && !labels_refused_; }
  [[nodiscard]] int rcvbuf() const { return rcvbuf_; }
  [[nodiscard]] int sndbuf() const { return sndbuf_; }
  // What is not as asked for, in words; empty when all is well.
  [[nodiscard]] std::string note() const;

 private:
  static constexpr size_t kSlot = 9216;  // the largest path MTU and its headers
  static constexpr size_t kMaxSockets = 4096;
  struct Batch;
  struct BatchDelete {
    void operator()(Batch* b) const;
  };

  int open_main(std::string& why);
  int open_pool(std::set<uint32_t>& taken, std::string& why);
  int open_sender(uint16_t port, Fd& out) const;
  void adopt(Fd s, uint16_t port);
  void pick_labels(base::Rng& rng, std::set<uint32_t>& taken);
  [[nodiscard]] bool labels_refused() const;
  int socket_for(uint16_t src_port, int& fd);
  void read_control(msghdr& m, wire::DatagramMeta& meta, uint64_t& dropped);

  PlaneOptions options_;
  Fd main_;
  std::vector<Fd> pool_;
  std::vector<std::pair<uint16_t, int>> by_port_;  // source port -> socket, sorted
  std::vector<uint32_t> tags_;
  uint16_t udp_port_ = 0;
  bool flow_labels_ = false, labels_refused_ = false;
  uint32_t unlabelled_ = 0;
  int rcvbuf_ = 0, sndbuf_ = 0;
  uint32_t last_overflow_ = 0;
  std::unique_ptr<Batch, BatchDelete> batch_;
};

}  // namespace mrc::net
