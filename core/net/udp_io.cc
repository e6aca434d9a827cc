// Datagrams in and out of the sockets of a plane, with their class, marks and labels.
#include "net/udp_linux.h"  // before linux/in6.h, which clashes with a later netinet/in.h

#include <linux/in6.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "net/clock.h"
#include "net/rx_batch.h"
#include "net/udp_options.h"
#include "wire/gateway.h"

#ifndef SO_MEMINFO
#define SO_MEMINFO 55
#endif

namespace mrc::net {

namespace {
constexpr uint32_t kRetryLabels = 1024;  // packets sent without a label before one is tried again
}  // namespace

SendOutcome outcome_of(int error) {
  switch (error) {
    case 0:
      return SendOutcome::sent;
    case EAGAIN:
    case ENOBUFS:
    case ENOMEM:
    case EINTR:
      return SendOutcome::would_block;
    default:
      return SendOutcome::path_error;
  }
}

msghdr Message::header() {
  msghdr m{};
  m.msg_name = to.length != 0 ? to.get() : nullptr;
  m.msg_namelen = to.length;
  m.msg_iov = parts;
  m.msg_iovlen = count;
  m.msg_control = control.data();
  m.msg_controllen = control_size;
  return m;
}

void Message::set_segment(uint16_t bytes) {
  // Behind the class, where there is one.
  auto* c = reinterpret_cast<cmsghdr*>(control.data() + control_size);
  c->cmsg_level = SOL_UDP;
  c->cmsg_type = UDP_SEGMENT;
  c->cmsg_len = CMSG_LEN(sizeof bytes);
  std::memcpy(CMSG_DATA(c), &bytes, sizeof bytes);
  control_size += CMSG_SPACE(sizeof bytes);
}

int UdpPlane::prepare(const wire::DatagramMeta& meta, const base::IpAddr& via, Message& m) {
  const bool v4 = options_.address.v4();
  if (meta.dst.is_v4() != v4) return EAFNOSUPPORT;
  m.stripped = false;
  if (gateway_) {
    // Connected, and the class is in the headers within.
    m.fd = main_.get();
    m.to = {};
    m.control_size = 0;
    return gateway_->paused(monotonic_now()) ? EAGAIN : 0;
  }
  if (const int e = socket_for(meta.src_port, m.fd); e != 0) return e;
  const bool label = !labels_refused_ || (flow_labels_ && ++unlabelled_ % kRetryLabels == 0);
  m.to = to_sockaddr(via, meta.dst_port, v4 ? 0 : options_.address.scope, label ? meta.flow_label : 0);
  const int traffic_class = (meta.dscp << 2) | meta.ecn;
  auto* c = reinterpret_cast<cmsghdr*>(m.control.data());
  c->cmsg_level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
  c->cmsg_type = v4 ? IP_TOS : IPV6_TCLASS;
  c->cmsg_len = CMSG_LEN(sizeof traffic_class);
  std::memcpy(CMSG_DATA(c), &traffic_class, sizeof traffic_class);
  m.control_size = CMSG_SPACE(sizeof traffic_class);
  return 0;
}

size_t UdpPlane::outer(const wire::DatagramMeta& meta, const base::IpAddr& via, size_t bytes,
                       uint8_t* p) const {
  return gateway_ ? wire::emit_outer(meta, via, options_.hop_limit, bytes, p) : 0;
}

bool UdpPlane::amend(Message& m, int error) {
  // An ICMP error of some peer, reported on this shared socket and gone with this report (B12).
  if (error == ECONNREFUSED) return true;
  if (error != EINVAL || m.to.storage.ss_family != AF_INET6 || m.stripped) return false;
  auto* to = reinterpret_cast<sockaddr_in6*>(&m.to.storage);
  if (to->sin6_flowinfo == 0) return false;
  // Perhaps a label lease taken after we opened (B31). Without its label the packet would still arrive.
  to->sin6_flowinfo = 0;
  m.stripped = true;
  return true;
}

void UdpPlane::on_sent(const Message& m) {
  if (m.stripped) {
    labels_refused_ = true;
  } else if (labels_refused_ && flow_labels_ &&
             reinterpret_cast<const sockaddr_in6*>(&m.to.storage)->sin6_flowinfo != 0) {
    labels_refused_ = false;  // the lease is gone
  }
}

SendOutcome UdpPlane::send(const wire::DatagramMeta& meta, const base::IpAddr& via, base::ByteView bytes,
                           int& error) {
  Message m;
  std::array<iovec, 2> parts{};
  std::array<uint8_t, wire::kOuterBytes> head;
  m.parts = parts.data();
  error = prepare(meta, via, m);
  if (error != 0) return error == EAGAIN ? SendOutcome::would_block : SendOutcome::path_error;
  m.add(head.data(), outer(meta, via, bytes.size(), head.data()));
  m.add(bytes.data(), bytes.size());
  const msghdr header = m.header();
  for (int tries = 0; tries < 3; ++tries) {
    if (sendmsg(m.fd, &header, MSG_NOSIGNAL) >= 0) {
      on_sent(m);
      error = 0;
      break;
    }
    error = errno;
    if (!amend(m, error)) break;
  }
  return outcome_of(error);
}

size_t UdpPlane::read_control(msghdr& m, wire::DatagramMeta& meta, uint64_t& dropped) {
  int segment = 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&m); c != nullptr; c = CMSG_NXTHDR(&m, c)) {
    const unsigned char* data = CMSG_DATA(c);
    int traffic_class = -1;
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
      uint32_t total = 0;
      std::memcpy(&total, data, sizeof total);
      dropped += total - last_overflow_;
      last_overflow_ = total;
    } else if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) {
      std::memcpy(&segment, data, sizeof segment);
    } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
      traffic_class = data[0];
    } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_FLOWINFO) {
      // Class and label; absent when both are 0.
      uint32_t info = 0;
      std::memcpy(&info, data, sizeof info);
      info = ntohl(info);
      meta.flow_label = info & 0xFFFFF;
      traffic_class = static_cast<int>((info >> 20) & 0xFF);
    }
    if (traffic_class >= 0) {
      meta.dscp = static_cast<uint8_t>((traffic_class >> 2) & 0x3F);
      meta.ecn = static_cast<uint8_t>(traffic_class & 3);
    }
  }
  return static_cast<size_t>(std::max(segment, 0));
}

void UdpPlane::accept(engine::Datagram d, std::vector<engine::Datagram>& out) {
  if (gateway_) {
    if (wire::is_gateway_message(d.bytes)) return gateway_->message(d.bytes, monotonic_now());
    // The switch checked it all; what fails here is no packet of its.
    const base::ByteView all = d.bytes;
    if (wire::parse_outer(all, d.meta, d.bytes) != wire::OuterFault::none) return;
  }
  out.push_back(d);
}

size_t UdpPlane::receive(RxBatch& into, std::vector<engine::Datagram>& out, uint64_t& dropped, size_t most) {
  const size_t n = into.fill(main_.get(), std::min(most, RxBatch::kMessages));
  for (size_t k = 0; k < n; ++k) {
    engine::Datagram d;
    d.meta.src = ip_of(into.from(k));
    d.meta.src_port = port_of(into.from(k));
    // The socket is bound to this address: nothing else gets here.
    d.meta.dst = options_.address.ip;
    d.meta.dst_port = udp_port_;
    const size_t total = into.message(k).msg_len;
    size_t step = read_control(into.message(k).msg_hdr, d.meta, dropped);
    if (step == 0 || step > total) step = total;
    // A datagram that did not fit cannot be one of ours; the engine drops what is left of it by its iCRC.
    size_t at = 0;
    do {
      d.bytes = base::ByteView(into.bytes(k) + at, std::min(step, total - at));
      accept(d, out);
      at += step;
    } while (at < total);
  }
  return n;
}

int64_t UdpPlane::waiting() const {
  const auto of = [](int fd) {
    int bytes = 0;
    return ioctl(fd, SIOCOUTQ, &bytes) == 0 ? int64_t{bytes} : 0;
  };
  int64_t sum = of(main_.get());
  for (const auto& [port, fd] : by_port_) sum += of(fd);
  return sum;
}

uint8_t UdpPlane::occupancy() const {
  std::array<uint32_t, SK_MEMINFO_VARS> info{};
  socklen_t n = sizeof info;
  if (getsockopt(main_.get(), SOL_SOCKET, SO_MEMINFO, info.data(), &n) != 0 || info[SK_MEMINFO_RCVBUF] == 0)
    return 0;
  return static_cast<uint8_t>(
      std::min<uint64_t>(100, uint64_t{info[SK_MEMINFO_RMEM_ALLOC]} * 100 / info[SK_MEMINFO_RCVBUF]));
}

}  // namespace mrc::net
