// The UDP sockets of one plane: a receiver, and what it takes to put an EV on the wire without privileges: a
// pool of source ports over IPv4, a flow label per packet over IPv6. Decides socket options and ancillary
// data; leaves when to call it, and what goes out together, to the driver.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/transmit.h"
#include "net/address.h"
#include "net/batching.h"
#include "net/fd.h"
#include "net/gateway_link.h"

namespace mrc::net {

struct PlaneOptions {
  HostAddress address;
  uint16_t udp_port = 0;
  uint32_t evs = 16;
  bool force_source_ports = false;
  int rcvbuf = 4 << 20, sndbuf = 1 << 20;
  uint8_t hop_limit = 64;
  Batching batching = Batching::runs;
  bool udp_checksum = true;
  std::string gateway;
};

enum class SendOutcome : uint8_t { sent, would_block, path_error };
// What an errno of sendmsg means for the packet.
SendOutcome outcome_of(int error);

// What is handed to sendmsg or sendmmsg: one datagram, or a run of equally long ones (the last may be
// shorter) for the kernel to cut up. The parts lie elsewhere and live as long as the message.
struct Message {
  int fd = -1;
  SockAddr to;
  iovec* parts = nullptr;
  size_t count = 0;
  bool stripped = false;  // of its flow label
  size_t control_size = 0;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint16_t))> control{};

  void add(const void* data, size_t size) {
    if (size > 0) parts[count++] = {const_cast<void*>(data), size};  // NOLINT: iovec is not const-correct
  }
  // The kernel cuts the message into datagrams of `bytes`.
  void set_segment(uint16_t bytes);
  msghdr header();
};

class RxBatch;

class UdpPlane {
 public:
  // Errno with `why`, or 0. `taken`: tags other planes use already, extended by this one's.
  int open(const PlaneOptions& options, base::Rng& rng, std::set<uint32_t>& taken, std::string& why);

  // Opens the same plane at another address, with its EVs. Errno or 0.
  int reopen(const UdpPlane& was, const HostAddress& at);

  // The headers that a packet with that much UDP payload has before it on the way to a gateway; their length,
  // 0 without one.
  size_t outer(const wire::DatagramMeta& meta, const base::IpAddr& via, size_t bytes, uint8_t* p) const;
  // Socket, address, class and marks of a packet into `m`. Errno when its source port cannot be had.
  int prepare(const wire::DatagramMeta& meta, const base::IpAddr& via, Message& m);
  // The kernel refused `m`. True when `m` was changed so that trying again makes sense.
  static bool amend(Message& m, int error);
  // The kernel took `m`.
  void on_sent(const Message& m);
  // One packet whose UDP payload is `bytes`. `error` gets the errno of a refusal.
  SendOutcome send(const wire::DatagramMeta& meta, const base::IpAddr& via, base::ByteView bytes, int& error);

  // Runs are cut by the kernel. Off where it cannot, or once it refused one that went through in pieces.
  [[nodiscard]] bool segments() const { return segments_; }
  void refuse_segments() { segments_ = false; }

  // What arrived, in up to `most` messages of the kernel and a batch, appended to `out`; the views live in
  // `into` until its next use. Returns the number of messages. `dropped`: datagrams the kernel lost for want
  // of buffer space since the last call.
  size_t receive(RxBatch& into, std::vector<engine::Datagram>& out, uint64_t& dropped,
                 size_t most = SIZE_MAX);
  // Bytes handed to the kernel that have not left the host, as it counts memory; 0 when it does not say.
  [[nodiscard]] int64_t waiting() const;
  // Fill of the receive buffer in percent.
  [[nodiscard]] uint8_t occupancy() const;

  // Behind a gateway; else null.
  [[nodiscard]] const GatewayLink* gateway() const { return gateway_ ? &*gateway_ : nullptr; }
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
  static constexpr size_t kMaxSockets = 4096;

  int open_main(std::string& why);
  int open_behind_gateway(std::string& why);
  int open_pool(std::set<uint32_t>& taken, std::string& why);
  int open_sender(uint16_t port, Fd& out) const;
  void adopt(Fd s, uint16_t port);
  void pick_labels(base::Rng& rng, std::set<uint32_t>& taken);
  [[nodiscard]] bool labels_refused() const;
  int socket_for(uint16_t src_port, int& fd);
  // One datagram of the main socket.
  void accept(engine::Datagram d, std::vector<engine::Datagram>& out);
  // What the ancillary data says into `meta`; returns the length of the datagrams of a run, 0 for a single
  // one.
  size_t read_control(msghdr& m, wire::DatagramMeta& meta, uint64_t& dropped);

  PlaneOptions options_;
  std::optional<GatewayLink> gateway_;
  Fd main_;
  std::vector<Fd> pool_;
  std::vector<std::pair<uint16_t, int>> by_port_;  // source port -> socket, sorted
  std::vector<uint32_t> tags_;
  uint16_t udp_port_ = 0;
  bool flow_labels_ = false, labels_refused_ = false, segments_ = false;
  uint32_t unlabelled_ = 0;
  int rcvbuf_ = 0, sndbuf_ = 0;
  uint32_t last_overflow_ = 0;
};

}  // namespace mrc::net
