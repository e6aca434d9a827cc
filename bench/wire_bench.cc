// The codec alone: checksum rate, and the price of one header out and in.
#include <array>

#include "bench/bench.h"
#include "wire/packet.h"

namespace mrc::bench {

namespace {

constexpr uint32_t kPayload = 4096;

wire::Packet write_packet(base::ByteView payload) {
  wire::Packet p;
  p.bth.opcode = static_cast<uint8_t>(wire::Opcode::write_middle);
  p.bth.dqp = 0x1234;
  p.bth.psn = 77;
  p.bth.ts = true;
  p.reth.va = 0x1000;
  p.reth.r_key = 9;
  p.payload = payload;
  p.payload_length = static_cast<uint32_t>(payload.size());
  return p;
}

void icrc_row(const Options& o, std::vector<Row>& out, const char* name,
              uint32_t (*update)(uint32_t, base::ByteView)) {
  std::array<uint8_t, kPayload> payload{};
  const double t = time_per_call(o, [&] { keep(update(wire::kCrc32Init, payload)); });
  out.push_back({name, kPayload / t / 1e9, "GB/s"});
}

}  // namespace

void wire_rows(const Options& o, std::vector<Row>& out) {
  icrc_row(o, out, "icrc_4096", &wire::crc32_update);
  icrc_row(o, out, "icrc_4096_portable", &wire::crc32_update_portable);

  std::vector<uint8_t> payload(kPayload);
  const wire::Packet p = write_packet(payload);
  uint8_t head[wire::kMaxHeaderBytes];
  const double encode = time_per_call(o, [&] { keep(wire::emit_headers(p, head)); });
  out.push_back({"encode_write", encode * 1e9, "ns"});

  std::vector<uint8_t> datagram(head, head + wire::emit_headers(p, head));
  datagram.insert(datagram.end(), payload.begin(), payload.end());
  datagram.resize(datagram.size() + 4);
  wire::DatagramMeta meta;
  meta.icrc_verified = true;
  wire::Packet q;
  const double decode = time_per_call(o, [&] { keep(wire::parse_datagram(meta, datagram, q)); });
  out.push_back({"decode_write_checked_icrc", decode * 1e9, "ns"});
  meta.icrc_verified = false;
  wire::store_icrc(
      datagram.data() + datagram.size() - 4,
      wire::icrc(meta, base::ByteView(datagram).first(datagram.size() - 4 - kPayload), payload, 0));
  const double full = time_per_call(o, [&] { keep(wire::parse_datagram(meta, datagram, q)); });
  out.push_back({"decode_write_4096_with_icrc", full * 1e9, "ns"});
}

}  // namespace mrc::bench
