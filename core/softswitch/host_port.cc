#include "softswitch/host_port.h"

#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace mrc::softswitch {

using base::Instant;
using wire::GatewayMessage;
using wire::GatewayVerb;

namespace {

constexpr uint16_t kFirstFree = 49'152;
constexpr size_t kErrorTries = 8;

sockaddr_in loopback(uint32_t address, uint16_t port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(address);
  a.sin_port = htons(port);
  return a;
}

const sockaddr* plain(const sockaddr_in& a) { return reinterpret_cast<const sockaddr*>(&a); }

}  // namespace

int HostPort::open(uint32_t address, int rcvbuf) {
  socket_ = Socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd() < 0) return errno;
  const int one = 1;
  setsockopt(fd(), SOL_SOCKET, SO_RCVBUF, &rcvbuf, sizeof rcvbuf);
  setsockopt(fd(), SOL_SOCKET, SO_SNDBUF, &rcvbuf, sizeof rcvbuf);
  setsockopt(fd(), SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
  setsockopt(fd(), SOL_UDP, UDP_GRO, &one, sizeof one);
  setsockopt(fd(), IPPROTO_IP, IP_RECVERR, &one, sizeof one);
  sockaddr_in local = loopback(address, 0);
  socklen_t size = sizeof local;
  if (::bind(fd(), plain(local), size) != 0) return errno;
  if (getsockname(fd(), reinterpret_cast<sockaddr*>(&local), &size) != 0) return errno;
  port_ = ntohs(local.sin_port);
  return 0;
}

bool HostPort::receive(Inbox& inbox, Instant now, int64_t clock_offset_ns) {
  const int n = inbox.receive(fd());
  for (int i = 0; i < n; ++i) {
    const auto k = static_cast<size_t>(i);
    const base::ByteView all = inbox.bytes(k);
    const Inbox::Arrival a = inbox.arrival(k, now, clock_offset_ns);
    const size_t step = a.segment == 0 || a.segment > all.size() ? all.size() : a.segment;
    for (size_t from = 0; from < all.size(); from += step)
      packet(inbox.from_v4(k), all.subspan(from, std::min(step, all.size() - from)), a.at);
    if (all.empty()) fabric_->count_drop(host_, Drop::bad_message);
    sent_ = true;
  }
  return n == static_cast<int>(Inbox::kMessages);
}

void HostPort::packet(const sockaddr_in& from, base::ByteView bytes, Instant at) {
  if (wire::is_gateway_message(bytes)) return message(from, bytes);
  if (!senders_.contains(key(from))) return fabric_->count_drop(host_, Drop::unknown_sender);
  fabric_->ingest(at, host_, bytes);
}

void HostPort::end_turn(Instant now) {
  if (!std::exchange(sent_, false)) return;
  const base::Duration busy = fabric_->backlog(host_);
  if (busy <= kBusy || now < paused_until_) return;
  GatewayMessage m;
  m.verb = GatewayVerb::pause;
  m.value = static_cast<uint32_t>(std::min<int64_t>(busy.ns / 2, kLongestPause.ns));
  paused_until_ = now + base::Duration{m.value};
  for (const auto& [udp, client] : by_udp_) answer(client, m);
}

void HostPort::message(const sockaddr_in& from, base::ByteView bytes) {
  GatewayMessage m;
  if (!wire::parse_gateway_message(bytes, m)) return fabric_->count_drop(host_, Drop::bad_message);
  switch (m.verb) {
    case GatewayVerb::bind:
      return bind(from, m);
    case GatewayVerb::release:
      return release(from, m.udp_port);
    default:
      return fabric_->count_drop(host_, Drop::bad_message);  // only a switch says these
  }
}

void HostPort::bind(const sockaddr_in& from, const GatewayMessage& asked) {
  GatewayMessage m = asked;
  m.verb = GatewayVerb::refused;
  const NodeSpec& node = fabric_->nodes()[host_];
  const Address address{asked.address};
  const auto it = by_udp_.find(asked.udp_port);
  const bool taken = asked.udp_port != 0 && it != by_udp_.end() && key(it->second) != key(from);
  if (address.block() != node.block || address.usid() != node.usid) {
    m.value = EADDRNOTAVAIL;
  } else if (taken && alive(sockaddr_in(it->second))) {
    m.value = EADDRINUSE;
  } else if (by_udp_.size() >= kMaxClients) {
    m.value = ENOBUFS;
  } else {
    m.udp_port = asked.udp_port != 0 ? asked.udp_port : free_port();
    m.verb = GatewayVerb::bound;
    m.value = 0;
    m.up = fabric_->linked(host_);
    m.mtu = fabric_->mtu();
    m.rate_bps = fabric_->host_rate(host_);
    if (by_udp_.insert_or_assign(m.udp_port, from).second) ++senders_[key(from)];
  }
  answer(from, m);
}

void HostPort::release(const sockaddr_in& from, uint16_t udp_port) {
  const auto it = by_udp_.find(udp_port);
  if (it == by_udp_.end() || key(it->second) != key(from)) return;
  by_udp_.erase(it);
  const auto sender = senders_.find(key(from));
  if (sender != senders_.end() && --sender->second == 0) senders_.erase(sender);
}

uint16_t HostPort::free_port() {
  while (by_udp_.contains(next_free_))
    next_free_ = next_free_ == UINT16_MAX ? kFirstFree : uint16_t(next_free_ + 1);
  const uint16_t chosen = next_free_;
  next_free_ = next_free_ == UINT16_MAX ? kFirstFree : uint16_t(next_free_ + 1);
  return chosen;
}

// A process that died without a word leaves its entry; the kernel knows that nobody is there any more.
bool HostPort::alive(const sockaddr_in& at) {
  const uint8_t nothing = 0;
  sendto(fd(), &nothing, 1, MSG_NOSIGNAL | MSG_DONTWAIT, plain(at), sizeof at);
  pollfd p{fd(), 0, 0};
  poll(&p, 1, 1);
  read_errors();
  return senders_.contains(key(at));
}

void HostPort::forget(const sockaddr_in& at) {
  if (senders_.erase(key(at)) == 0) return;
  std::erase_if(by_udp_, [&](const auto& entry) { return key(entry.second) == key(at); });
}

void HostPort::read_errors() {
  Inbox::Control control{};
  for (;;) {
    sockaddr_in to{};
    msghdr m{};
    m.msg_name = &to;
    m.msg_namelen = sizeof to;
    m.msg_control = &control;
    m.msg_controllen = sizeof control;
    if (recvmsg(fd(), &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
      if (c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_RECVERR) continue;
      sock_extended_err e{};
      std::memcpy(&e, CMSG_DATA(c), sizeof e);
      if (e.ee_errno == ECONNREFUSED) forget(to);
    }
  }
}

void HostPort::answer(const sockaddr_in& to, const GatewayMessage& m) const {
  std::array<uint8_t, wire::kGatewayMessageBytes> b{};
  wire::emit_gateway_message(m, b.data());
  // The error of another process, gone since, is told now; this one is none the worse for it.
  for (size_t tries = 0; tries < kErrorTries; ++tries) {
    if (sendto(fd(), b.data(), b.size(), MSG_NOSIGNAL | MSG_DONTWAIT, plain(to), sizeof to) >= 0) return;
    if (errno != ECONNREFUSED) return;
  }
}

void HostPort::tell_link() {
  GatewayMessage m;
  m.verb = GatewayVerb::link;
  m.up = fabric_->linked(host_);
  for (const auto& [udp, client] : by_udp_) answer(client, m);
}

void HostPort::deliver(FrameId frame) {
  const auto it = by_udp_.find(udp_port_to(fabric_->frames()[frame].view()));
  if (it == by_udp_.end()) {
    fabric_->count_drop(host_, Drop::no_listener);
    return fabric_->frames().give_back(frame);
  }
  out_.push_back({it->second, frame});
}

// Frames to one process, equally long but for the last: the kernel takes them in one piece.
size_t HostPort::run_from(size_t first, mmsghdr& header, RunControl& control) {
  FramePool& frames = fabric_->frames();
  const size_t segment = frames[out_[first].frame].size;
  size_t bytes = 0, n = 0;
  for (size_t i = first; i < out_.size() && n < kMaxRun; ++i, ++n) {
    const Frame& f = frames[out_[i].frame];
    if (key(out_[i].to) != key(out_[first].to) || f.size > segment || bytes + f.size > kMaxRunBytes) break;
    if (n > 0 && frames[out_[i - 1].frame].size < segment) break;
    parts_[i] = {f.bytes, f.size};
    bytes += f.size;
  }
  msghdr& m = header.msg_hdr;
  m = {};
  m.msg_name = &out_[first].to;
  m.msg_namelen = sizeof(sockaddr_in);
  m.msg_iov = &parts_[first];
  m.msg_iovlen = n;
  if (n > 1) {
    m.msg_control = control.bytes.data();
    m.msg_controllen = control.bytes.size();
    cmsghdr* c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
    const auto size = static_cast<uint16_t>(segment);
    std::memcpy(CMSG_DATA(c), &size, sizeof size);
  }
  return n;
}

void HostPort::flush() {
  constexpr size_t kBatch = 32;
  std::array<mmsghdr, kBatch> headers{};
  std::array<RunControl, kBatch> control{};
  parts_.resize(out_.size());
  for (size_t i = 0; i < out_.size();) {
    size_t n = 0;
    for (; n < kBatch && i < out_.size(); ++n) i += run_from(i, headers[n], control[n]);
    for (size_t done = 0, tries = 0; done < n;) {
      const int sent =
          sendmmsg(fd(), &headers[done], static_cast<unsigned>(n - done), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        done += static_cast<size_t>(sent);
        continue;
      }
      // An error of an earlier packet, told now; these are as good as before.
      if (errno == ECONNREFUSED && tries++ < kErrorTries) {
        read_errors();
        continue;
      }
      // No room: these packets are lost, as on a full host.
      for (size_t k = 0; k < headers[done].msg_hdr.msg_iovlen; ++k) fabric_->count_drop(host_, Drop::refused);
      ++done;
    }
  }
  for (const Outgoing& o : out_) fabric_->frames().give_back(o.frame);
  out_.clear();
}

}  // namespace mrc::softswitch
