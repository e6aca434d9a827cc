// What two ranks keep for one queue pair between them: a ring of slots that eager messages land in, a table
// for announcements, and how much of either is in use. Decides where a message goes and when there is room;
// leaves posting and the meaning of messages to the runner.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "coll/types.h"
#include "engine/endpoint.h"

namespace mrc::coll {

using base::Instant;
using engine::Endpoint;
using engine::Errno;

// Jobs of a group that run at once, and entries of the table of announcements.
inline constexpr uint32_t kWindow = 64;
inline constexpr uint32_t kSlots = 16;
inline constexpr uint32_t kHeader = 16;  // before the payload of an eager message
inline constexpr uint32_t kSlotBytes = 64 + static_cast<uint32_t>(kEagerMax);
inline constexpr uint32_t kSlotAt = 64 - kHeader;  // so that payloads begin on a cache line

// First bytes of an eager message, as they lie in memory (little endian hosts).
struct EagerHeader {
  uint32_t job = 0, bytes = 0;
  uint64_t print = 0;
};
static_assert(sizeof(EagerHeader) == kHeader);

// In EagerHeader::bytes: what follows is no payload but where it lies in the sender's own memory, for a
// receiver that can read that.
inline constexpr uint32_t kPullFlag = uint32_t{1} << 31;
struct PullNote {
  uint64_t from = 0, bytes = 0;
  uint64_t dst = 0;  // as Step::dst
  uint32_t dst_buf = 0, reserved = 0;
};
static_assert(sizeof(PullNote) == 32);

struct Announcement {
  uint32_t job = 0, reserved = 0;
  uint64_t print = 0;
  std::array<uint64_t, 3> addr{}, bytes{};  // by Buf; 0 bytes: not to be written to
  std::array<uint32_t, 3> rkey{};
  uint32_t end = 0;
};
static_assert(sizeof(Announcement) == 80);

// kind, low bits of the job, and how many slots of ours were freed so far.
enum class Imm : uint8_t { eager, data, announce, credit };
struct ImmWord {
  Imm kind{};
  uint16_t job = 0;  // modulo 2^14
  uint16_t freed = 0;
  [[nodiscard]] uint32_t word() const {
    return (static_cast<uint32_t>(kind) << 30) | (uint32_t{job} << 16) | freed;
  }
  static ImmWord of(uint32_t w) {
    return {static_cast<Imm>(w >> 30), static_cast<uint16_t>((w >> 16) & 0x3FFFu), static_cast<uint16_t>(w)};
  }
};
inline constexpr uint32_t kImmJobMask = 0x3FFF;
// In the job of a credit: the sender of the credit reads our memory itself from now on.
inline constexpr uint16_t kMayPull = 1;

// Where the peer's memory for us is; told by the peer, so nothing of it is trusted further than the queue
// pair goes.
struct RemoteMemory {
  uint64_t addr = 0;
  uint32_t rkey = 0, slots = 0, slot_bytes = 0, table = 0;
  // Of a peer on this host whose memory may be read: its process (0: none), and where in it `token` stands
  // for as long as what it has told us to read is still there.
  uint32_t local_pid = 0;
  uint64_t guard = 0, token = 0;
};

// Reading the memory of another process of this host. Errno, or 0 when all of it was read.
class Reach {
 public:
  virtual ~Reach() = default;
  virtual int read(uint32_t pid, uint64_t from, void* to, uint64_t bytes) = 0;
};

// One end's memory of a lane: what the peer writes to, and what we send from.
class LaneMemory {
 public:
  // Errno of the registration, or 0.
  Errno open(Endpoint& e, uint32_t pd, uint64_t token);
  // What peers were told to read may change from now on.
  void lower_guard();
  // True when nothing reads it any more; call again later otherwise.
  bool close(Endpoint& e);

  [[nodiscard]] RemoteMemory face() const;
  [[nodiscard]] const uint8_t* slot(uint32_t i) const { return in_ + size_t{i} * kSlotBytes + kSlotAt; }
  [[nodiscard]] const uint8_t* table(uint32_t i) const {
    return in_ + kSlots * kSlotBytes + i * sizeof(Announcement);
  }
  [[nodiscard]] uint8_t* staging(uint32_t i) { return out_ + size_t{i} * kSlotBytes + kSlotAt; }
  [[nodiscard]] uint8_t* staged_table(uint32_t i) {
    return out_ + kSlots * kSlotBytes + i * sizeof(Announcement);
  }
  [[nodiscard]] uint32_t out_key() const { return out_key_; }

 private:
  static constexpr size_t kBytes = size_t{kSlots} * kSlotBytes + kWindow * sizeof(Announcement);
  static constexpr size_t kGuard = 64;  // behind what is sent from: no peer can write there
  struct Free {
    void operator()(uint8_t* p) const;
  };
  std::unique_ptr<uint8_t, Free> bytes_;
  uint8_t *in_ = nullptr, *out_ = nullptr;
  uint32_t in_key_ = 0, out_key_ = 0;
  uint64_t token_ = 0;
};

// Counts of one direction's slots. All counts run on for ever, modulo 2^32.
class SendRing {
 public:
  void open(uint32_t slots) { slots_ = slots; }
  [[nodiscard]] bool room() const { return sent_ - freed_ < slots_; }
  [[nodiscard]] uint32_t next() const { return sent_ % slots_; }
  [[nodiscard]] uint32_t sent() const { return sent_; }
  [[nodiscard]] bool is_freed(uint32_t count) const { return static_cast<int32_t>(freed_ - count) > 0; }
  void push() { ++sent_; }
  // False: more than was ever sent.
  bool on_freed(uint16_t low) {
    const auto more = static_cast<uint16_t>(low - static_cast<uint16_t>(freed_));
    if (more > sent_ - freed_) return false;
    freed_ += more;
    return true;
  }

 private:
  uint32_t slots_ = kSlots, sent_ = 0, freed_ = 0;
};

class RecvRing {
 public:
  // The slot the next message lies in; nothing when the peer overran its credits.
  std::optional<uint32_t> arrive() {
    if (used() == kSlots) return std::nullopt;
    return arrived_++ % kSlots;
  }
  // The memory of that slot may be written again, once all before it are free, too.
  void release(uint32_t slot) {
    done_[slot] = true;
    for (; freed_ != arrived_ && done_[freed_ % kSlots]; ++freed_) done_[freed_ % kSlots] = false;
  }
  [[nodiscard]] uint32_t used() const { return arrived_ - freed_; }
  [[nodiscard]] uint32_t oldest() const { return freed_ % kSlots; }
  [[nodiscard]] bool released(uint32_t slot) const { return done_[slot]; }
  [[nodiscard]] uint16_t freed() const { return static_cast<uint16_t>(freed_); }
  // A slot was released that cannot be told yet: one before it is in use.
  [[nodiscard]] bool holds_back() const {
    for (uint32_t i = freed_; i != arrived_; ++i)
      if (done_[i % kSlots]) return true;
    return false;
  }
  // Freed since the peer was last told.
  [[nodiscard]] uint32_t untold() const { return freed_ - told_; }
  void told() { told_ = freed_; }

 private:
  uint32_t arrived_ = 0, freed_ = 0, told_ = 0;
  std::array<bool, kSlots> done_{};
};

struct Lane {
  static constexpr uint32_t kNoGroup = 0;

  uint32_t id = 0, qpn = 0;
  uint32_t group = kNoGroup, rank = 0;  // the peer's
  std::unique_ptr<LaneMemory> memory;
  RemoteMemory remote;
  SendRing out;
  RecvRing in;

  struct Arrival {
    uint32_t job = 0, slot = 0, bytes = 0;
    uint64_t print = 0;
    std::optional<PullNote> pull{};
  };
  struct Owner {
    uint32_t job = 0, step = 0;
  };
  std::array<Owner, kSlots> owner{};  // of slots whose message is known to a job
  std::deque<Arrival> early;          // of jobs that have not started here, in order
  std::array<std::optional<Announcement>, kWindow> announced{};

  // What was posted and has not completed, oldest first.
  struct Posted {
    Imm kind{};
    uint32_t job = 0, step = 0, bytes = 0;
  };
  std::deque<Posted> posted;
  // Sent as notes, not read by the peer yet; oldest first. `slot`: count of the slot they went through.
  struct Noted {
    uint32_t slot = 0, job = 0, step = 0;
  };
  std::deque<Noted> noted;
  bool can_pull = false;             // we read its memory
  bool told_pull = false;            // and it has been told
  bool peer_pulls = false;           // it reads ours
  bool notes_seen = false;           // it has sent a note, so that it needs no announcements any more
  bool owes_credit = false;          // it waits for the end of a pull
  uint64_t data_bytes = 0;           // of them, read from users' memory
  std::deque<uint32_t> to_announce;  // jobs
  bool full = false;                 // the queue pair takes no more until something completes
  bool dirty = false;                // listed for a look at what can go out
  bool dead = false;
  engine::Status status = engine::Status::success;  // why
  Instant heard = Instant::never();                 // last sign of the peer; never: none yet
};

}  // namespace mrc::coll
