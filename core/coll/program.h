// A collective as one rank sees it: steps with dependencies, checked once and run many times. Decides what is
// a legal program; leaves running it to the runner.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coll/types.h"

namespace mrc::coll {

struct ProgramSpec {
  uint32_t dtype = 0, op = 0;  // numbers, not yet known to be legal
  uint32_t ranks = 0;
  uint64_t scratch_bytes = 0;
  std::vector<Step> steps;
  std::vector<std::vector<uint32_t>> deps;  // of each step: earlier steps
  // What each rank must expect of this call, by rank: sent along and compared there. Empty: nothing is
  // compared.
  std::vector<uint64_t> prints;
  // By rank: where in our output the offsets of its SENDs begin. Empty: at its start. For calls whose senders
  // cannot know the layout at their receivers.
  std::vector<uint64_t> bases;
};

class Program {
 public:
  static constexpr size_t kMaxSteps = size_t{1} << 20, kMaxRanks = size_t{1} << 16;
  static constexpr uint64_t kMaxOffset = uint64_t{1} << 48;

  // Null with the reason in `why`: what is wrong, and in which step.
  static std::shared_ptr<const Program> compile(ProgramSpec spec, std::string& why);

  struct Peer {
    uint32_t rank = 0;
    std::vector<uint32_t> sends, recvs;  // steps, in order: the k-th message each way
    uint32_t eager_sends = 0;
    bool announce = false;  // it writes into our memory: tell it where
  };

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] Op op() const { return op_; }
  [[nodiscard]] uint32_t ranks() const { return ranks_; }
  [[nodiscard]] uint64_t scratch_bytes() const { return scratch_; }
  // How long the caller's buffers have to be.
  [[nodiscard]] uint64_t input_bytes() const { return extent_[0]; }
  [[nodiscard]] uint64_t output_bytes() const { return extent_[1]; }
  [[nodiscard]] uint64_t bytes(Buf b) const {
    return b == Buf::scratch ? scratch_ : extent_[static_cast<size_t>(b)];
  }
  // Whether peers write into this buffer, and whether SENDs read from it, without a slot between.
  [[nodiscard]] bool remote(Buf b) const { return remote_[static_cast<size_t>(b)]; }
  [[nodiscard]] bool sent_from(Buf b) const { return sent_from_[static_cast<size_t>(b)]; }
  [[nodiscard]] bool writes(Buf b) const { return written_[static_cast<size_t>(b)]; }
  [[nodiscard]] uint64_t traffic() const { return traffic_; }  // bytes sent and received
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }
  [[nodiscard]] const std::vector<Peer>& peers() const { return peers_; }
  [[nodiscard]] uint32_t peer_index(uint32_t step) const { return peer_of_[step]; }
  static constexpr uint32_t kNoPeer = UINT32_MAX;
  [[nodiscard]] uint32_t peer_of_rank(uint32_t rank) const { return by_rank_[rank]; }
  // Which message from or to its peer this step is.
  [[nodiscard]] uint32_t message_index(uint32_t step) const { return message_of_[step]; }
  [[nodiscard]] const std::vector<uint32_t>& waits() const { return waits_; }  // dependencies of each step
  [[nodiscard]] const std::vector<uint32_t>& roots() const { return roots_; }
  struct Range {
    const uint32_t *first, *last;
    [[nodiscard]] const uint32_t* begin() const { return first; }
    [[nodiscard]] const uint32_t* end() const { return last; }
  };
  [[nodiscard]] Range dependents(uint32_t step) const {
    return {next_.data() + next_at_[step], next_.data() + next_at_[step + 1]};
  }
  [[nodiscard]] uint64_t print(uint32_t rank) const { return prints_.empty() ? 0 : prints_[rank]; }
  [[nodiscard]] uint64_t base(uint32_t rank) const { return bases_.empty() ? 0 : bases_[rank]; }

 private:
  Program() = default;
  bool take(ProgramSpec& spec, std::string& why);
  bool check_step(const ProgramSpec& spec, uint32_t i, std::string& why) const;
  void cover(const Step& s);
  void link(const ProgramSpec& spec);
  void add_message(uint32_t i);

  DType dtype_{};
  Op op_{};
  uint32_t ranks_ = 0;
  uint64_t scratch_ = 0, traffic_ = 0;
  uint64_t extent_[3] = {};
  bool remote_[3] = {}, sent_from_[3] = {}, written_[3] = {};
  std::vector<Step> steps_;
  std::vector<Peer> peers_;
  std::vector<uint32_t> peer_of_, message_of_, by_rank_, waits_, roots_, next_at_, next_;
  std::vector<uint64_t> prints_, bases_;
};

}  // namespace mrc::coll
