// Acknowledgement headers: AETH, SETH with CC_STATE, NETH (reference 2.8 to 2.11).
#pragma once

#include <optional>

#include "base/bytes.h"

namespace mrc::wire {

inline constexpr uint8_t kAethAck = 0x1F, kNakInvalidRequest = 0x61, kNakRemoteAccess = 0x62, kNakRemoteOperation = 0x63;

struct Aeth {
  static constexpr size_t kSize = 4;
  uint8_t syndrome = 0;
  uint32_t msn = 0;        // 24 bits

  bool operator==(const Aeth&) const = default;
  static std::optional<Aeth> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    return Aeth{b[0], base::load_be24(&b[1])};
  }
  void emit(uint8_t* p) const {
    p[0] = syndrome;
    base::store_be24(p + 1, msn);
  }
};

// The first two bytes of SETH, NETH, PETH, ERTH and EETH: type (4 bits), nh (5 bits), then 7 bits of the header's own.
struct TypeNh {
  uint8_t type = 0, nh = 0;
  static TypeNh parse(const uint8_t* p) {
    return {static_cast<uint8_t>(p[0] >> 4), static_cast<uint8_t>(((p[0] & 0x0F) << 1) | (p[1] >> 7))};
  }
  void emit(uint8_t* p, uint8_t low7) const {
    p[0] = static_cast<uint8_t>((type << 4) | ((nh >> 1) & 0x0F));
    p[1] = static_cast<uint8_t>(((nh & 1) << 7) | (low7 & 0x7F));
  }
};

struct Seth {
  static constexpr size_t kSize = 28;
  uint8_t type = 0, nh = 0;
  uint8_t m = 0;                   // 0 NONE, 1 SKIP_ONCE, 2 ALWAYS_SKIP
  bool pr = false;                 // answers a reliability probe
  int16_t ack_psn_offset = 0;      // pr = 0
  uint16_t probe_id = 0;           // pr = 1, the same two bytes
  uint32_t entropy = 0;
  uint16_t spdcid = 0, dpdcid = 0;
  uint32_t cack_psn = 0;           // 24 bits
  uint8_t cc_type = 0, cc_fl = 0;  // 4 bits each
  uint8_t mpr = 0;                 // x128 PSNs, 0 = no information
  int16_t sack_offset = 0;
  uint64_t sack_bitmap = 0;        // bit i (from the least significant) = cack_psn + sack_offset + i

  bool operator==(const Seth&) const = default;
  static std::optional<Seth> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    Seth h;
    const TypeNh t = TypeNh::parse(b.data());
    h.type = t.type;
    h.nh = t.nh;
    h.m = (b[1] >> 5) & 3;
    h.pr = (b[1] & 2) != 0;
    const uint16_t word = base::load_be16(&b[2]);
    if (h.pr) {
      h.probe_id = word;
    } else {
      h.ack_psn_offset = static_cast<int16_t>(word);
    }
    h.entropy = base::load_be32(&b[4]);
    h.spdcid = base::load_be16(&b[8]);
    h.dpdcid = base::load_be16(&b[10]);
    h.cack_psn = base::load_be24(&b[13]);
    h.cc_type = b[16] >> 4;
    h.cc_fl = b[16] & 0x0F;
    h.mpr = b[17];
    h.sack_offset = static_cast<int16_t>(base::load_be16(&b[18]));
    h.sack_bitmap = base::load_be64(&b[20]);
    return h;
  }
  void emit(uint8_t* p) const {
    TypeNh{type, nh}.emit(p, static_cast<uint8_t>(((m & 3) << 5) | (pr ? 2 : 0)));
    base::store_be16(p + 2, pr ? probe_id : static_cast<uint16_t>(ack_psn_offset));
    base::store_be32(p + 4, entropy);
    base::store_be16(p + 8, spdcid);
    base::store_be16(p + 10, dpdcid);
    p[12] = 0;
    base::store_be24(p + 13, cack_psn);
    p[16] = static_cast<uint8_t>((cc_type << 4) | (cc_fl & 0x0F));
    p[17] = mpr;
    base::store_be16(p + 18, static_cast<uint16_t>(sack_offset));
    base::store_be64(p + 20, sack_bitmap);
  }
};

// CC_STATE of type 0 (NSCC), directly after SETH.
struct CcState {
  static constexpr size_t kSize = 8;
  uint16_t tx_timestamp = 0;
  uint16_t ooo_count = 0;          // 15 bits
  bool restore_cwnd = false;
  uint8_t rcv_cwnd_pen = 0;        // 7 bits
  uint32_t rcvd_bytes = 0;         // 24 bits, unit 256 B

  bool operator==(const CcState&) const = default;
  static std::optional<CcState> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    CcState h;
    h.tx_timestamp = base::load_be16(&b[0]);
    h.ooo_count = base::load_be16(&b[2]) & 0x7FFF;
    h.restore_cwnd = (b[4] & 0x80) != 0;
    h.rcv_cwnd_pen = b[4] & 0x7F;
    h.rcvd_bytes = base::load_be24(&b[5]);
    return h;
  }
  void emit(uint8_t* p) const {
    base::store_be16(p, tx_timestamp);
    base::store_be16(p + 2, ooo_count & 0x7FFF);
    p[4] = static_cast<uint8_t>((restore_cwnd ? 0x80 : 0) | (rcv_cwnd_pen & 0x7F));
    base::store_be24(p + 5, rcvd_bytes);
  }
};

enum class NackReason : uint8_t {
  trimmed = 0x01,
  trimmed_lasthop = 0x02,
  no_bitmap = 0x06,
  no_pkt_buffer = 0x07,
  no_resource = 0x0A,
  psn_oor_window = 0x0B,
  unexp_event = 0x19,
};

struct Neth {
  static constexpr size_t kSize = 20;
  uint8_t type = 0, nh = 0;
  uint8_t nack_reason = 0, vendor_info = 0;
  uint32_t entropy = 0;
  uint16_t spdcid = 0, dpdcid = 0;
  uint32_t nack_psn = 0;           // 24 bits
  uint8_t cc_type = 2, cc_fl = 0;
  uint16_t tx_timestamp = 0;

  bool operator==(const Neth&) const = default;
  static std::optional<Neth> parse(base::ByteView b) {
    if (b.size() < kSize) return std::nullopt;
    Neth h;
    const TypeNh t = TypeNh::parse(b.data());
    h.type = t.type;
    h.nh = t.nh;
    h.nack_reason = b[2];
    h.vendor_info = b[3];
    h.entropy = base::load_be32(&b[4]);
    h.spdcid = base::load_be16(&b[8]);
    h.dpdcid = base::load_be16(&b[10]);
    h.nack_psn = base::load_be24(&b[13]);
    h.cc_type = b[16] >> 4;
    h.cc_fl = b[16] & 0x0F;
    h.tx_timestamp = base::load_be16(&b[18]);
    return h;
  }
  void emit(uint8_t* p) const {
    TypeNh{type, nh}.emit(p, 0);
    p[2] = nack_reason;
    p[3] = vendor_info;
    base::store_be32(p + 4, entropy);
    base::store_be16(p + 8, spdcid);
    base::store_be16(p + 10, dpdcid);
    p[12] = 0;
    base::store_be24(p + 13, nack_psn);
    p[16] = static_cast<uint8_t>((cc_type << 4) | (cc_fl & 0x0F));
    p[17] = 0;
    base::store_be16(p + 18, tx_timestamp);
  }
};

}  // namespace mrc::wire
