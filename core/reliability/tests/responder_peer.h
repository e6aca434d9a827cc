// A responder with model memory, and packets for it; shared by the responder tests.
#pragma once

#include "harness.h"

namespace mrc::reliability::testing {

inline constexpr uint32_t kPmtu = 1024;

inline ResponderConfig config() {
  ResponderConfig c;
  c.rq_psn = Psn(0);
  c.pmtu = kPmtu;
  return c;
}

struct Peer {
  explicit Peer(const ResponderConfig& c) : rsp(c), memory(0x10000, 1 << 20) {}
  Responder rsp;
  ModelMemory memory;
  Instant now = at_us(1);

  void send(const wire::Packet& p, uint32_t entropy = 5, bool ce = false) {
    rsp.on_data(now, p, entropy, ce, p.payload_length + kOverhead, memory);
  }
  std::vector<wire::Packet> answers() {
    std::vector<wire::Packet> out;
    uint32_t entropy = 0;
    while (rsp.has_control()) {
      wire::Packet p;
      if (!rsp.take_control(now, p, entropy)) break;
      out.push_back(p);
    }
    return out;
  }
};

inline wire::Packet data(Opcode op, uint32_t psn, uint16_t msn, uint32_t length, uint32_t dmalen,
                         uint64_t va = 0x10000) {
  wire::Packet p;
  p.bth.opcode = static_cast<uint8_t>(op);
  p.bth.psn = psn;
  p.bth.ts = true;
  p.tseth.tx_timestamp = static_cast<uint16_t>(0x1000 + psn);
  p.meth.msn = msn;
  p.reth = wire::Reth{va, 7, dmalen};
  p.payload_length = length;
  return p;
}
inline wire::Packet only(uint32_t psn, uint16_t msn, uint32_t length = 100) {
  return data(Opcode::write_only, psn, msn, length, length, 0x10000 + 1024ull * psn);
}
inline wire::Packet wimm(uint32_t psn, uint16_t msn, uint16_t rqmsn, uint32_t length = 100) {
  wire::Packet p = only(psn, msn, length);
  p.bth.opcode = static_cast<uint8_t>(Opcode::write_only_imm);
  p.meth.rqmsn = rqmsn;
  p.imm.imm = 0xC0DE0000u + rqmsn;
  return p;
}
inline wire::Packet with_ar(wire::Packet p) {
  p.bth.a = true;
  return p;
}
inline wire::Packet with_rtx(wire::Packet p) {
  p.bth.rtx = true;
  return p;
}

}  // namespace mrc::reliability::testing
