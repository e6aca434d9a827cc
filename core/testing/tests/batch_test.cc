// Datagrams that arrive together are worth the same as one by one: two equal receivers, one fed each way,
// must never differ in what they send, complete or count. A third one, fed like the first, records the same,
// too.
#include <map>

#include "impair/trim.h"
#include "testing/check.h"
#include "testing/pair.h"

using namespace mrc;           // NOLINT(google-build-using-namespace): a test file
using namespace mrc::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint64_t kIova = 0x10'0000;
constexpr size_t kMemory = 256 * 1024;
constexpr uint32_t kQps = 3;
constexpr uint8_t kPlanes = 2;

base::IpAddr address(uint8_t host, uint8_t plane) {
  base::IpAddr a;
  a.bytes[0] = 0xfd;
  a.bytes[7] = plane;
  a.bytes[15] = host;
  return a;
}

struct Frame {
  wire::DatagramMeta meta;
  std::vector<uint8_t> bytes;
  bool operator==(const Frame& o) const {
    return meta.src == o.meta.src && meta.dst == o.meta.dst && meta.src_port == o.meta.src_port &&
           meta.dscp == o.meta.dscp && meta.ecn == o.meta.ecn && meta.port == o.meta.port && bytes == o.bytes;
  }
};

// Host 1 or 2 with three QPs; equal seeds make equal hosts, also in their keys.
class Host {
 public:
  Host(uint8_t number, uint64_t seed) : endpoint(config(seed)), number_(number), memory_(kMemory, number) {
    for (uint8_t p = 1; p <= kPlanes; ++p) {
      engine::PortConfig port;
      port.addr = address(number, p);
      for (uint32_t k = 0; k < 4; ++k) port.auto_tags.push_back(p * 1000u + k);
      endpoint.add_port(port);
    }
    const uint32_t pd = endpoint.alloc_pd();
    cq_ = endpoint.create_cq(4096).value();
    mr = endpoint
             .reg_mr(pd, reinterpret_cast<uint64_t>(memory_.data()), kMemory,
                     engine::Access::local_write | engine::Access::remote_write, kIova)
             .value();
    for (uint32_t i = 0; i < kQps; ++i) {
      engine::QpInit init;
      init.pd = pd;
      init.send_cq = init.recv_cq = cq_;
      init.max_recv_wr = 4096;
      init.qpn = 1000u * number + i;
      REQUIRE(endpoint.create_qp(init).ok());
    }
  }

  void connect() {
    const auto peer = static_cast<uint8_t>(3 - number_);
    for (uint32_t i = 0; i < kQps; ++i) {
      engine::QpAttr a;
      a.state = engine::QpState::init;
      a.ev_count = 8;
      engine::QpAttr b;
      b.state = engine::QpState::rtr;
      b.dest_qpn = 1000u * peer + i;
      b.rq_psn = 10u * peer;
      b.path_mtu = 256;
      b.peer_ports.emplace();
      for (uint8_t p = 1; p <= kPlanes; ++p) b.peer_ports->push_back({p, address(peer, p), 4791, p, nullptr});
      b.trimming = true;
      engine::QpAttr c;
      c.state = engine::QpState::rts;
      c.sq_psn = 10u * number_;
      for (const engine::QpAttr* x : {&a, &b, &c})
        REQUIRE(endpoint.modify_qp(Instant{}, 1000u * number_ + i, *x) == 0);
      for (uint64_t k = 0; k < 2000; ++k) endpoint.post_recv(Instant{}, 1000u * number_ + i, k);
    }
  }

  base::Errno post(Instant now, uint32_t qp, uint32_t length, uint32_t rkey, bool imm) {
    engine::SendWr wr;
    wr.wr_id = ++id_;
    wr.opcode = imm ? reliability::WrOpcode::rdma_write_imm : reliability::WrOpcode::rdma_write;
    wr.imm = static_cast<uint32_t>(id_);
    wr.addr = reinterpret_cast<uint64_t>(memory_.data());
    wr.remote_addr = kIova;
    wr.length = length;
    wr.lkey = mr.lkey;
    wr.rkey = rkey;
    return endpoint.post_send(now, 1000u * number_ + qp, wr);
  }

  // All it wants to send now, as it arrives at the other end.
  std::vector<Frame> send(Instant now) {
    std::vector<Frame> out;
    std::array<uint8_t, wire::kMaxHeaderBytes> head{};
    engine::Transmit t;
    while (endpoint.poll_transmit(now, UINT32_MAX, head, t)) {
      Frame f;
      f.meta = t.meta;
      f.bytes.assign(head.data(), head.data() + t.head_len);
      if (t.payload_len > 0) f.bytes.insert(f.bytes.end(), t.payload, t.payload + t.payload_len);
      const engine::Trailer end = engine::finish(t, head.data());
      f.bytes.insert(f.bytes.end(), end.bytes, end.bytes + end.length);
      out.push_back(std::move(f));
    }
    return out;
  }
  std::vector<uint64_t> completions() {
    std::vector<uint64_t> out;
    std::array<engine::Completion, 32> wc;
    for (size_t n = endpoint.poll_completion(cq_, wc); n > 0; n = endpoint.poll_completion(cq_, wc)) {
      for (size_t i = 0; i < n; ++i)
        out.push_back(wc[i].wr_id << 16 ^ wc[i].qpn << 8 ^ wc[i].imm ^ static_cast<uint64_t>(wc[i].status));
    }
    return out;
  }
  [[nodiscard]] const std::vector<uint8_t>& memory() const { return memory_; }

  engine::Endpoint endpoint;
  engine::MrInfo mr;

 private:
  static engine::EndpointConfig config(uint64_t seed) {
    engine::EndpointConfig c;
    c.seed = seed;
    c.run_bytes = 4096;
    return c;
  }
  uint8_t number_;
  std::vector<uint8_t> memory_;
  uint32_t cq_ = 0;
  uint64_t id_ = 0;
};

// What a network may do to packets that arrive together.
std::vector<Frame> harm(std::vector<Frame> in, base::Rng& rng, uint32_t ppm) {
  const wire::Dscps dscps;
  std::vector<Frame> out;
  for (Frame& f : in) {
    if (rng.chance_ppm(ppm)) continue;
    if (rng.chance_ppm(ppm)) out.push_back(f);
    if (rng.chance_ppm(ppm)) f.meta.ecn = 3;
    if (rng.chance_ppm(ppm)) f.meta.src = address(9, 1);  // a stranger
    if (rng.chance_ppm(ppm)) f.meta.port = 7;             // no such port
    if (rng.chance_ppm(ppm)) impair::corrupt(f.bytes, static_cast<uint32_t>(rng.next()));
    if (rng.chance_ppm(ppm)) f.bytes.resize(f.bytes.size() / 2);
    if (f.bytes.size() > 60 && rng.chance_ppm(ppm)) {
      std::vector<uint8_t> cut;
      impair::trim_packet(f.bytes, cut);
      f.bytes = cut;
      f.meta.dscp = dscps.trimmed;
    }
    out.push_back(std::move(f));
    if (out.size() > 1 && rng.chance_ppm(ppm))
      std::swap(out.back(), out[rng.below(static_cast<uint32_t>(out.size()))]);
  }
  return out;
}

void feed_together(Host& h, Instant now, const std::vector<Frame>& frames) {
  std::vector<engine::Datagram> batch;
  for (const Frame& f : frames) batch.push_back({f.meta, f.bytes});
  h.endpoint.handle_datagrams(now, batch);
}
void feed_singly(Host& h, Instant now, const std::vector<Frame>& frames) {
  for (const Frame& f : frames) h.endpoint.handle_datagram(now, f.meta, f.bytes);
}

struct Outcome {
  uint64_t batches = 0, packets = 0, differences = 0, completed = 0;
  std::map<size_t, uint64_t> drops;
};

Outcome play(uint64_t seed, uint32_t ppm, uint32_t rounds) {
  base::Rng rng(seed);
  Host peer(1, 11);
  Host together(2, 22);
  Host singly(2, 22);
  Host again(2, 22);
  REQUIRE(together.mr.rkey == singly.mr.rkey);
  for (Host* h : {&peer, &together, &singly, &again}) h->connect();
  Outcome o;
  Instant now{};
  const auto same = [&o](bool ok, const char* what) {
    if (!ok && o.differences++ == 0)
      std::fprintf(stderr, "%s differ in batch %d\n", what, static_cast<int>(o.batches));
  };
  for (uint32_t round = 0; round < rounds; ++round) {
    now = now + Duration::micros(20);
    for (int k = 0; k < 2; ++k) {
      const uint32_t qp = rng.below(kQps), length = rng.below(6000);
      const bool imm = rng.chance_ppm(500'000), back = rng.chance_ppm(500'000);
      if (!back) peer.post(now, qp, length, together.mr.rkey, imm);
      if (!back) continue;
      const base::Errno e = together.post(now, qp, length, peer.mr.rkey, imm);
      same(singly.post(now, qp, length, peer.mr.rkey, imm) == e, "posts");
      again.post(now, qp, length, peer.mr.rkey, imm);
    }
    for (Host* h : {&peer, &together, &singly, &again}) {
      if (h->endpoint.poll_timeout() <= now) h->endpoint.handle_timeout(now);
    }
    const auto frames = harm(peer.send(now), rng, ppm);
    feed_together(together, now, frames);
    feed_singly(singly, now, frames);
    feed_together(again, now, frames);
    o.batches += frames.empty() ? 0u : 1u;
    o.packets += frames.size();
    const auto answers = together.send(now);
    same(answers == singly.send(now), "packets");
    again.send(now);
    same(together.endpoint.poll_timeout() == singly.endpoint.poll_timeout(), "timeouts");
    const auto done = together.completions();
    o.completed += done.size();
    same(done == singly.completions(), "completions");
    again.completions();
    same(together.endpoint.trace_digest() == again.endpoint.trace_digest(), "digests of equal calls");
    same(together.endpoint.stats().drops == singly.endpoint.stats().drops, "drops");
    feed_together(peer, now, harm(answers, rng, ppm));
    peer.completions();
  }
  same(together.memory() == singly.memory(), "memory");
  for (uint32_t i = 0; i < kQps; ++i) {
    const auto a = together.endpoint.qp_stats(2000 + i).value();
    const auto b = singly.endpoint.qp_stats(2000 + i).value();
    same(a.sacks_rx == b.sacks_rx && a.nacks_rx == b.nacks_rx && a.acks_rx == b.acks_rx &&
             a.cack_psn == b.cack_psn && a.unack_psn == b.unack_psn && a.tx.data_tx == b.tx.data_tx &&
             a.tx.spurious == b.tx.spurious && a.srtt == b.srtt && a.cc.cwnd == b.cc.cwnd,
         "counters");
  }
  const auto& s = together.endpoint.stats();
  same(s.datagrams_rx == singly.endpoint.stats().datagrams_rx, "datagrams");
  for (size_t i = 0; i < s.drops.size(); ++i) {
    if (s.drops[i] > 0) o.drops[i] = s.drops[i];
  }
  return o;
}

}  // namespace

TEST_CASE("batches equal single datagrams on a clean network") {
  const Outcome o = play(1, 0, 2000);
  CHECK_EQ(o.differences, 0u);
  CHECK(o.packets > 4 * o.batches);
  CHECK(o.completed > 1500);
  CHECK(o.drops.empty());
}

TEST_CASE("batches equal single datagrams under every kind of harm") {
  for (const uint32_t seed : {2u, 3u, 4u}) {
    const Outcome o = play(seed, 20'000, 1500);
    CHECK_EQ(o.differences, 0u);
    CHECK(o.packets > 1000);
    CHECK(o.completed > 200);
    CHECK(o.drops.size() >= 3);
  }
}
