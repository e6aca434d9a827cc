// The UDP sockets of one plane: a receiver, and what it takes to put an EV on the wire without privileges: a pool of
// source ports over IPv4, a flow label per packet over IPv6. Decides socket options and ancillary data; leaves when to
// call it to the driver.
#pragma once

#include <sys/socket.h>

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

enum class SendOutcome : uint8_t { sent, would_block, path_error, ignored };

class UdpPlane {
 public:
  // Errno with `why`, or 0. `taken`: 16-bit source ports and labels other planes use already, extended by this one.
  int open(const PlaneOptions& options, base::Rng& rng, std::set<uint32_t>& taken, std::string& why);

  SendOutcome send(const engine::Transmit& t, const uint8_t* head, const engine::Trailer& end);
  // The same for a copied packet: `bytes` is the UDP payload.
  SendOutcome send(const wire::DatagramMeta& meta, base::ByteView bytes);

  struct Received { wire::DatagramMeta meta; base::ByteView bytes; };
  // Up to 32 datagrams; the views live until the next call. `dropped`: datagrams the kernel lost for want of buffer
  // space since the last call.
  size_t receive(std::vector<Received>& out, uint64_t& dropped);
  // Fill of the receive buffer in percent.
  [[nodiscard]] uint8_t occupancy() const;

  [[nodiscard]] int fd() const { return main_.get(); }
  [[nodiscard]] uint16_t udp_port() const { return udp_port_; }
  [[nodiscard]] const HostAddress& address() const { return options_.address; }
  [[nodiscard]] const std::vector<uint32_t>& tags() const { return tags_; }
  [[nodiscard]] bool flow_labels() const { return flow_labels_; }
  [[nodiscard]] int rcvbuf() const { return rcvbuf_; }
  [[nodiscard]] int sndbuf() const { return sndbuf_; }

 private:
  static constexpr size_t kBatch = 32;
  static constexpr size_t kSlot = 9216;   // the largest path MTU and its headers
  struct Batch;
  struct BatchDelete { void operator()(Batch* b) const; };

  int open_main(std::string& why);
  int open_pool(base::Rng& rng, std::set<uint32_t>& taken, std::string& why);
  void pick_labels(base::Rng& rng, std::set<uint32_t>& taken);
  bool labels_work() const;
  [[nodiscard]] int socket_for(uint16_t src_port) const;
  SendOutcome send_message(const wire::DatagramMeta& meta, iovec* iov, size_t count);
  void read_control(msghdr& m, wire::DatagramMeta& meta, uint64_t& dropped);

  PlaneOptions options_;
  Fd main_;
  std::vector<Fd> pool_;
  std::vector<std::pair<uint16_t, int>> by_port_;   // source port -> socket, sorted
  std::vector<uint32_t> tags_;
  uint16_t udp_port_ = 0;
  bool flow_labels_ = false;
  int rcvbuf_ = 0, sndbuf_ = 0;
  uint32_t last_overflow_ = 0;
  std::unique_ptr<Batch, BatchDelete> batch_;
};

}  // namespace mrc::net
