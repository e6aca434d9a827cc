// Fifty QPs between two endpoints that share one window: nobody goes without, and the receiver is never
// offered more than one window and a turn.
#include "engine/share.h"
#include "story.h"

using namespace mrc;           // NOLINT(google-build-using-namespace): a test file
using namespace mrc::testing;  // NOLINT(google-build-using-namespace)

namespace {

constexpr uint32_t kQps = 50, kWrite = 65'536, kPmtu = 4096, kDepth = 3;

PairConfig planes(bool shared) {
  PairConfig c;
  c.planes = 2;
  c.bytes_per_second = 6'250'000'000;  // 100 Gb/s in all: a window of 225 KB
  c.endpoint.share_window = shared;
  c.endpoint.run_bytes = 61'440;
  return c;
}

class Crowd {
 public:
  explicit Crowd(const PairConfig& c, uint32_t qps = kQps) : pair(c), memory_(kWrite) {
    for (int s = 0; s < 2; ++s) make(s, qps);
    for (int s = 0; s < 2; ++s) connect(s);
    done.assign(qps, 0);
    open_.assign(qps, 0);
    pair.on_transmit = [this](int side, const engine::Transmit& t, base::ByteView) {
      if (side == 0 && t.is_data && ++packets_ % 16 == 0) look();
    };
  }

  // All QPs always have `kDepth` writes open.
  void run(Duration d) {
    const Instant end = pair.now() + d;
    refill();
    pair.run_until([this] { return refill(); }, end);
  }
  [[nodiscard]] int64_t limit() const { return pair_side(0).qp_stats(qpn_[0][0]).value().cc.max_wnd; }
  [[nodiscard]] int64_t in_flight() const {
    int64_t sum = 0;
    for (const uint32_t q : qpn_[0]) {
      const auto stats = pair_side(0).qp_stats(q);
      sum += stats.ok() ? stats.value().outstanding : 0;
    }
    return sum;
  }
  [[nodiscard]] double jain() const {
    double sum = 0, squares = 0;
    for (const uint64_t n : done) {
      sum += static_cast<double>(n);
      squares += static_cast<double>(n) * static_cast<double>(n);
    }
    return sum * sum / (static_cast<double>(done.size()) * squares);
  }
  [[nodiscard]] uint32_t qpn(int s, uint32_t i) const { return qpn_[static_cast<size_t>(s)][i]; }

  Pair pair;
  std::vector<uint64_t> done;  // writes complete, by QP
  int64_t most = 0;            // in flight at once
  uint64_t bad = 0;

 private:
  [[nodiscard]] const engine::Endpoint& pair_side(int i) const { return const_cast<Pair&>(pair).side(i); }
  void look() { most = std::max(most, in_flight()); }

  void make(int s, uint32_t qps) {
    engine::Endpoint& ep = pair.side(s);
    const uint32_t pd = ep.alloc_pd();
    const auto k = static_cast<size_t>(s);
    cq_[k] = ep.create_cq(4096).value();
    mr_[k] = ep.reg_mr(pd, base(), kWrite, engine::Access::local_write | engine::Access::remote_write, base())
                 .value();
    engine::QpInit init;
    init.pd = pd;
    init.send_cq = init.recv_cq = cq_[k];
    for (uint32_t i = 0; i < qps; ++i) qpn_[k].push_back(ep.create_qp(init).value());
  }
  void connect(int s) {
    const auto k = static_cast<size_t>(s);
    for (size_t i = 0; i < qpn_[k].size(); ++i) {
      engine::QpAttr a;
      a.state = engine::QpState::init;
      a.ev_count = 8;
      engine::QpAttr b;
      b.state = engine::QpState::rtr;
      b.dest_qpn = qpn_[1 - k][i];
      b.rq_psn = 1;
      b.path_mtu = kPmtu;
      b.peer_ports = pair.peer_ports(s);
      engine::QpAttr c;
      c.state = engine::QpState::rts;
      c.sq_psn = 1;
      for (const engine::QpAttr* x : {&a, &b, &c})
        REQUIRE(pair.side(s).modify_qp(pair.now(), qpn_[k][i], *x) == 0);
    }
  }
  bool refill() {
    std::array<engine::Completion, 64> wc;
    for (size_t n = pair.side(0).poll_completion(cq_[0], wc); n > 0;
         n = pair.side(0).poll_completion(cq_[0], wc)) {
      for (size_t i = 0; i < n; ++i) {
        const auto who =
            static_cast<size_t>(std::find(qpn_[0].begin(), qpn_[0].end(), wc[i].qpn) - qpn_[0].begin());
        REQUIRE(who < done.size());
        bad += wc[i].status != engine::Status::success;
        ++done[who];
        --open_[who];
      }
    }
    bool posted = false;
    for (size_t i = 0; i < open_.size(); ++i) {
      for (; bad == 0 && open_[i] < kDepth; ++open_[i], posted = true) {
        engine::SendWr wr;
        wr.addr = wr.remote_addr = base();
        wr.length = kWrite;
        wr.lkey = mr_[0].lkey;
        wr.rkey = mr_[1].rkey;
        REQUIRE(pair.side(0).post_send(pair.now(), qpn_[0][i], wr) == 0);
      }
    }
    if (posted) pair.flush();
    return bad != 0;
  }
  uint64_t base() { return reinterpret_cast<uint64_t>(memory_.data()); }

  std::vector<uint8_t> memory_;
  std::array<uint32_t, 2> cq_{};
  std::array<engine::MrInfo, 2> mr_;
  std::array<std::vector<uint32_t>, 2> qpn_;
  std::vector<uint32_t> open_;
  uint64_t packets_ = 0;
};

}  // namespace

TEST_CASE("fifty QPs share one window fairly and never exceed it by more than a turn") {
  Crowd c(planes(true));
  const int64_t limit = c.limit();
  CHECK_EQ(limit, 225'000);
  c.run(Duration::millis(20));
  CHECK_EQ(c.bad, 0u);
  CHECK(c.most <= limit + engine::Share::kTurnBytes);
  CHECK(c.most > limit / 2);
  CHECK(c.jain() > 0.99);
  const auto [least, most] = std::minmax_element(c.done.begin(), c.done.end());
  CHECK(*least > 20);
  CHECK(*most <= *least + 4);  // turns are taken in order
}

TEST_CASE("without sharing the same fifty have many windows in flight") {
  Crowd c(planes(false));
  const int64_t limit = c.limit();
  c.run(Duration::millis(1));
  CHECK_EQ(c.bad, 0u);
  CHECK(c.most > 10 * limit);
}

TEST_CASE("full sockets and lost packets cost time, not fairness, and leave nothing behind in the share") {
  PairConfig p = planes(true);
  p.port_full_ppm = 20'000;
  Crowd c(p, 20);
  impair::Rule loss;
  loss.drop_ppm = 1'000;
  const uint64_t rule = c.pair.line().add_rule(loss);
  c.run(Duration::millis(20));
  CHECK_EQ(c.bad, 0u);
  CHECK(c.jain() > 0.9);
  CHECK(c.pair.line().counters().dropped > 10);
  // The same speed as before any of it, on a clean fabric: no byte of the window is lost for good.
  c.pair.line().remove_rule(rule);
  c.run(Duration::millis(5));
  c.done.assign(20, 0);
  c.run(Duration::millis(5));
  uint64_t after = 0;
  for (const uint64_t n : c.done) after += n;
  PairConfig clean = planes(true);
  clean.port_full_ppm = p.port_full_ppm;
  Crowd fresh(clean, 20);
  fresh.run(Duration::millis(5));
  fresh.done.assign(20, 0);
  fresh.run(Duration::millis(5));
  uint64_t reference = 0;
  for (const uint64_t n : fresh.done) reference += n;
  CHECK(after * 10 >= reference * 9);
}

TEST_CASE("QPs that fail or leave in the middle of it all do not take the window with them") {
  Crowd c(planes(true), 20);
  c.run(Duration::millis(2));
  for (uint32_t i = 0; i < 10; ++i) {
    engine::QpAttr err;
    err.state = engine::QpState::err;
    const uint32_t q = c.qpn(0, i);
    REQUIRE((i % 2 == 0 ? c.pair.side(0).destroy_qp(c.pair.now(), q)
                        : c.pair.side(0).modify_qp(c.pair.now(), q, err)) == 0);
  }
  c.pair.flush();
  // The other ten go on with what they have.
  const int64_t before = c.in_flight();
  CHECK(before > 0);
  c.pair.run_for(Duration::millis(1));
  for (uint32_t i = 10; i < 20; ++i) {
    const auto s = c.pair.side(0).qp_stats(c.qpn(0, i)).value();
    CHECK_EQ(s.queued, 0u);  // what was posted is done
    CHECK(s.state == engine::QpState::rts);
  }
  CHECK_EQ(c.in_flight(), 0);
}
