// The paths of one QP: active and backup EVs per plane, their health, and who is probed next.
// Decides the state of every (QP, EV) pair (reference 8) and the set it is drawn from (4.6);
// leaves the order of use to ev/policy.h and the meaning of packets to reliability/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/rng.h"
#include "base/time.h"
#include "ev/policy.h"
#include "ev/value.h"

namespace mrc::ev {

// SKIP is internal; profiles and the controller see it as GOOD. Values of the API (reference 12.1).
enum class State : uint8_t { good = 1, assumed_bad = 2, denied = 4, skip = 8 };
// relapse: data was lost again each time after probes had been answered, so probes say nothing about it: the
// path carries small packets alone (its MTU has become smaller), or hardly any.
enum class BadReason : uint8_t { none, loss, timeout, probe, always_skip, port, controller, relapse };
// SETH.m (reference 2.9).
enum class PathFeedback : uint8_t { none = 0, skip_once = 1, always_skip = 2 };

struct TableConfig {
  uint32_t min_active = 0;  // ev_min_active; 0 = active/4
  base::Duration base_rtt = base::Duration::micros(12);
  base::Duration target_delay = base::Duration::micros(12);
  base::Duration probe_interval = base::Duration::millis(1);
  base::Duration probe_backoff_cap = base::Duration::seconds(1);
  uint8_t probe_successes = 3;  // D-27
  uint8_t bad_after = 1;        // losses within bad_window before ASSUMED_BAD
  base::Duration bad_window = base::Duration::millis(10);
  // Experiments, each switching one idea off (docs/sim-ablations.md); the defaults are the protocol.
  bool ecn_steering = true;      // false: marks and delay take no EV out of its turn
  bool demotion = true;          // false: only dead ports and the controller take an EV out of use
  bool any_port_spares = false;  // a spare of any plane takes the place of a bad EV
};

struct StateEvent {  // GOOD <-> ASSUMED_BAD <-> DENIED changes, as the controller sees them
  base::Instant at;
  uint32_t tag = 0;
  uint8_t port = 0;
  State state = State::good;
  BadReason reason = BadReason::none;
};

struct EvCounters {
  uint64_t sent = 0, ecn = 0, trimmed = 0, lost = 0, probes = 0, probe_acks = 0;
};

class EvTable {
 public:
  // `active` and `backup` list {tag, port}; the start order is pseudo-random by `rng` (unsynchronised start).
  EvTable(std::vector<PathId> active, std::vector<PathId> backup, const TableConfig& config,
          std::unique_ptr<PathPolicy> policy, base::Rng rng);
  ~EvTable();

  // Reference 5.4, at send time. `ports`: bit N = port N can take a packet now. `avoid`: tag of the lost
  // transmission, used only when nothing else is left. nullopt: no usable EV (all DENIED or no port).
  std::optional<PathId> choose(base::Instant now, uint32_t ports, std::optional<uint32_t> avoid);
  // An EV in use or a spare, never `avoid`, drawn by lot among those of `ports` that are GOOD or in SKIP;
  // outside the rotation.
  std::optional<PathId> another(uint32_t ports, std::optional<uint32_t> avoid);
  // The same for new data that goes out in runs of up to `run` packets on one EV: a run ends early when its
  // EV is no longer GOOD or its port cannot take a packet. Other calls of choose() do not disturb the run.
  std::optional<PathId> choose_run(base::Instant now, uint32_t ports, uint32_t run);
  void on_sent(base::Instant now, uint32_t tag);

  // Feedback. Unknown tags (and their D-04 half swap) do nothing but return false.
  bool on_feedback(base::Instant now, uint32_t tag, PathFeedback m);
  bool on_trimmed(base::Instant now, uint32_t tag);
  // The path is slower than the fabric should be, without a mark: passed over once like a marked one.
  void on_delayed(base::Instant now, uint32_t tag);
  // A transmission of `sent_at` on `tag` was lost. Losses sent before the EV's last change to GOOD are
  // ignored.
  bool on_loss(base::Instant now, uint32_t tag, BadReason why, base::Instant sent_at);
  // A transmission on `tag` that was declared lost arrived after all: if an inferred loss is why the EV is
  // ASSUMED_BAD, it is GOOD again at once. Our own tag, or the one that its late SACK reflects.
  void on_spurious(base::Instant now, uint32_t tag);
  void on_late_original(base::Instant now, uint32_t tag);
  // An EV that is GOOD again because probes were answered is on trial until a full packet of data has arrived
  // over it. Data lost before that is a relapse, and from the second one on the next trial is ever later.
  [[nodiscard]] bool on_trial(uint32_t tag) const;
  void on_full_arrived(uint32_t tag);
  void on_probe_ack(base::Instant now, uint32_t tag, PathFeedback m);
  void on_probe_lost(base::Instant now, uint32_t tag);
  // EV probes of the reverse set (6.13). `blame`: one sent later was answered, so the peer is there. The
  // second in a row without an answer makes the EV ASSUMED_BAD.
  void on_ev_probe_ack(uint32_t tag);
  void on_ev_probe_lost(base::Instant now, uint32_t tag, bool blame);

  // Ports: usable = local link up and the peer can receive. Down: its EVs go ASSUMED_BAD(port), floor
  // ignored. Up again: those are GOOD at once, the ones that were bad before are probed at once.
  void set_usable_ports(base::Instant now, uint32_t ports);
  // Controller: false when the tag is unknown. DENIED is left only by State::good.
  bool set_state(base::Instant now, uint32_t tag, State state);
  // REPLACE_EV on a live table: same slot, new tag and port, state GOOD. false: unknown tag, or the new
  // one names another EV already.
  bool replace(base::Instant now, uint32_t tag, PathId with);
  // Measured RTT moves the SKIP time-out and the first-probe delay.
  void set_rtt(base::Duration base_rtt, base::Duration target_delay);

  // Earliest time a probe of an ASSUMED_BAD EV is due, never() when none is.
  [[nodiscard]] base::Instant next_probe_at() const;
  // Some probe is due among `ports`.
  [[nodiscard]] bool probe_due(base::Instant now, uint32_t ports) const;
  // Takes one due probe among `ports`; at most one outstanding an EV (cleared by on_probe_ack/lost).
  std::optional<PathId> take_probe(base::Instant now, uint32_t ports);

  [[nodiscard]] bool is_good(PathId path) const;  // this very path, active and GOOD
  [[nodiscard]] std::optional<State> state(uint32_t tag) const;
  [[nodiscard]] std::optional<uint8_t> port_of(uint32_t tag) const;
  // Planes with an EV of the active set in GOOD or SKIP; bit N = port N.
  [[nodiscard]] uint32_t planes_in_use();
  // The same number of packets of new data goes over each of them (5.4).
  [[nodiscard]] bool equal_planes() const;
  struct Row {
    PathId path;
    State state;
    BadReason reason;
    bool active;
    base::Instant since;
    EvCounters counters;
    uint32_t marks = 0;  // how many of its packets were marked of late, in 1/2048
  };
  [[nodiscard]] std::vector<Row> rows() const;   // active first, then backup, stable order
  [[nodiscard]] uint32_t count(State s) const;   // over active + backup
  [[nodiscard]] uint32_t active() const;         // size of the active set
  [[nodiscard]] uint32_t usable_active() const;  // GOOD or SKIP in the active set
  [[nodiscard]] size_t memory_bytes() const;
  void prefetch() const;        // what the next calls will read
  void prefetch_index() const;  // and what that points to: some time after prefetch()
  // Feedback on `tag` comes soon: step 0 asks the cache for its place in the index, a later step 1 for its
  // entry.
  void expect(uint32_t tag, int step) const;
  // Drains state changes since the last call into `out` (bounded queue of 1024; overflow counts in
  // dropped()).
  void take_events(std::vector<StateEvent>& out);
  [[nodiscard]] bool has_events() const;
  [[nodiscard]] uint64_t events_dropped() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mrc::ev
