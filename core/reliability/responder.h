// The receiving half of one QP direction: accept, place, acknowledge, complete in order.
// Decides acceptance (reference 6.2), SACK triggers and contents (6.4, 6.5), NACKs (6.7), Transport ACKs
// (6.8), WIMM order (6.9) and errors (6.10); leaves memory to the Placement it is given and addressing to
// engine/.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "base/seq.h"
#include "base/time.h"
#include "wire/packet.h"

namespace mrc::reliability {

struct ResponderConfig {
  base::Psn rq_psn;
  uint32_t pmtu = 1024;
  uint32_t mpr_dest = 1024;  // PSNs accepted above cack
  uint16_t max_wimm_dest = 128;
  uint16_t first_rqmsn = 0;   // D-10
  bool dynamic_mpr = false;   // advertise mpr in every SACK
  bool trim_nack = true;      // peer was told that we generate trim NACKs
  bool service_time = false;  // add holding time to the echoed timestamp (6.12, D-18)
  uint32_t sack_bytes = 16 * 1024;
  uint32_t sack_min_charge = 1024;
  base::Duration sack_timer = base::Duration::micros(20);
  base::Duration sack_gap{};        // from one SACK to the next that only sack_bytes asks for
  bool extra_sacks = true;          // more than one bitmap window when ooo_count > 64 (6.5)
  bool oor_nack = true;             // D-06: NACK above the window
  base::Duration rq_empty_grace{};  // 6.9: wait for a receive WQE before NAK 0x63
  uint32_t max_recv_wr = 4096;
};

// Memory access of one packet: checked and, when allowed, written (engine: MR table).
class Placement {
 public:
  enum class Outcome : uint8_t { ok, access_error, no_buffer };
  virtual ~Placement() = default;
  virtual Outcome place(uint64_t va, uint32_t rkey, base::ByteView payload, uint32_t length) = 0;
};

struct RecvCompletion {
  uint64_t wr_id = 0;
  uint32_t imm = 0;
  uint32_t byte_len = 0;
  bool solicited = false;
  bool flushed = false;
};

struct ResponderCounters {
  uint64_t data_rx = 0, bytes_placed = 0, duplicates = 0, out_of_window = 0, impossible = 0, ce_seen = 0,
           trimmed_rx = 0, probes_rx = 0, sack_tx = 0, nack_tx = 0, ack_tx = 0, nak_tx = 0, access_errors = 0,
           invalid_requests = 0, control_overflow = 0, messages_done = 0, wimm_done = 0, rq_empty = 0;
};

class Responder {
 public:
  explicit Responder(const ResponderConfig& config);
  ~Responder();

  base::Errno post_recv(uint64_t wr_id);  // ENOMEM when full
  // `nominal` = UDP length + 40; `ce`: inner ECN was CE; `entropy`: as reflected (4.2).
  void on_data(base::Instant now, const wire::Packet& p, uint32_t entropy, bool ce, uint32_t nominal,
               Placement& memory);
  void on_trimmed(base::Instant now, const wire::Packet& p, uint32_t entropy, bool lasthop);
  void on_probe(base::Instant now, const wire::Packet& p, uint32_t entropy, bool ce);

  // Control packets wait here; contents are built when taken, so they carry the newest state. Fills
  // bth.opcode/psn/rtx and the extension headers; the engine adds dqp, p_key and context ids.
  // `trigger_entropy` helps to pick the plane of the answer.
  [[nodiscard]] bool has_control() const;
  bool take_control(base::Instant now, wire::Packet& out, uint32_t& trigger_entropy);
  [[nodiscard]] base::Instant next_timeout() const;  // SACK timer, empty-RQ grace
  void on_timeout(base::Instant now);

  void set_pressure(uint8_t rcv_cwnd_pen, bool restore_cwnd);  // 7.8
  void set_mpr(uint32_t psns);                                 // dynamic MPR advertisement and acceptance
  void fail();                                                 // QP left RTR/RTS: flush receives, say no more

  // A NAK was generated (or the RQ broke): QP must go to ERR once the NAK is out.
  [[nodiscard]] bool fatal() const;
  // After fatal: repeats the NAK for duplicates of the failing PSN, at most once a ms (6.10).
  bool pop_completion(RecvCompletion& out);
  [[nodiscard]] bool has_completion() const;
  [[nodiscard]] base::Psn cack_psn() const;
  [[nodiscard]] uint32_t ooo_count() const;
  [[nodiscard]] const ResponderCounters& counters() const;
  [[nodiscard]] size_t memory_bytes() const;
  void prefetch() const;  // what the next calls will read

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mrc::reliability
