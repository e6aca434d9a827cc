// Any bytes at every entry of the decoder. The first byte chooses the entry and its meta; what is kept must
// be emitted to the same headers again (reference 2.1..2.15).
#include <cstring>
#include <vector>

#include "fuzz/reader.h"
#include "wire/frame.h"

namespace {

using mrc::base::ByteView;
using mrc::fuzz::Reader;
namespace base = mrc::base;
namespace wire = mrc::wire;

// Headers of a kept packet: parse, emit and parse again must agree.
void check_round_trip(const wire::Packet& p) {
  uint8_t once[wire::kMaxHeaderBytes];
  const size_t n = wire::emit_headers(p, once);
  MRC_FUZZ_CHECK(n <= sizeof once);
  MRC_FUZZ_CHECK(n == wire::kBthBytes + wire::extension_bytes(p.bth));
  std::vector<uint8_t> ib(once, once + n);
  ib.insert(ib.end(), p.payload.begin(), p.payload.end());
  ib.resize(ib.size() + p.bth.pad);
  wire::Packet q;
  MRC_FUZZ_CHECK(wire::parse_ib(ib, q) == wire::DropReason::none);
  uint8_t twice[wire::kMaxHeaderBytes];
  MRC_FUZZ_CHECK(wire::emit_headers(q, twice) == n);
  MRC_FUZZ_CHECK(std::memcmp(once, twice, n) == 0);
  MRC_FUZZ_CHECK(q.payload.size() == p.payload.size());
}

void inside(ByteView part, ByteView whole) {
  if (part.empty()) return;
  MRC_FUZZ_CHECK(part.data() >= whole.data());
  MRC_FUZZ_CHECK(part.data() + part.size() <= whole.data() + whole.size());
}

void try_frame(ByteView bytes) {
  wire::Frame f;
  wire::Packet p;
  const bool kept = wire::parse_frame(bytes, {}, f, p) == wire::DropReason::none;
  if (!kept) return;
  inside(f.datagram, bytes);
  if (f.trim != wire::TrimClass::none) return;
  inside(p.payload, f.datagram);
  check_round_trip(p);
}

void try_datagram(ByteView bytes, uint8_t choice) {
  wire::DatagramMeta meta;
  meta.icrc_verified = (choice & 0x10) != 0;
  meta.elided_payload = (choice & 0x20) != 0 ? 256 : 0;
  meta.src = meta.dst = base::IpAddr::v4(127, 0, 0, 1);
  if ((choice & 0x40) != 0) meta.src.bytes = meta.dst.bytes = {0xfd};
  wire::Packet p;
  if (wire::parse_datagram(meta, bytes, p) != wire::DropReason::none) return;
  inside(p.payload, bytes);
  if (meta.elided_payload == 0) check_round_trip(p);
}

void try_ib(ByteView bytes) {
  wire::Packet p;
  if (wire::parse_ib(bytes, p) == wire::DropReason::none) check_round_trip(p);
}

void try_trim(ByteView bytes) {
  std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  const size_t n = wire::trim_frame(copy, 12);
  MRC_FUZZ_CHECK(n <= copy.size());
  wire::Packet p;
  (void)wire::parse_trimmed(bytes, p);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Reader in({data, size});
  const uint8_t choice = in.u8();
  // An exact copy on the heap: a read past the end is seen.
  const ByteView rest = in.rest();
  const std::vector<uint8_t> bytes(rest.begin(), rest.end());
  switch (choice & 3) {
    case 0:
      try_frame(bytes);
      break;
    case 1:
      try_datagram(bytes, choice);
      break;
    case 2:
      try_ib(bytes);
      break;
    default:
      try_trim(bytes);
  }
  return 0;
}
