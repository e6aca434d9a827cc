// A peer that sends anything it likes, for a long time: nothing outside the memory it was given changes,
// nothing grows, and the runner stays usable. Under ASan this watches every access as well.
#include "base/rng.h"
#include "coll/tests/ring.h"

using namespace mrc;        // NOLINT(google-build-using-namespace)
using namespace mrc::coll;  // NOLINT(google-build-using-namespace)

namespace {

constexpr size_t kInts = 4096;

// Side 0 without a runner of good faith: messages of every kind with likely and unlikely contents.
class Fury {
 public:
  Fury(Bench& bench, uint64_t seed) : b_(bench), rng_(seed), memory_(1 << 17) {
    const auto at = reinterpret_cast<uint64_t>(memory_.data());
    key_ = b_.pair.side(0).reg_mr(b_.side(0).runner->pd(), at, memory_.size(), 0, at).value().lkey;
  }
  void strike() {
    ImmWord imm;
    imm.kind = static_cast<Imm>(rng_.below(4));
    imm.job = static_cast<uint16_t>(rng_.below(4) == 0 ? rng_.below(1 << 14) : rng_.below(8));
    imm.freed = static_cast<uint16_t>(rng_.below(3) == 0 ? rng_.next() : rng_.below(4));
    uint64_t offset = 0;
    uint32_t length = 0;
    switch (imm.kind) {
      case Imm::eager:
        offset = uint64_t{slot_++ % kSlots} * kSlotBytes + kSlotAt;
        length = fill_eager();
        break;
      case Imm::announce:
        offset = uint64_t{kSlots} * kSlotBytes + rng_.below(kWindow) * sizeof(Announcement);
        length = fill_announcement();
        break;
      default:
        length = rng_.below(64);
    }
    post(offset, length, imm);
  }

 private:
  uint32_t fill_eager() {
    EagerHeader h;
    h.job = rng_.below(4) == 0 ? static_cast<uint32_t>(rng_.next()) : rng_.below(8);
    h.bytes = rng_.below(3) == 0 ? static_cast<uint32_t>(rng_.next()) : 4 * rng_.below(64);
    h.print = rng_.below(8) == 0 ? rng_.next() : 0;
    std::memcpy(memory_.data(), &h, sizeof h);
    return rng_.below(3) == 0 ? rng_.below(20'000) % (kHeader + kEagerMax)
                              : kHeader + h.bytes % (kEagerMax + 1);
  }
  uint32_t fill_announcement() {
    Announcement a;
    a.job = rng_.below(3) == 0 ? static_cast<uint32_t>(rng_.next()) : rng_.below(8);
    for (size_t i = 0; i < 3; ++i) {
      a.addr[i] = rng_.below(2) == 0 ? rng_.next() : UINT64_MAX - rng_.below(100);
      a.bytes[i] = rng_.below(2) == 0 ? rng_.next() : kInts * 4;
      a.rkey[i] = static_cast<uint32_t>(rng_.next());
    }
    std::memcpy(memory_.data(), &a, sizeof a);
    return sizeof a;
  }
  void post(uint64_t offset, uint32_t length, ImmWord imm) {
    engine::SendWr wr;
    wr.opcode = reliability::WrOpcode::rdma_write_imm;
    wr.addr = reinterpret_cast<uint64_t>(memory_.data());
    wr.length = length;
    wr.lkey = key_;
    wr.remote_addr = b_.remote(1).addr + offset;
    wr.rkey = b_.remote(1).rkey;
    wr.imm = imm.word();
    (void)b_.pair.side(0).post_send(b_.pair.now(), b_.side(0).qpn, wr);
    b_.pair.flush();
  }

  Bench& b_;
  base::Rng rng_;
  std::vector<uint8_t> memory_;
  uint32_t key_ = 0, slot_ = 0;
};

struct Fenced {
  static constexpr int32_t kFence = 0x5A5A5A5A;
  Fenced() : memory(3 * kInts, kFence) {}
  [[nodiscard]] int32_t* inside() { return memory.data() + kInts; }
  [[nodiscard]] bool intact() const {
    const auto fence = [](int32_t v) { return v == kFence; };
    return std::all_of(memory.begin(), memory.begin() + kInts, fence) &&
           std::all_of(memory.end() - kInts, memory.end(), fence);
  }
  std::vector<int32_t> memory;
};

}  // namespace

TEST_CASE("whatever a peer sends, memory outside a job's buffers stays as it is") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Bench b;
    Fury fury(b, seed);
    Fenced out;
    const std::vector<int32_t> in = numbers(1, kInts);
    for (int i = 0; i < 40; ++i) {
      if (i % 10 == 0) {
        const auto p = i % 20 == 0 ? exchange(1, 256) : halves(1, kInts * 4, 1024);
        (void)b.submit(1, p, in.data(), in.size() * 4, out.inside(), kInts * 4);
      }
      fury.strike();
      (void)b.pair.run_until([&] { return b.step(), false; }, b.pair.now() + Duration::micros(50));
    }
    CHECK(out.intact());
    // Jobs end, whatever became of them.
    CHECK_EQ(b.side(1).runner->abort(b.pair.side(1), b.pair.now(), b.side(1).group, "over"), 0);
    b.collect(1);
    CHECK_EQ(b.side(1).over.size(), b.stats(1).jobs);
    CHECK(b.stats(1).eager_rx <= 40);
  }
}
