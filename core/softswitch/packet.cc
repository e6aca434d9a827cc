#include "softswitch/packet.h"

#include <algorithm>
#include <array>

#include "wire/gateway.h"
#include "wire/packet.h"
#include "wire/udp_ip.h"

namespace mrc::softswitch {

namespace {

constexpr size_t kSrcAt = 8, kDstAt = 24, kUdpAt = wire::kIpv6Bytes;
constexpr uint8_t kTsFlag = 0x10;  // BTH byte 8

uint8_t traffic_class(base::ByteView p) { return static_cast<uint8_t>(p[0] << 4 | p[1] >> 4); }

void set_traffic_class(base::MutByteView p, uint8_t value) {
  p[0] = static_cast<uint8_t>(0x60 | value >> 4);
  p[1] = static_cast<uint8_t>(value << 4 | (p[1] & 0x0F));
}

bool is_udp(base::ByteView p) { return p[6] == wire::kProtoUdp && p.size() >= wire::kOuterBytes; }

size_t kept(base::ByteView p) {
  const base::ByteView payload = p.subspan(wire::kOuterBytes);
  return wire::kOuterBytes + wire::trimmed_bytes(payload.size() > 8 && (payload[8] & kTsFlag) != 0);
}

}  // namespace

const char* name(Drop reason) {
  constexpr std::array<const char*, static_cast<size_t>(Drop::count_)> kNames{
      "truncated",   "not_ipv6",   "bad_length",  "too_big",    "hop_limit",
      "no_route",    "list_ended", "not_mine",    "bad_source", "unknown_sender",
      "no_listener", "no_memory",  "bad_message", "link_down",  "refused"};
  const auto i = static_cast<size_t>(reason);
  return i < kNames.size() ? kNames[i] : "?";
}

Drop check(base::ByteView p, size_t mtu) {
  if (p.size() < wire::kIpv6Bytes) return Drop::truncated;
  if (p[0] >> 4 != 6) return Drop::not_ipv6;
  if (wire::kIpv6Bytes + base::load_be16(p.data() + 4) != p.size()) return Drop::bad_length;
  return p.size() > mtu ? Drop::too_big : Drop::count_;
}

Address destination(base::ByteView p) {
  Address a;
  std::copy_n(p.begin() + kDstAt, 16, a.ip.bytes.begin());
  return a;
}
Address source(base::ByteView p) {
  Address a;
  std::copy_n(p.begin() + kSrcAt, 16, a.ip.bytes.begin());
  return a;
}
void set_destination(base::MutByteView p, const base::IpAddr& to) {
  std::copy(to.bytes.begin(), to.bytes.end(), p.begin() + kDstAt);
}

uint8_t dscp_of(base::ByteView p) { return traffic_class(p) >> 2; }
uint8_t ecn_of(base::ByteView p) { return traffic_class(p) & 3; }
uint16_t udp_port_to(base::ByteView p) {
  return is_udp(p) ? base::load_be16(p.data() + kUdpAt + 2) : uint16_t{0};
}

Class class_of(base::ByteView p, const wire::Dscps& d) {
  const uint8_t dscp = dscp_of(p);
  return dscp == d.control || dscp == d.trimmed || dscp == d.trimmed_lasthop ? Class::control : Class::data;
}

uint32_t flow_hash(base::ByteView p) {
  uint64_t h = base::load_be32(p.data()) & 0xFFFFF;
  const auto mix = [&h](uint64_t v) {
    h = (h ^ v) * 0x9E3779B97F4A7C15ULL;
    h ^= h >> 29;
  };
  for (size_t at = kSrcAt; at < wire::kIpv6Bytes; at += 8) mix(base::load_be64(p.data() + at));
  if (p.size() >= kUdpAt + 4) mix(base::load_be32(p.data() + kUdpAt));
  return static_cast<uint32_t>(h >> 32);
}

bool take_hop(base::MutByteView p) {
  if (p[7] <= 1) return false;
  --p[7];
  return true;
}

bool mark(Frame& f) {
  const uint8_t ecn = ecn_of(f.view());
  if (ecn != wire::kEcnEct0 && ecn != wire::kEcnEct1) return false;
  set_traffic_class(f.view(), static_cast<uint8_t>(traffic_class(f.view()) | wire::kEcnCe));
  return true;
}

bool trimmable(base::ByteView p, const wire::Dscps& d) {
  const uint8_t dscp = dscp_of(p);
  return (dscp == d.trimmable || dscp == d.trimmable_retx) && is_udp(p) && p.size() > kept(p);
}

void trim(Frame& f, uint8_t dscp) {
  const size_t size = kept(f.view());
  if (f.size <= size) return;
  f.size = static_cast<uint32_t>(size);
  const auto length = static_cast<uint16_t>(size - wire::kIpv6Bytes);
  base::store_be16(f.bytes + 4, length);
  base::store_be16(f.bytes + kUdpAt + 4, length);
  base::store_be16(f.bytes + kUdpAt + 6, 0);  // what it summed up is gone
  set_traffic_class(f.view(), static_cast<uint8_t>(dscp << 2 | ecn_of(f.view())));
  f.cls = Class::control;
  f.sum = {};
}

void corrupt(Frame& f, uint32_t bit) {
  const size_t from = std::min<size_t>(f.size, wire::kOuterBytes);
  if (f.size == from) return;
  const size_t at = bit % ((f.size - from) * 8);
  f.bytes[from + at / 8] = static_cast<uint8_t>(f.bytes[from + at / 8] ^ (1u << (at % 8)));
}

}  // namespace mrc::softswitch
