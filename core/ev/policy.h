// Path policy: in which order the EVs of a QP are used. A small interface and a registry by name;
// "bitmap" (rotation, one SKIP passed over and cleared a send, equal planes; reference 5.4) is the default.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/rng.h"

namespace mrc::ev {

// One path: its 32-bit wire tag (what the peer reflects) and the local 1-based port it leaves by.
struct PathId {
  uint32_t tag = 0;
  uint8_t port = 0;
  bool operator==(const PathId&) const = default;
};

// What the policy may see of a slot of the active set, and how it consumes a SKIP.
class SlotView {
 public:
  virtual ~SlotView() = default;
  [[nodiscard]] virtual size_t size() const = 0;
  [[nodiscard]] virtual PathId path(size_t slot) const = 0;
  [[nodiscard]] virtual bool good(size_t slot) const = 0;  // GOOD
  [[nodiscard]] virtual bool skip(size_t slot) const = 0;  // SKIP
  virtual void clear_skip(size_t slot) = 0;                // SKIP -> GOOD: it has been passed once
  // GOOD, but marked so much more than its siblings that it is not used in this turn.
  [[nodiscard]] virtual bool held(size_t slot) const {
    (void)slot;
    return false;
  }
  // Its turn has come. True, and counted: it is passed over once more.
  virtual bool pass_held(size_t slot) {
    (void)slot;
    return false;
  }
  virtual void expect(size_t slot) const {
    (void)slot;
  }  // a hint: this slot is likely the next one asked for
};

class PathPolicy {
 public:
  virtual ~PathPolicy() = default;
  // The slots changed (start, swap, replace): rebuild rings.
  virtual void reset(const SlotView& slots, base::Rng& rng) = 0;
  // Next slot among `ports`: GOOD rather than SKIP, not `avoid` unless alone; nullopt: neither is there (the
  // table then falls back).
  virtual std::optional<size_t> next(SlotView& slots, uint32_t ports, std::optional<uint32_t> avoid,
                                     base::Rng& rng) = 0;
  // True: planes take turns, and the engine keeps the packets of new data equal among them.
  [[nodiscard]] virtual bool equal_planes() const { return false; }
  enum class Signal : uint8_t { ok, ecn, trimmed, lost };
  virtual void feedback(size_t slot, Signal signal) {
    (void)slot;
    (void)signal;
  }
};

// Built in: "bitmap"; for experiments "bitmap-flat" (one rotation over the EVs of all planes), "rr" and
// "oblivious" (at random, whatever was heard).
// A factory may refuse by making nothing.
using PolicyFactory = std::function<std::unique_ptr<PathPolicy>()>;
base::Result<std::unique_ptr<PathPolicy>> make_policy(std::string_view name);  // EINVAL: unknown, or refused
bool known_policy(std::string_view name);
// EEXIST: the name is taken; EINVAL: no name or no factory. Per process.
base::Errno register_policy(std::string name, PolicyFactory factory);
std::vector<std::string> policies();

}  // namespace mrc::ev
