// CRC-32 of the iCRC: slicing-by-8 everywhere, carry-less multiplication where the CPU has it. Tables and folding
// constants are computed from the polynomial at compile time.
#include <array>
#include <cstring>

#include "wire/icrc.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace mrc::wire {

namespace {

constexpr uint32_t kPoly = 0xEDB88320;   // reflected 0x04C11DB7

constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? (c >> 1) ^ kPoly : c >> 1;
    t[0][i] = c;
  }
  for (uint32_t i = 0; i < 256; ++i) {
    for (size_t s = 1; s < 8; ++s) t[s][i] = (t[s - 1][i] >> 8) ^ t[0][t[s - 1][i] & 0xFF];
  }
  return t;
}
constexpr auto kTables = make_tables();

constexpr uint32_t reverse32(uint32_t v) {
  uint32_t r = 0;
  for (int i = 0; i < 32; ++i) r |= ((v >> i) & 1u) << (31 - i);
  return r;
}

// x^n mod P in the bit order the folding below wants: reflected and shifted left by one into 33 bits.
constexpr uint64_t fold_constant(int n) {
  const uint32_t poly = reverse32(kPoly);
  uint32_t r = 1;
  for (int i = 0; i < n; ++i) r = (r & 0x80000000u) != 0 ? (r << 1) ^ poly : r << 1;
  return uint64_t{reverse32(r)} << 1;
}

#if defined(__x86_64__)
// Folds 64 bytes a step in four lanes, then the lanes into one, then lets the tables finish the last 16 bytes: a
// reflected 128-bit remainder is just 16 more message bytes for a CRC that starts at zero.
__attribute__((target("pclmul,sse4.1"))) uint32_t crc32_clmul(uint32_t state, const uint8_t* p, size_t n) {
  const __m128i k64 = _mm_set_epi64x(static_cast<long long>(fold_constant(512 - 32)), static_cast<long long>(fold_constant(512 + 32)));
  const __m128i k16 = _mm_set_epi64x(static_cast<long long>(fold_constant(128 - 32)), static_cast<long long>(fold_constant(128 + 32)));
  const auto load = [](const uint8_t* q) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(q));
  };
  const auto fold = [](__m128i x, __m128i k, __m128i next) __attribute__((target("pclmul,sse4.1"))) {
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, k, 0x00), _mm_clmulepi64_si128(x, k, 0x11)), next);
  };
  __m128i a = _mm_xor_si128(load(p), _mm_cvtsi32_si128(static_cast<int>(state)));
  __m128i b = load(p + 16);
  __m128i c = load(p + 32);
  __m128i d = load(p + 48);
  for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
    a = fold(a, k64, load(p));
    b = fold(b, k64, load(p + 16));
    c = fold(c, k64, load(p + 32));
    d = fold(d, k64, load(p + 48));
  }
  a = fold(fold(fold(a, k16, b), k16, c), k16, d);
  for (; n >= 16; p += 16, n -= 16) a = fold(a, k16, load(p));
  alignas(16) std::array<uint8_t, 16> rest;
  _mm_store_si128(reinterpret_cast<__m128i*>(rest.data()), a);
  const uint32_t s = crc32_update_portable(0, rest);
  return crc32_update_portable(s, base::ByteView(p, n));
}
#endif

bool detect() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
#else
  return false;
#endif
}

}  // namespace

bool crc32_accelerated() {
  static const bool yes = detect();
  return yes;
}

uint32_t crc32_update_portable(uint32_t c, base::ByteView bytes) {
  const uint8_t* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 8; p += 8, n -= 8) {
    const uint32_t lo = c ^ load_icrc(p);
    const uint32_t hi = load_icrc(p + 4);
    c = kTables[7][lo & 0xFF] ^ kTables[6][(lo >> 8) & 0xFF] ^ kTables[5][(lo >> 16) & 0xFF] ^ kTables[4][lo >> 24] ^
        kTables[3][hi & 0xFF] ^ kTables[2][(hi >> 8) & 0xFF] ^ kTables[1][(hi >> 16) & 0xFF] ^ kTables[0][hi >> 24];
  }
  for (; n > 0; ++p, --n) c = (c >> 8) ^ kTables[0][(c ^ *p) & 0xFF];
  return c;
}

uint32_t crc32_update(uint32_t state, base::ByteView bytes) {
#if defined(__x86_64__)
  if (bytes.size() >= 64 && crc32_accelerated()) return crc32_clmul(state, bytes.data(), bytes.size());
#endif
  return crc32_update_portable(state, bytes);
}

}  // namespace mrc::wire
