// Two connected endpoints in virtual time under a list of operations that the input spells: work requests,
// time, packets seen before with some bytes changed, noise, port and path changes. Nothing may crash, memory
// must stay bounded, and bytes outside the registered region must stay as they were.
#include <algorithm>
#include <deque>
#include <vector>

#include "fuzz/reader.h"
#include "testing/tests/story.h"

namespace {

using mrc::base::ByteView;
using mrc::base::Duration;
using mrc::fuzz::Reader;
using mrc::testing::Story;
using mrc::testing::StoryConfig;
namespace engine = mrc::engine;
namespace ev = mrc::ev;
namespace impair = mrc::impair;
namespace wire = mrc::wire;

constexpr size_t kMemory = 1 << 16;
constexpr size_t kMaxOperations = 120;
constexpr size_t kMaxSteps = 6000;
constexpr size_t kKept = 64;
constexpr size_t kMaxQpBytes = 1 << 20;

struct Seen {
  int to = 0;
  wire::DatagramMeta meta;
  std::vector<uint8_t> bytes;
};

StoryConfig config(Reader& in) {
  StoryConfig c;
  const uint8_t choice = in.u8();
  c.pair.planes = static_cast<uint8_t>(1 + (choice & 3));
  c.pair.evs_per_plane = 2;
  c.pair.ipv4 = (choice & 4) != 0;
  c.trimming = (choice & 8) != 0;
  c.mpr = (choice & 16) != 0 ? 1 : 8;
  c.cc = (choice & 32) != 0 ? "fixed-window" : "uet-1.0-nscc";
  c.psn0 = (choice & 64) != 0 ? 0xFFFFF0 : 100;
  c.exp_cnt = (choice & 128) != 0 ? 1 : 8;
  c.pair.max_frames = 4096;
  c.memory = kMemory;
  c.recvs = 16;
  return c;
}

class Run {
 public:
  explicit Run(Reader& in) : in_(in), story_(config(in)) {
    story_.pair.on_transmit = [this](int side, const engine::Transmit& t, ByteView bytes) {
      seen_.push_back({1 - side, t.meta, {bytes.begin(), bytes.end()}});
      if (seen_.size() > kKept) seen_.pop_front();
    };
  }

  void operate() {
    switch (in_.u8() % 12) {
      case 0:
      case 1:
        post();
        break;
      case 2:
        step(in_.u8());
        break;
      case 3:
        wait();
        break;
      case 4:
      case 5:
      case 6:
        mutate();
        break;
      case 7:
        noise();
        break;
      case 8:
        (void)end().set_port_up(now(), in_.u8() & 7, (in_.u8() & 1) != 0);
        break;
      case 9:
        path();
        break;
      case 10:
        rule();
        break;
      default:
        work_queue();
    }
    story_.pair.flush();
    step(2);
    drain();
  }

  void finish() {
    story_.pair.line().clear();
    step(kMaxSteps);
    drain();
    for (int s = 0; s < 2; ++s) {
      const auto stats = story_.pair.side(s).qp_stats(story_.end[static_cast<size_t>(s)].qpn);
      if (stats.ok()) MRC_FUZZ_CHECK(stats.value().memory_bytes < kMaxQpBytes);
    }
    const auto& memory = story_.end[0].memory;
    MRC_FUZZ_CHECK(memory.size() == kMemory);
  }

 private:
  engine::Endpoint& end() { return story_.pair.side(in_.u8() & 1); }
  mrc::base::Instant now() { return story_.pair.now(); }
  uint32_t qpn(int s) { return story_.end[static_cast<size_t>(s)].qpn; }

  void post() {
    const uint8_t how = in_.u8();
    const uint32_t length = in_.u16() % 8192;
    // Some reach past the region on purpose: local and remote checks must refuse them.
    const size_t from = in_.u16(), to = size_t{in_.u16()} + ((how & 4) != 0 ? 1024 : 0);
    const auto imm = (how & 2) != 0 ? std::optional<uint32_t>(in_.u32()) : std::nullopt;
    (void)story_.post(how & 1, how, from, to, length, imm);
  }

  void step(size_t n) {
    for (size_t i = 0; i < n && steps_ < kMaxSteps; ++i, ++steps_)
      if (!story_.pair.step()) return;
  }

  // At most 65 ms at once, at most kMaxSteps events in all.
  void wait() {
    const auto until = now() + Duration::micros(in_.u16());
    while (steps_ < kMaxSteps && now() < until && story_.pair.step()) ++steps_;
  }

  void mutate() {
    if (seen_.empty()) return;
    Seen s = seen_[in_.u8() % seen_.size()];
    const uint8_t flips = in_.u8() & 7;
    for (uint8_t i = 0; i < flips && !s.bytes.empty(); ++i) {
      const size_t at = in_.u8() % std::min<size_t>(s.bytes.size(), wire::kMaxHeaderBytes);
      s.bytes[at] = in_.u8();
    }
    const uint8_t how = in_.u8();
    if ((how & 1) != 0) s.bytes.resize(in_.u8() % (s.bytes.size() + 1));
    if ((how & 2) != 0) s.meta.dscp = in_.u8() & 63;
    if ((how & 4) != 0) s.meta.ecn = in_.u8() & 3;
    if ((how & 8) != 0) s.meta.src_port = in_.u16();
    if ((how & 16) != 0) s.meta.port = in_.u8();
    if ((how & 32) != 0) s.to = 1 - s.to;
    s.meta.icrc_verified = (how & 64) == 0;
    story_.pair.inject(s.to, s.meta, s.bytes, Duration{in_.u16()});
  }

  void noise() {
    wire::DatagramMeta meta;
    if (!seen_.empty()) meta = seen_.back().meta;
    meta.icrc_verified = true;
    const ByteView bytes = in_.take(in_.u8() & 127);
    story_.pair.inject(in_.u8() & 1, meta, bytes, Duration{});
  }

  void path() {
    const int s = in_.u8() & 1;
    engine::Endpoint& e = story_.pair.side(s);
    const auto rows = e.path_stats(qpn(s));
    if (rows.empty()) return;
    const auto& row = rows[in_.u8() % rows.size()];
    constexpr ev::State kStates[] = {ev::State::good, ev::State::assumed_bad, ev::State::denied,
                                     ev::State::skip};
    switch (in_.u8() & 3) {
      case 0:
      case 1:
        (void)e.set_ev_state(now(), qpn(s), row.tag, kStates[in_.u8() & 3]);
        break;
      case 2:
        (void)e.replace_ev(now(), qpn(s), row.tag, ev::PathId{in_.u32(), static_cast<uint8_t>(in_.u8() & 7)});
        break;
      default:
        (void)e.send_ev_probe(now(), story_.pair.peer_ports(s).front(), in_.u32(), in_.u8() & 63);
    }
  }

  void rule() {
    impair::Rule r;
    r.port = in_.u8() & 7;
    r.dir = static_cast<impair::Dir>(1 + in_.u8() % 3);
    r.from = now();
    r.until = now() + Duration::micros(in_.u16());
    const uint32_t ppm = in_.u8() * 3900u;
    switch (in_.u8() % 6) {
      case 0:
        r.down = true;
        break;
      case 1:
        r.drop_ppm = ppm;
        break;
      case 2:
        r.dup_ppm = ppm;
        break;
      case 3:
        r.corrupt_ppm = ppm;
        break;
      case 4:
        r.trim_ppm = ppm;
        break;
      default:
        r.reorder_ppm = ppm;
        r.reorder_delay = Duration::micros(in_.u8());
    }
    story_.pair.line().add_rule(r);
  }

  void work_queue() {
    const int s = in_.u8() & 1;
    engine::Endpoint& e = story_.pair.side(s);
    engine::QpAttr a;
    switch (in_.u8() % 5) {
      case 0:
        (void)e.post_recv(now(), qpn(s), in_.u8());
        break;
      case 1:
        a.mpr = in_.u8();
        (void)e.modify_qp(now(), qpn(s), a);
        break;
      case 2:
        a.mpr_dest = in_.u8();
        (void)e.modify_qp(now(), qpn(s), a);
        break;
      case 3:
        e.set_receive_pressure(in_.u8() % 101);
        break;
      default:
        a.state = static_cast<engine::QpState>(in_.u8() % 7);
        (void)e.modify_qp(now(), qpn(s), a);
    }
  }

  void drain() {
    for (int s = 0; s < 2; ++s) {
      story_.collect(s);
      auto& side = story_.end[static_cast<size_t>(s)];
      side.sent.clear();
      side.received.clear();
      engine::Event event;
      while (story_.pair.side(s).poll_event(event)) {
      }
    }
  }

  Reader& in_;
  Story story_;
  std::deque<Seen> seen_;
  size_t steps_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader in({data, size});
  Run run(in);
  for (size_t i = 0; i < kMaxOperations && !in.empty(); ++i) run.operate();
  run.finish();
  return 0;
}
