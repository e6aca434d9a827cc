// The parts of the driver that need no peer: held frames, batches, address text, path MTU, the list of host
// facts.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "net/frame_heap.h"
#include "net/probe.h"
#include "net/rx_batch.h"
#include "net/tx_batch.h"
#include "testing/check.h"

using namespace mrc;       // NOLINT(google-build-using-namespace)
using namespace mrc::net;  // NOLINT(google-build-using-namespace)

namespace {

HeldFrame frame(int64_t at, size_t bytes, uint8_t mark) {
  HeldFrame f;
  f.at = base::Instant{at};
  f.bytes.assign(bytes, mark);
  return f;
}

UdpPlane open_plane(const char* address, std::set<uint32_t>& taken) {
  std::string why;
  PlaneOptions o;
  o.address = *parse_address(address, why);
  o.evs = 3;
  base::Rng rng(7 + taken.size());
  UdpPlane p;
  REQUIRE(p.open(o, rng, taken, why) == 0);
  return p;
}

}  // namespace

TEST_CASE("held frames leave by time, equal times in order of arrival, and memory is bounded") {
  FrameHeap h;
  CHECK(h.next().is_never());
  for (uint8_t i = 0; i < 8; ++i) CHECK(h.push(frame(i % 2 == 0 ? 20 : 10, 1, i)));
  std::vector<int> order;
  while (!h.next().is_never()) order.push_back(h.pop().bytes[0]);
  CHECK(order == (std::vector<int>{1, 3, 5, 7, 0, 2, 4, 6}));
  size_t taken = 0;
  while (h.push(frame(1, 1 << 20, 0))) ++taken;
  CHECK(taken > 200);
  CHECK(taken <= (FrameHeap::kMaxBytes >> 20));
  h.pop();
  CHECK(h.push(frame(1, 1 << 20, 0)));
}

TEST_CASE("one batch over two planes: every packet on its own EV, in order, and a refusal harms no other") {
  std::set<uint32_t> taken;
  UdpPlane v4 = open_plane("127.0.0.41", taken);
  UdpPlane v6 = open_plane("::1", taken);
  const std::vector<uint8_t> payload(70'000, 0x5A);
  TxBatch batch;
  const auto put = [&](UdpPlane& p, const base::IpAddr& to, uint8_t number, uint32_t bytes) {
    TxBatch::Slot& s = batch.next();
    s.t = engine::Transmit{};
    s.t.tag = p.tags()[number % 3];
    s.t.meta.src = p.address().ip;
    s.t.meta.dst = s.t.via = to;
    s.t.meta.src_port = static_cast<uint16_t>(s.t.tag);
    s.t.meta.dst_port = p.udp_port();
    s.t.meta.flow_label = s.t.tag >> 16;
    s.t.head_len = 12;
    s.head[0] = number;
    s.t.payload = payload.data();
    s.t.payload_len = bytes;
    batch.keep(p);
  };
  for (uint8_t i = 0; i < 24; ++i) {
    UdpPlane& p = i % 2 == 0 ? v4 : v6;
    put(p, i == 10 ? v6.address().ip : p.address().ip, i,
        i == 11 ? 66'000 : 100);  // wrong family; too big for UDP
  }
  batch.send();
  for (size_t i = 0; i < batch.size(); ++i)
    CHECK_EQ(batch.slots()[i].error, i == 10 ? EAFNOSUPPORT : i == 11 ? EMSGSIZE : 0);
  for (UdpPlane* p : {&v4, &v6}) {
    RxBatch room;
    std::vector<engine::Datagram> got;
    uint64_t dropped = 0;
    p->receive(room, got, dropped);
    REQUIRE(got.size() == 11);
    std::map<uint32_t, int> last;
    for (const engine::Datagram& r : got) {
      CHECK_EQ(r.bytes.size(), 116u);
      const uint32_t tag = wire::reflected_entropy(r.meta);
      CHECK_EQ(tag, p->tags()[r.bytes[0] % 3]);
      CHECK(!last.contains(tag) || last[tag] < r.bytes[0]);
      last[tag] = r.bytes[0];
      CHECK_EQ(wire::load_icrc(r.bytes.data() + 112),
               wire::icrc(r.meta, r.bytes.first(12), r.bytes.subspan(12, 100), 0));
    }
    CHECK_EQ(last.size(), 3u);
  }
}

TEST_CASE("packets of one EV cross as runs and arrive as they were; shorter ones and others do not join") {
  std::set<uint32_t> taken;
  for (const bool segments : {true, false}) {
    UdpPlane p = open_plane("::1", taken);
    if (!segments) p.refuse_segments();
    CHECK_EQ(p.segments(), segments);
    std::vector<uint8_t> payload(1 << 20);
    base::Rng rng(3);
    for (uint8_t& b : payload) b = static_cast<uint8_t>(rng.next());
    TxBatch batch;
    std::vector<uint32_t> sizes;
    size_t at = 0;
    const auto put = [&](uint8_t number, uint32_t bytes, uint32_t ev, const base::IpAddr& final_address) {
      TxBatch::Slot& s = batch.next();
      s.t = engine::Transmit{};
      s.t.tag = p.tags()[ev];
      s.t.meta.src = p.address().ip;
      s.t.meta.dst = final_address;
      s.t.via = p.address().ip;
      s.t.meta.src_port = s.t.meta.dst_port = p.udp_port();
      s.t.meta.flow_label = s.t.tag >> 16;
      s.t.is_data = true;
      s.t.head_len = 12;
      s.head[0] = number;
      s.t.payload = payload.data() + at;
      s.t.payload_len = bytes;
      at += bytes;
      sizes.push_back(bytes);
      batch.keep(p);
    };
    const base::IpAddr self = p.address().ip;
    for (uint8_t i = 0; i < 60; ++i) put(i, 1408, 0, self);  // more than one run holds
    put(60, 700, 0, self);                                   // ends a run
    put(61, 1408, 0, self);
    put(62, 8896, 0, self);  // longer than the run before it
    for (uint8_t i = 63; i < 70; ++i) put(i, 1408, i % 3u, self);
    batch.send();
    for (const TxBatch::Slot& s : batch.slots()) CHECK_EQ(s.error, 0);
    RxBatch room;
    std::vector<bool> seen(70);
    size_t count = 0;
    for (bool more = true; more;) {
      std::vector<engine::Datagram> got;
      uint64_t dropped = 0;
      more = p.receive(room, got, dropped);
      for (const engine::Datagram& d : got) {
        const uint8_t n = d.bytes[0];
        REQUIRE(n < 70);
        CHECK(!seen[n]);
        seen[n] = true;
        ++count;
        CHECK_EQ(d.bytes.size(), sizes[n] + 16u);
        CHECK_EQ(wire::load_icrc(d.bytes.data() + 12 + sizes[n]),
                 wire::icrc(d.meta, d.bytes.first(12), d.bytes.subspan(12, sizes[n]), 0));
      }
    }
    CHECK_EQ(count, 70u);
  }
}

TEST_CASE("answers of one length gather in a run whatever lies between, a single shorter one goes last") {
  std::set<uint32_t> taken;
  UdpPlane p = open_plane("::1", taken);
  const base::IpAddr self = p.address().ip;
  std::array<uint8_t, 64> payload{};
  TxBatch batch;
  const auto put = [&](uint8_t number, uint32_t bytes, bool data) {
    TxBatch::Slot& s = batch.next();
    s.t = engine::Transmit{};
    s.t.tag = p.tags()[0];
    s.t.meta.src = s.t.meta.dst = s.t.via = self;
    s.t.meta.src_port = s.t.meta.dst_port = p.udp_port();
    s.t.meta.flow_label = s.t.tag >> 16;
    s.t.is_data = data;
    s.t.head_len = 12;
    s.head[0] = number;
    s.t.payload = payload.data();
    s.t.payload_len = bytes;
    batch.keep(p);
  };
  const auto order = [&] {
    batch.send();
    for (const TxBatch::Slot& s : batch.slots()) CHECK_EQ(s.error, 0);
    batch.clear();
    RxBatch room;
    std::vector<int> out;
    for (bool more = true; more;) {
      std::vector<engine::Datagram> got;
      uint64_t dropped = 0;
      more = p.receive(room, got, dropped);
      for (const engine::Datagram& d : got) out.push_back(d.bytes[0]);
    }
    return out;
  };
  // As four QPs answer: a SACK and an acknowledgement each.
  for (uint8_t i = 0; i < 8; ++i) put(i, i % 2 == 0 ? 48 : 8, false);
  CHECK(order() ==
        (p.segments() ? std::vector<int>{0, 2, 4, 6, 1, 3, 5, 7} : std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  // Data stays in order.
  for (uint8_t i = 0; i < 4; ++i) put(i, i % 2 == 0 ? 48 : 8, true);
  CHECK(order() == (std::vector<int>{0, 1, 2, 3}));
}

TEST_CASE("a packet goes where its list leads, and its iCRC is that of the address it ends at") {
  std::set<uint32_t> taken;
  UdpPlane p = open_plane("::1", taken);
  std::string why;
  TxBatch batch;
  TxBatch::Slot& s = batch.next();
  s.t = engine::Transmit{};
  s.t.meta.src = p.address().ip;
  s.t.meta.dst = parse_address("fd00::b", why)->ip;
  s.t.via = p.address().ip;
  s.t.meta.src_port = s.t.meta.dst_port = p.udp_port();
  s.t.head_len = 12;
  batch.keep(p);
  batch.send();
  RxBatch room;
  std::vector<engine::Datagram> got;
  uint64_t dropped = 0;
  p.receive(room, got, dropped);
  REQUIRE(got.size() == 1);
  wire::DatagramMeta there = got[0].meta;
  there.dst = s.t.meta.dst;  // what the last switch leaves
  CHECK_EQ(wire::load_icrc(got[0].bytes.data() + 12), wire::icrc(there, got[0].bytes.first(12), {}, 0));
}

TEST_CASE("source ports the user names are opened when used; one that is taken is an error of that packet") {
  std::set<uint32_t> taken;
  UdpPlane a = open_plane("127.0.0.42", taken);
  UdpPlane b = open_plane("127.0.0.42", taken);
  wire::DatagramMeta m;
  m.src = m.dst = a.address().ip;
  m.dst_port = a.udp_port();
  m.src_port = static_cast<uint16_t>(b.tags()[0]);
  const std::array<uint8_t, 4> bytes{};
  int error = 0;
  CHECK(a.send(m, m.dst, bytes, error) == SendOutcome::path_error);
  CHECK_EQ(error, EADDRINUSE);
  b = UdpPlane{};
  CHECK(a.send(m, m.dst, bytes, error) == SendOutcome::sent);
  RxBatch room;
  std::vector<engine::Datagram> got;
  uint64_t dropped = 0;
  a.receive(room, got, dropped);
  REQUIRE(got.size() == 1);
  CHECK_EQ(got[0].meta.src_port, m.src_port);
}

TEST_CASE("a receive buffer that overflows is counted, and its fill is seen") {
  std::set<uint32_t> taken;
  std::string why;
  PlaneOptions o;
  o.address = *parse_address("127.0.0.43", why);
  o.evs = 1;
  o.rcvbuf = 8192;
  base::Rng rng(1);
  UdpPlane p;
  REQUIRE(p.open(o, rng, taken, why) == 0);
  CHECK(p.note().empty());
  wire::DatagramMeta m;
  m.src = m.dst = o.address.ip;
  m.src_port = static_cast<uint16_t>(p.tags()[0]);
  m.dst_port = p.udp_port();
  const std::vector<uint8_t> bytes(1000);
  int error = 0;
  CHECK_EQ(p.occupancy(), 0);
  for (int i = 0; i < 100; ++i) CHECK(p.send(m, m.dst, bytes, error) == SendOutcome::sent);
  CHECK(p.occupancy() > 50);
  RxBatch room;
  std::vector<engine::Datagram> got;
  uint64_t dropped = 0;
  while (p.receive(room, got, dropped)) {
  }
  const size_t n = got.size();
  CHECK(n > 0);
  CHECK(n < 100);
  CHECK(p.send(m, m.dst, bytes, error) == SendOutcome::sent);  // carries the count
  p.receive(room, got, dropped);
  CHECK_EQ(got.size() + dropped, 101u);
}

TEST_CASE("the path MTU of a link leaves room for all headers of a data packet") {
  CHECK_EQ(path_mtu_for_link(1500, false), 1024u);
  CHECK_EQ(path_mtu_for_link(4187, false), 2048u);
  CHECK_EQ(path_mtu_for_link(4188, false), 4096u);
  CHECK_EQ(path_mtu_for_link(4168, true), 4096u);
  CHECK_EQ(path_mtu_for_link(9000, true), 4096u);
  CHECK_EQ(path_mtu_for_link(348, false), 256u);
  CHECK_EQ(path_mtu_for_link(347, false), 0u);
}

TEST_CASE("host facts: every key once, each judged, nothing wanting without a hint") {
  const std::vector<ProbeItem> items = probe_host();
  std::set<std::string> keys;
  for (const ProbeItem& i : items) {
    CHECK(keys.insert(i.item).second);
    CHECK(!i.value.empty());
    if (i.status == ProbeStatus::warn) CHECK(!i.hint.empty());
    CHECK(!to_string(i.status).empty());
  }
  for (const char* key :
       {"udp_segment", "udp_gro", "rcvbuf", "sndbuf", "ipv6", "flow_label", "packet_options", "privileges",
        "auto_flowlabels", "seg6", "seg6_next_csid", "open_files", "interface lo"}) {
    CHECK(keys.contains(key));
  }
  const auto interfaces = probe_interfaces();
  const auto lo =
      std::find_if(interfaces.begin(), interfaces.end(), [](const ProbeInterface& i) { return i.loopback; });
  REQUIRE(lo != interfaces.end());
  CHECK(lo->running);
  REQUIRE(!lo->addresses.empty());
  CHECK_EQ(lo->addresses[0], "127.0.0.1");
  CHECK(lo->mtu > 0);
}
