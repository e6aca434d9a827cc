// One endpoint with connected QPs and nobody at the other end: what it sends, packet by packet. Planes have
// eight EVs each; tag = plane * 1000 + k.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "engine/endpoint.h"
#include "testing/check.h"
#include "wire/packet.h"

namespace mrc::engine::testing {

inline constexpr uint32_t kAllPorts = UINT32_MAX, kEvsPerPlane = 8;

// Addresses: side 1 is ours, others are hosts.
inline IpAddr v6(uint8_t host, uint8_t plane) {
  IpAddr a;
  a.bytes[0] = 0xfd;
  a.bytes[7] = plane;
  a.bytes[15] = host;
  return a;
}
inline IpAddr v4(uint8_t host, uint8_t plane) { return IpAddr::v4(10, plane, 0, host); }

class Solo {
 public:
  using Adjust = std::function<void(QpAttr&)>;

  explicit Solo(const EndpointConfig& config = {}, uint8_t planes = 2, bool ipv4 = false)
      : ep(config), planes_(planes), ipv4_(ipv4), memory_(1 << 20) {
    for (uint8_t p = 1; p <= planes; ++p) {
      PortConfig c;
      c.addr = ipv4 ? v4(1, p) : v6(1, p);
      for (uint32_t k = 0; k < kEvsPerPlane; ++k) c.auto_tags.push_back(p * 1000u + k);
      REQUIRE(ep.add_port(c).ok());
    }
    pd_ = ep.alloc_pd();
    cq_ = ep.create_cq(4096).value();
    const auto base = reinterpret_cast<uint64_t>(memory_.data());
    mr_ = ep.reg_mr(pd_, base, memory_.size(), Access::local_write, base).value();
  }

  [[nodiscard]] std::vector<PeerPort> planes_of(uint8_t host) const {
    std::vector<PeerPort> out;
    for (uint8_t p = 1; p <= planes_; ++p) {
      PeerPort to;
      to.local_port = to.remote_port = p;
      to.addr = ipv4_ ? v4(host, p) : v6(host, p);
      out.push_back(to);
    }
    return out;
  }

  uint32_t create() {
    QpInit init;
    init.pd = pd_;
    init.send_cq = init.recv_cq = cq_;
    return ep.create_qp(init).value();
  }

  // Both windows are wide open unless `adjust` narrows one. What the last refused step said.
  Errno connect(uint32_t qpn, const std::vector<PeerPort>& to, const Adjust& adjust = {}) {
    QpAttr init;
    init.state = QpState::init;
    init.cc_algorithm = "null";
    init.ev_count = planes_ * kEvsPerPlane;
    QpAttr rtr;
    rtr.state = QpState::rtr;
    rtr.dest_qpn = 77;
    rtr.rq_psn = 1;
    rtr.path_mtu = 1024;
    rtr.peer_ports = to;
    QpAttr rts;
    rts.state = QpState::rts;
    rts.sq_psn = 1;
    rts.mpr = 32;
    for (QpAttr* a : {&init, &rtr, &rts}) {
      if (adjust) adjust(*a);
      if (const Errno e = ep.modify_qp(now, qpn, *a)) return e;
    }
    return 0;
  }
  uint32_t open(uint8_t host, const Adjust& adjust = {}) {
    const uint32_t qpn = create();
    REQUIRE(connect(qpn, planes_of(host), adjust) == 0);
    return qpn;
  }

  void post(uint32_t qpn, uint32_t length) {
    SendWr wr;
    wr.addr = reinterpret_cast<uint64_t>(memory_.data());
    wr.length = length;
    wr.lkey = mr_.lkey;
    wr.remote_addr = 0x1000;
    wr.rkey = 5;
    REQUIRE(ep.post_send(now, qpn, wr) == 0);
  }

  std::optional<Transmit> next(uint32_t ports = kAllPorts) {
    Transmit t;
    if (!ep.poll_transmit(now, ports, head_, t)) return std::nullopt;
    return t;
  }
  // What leaves now, at most `limit` packets.
  std::vector<Transmit> drain(size_t limit = SIZE_MAX, uint32_t ports = kAllPorts) {
    std::vector<Transmit> out;
    while (out.size() < limit) {
      const auto t = next(ports);
      if (!t) break;
      out.push_back(*t);
    }
    return out;
  }

  Endpoint ep;
  Instant now{};

 private:
  uint8_t planes_;
  bool ipv4_;
  std::vector<uint8_t> memory_;
  uint32_t pd_ = 0, cq_ = 0;
  MrInfo mr_;
  std::array<uint8_t, wire::kMaxHeaderBytes> head_{};
};

}  // namespace mrc::engine::testing
