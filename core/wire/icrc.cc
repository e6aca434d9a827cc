#include "wire/icrc.h"

#include <array>
#include <cstring>

#include "wire/bth.h"

namespace mrc::wire {

namespace {

constexpr uint16_t kDontFragment = 0x4000;
constexpr uint8_t kUdp = 17;

// The masked image of IP and UDP header: eight bytes of ones, then the headers with their variant fields set to ones.
// IPv6: traffic class, flow label, hop limit. IPv4: TOS, TTL, header checksum. UDP: checksum.
struct PseudoHeader {
  std::array<uint8_t, 8 + 40 + 8> bytes;
  size_t size = 0;
};

void put_udp(PseudoHeader& h, const DatagramMeta& m, uint16_t udp_length) {
  uint8_t* p = h.bytes.data() + h.size;
  base::store_be16(p, m.src_port);
  base::store_be16(p + 2, m.dst_port);
  base::store_be16(p + 4, udp_length);
  base::store_be16(p + 6, 0xFFFF);
  h.size += 8;
}

PseudoHeader pseudo_v6(const DatagramMeta& m, uint16_t udp_length) {
  PseudoHeader h;
  h.bytes.fill(0xFF);
  uint8_t* p = h.bytes.data() + 8;
  p[0] = 0x6F;   // version 6, traffic class and flow label all ones
  base::store_be16(p + 4, udp_length);
  p[6] = kUdp;
  std::memcpy(p + 8, m.src.bytes.data(), 16);
  std::memcpy(p + 24, m.dst.bytes.data(), 16);
  h.size = 48;
  put_udp(h, m, udp_length);
  return h;
}

PseudoHeader pseudo_v4(const DatagramMeta& m, uint16_t udp_length, uint16_t id, uint16_t flags) {
  PseudoHeader h;
  h.bytes.fill(0xFF);
  uint8_t* p = h.bytes.data() + 8;
  p[0] = 0x45;
  base::store_be16(p + 2, static_cast<uint16_t>(20 + udp_length));
  base::store_be16(p + 4, id);
  base::store_be16(p + 6, flags);
  p[9] = kUdp;
  std::memcpy(p + 12, m.src.bytes.data() + 12, 4);
  std::memcpy(p + 16, m.dst.bytes.data() + 12, 4);
  h.size = 28;
  put_udp(h, m, udp_length);
  return h;
}

uint32_t cover(const PseudoHeader& h, base::ByteView head, base::ByteView payload, uint8_t pad) {
  uint32_t state = crc32_update(kCrcInit, base::ByteView(h.bytes.data(), h.size));
  // BTH with its variant byte 4 as ones.
  std::array<uint8_t, Bth::kSize> bth{};
  const size_t first = head.size() < Bth::kSize ? head.size() : Bth::kSize;
  std::memcpy(bth.data(), head.data(), first);
  bth[4] = 0xFF;
  state = crc32_update(state, base::ByteView(bth.data(), first));
  state = crc32_update(state, head.subspan(first));
  state = crc32_update(state, payload);
  static constexpr std::array<uint8_t, 3> kZeros{};
  return ~crc32_update(state, base::ByteView(kZeros.data(), pad & 3u));
}

}  // namespace

uint32_t icrc(const DatagramMeta& meta, base::ByteView head, base::ByteView payload, uint8_t pad) {
  const auto udp_length = static_cast<uint16_t>(8 + head.size() + payload.size() + (pad & 3u) + 4);
  const bool v4 = meta.dst.is_v4();
  return cover(v4 ? pseudo_v4(meta, udp_length, 0, kDontFragment) : pseudo_v6(meta, udp_length), head, payload, pad);
}

uint32_t icrc_v4(const DatagramMeta& meta, uint16_t identification, uint16_t flags, base::ByteView ib) {
  const auto udp_length = static_cast<uint16_t>(8 + ib.size() + 4);
  return cover(pseudo_v4(meta, udp_length, identification, flags), ib, {}, 0);
}

}  // namespace mrc::wire
