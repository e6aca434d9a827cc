// The invariant CRC of reference 2.16 and the CRC-32 it is made of.
// Decides what is covered and masked; leaves when to check it to packet.h and frame.h.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "wire/datagram.h"

namespace mrc::wire {

// CRC-32 (reflected 0xEDB88320) in pieces: start from kCrc32Init, feed views in order, complement at the end:
// crc = ~crc32_update(crc32_update(kCrc32Init, head), payload).
inline constexpr uint32_t kCrc32Init = 0xFFFFFFFF;
uint32_t crc32_update(uint32_t state, base::ByteView bytes);
// The ways crc32_update chooses from at run time; equal on every input. Call the second only if has_clmul(),
// the third (512-bit vectors) only if has_wide_clmul().
uint32_t crc32_update_portable(uint32_t state, base::ByteView bytes);
uint32_t crc32_update_clmul(uint32_t state, base::ByteView bytes);
uint32_t crc32_update_wide(uint32_t state, base::ByteView bytes);
bool has_clmul();
bool has_wide_clmul();

// State after the eight 0xFF bytes and the masked IP and UDP headers described by `meta`, for a UDP payload
// of `udp_payload` bytes including the iCRC. IPv4 identification is taken as 0 and DF as 1 (what an
// unconnected Linux socket sends with PMTU discovery on).
uint32_t icrc_prefix(const DatagramMeta& meta, size_t udp_payload);
// Feeds BTH (at the start of `head`, at least 12 bytes) with var_res masked, then the rest of `head`.
uint32_t icrc_head(uint32_t state, base::ByteView head);

// The state of icrc_prefix() for the packet seen last: those of one run share addresses, ports and length.
class PrefixCache {
 public:
  uint32_t prefix(const DatagramMeta& meta, size_t udp_payload);

 private:
  base::IpAddr src_, dst_;
  uint16_t src_port_ = 0, dst_port_ = 0;
  size_t udp_payload_ = 0;  // 0: nothing seen yet
  uint32_t state_ = 0;
};

// iCRC over the pseudo fields of `meta` and `head | payload | pad`. The UDP length is derived.
uint32_t icrc(const DatagramMeta& meta, base::ByteView head, base::ByteView payload, uint8_t pad,
              PrefixCache* cache = nullptr);
// iCRC over headers as they lie in a frame: the innermost IP header (IPv4 or IPv6), the UDP header, and the
// UDP payload up to but not including the iCRC.
uint32_t icrc_of_frame(base::ByteView ip, base::ByteView udp, base::ByteView ib);

// On the wire the least significant byte comes first.
void store_icrc(uint8_t* p, uint32_t value);
uint32_t load_icrc(const uint8_t* p);

}  // namespace mrc::wire
