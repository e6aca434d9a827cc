// One plane of two T0s, two T1s and a host below each T0, for tests.
#pragma once

#include <initializer_list>
#include <vector>

#include "softswitch/fabric.h"
#include "wire/gateway.h"

namespace mrc::softswitch {

inline constexpr uint32_t kBlock = 0xFC000001;
constexpr uint16_t T0(uint16_t i) { return static_cast<uint16_t>(0x1000 + i); }
constexpr uint16_t T1(uint16_t i) { return static_cast<uint16_t>(0x2000 + i); }
constexpr uint16_t H(uint16_t i) { return static_cast<uint16_t>(0x8000 + i); }

inline base::IpAddr address(std::initializer_list<uint16_t> usids) {
  base::IpAddr a;
  base::store_be32(a.bytes.data(), kBlock);
  size_t at = 4;
  for (const uint16_t u : usids) {
    base::store_be16(a.bytes.data() + at, u);
    at += 2;
  }
  return a;
}

struct Rig {
  uint64_t rate_bps = 10'000'000'000, host_rate_bps = 0, fabric_rate_bps = 0;  // 0: rate_bps
  base::Duration delay{};
  QueueRules rules;
  uint8_t ecn = wire::kEcnEct0;

  // Nodes and ports in the order in which spec() makes them.
  [[nodiscard]] static uint32_t t0(uint32_t i) { return i; }
  [[nodiscard]] static uint32_t t1(uint32_t i) { return 2 + i; }
  [[nodiscard]] static uint32_t host(uint32_t i) { return 4 + i; }
  [[nodiscard]] static uint32_t t0_up(uint32_t i, uint32_t j) { return 2 * (2 * i + j); }
  [[nodiscard]] static uint32_t host_up(uint32_t i) { return 8 + 2 * i; }
  [[nodiscard]] static uint32_t t0_down(uint32_t i) { return 9 + 2 * i; }

  void cable(FabricSpec& s, uint32_t low, uint32_t high, uint64_t up_rate, uint64_t down_rate) const {
    const auto first = static_cast<uint32_t>(s.ports.size());
    s.ports.push_back({low, high, first + 1, up_rate, delay, rules});
    s.ports.push_back({high, low, first, down_rate, delay, rules});
  }
  [[nodiscard]] FabricSpec spec() const {
    FabricSpec s;
    for (const uint16_t u : {T0(0), T0(1), T1(0), T1(1)}) s.nodes.push_back({kBlock, u, false});
    for (const uint16_t u : {H(0), H(1)}) s.nodes.push_back({kBlock, u, true});
    const uint64_t inside = fabric_rate_bps != 0 ? fabric_rate_bps : rate_bps;
    for (uint32_t i = 0; i < 2; ++i) {
      for (uint32_t j = 0; j < 2; ++j) cable(s, t0(i), t1(j), inside, inside);
    }
    for (uint32_t i = 0; i < 2; ++i) {
      cable(s, host(i), t0(i), host_rate_bps != 0 ? host_rate_bps : rate_bps, rate_bps);
      s.ports[host_up(i)].rules = QueueRules{};
      s.ports[t0_down(i)].rules.trimmed_dscp = 16;
    }
    for (uint16_t i = 0; i < 2; ++i) {
      const auto other = static_cast<uint16_t>(1 - i);
      s.routes.push_back({t0(i), H(i), false, {t0_down(i)}});
      s.routes.push_back({t0(i), H(other), false, {t0_up(i, 0), t0_up(i, 1)}});
      for (uint16_t j = 0; j < 2; ++j) {
        s.routes.push_back({t0(i), T1(j), false, {t0_up(i, j)}});
        s.routes.push_back({t1(j), T0(i), false, {t0_up(i, j) + 1}});
        s.routes.push_back({t1(j), H(i), false, {t0_up(i, j) + 1}});
      }
    }
    return s;
  }
  [[nodiscard]] Fabric fabric() const {
    std::string why;
    return Fabric(spec(), why);
  }
  // From a host, along a list, with `payload` bytes behind the UDP header.
  [[nodiscard]] std::vector<uint8_t> packet(uint16_t from, std::initializer_list<uint16_t> list,
                                            size_t payload, uint8_t dscp = 0, uint16_t src_port = 7) const {
    wire::DatagramMeta m;
    m.src = address({H(from)});
    m.src_port = src_port;
    m.dst_port = 4791;
    m.dscp = dscp;
    m.ecn = ecn;
    std::vector<uint8_t> p(wire::kOuterBytes + payload);
    wire::emit_outer(m, address(list), 64, payload, p.data());
    return p;
  }
};

inline std::vector<std::pair<uint32_t, std::vector<uint8_t>>> drain(Fabric& f, base::Instant until) {
  std::vector<Delivery> out;
  f.advance(until, out);
  std::vector<std::pair<uint32_t, std::vector<uint8_t>>> got;
  for (const Delivery& d : out) {
    const auto v = f.frames()[d.frame].view();
    got.emplace_back(d.host, std::vector<uint8_t>(v.begin(), v.end()));
    f.frames().give_back(d.frame);
  }
  return got;
}

}  // namespace mrc::softswitch
