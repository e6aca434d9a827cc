// softmrc._core: the engine's codec for the vector checker, tools and tests. Coarse calls, dicts in and out.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "wire/fuzz.h"
#include "wire_fields.h"
#include "wire_layers.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

using mrc::bindings::parse_address;

mrc::base::ByteView view(const nb::bytes& b) {
  return {reinterpret_cast<const uint8_t*>(b.data()), b.size()};
}
nb::bytes to_bytes(const std::vector<uint8_t>& v) { return nb::bytes(v.data(), v.size()); }
mrc::base::IpAddr address_of(const nb::bytes& b) {
  mrc::base::IpAddr a;
  if (b.size() != a.bytes.size()) throw std::invalid_argument("an IPv6 address has 16 bytes");
  std::copy_n(view(b).begin(), a.bytes.size(), a.bytes.begin());
  return a;
}

nb::dict usid_shift(const nb::bytes& before, unsigned block_bits, unsigned usid_bits) {
  const mrc::wire::UsidFormat f{static_cast<uint8_t>(block_bits), static_cast<uint8_t>(usid_bits)};
  if (block_bits > 128 || usid_bits > 128 || !f.valid()) throw std::invalid_argument("uSID format");
  const mrc::base::IpAddr after = mrc::wire::usid_shift(address_of(before), f);
  nb::dict d;
  d["after"] = nb::bytes(after.bytes.data(), after.bytes.size());
  d["end_of_stack"] = mrc::wire::usid_end(after, f);
  return d;
}

nb::dict split(uint32_t ev, bool v4) {
  const auto parts = mrc::wire::split_entropy(ev, v4);
  mrc::wire::DatagramMeta meta;
  if (v4) meta.src = mrc::base::IpAddr::v4(10, 0, 0, 1);
  meta.flow_label = parts.flow_label;
  meta.src_port = parts.src_port;
  nb::dict d;
  if (v4)
    d["flow_label"] = nb::none();
  else
    d["flow_label"] = parts.flow_label;
  d["udp_src_port"] = parts.src_port;
  d["reflected_entropy"] = mrc::wire::reflected_entropy(meta);
  return d;
}

uint32_t icrc(const std::string& src, const std::string& dst, uint16_t src_port, uint16_t dst_port,
              const nb::bytes& ib) {
  mrc::wire::DatagramMeta meta;
  meta.src = parse_address(src);
  meta.dst = parse_address(dst);
  meta.src_port = src_port;
  meta.dst_port = dst_port;
  if (ib.size() < mrc::wire::kBthBytes) throw std::invalid_argument("icrc: shorter than a BTH");
  return mrc::wire::icrc(meta, view(ib), {}, 0);
}

nb::dict fuzz(uint64_t seed, uint64_t n, const std::vector<nb::bytes>& corpus) {
  std::vector<std::vector<uint8_t>> frames;
  for (const nb::bytes& b : corpus) frames.emplace_back(view(b).begin(), view(b).end());
  mrc::wire::FuzzCounts counts;
  {
    nb::gil_scoped_release release;
    counts = mrc::wire::fuzz_decoder(seed, n, frames);
  }
  nb::dict d;
  for (size_t i = 0; i < counts.by_reason.size(); ++i) {
    if (counts.by_reason[i] != 0)
      d[mrc::wire::name(static_cast<mrc::wire::DropReason>(i))] = counts.by_reason[i];
  }
  return d;
}

}  // namespace

void bind_wire(nb::module_& m) {
  using namespace mrc::bindings;
  m.def(
      "wire_encode",
      [](const std::string& layer, const nb::dict& fields) { return to_bytes(encode_layer(layer, fields)); },
      "layer"_a, "fields"_a,
      "Encode the fields of one vector layer. ValueError: unknown layer or field, or a value that does not "
      "fit.");
  m.def(
      "wire_decode",
      [](const std::string& layer, const nb::bytes& data) { return decode_layer(layer, view(data)); },
      "layer"_a, "data"_a,
      "Decode one vector layer into all its fields. ValueError: bytes that would be dropped.");
  m.def(
      "wire_derive",
      [](const std::string& layer, const nb::dict& fields, const nb::bytes& data) {
        return derive_layer(layer, fields, view(data));
      },
      "layer"_a, "fields"_a, "data"_a,
      "Facts a decoder must also produce (the \"derived\" values of vectors).");
  m.def(
      "wire_classify",
      [](const std::string& layer, const nb::bytes& data, const nb::dict& context) {
        return classify_layer(layer, view(data), context);
      },
      "layer"_a, "data"_a, "context"_a,
      "What a receiver does with the bytes: result ok, drop (reason) or nack (its fields); reference 2.17.");
  m.def("wire_icrc", &icrc, "src"_a, "dst"_a, "src_port"_a, "dst_port"_a, "ib"_a,
        "Invariant CRC over BTH .. pad as a number; on the wire its least significant byte comes first.");
  m.def(
      "wire_udp_checksum",
      [](const std::string& src, const std::string& dst, const nb::bytes& udp) {
        return mrc::wire::udp_checksum(parse_address(src), parse_address(dst), view(udp));
      },
      "src"_a, "dst"_a, "udp"_a, "Checksum of a UDP header and payload; 0 becomes 0xFFFF.");
  m.def("wire_usid_shift", &usid_shift, "before"_a, "block_bits"_a = 32, "usid_bits"_a = 16,
        "Destination after one uN hop, and whether the list has ended.");
  m.def("wire_split_ev", &split, "ev"_a, "v4"_a = false,
        "Flow label and UDP source port of an EV, and its reflection.");
  m.def("wire_fuzz", &fuzz, "seed"_a, "n"_a, "corpus"_a = std::vector<nb::bytes>{},
        "Throw n random and mutated packets at the decoder. Counts by drop reason (\"none\" = kept); they "
        "sum to n.");
}
