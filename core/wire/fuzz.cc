#include "wire/fuzz.h"

#include <algorithm>

#include "base/rng.h"
#include "wire/frame.h"

namespace mrc::wire {

namespace {

constexpr uint8_t kOpcodes[] = {0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD1, 0xD8, 0xD9, 0xDC, 0xDD, 0xDE};
constexpr uint16_t kPorts[] = {kUdpPort, kUdpPortAlternative};
constexpr size_t kMaxPayload = 256, kMaxFrame = 700;

using Bytes = std::vector<uint8_t>;

void randomize(base::Rng& rng, uint8_t* p, size_t n) {
  for (size_t i = 0; i < n; ++i) p[i] = static_cast<uint8_t>(rng.next());
}

base::IpAddr random_addr(base::Rng& rng, bool v4) {
  base::IpAddr a = base::IpAddr::v4(10, 0, 0, 0);
  if (!v4) a.bytes = {0xfd};
  randomize(rng, a.bytes.data() + 13, 3);
  return a;
}

// A frame that must be kept, over any carrier, with any opcode; every header field random.
void make_frame(base::Rng& rng, Bytes& out) {
  const bool v4 = rng.below(4) == 0;
  FrameSpec spec;
  spec.meta.src = random_addr(rng, v4);
  spec.meta.dst = random_addr(rng, v4);
  spec.meta.src_port = static_cast<uint16_t>(rng.next());
  spec.meta.dst_port = kPorts[rng.below(2)];
  spec.meta.flow_label = v4 ? 0 : static_cast<uint32_t>(rng.next()) & 0xFFFFF;
  spec.meta.dscp = static_cast<uint8_t>(rng.below(3) * 4);
  spec.meta.ecn = static_cast<uint8_t>(rng.below(4));
  spec.hop_limit = static_cast<uint8_t>(rng.next());
  spec.ipv4_id = static_cast<uint16_t>(rng.next());
  spec.udp_checksum = rng.below(2) == 0;
  if (!v4 && rng.below(3) == 0) {
    spec.outer = Encapsulation{random_addr(rng, false), random_addr(rng, false), {}};
    if (rng.below(2) == 0) spec.outer->srh = Srh{.segment = random_addr(rng, false)};
  }
  std::array<uint8_t, kMaxHeaderBytes> noise;
  std::array<uint8_t, kMaxPayload> payload;
  randomize(rng, noise.data(), noise.size());
  randomize(rng, payload.data(), payload.size());
  noise[0] = kOpcodes[rng.below(std::size(kOpcodes))];
  noise[1] &= 0xC0;
  Packet p;
  parse_ib(noise, p);  // long enough for every opcode's headers
  p.payload = {};
  if (is_data(static_cast<Opcode>(noise[0])))
    p.payload = base::ByteView(payload).first(rng.below(kMaxPayload));
  p.bth.pad = pad_bytes(p.payload.size());
  out.resize(kMaxFrame);
  out.resize(emit_frame(spec, p, out));
}

// Where the iCRC can be made right again, so that mutations reach the checks behind it.
void repair(Bytes& b) {
  Frame f;
  if (decode_frame(b, {}, f) != DropReason::none || f.datagram.size() < kBthBytes + 4) return;
  const size_t covered = f.datagram.size() - 4;
  const uint32_t crc = icrc_of_frame(f.ip_bytes, f.udp_bytes, f.datagram.first(covered));
  store_icrc(b.data() + (f.datagram.data() - b.data()) + covered, crc);
}

// Cuts a frame and makes all its lengths agree with the cut.
void shorten(base::Rng& rng, Bytes& b) {
  Frame f;
  if (decode_frame(b, {}, f) != DropReason::none) return;
  const auto ip = static_cast<size_t>(f.ip_bytes.data() - b.data());
  const auto udp = static_cast<size_t>(f.udp_bytes.data() - b.data());
  const auto room = static_cast<uint32_t>(b.size() - udp - kUdpBytes);
  b.resize(udp + kUdpBytes + rng.below(room + 1));
  base::store_be16(b.data() + udp + 4, static_cast<uint16_t>(b.size() - udp));
  base::store_be16(b.data() + ip + (f.v4 ? 2 : 4), static_cast<uint16_t>(b.size() - (f.v4 ? ip : udp)));
  if (f.encapsulated) base::store_be16(b.data() + 4, static_cast<uint16_t>(b.size() - kIpv6Bytes));
}

void mutate(base::Rng& rng, Bytes& b) {
  const uint32_t flips = rng.below(4);
  for (uint32_t i = 0; i < flips && !b.empty(); ++i) {
    const size_t at = rng.below(static_cast<uint32_t>(b.size()));
    b[at] = rng.below(2) == 0 ? static_cast<uint8_t>(b[at] ^ (1u << rng.below(8)))
                              : static_cast<uint8_t>(rng.next());
  }
  switch (rng.below(6)) {
    case 0:
      b.resize(rng.below(static_cast<uint32_t>(b.size() + 1)));
      break;
    case 1:
      shorten(rng, b);
      break;
    case 2:
      if (const size_t n = trim_frame(b, rng.below(2) == 0 ? 12 : 16); n > 0) b.resize(n);
      break;
    default:
      break;
  }
  if (rng.below(2) == 0) repair(b);
}

void next_packet(base::Rng& rng, const std::vector<Bytes>& corpus, Bytes& b) {
  const uint32_t kind = rng.below(8);
  if (kind == 0) {  // noise
    b.resize(rng.below(200));
    randomize(rng, b.data(), b.size());
    if (!b.empty() && rng.below(2) == 0) b[0] = rng.below(2) == 0 ? 0x45 : 0x60;
    return;
  }
  if (kind < 4 && !corpus.empty()) {
    b = corpus[rng.below(static_cast<uint32_t>(corpus.size()))];
  } else {
    make_frame(rng, b);
  }
  if (kind != 7) mutate(rng, b);
}

}  // namespace

FuzzCounts fuzz_decoder(uint64_t seed, uint64_t n, const std::vector<Bytes>& corpus) {
  base::Rng rng(seed);
  FuzzCounts counts;
  Bytes b;
  Frame f;
  Packet p, spare;
  for (uint64_t i = 0; i < n; ++i) {
    next_packet(rng, corpus, b);
    // A copy of its exact size on the heap: AddressSanitizer sees any read past the end.
    const Bytes exact(b.begin(), b.end());
    const DropReason r = parse_frame(exact, {}, f, p);
    ++counts.by_reason[static_cast<size_t>(r)];
    if (r == DropReason::none && f.trim != TrimClass::none) ++counts.trimmed;
    // The entry points behind frame.h must take any bytes as well.
    parse_ib(exact, spare);
    parse_trimmed(exact, spare);
    DatagramMeta meta;
    meta.elided_payload = rng.below(2) * 100;
    meta.icrc_verified = rng.below(2) == 0;
    parse_datagram(meta, exact, spare);
  }
  return counts;
}

}  // namespace mrc::wire
