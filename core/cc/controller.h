// Congestion control as the engine sees it: plain events in, "may I send" out.
// Decides how many nominal bytes may be in flight; leaves paths to ev/ and repair to reliability/.
// Reference section 7. Sizes are nominal bytes (UDP length + 40), times come with the events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace mrc::cc {

struct AckEvent {  // one SACK
  base::Instant now;
  int64_t newly_bytes = 0;            // fresh rcvd_bytes x 256, 0 for an old SACK
  bool ecn = false;                   // SETH.m == SKIP_ONCE, nothing else (D-26)
  std::optional<base::Duration> rtt;  // valid sample only
  uint8_t rcv_cwnd_pen = 0;
  bool restore_cwnd = false;
  int64_t spurious_bytes = 0;  // of packets whose loss was reported and that arrived after all
  bool delayed = false;        // no mark, but the queue is longer than the QP tolerates (QpAttr.delay_mark)
};
enum class NackKind : uint8_t { trimmed, trimmed_lasthop, other };
struct NackEvent {
  base::Instant now;
  int64_t nominal = 0;  // of the refused transmission; 0 when it was already taken out of inflight
  NackKind kind = NackKind::other;
  std::optional<base::Duration> rtt;
};
struct LossEvent {
  base::Instant now;
  int64_t nominal = 0;  // 0 when it was already taken out of inflight
  bool timeout = false;
  bool failure = false;  // its plane has been silent since, while others were heard: no sign of congestion
};

// What the environment says; derived defaults of 7.1 come from here.
struct LinkParams {
  int64_t bytes_per_second = 12'500'000'000;  // summed over the usable planes
  base::Duration base_rtt = base::Duration::micros(12);
  int64_t mtu = 4096 + 88;  // nominal size of a full packet
  bool trimming = false;
};

struct NamedCounter {
  const char* name;
  uint64_t value;
};  // name of the branch that fired

struct Snapshot {
  int64_t cwnd = 0, inflight = 0, max_wnd = 0;
  base::Duration base_rtt, avg_delay, target_qdelay;
};

class Controller {
 public:
  virtual ~Controller() = default;
  virtual void on_send(base::Instant now, int64_t nominal) = 0;
  virtual void on_ack(const AckEvent& e) = 0;
  virtual void on_nack(const NackEvent& e) = 0;
  virtual void on_loss(const LossEvent& e) = 0;
  // Repair rule 7.3: `outstanding` = sum of nominal sizes of packets still INFLIGHT. Caps inflight; 0 resets
  // it.
  virtual void on_outstanding(int64_t outstanding) = 0;
  // A plane came or went, or the driver measured a new base RTT.
  virtual void on_link(base::Instant now, const LinkParams& link) = 0;
  [[nodiscard]] virtual bool can_send() const = 0;  // D-14: cwnd > inflight
  // Reference 7.6, asked before a packet of `nominal` bytes goes out: should it carry AR?
  [[nodiscard]] virtual bool wants_ack(int64_t nominal, int64_t peer_sack_bytes) const = 0;
  virtual void prefetch() const {}  // what the next calls will read
  [[nodiscard]] virtual Snapshot snapshot() const = 0;
  [[nodiscard]] virtual std::vector<NamedCounter> counters() const = 0;
};

// NSCC config structure of reference 12.4; 0 means "derive the default".
struct CcConfig {
  bool disable_qa = false;
  int64_t adjust_bytes_threshold = 0;
  base::Duration adjust_period_threshold{}, base_rtt{}, qa_threshold{}, target_delay{};
  double eta = 0, fi = 0, fi_scale = 0, gamma = 0, max_md_jump = 0;
  int64_t max_cwnd = 0;  // also the fixed window of "fixed-window"
  uint8_t qa_gate = 0;
  // Ours, for hosts whose stack adds tens of microseconds (reference 16, software note).
  base::Duration min_base_rtt{};    // floor of the measured base RTT; 0 = 1 us
  double clear_delay_fraction = 0;  // "delay is about 0" up to this part of base_rtt; at least 1 us
  double avg_weight = 0;            // fixed weight of avg_delay; 0 = by time since the last sample
};

// Registry by name. Built in: "uet-1.0-nscc", "fixed-window"; "" or "null" = no congestion control.
// Unknown name, a value out of range, or a factory that makes nothing: EINVAL.
base::Result<std::unique_ptr<Controller>> make_controller(std::string_view algorithm, const CcConfig& config,
                                                          const LinkParams& link, base::Instant now);
base::Errno check_config(std::string_view algorithm, const CcConfig& config);
std::vector<std::string> algorithms();
using Factory = std::function<std::unique_ptr<Controller>(const CcConfig&, const LinkParams&, base::Instant)>;
// EEXIST: the name is taken; EINVAL: no name or no factory. Per process.
base::Errno register_controller(std::string name, Factory factory);

}  // namespace mrc::cc
