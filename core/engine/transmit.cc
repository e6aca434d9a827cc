#include "engine/transmit.h"

#include "wire/icrc.h"

namespace mrc::engine {

Trailer finish(const Transmit& t, const uint8_t* head, wire::PrefixCache* cache) {
  Trailer out{};
  out.length = static_cast<uint8_t>(t.pad + 4);
  if (!t.icrc) return out;
  const uint32_t crc = wire::icrc(t.meta, base::ByteView(head, t.head_len),
                                  base::ByteView(t.payload, t.payload_len), t.pad, cache);
  wire::store_icrc(out.bytes + t.pad, crc);
  return out;
}

}  // namespace mrc::engine
