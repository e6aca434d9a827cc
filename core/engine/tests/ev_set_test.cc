#include "engine/ev_set.h"

#include <map>
#include <set>

#include "testing/check.h"

using mrc::base::IpAddr;
using mrc::base::Rng;
using mrc::engine::PeerPort;
using mrc::engine::PortConfig;

namespace {
struct Planes {
  std::vector<PortConfig> ports;
  std::vector<PeerPort> peers;
};
Planes planes(uint8_t n) {
  Planes p;
  for (uint8_t i = 1; i <= n; ++i) {
    PortConfig c;
    c.addr = IpAddr::v4(10, 0, i, 1);
    p.ports.push_back(c);
    p.peers.push_back(PeerPort{i, IpAddr::v4(10, 0, i, 2), 4791, i});
  }
  return p;
}
}  // namespace

TEST_CASE("invented EVs are split equally, unique, and never below port 1024") {
  const Planes p = planes(8);
  Rng rng(1);
  const auto set = mrc::engine::auto_ev_set(p.ports, p.peers, 128, rng);
  CHECK_EQ(set.active.size(), 128u);
  CHECK_EQ(set.backup.size(), 32u);
  std::map<uint8_t, int> per_port;
  std::set<uint32_t> tags;
  for (const auto& e : set.active) {
    ++per_port[e.port];
    tags.insert(e.tag);
    CHECK((e.tag & 0xFFFF) >= 1024);
  }
  for (const auto& e : set.backup) tags.insert(e.tag);
  CHECK_EQ(tags.size(), 160u);
  for (const auto& [port, n] : per_port) CHECK_EQ(n, 16);
}

TEST_CASE("a plane with fewer EVs sets the share of all, the rest are spares") {
  Planes p = planes(2);
  p.ports[0].auto_tags = {2000, 2001, 2002};
  p.ports[1].auto_tags = {3000, 3001, 3002, 3003, 3004};
  Rng rng(1);
  const auto set = mrc::engine::auto_ev_set(p.ports, p.peers, 128, rng);
  CHECK_EQ(set.active.size(), 6u);
  CHECK_EQ(set.backup.size(), 2u);
  CHECK_EQ(set.backup[0].port, 2);
}

TEST_CASE("two QPs draw different orders from the same ports") {
  Planes p = planes(1);
  for (uint32_t i = 0; i < 64; ++i) p.ports[0].auto_tags.push_back(2000 + i);
  Rng rng(1);
  const auto a = mrc::engine::auto_ev_set(p.ports, p.peers, 16, rng);
  const auto b = mrc::engine::auto_ev_set(p.ports, p.peers, 16, rng);
  CHECK(a.active != b.active);
}
