// CRC-32 three ways: tables eight bytes at a time, and carry-less multiplication 64 or 256 bytes at a time.
// Where there is that, tables serve only what is shorter than 16 bytes: payload that passes pushes them out
// of the cache. All constants are computed from the polynomial when compiling.
#include <array>
#include <cstddef>
#include <cstring>

#include "wire/icrc.h"

#if defined(__x86_64__) || defined(__i386__)
#define MRC_CLMUL 1
// GCC 12 takes the "undefined" operands of its own intrinsics for mistakes of ours.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#endif

namespace mrc::wire {

namespace {

constexpr uint32_t kPoly = 0xEDB88320;  // bit 31 is the coefficient of x^0

constexpr uint32_t times_x(uint32_t r) { return (r >> 1) ^ ((r & 1) != 0 ? kPoly : 0); }

// Written so that compilers make one load of it.
inline uint32_t load_le32(const uint8_t* p) {
  return p[0] | (uint32_t{p[1]} << 8) | (uint32_t{p[2]} << 16) | (uint32_t{p[3]} << 24);
}

using Tables = std::array<std::array<uint32_t, 256>, 8>;
constexpr Tables make_tables() {
  Tables t{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t r = i;
    for (int k = 0; k < 8; ++k) r = times_x(r);
    t[0][i] = r;
  }
  for (size_t n = 1; n < 8; ++n) {
    for (size_t i = 0; i < 256; ++i) t[n][i] = (t[n - 1][i] >> 8) ^ t[0][t[n - 1][i] & 0xFF];
  }
  return t;
}
constexpr Tables kTables = make_tables();

// x^n mod P in the form a folding multiplication needs: bit-reflected, one place to the left because the
// product of two reflected numbers comes out one place to the right.
constexpr int64_t power_of_x(unsigned n) {
  uint32_t r = 0x80000000;
  for (unsigned i = 0; i < n; ++i) r = times_x(r);
  return static_cast<int64_t>(uint64_t{r} << 1);
}
template <unsigned kBits>
constexpr int64_t fold_constant() {
  constexpr int64_t k = power_of_x(kBits);  // when compiling, whatever the optimiser thinks
  return k;
}

// The polynomial itself and the whole part of x^64 / P, 33 bits each, reflected: what Barrett's reduction
// needs.
constexpr int64_t kWholePoly = static_cast<int64_t>((uint64_t{kPoly} << 1) | 1);
constexpr int64_t reflected_quotient() {
  uint64_t rest = uint64_t{1} << 32, poly = 0, out = 0;  // plain bit order: x^32 in bit 32
  for (unsigned i = 0; i <= 32; ++i) poly |= (static_cast<uint64_t>(kWholePoly) >> i & 1) << (32 - i);
  for (unsigned i = 0; i <= 32; ++i) {
    const bool one = (rest >> 32 & 1) != 0;
    out |= uint64_t{one} << i;  // the highest power first, which is the lowest bit when reflected
    rest = (one ? rest ^ poly : rest) << 1;
  }
  return static_cast<int64_t>(out);
}

}  // namespace

uint32_t crc32_update_portable(uint32_t state, base::ByteView bytes) {
  const uint8_t* p = bytes.data();
  size_t n = bytes.size();
  for (; n >= 8; p += 8, n -= 8) {
    const uint32_t a = state ^ load_le32(p);
    const uint32_t b = load_le32(p + 4);
    state = kTables[7][a & 0xFF] ^ kTables[6][(a >> 8) & 0xFF] ^ kTables[5][(a >> 16) & 0xFF] ^
            kTables[4][a >> 24] ^ kTables[3][b & 0xFF] ^ kTables[2][(b >> 8) & 0xFF] ^
            kTables[1][(b >> 16) & 0xFF] ^ kTables[0][b >> 24];
  }
  if (n >= 4) {
    const uint32_t a = state ^ load_le32(p);
    state = kTables[3][a & 0xFF] ^ kTables[2][(a >> 8) & 0xFF] ^ kTables[1][(a >> 16) & 0xFF] ^
            kTables[0][a >> 24];
    p += 4;
    n -= 4;
  }
  for (; n > 0; ++p, --n) state = (state >> 8) ^ kTables[0][(state ^ *p) & 0xFF];
  return state;
}

#ifdef MRC_CLMUL

namespace {

constexpr int64_t kQuotient = reflected_quotient();

// Sixteen zeros' worth, the bytes in order, and as many zeros again: a window into it moves a register's
// bytes up or down.
constexpr std::array<uint8_t, 48> make_shift() {
  std::array<uint8_t, 48> t{};
  for (size_t i = 0; i < t.size(); ++i) t[i] = static_cast<uint8_t>(i < 16 || i >= 32 ? 0x80 : i - 16);
  return t;
}
constexpr std::array<uint8_t, 48> kShift = make_shift();

// Carries `x` forward by the distance that `k` was made for and adds `next`.
__attribute__((target("pclmul,sse4.1"))) inline __m128i fold(__m128i x, __m128i k, __m128i next) {
  const __m128i lo = _mm_clmulepi64_si128(x, k, 0x00);
  const __m128i hi = _mm_clmulepi64_si128(x, k, 0x11);
  return _mm_xor_si128(_mm_xor_si128(lo, hi), next);
}
__attribute__((target("pclmul,sse4.1"))) inline __m128i load(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
// 128 bits of remainder down to 32: by 64, by 32, and Barrett's way.
__attribute__((target("pclmul,sse4.1"))) inline uint32_t reduce(__m128i x, __m128i by_128) {
  const __m128i low_32 = _mm_set_epi32(0, 0, 0, -1);
  const __m128i by_64 = _mm_set_epi64x(0, fold_constant<64>());
  const __m128i barrett = _mm_set_epi64x(kQuotient, kWholePoly);
  x = _mm_xor_si128(_mm_clmulepi64_si128(x, by_128, 0x10), _mm_srli_si128(x, 8));
  x = _mm_xor_si128(_mm_clmulepi64_si128(_mm_and_si128(x, low_32), by_64, 0x00), _mm_srli_si128(x, 4));
  __m128i t = _mm_clmulepi64_si128(_mm_and_si128(x, low_32), barrett, 0x10);
  t = _mm_clmulepi64_si128(_mm_and_si128(t, low_32), barrett, 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(x, t), 1));
}
// The last bytes: 16 at a time, then those that are left together with the end of what is before them. At
// least 16 bytes of the message lie before `p`.
__attribute__((target("pclmul,sse4.1"))) inline uint32_t finish_128(__m128i x, __m128i by_128,
                                                                    const uint8_t* p, size_t n) {
  for (; n >= 16; p += 16, n -= 16) x = fold(x, by_128, load(p));
  if (n > 0) {
    const __m128i up = load(kShift.data() + n), down = load(kShift.data() + n + 16);
    // Its first n bytes become a block of their own; the others make room for the last n of the message.
    const __m128i first = _mm_shuffle_epi8(x, up);
    const __m128i second = _mm_blendv_epi8(_mm_shuffle_epi8(x, down), load(p + n - 16), down);
    x = fold(first, by_128, second);
  }
  return reduce(x, by_128);
}

}  // namespace

bool has_clmul() { return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0; }

__attribute__((target("pclmul,sse4.1"))) uint32_t crc32_update_clmul(uint32_t state, base::ByteView bytes) {
  const uint8_t* p = bytes.data();
  size_t n = bytes.size();
  if (n < 16) return crc32_update_portable(state, bytes);
  // Low quadword of a constant pair serves the earlier eight bytes of a block, which stand 64 bits higher.
  const __m128i by_512 = _mm_set_epi64x(fold_constant<512 - 32>(), fold_constant<512 + 32>());
  const __m128i by_128 = _mm_set_epi64x(fold_constant<128 - 32>(), fold_constant<128 + 32>());
  __m128i x0 = _mm_xor_si128(load(p), _mm_cvtsi32_si128(static_cast<int>(state)));
  if (n < 64) return finish_128(x0, by_128, p + 16, n - 16);
  __m128i x1 = load(p + 16);
  __m128i x2 = load(p + 32);
  __m128i x3 = load(p + 48);
  for (p += 64, n -= 64; n >= 64; p += 64, n -= 64) {
    x0 = fold(x0, by_512, load(p));
    x1 = fold(x1, by_512, load(p + 16));
    x2 = fold(x2, by_512, load(p + 32));
    x3 = fold(x3, by_512, load(p + 48));
  }
  x0 = fold(x0, by_128, x1);
  x0 = fold(x0, by_128, x2);
  x0 = fold(x0, by_128, x3);
  return finish_128(x0, by_128, p, n);
}

bool has_wide_clmul() {
  return has_clmul() && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
         __builtin_cpu_supports("vpclmulqdq") != 0;
}

#define MRC_WIDE __attribute__((target("avx512f,avx512vl,vpclmulqdq,pclmul,sse4.1")))

namespace {

MRC_WIDE inline __m512i fold_wide(__m512i x, __m512i k, __m512i next) {
  const __m512i lo = _mm512_clmulepi64_epi128(x, k, 0x00);
  const __m512i hi = _mm512_clmulepi64_epi128(x, k, 0x11);
  return _mm512_ternarylogic_epi64(lo, hi, next, 0x96);  // exclusive or of all three
}
MRC_WIDE inline __m512i load_wide(const uint8_t* p) { return _mm512_loadu_si512(p); }

}  // namespace

MRC_WIDE uint32_t crc32_update_wide(uint32_t state, base::ByteView bytes) {
  const uint8_t* p = bytes.data();
  size_t n = bytes.size();
  if (n < 256) return crc32_update_clmul(state, bytes);
  const __m512i by_2048 =
      _mm512_broadcast_i32x4(_mm_set_epi64x(fold_constant<2048 - 32>(), fold_constant<2048 + 32>()));
  const __m512i by_512 =
      _mm512_broadcast_i32x4(_mm_set_epi64x(fold_constant<512 - 32>(), fold_constant<512 + 32>()));
  const __m128i by_128 = _mm_set_epi64x(fold_constant<128 - 32>(), fold_constant<128 + 32>());
  const __m512i first = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(state)));
  __m512i x0 = _mm512_xor_si512(load_wide(p), first);
  __m512i x1 = load_wide(p + 64);
  __m512i x2 = load_wide(p + 128);
  __m512i x3 = load_wide(p + 192);
  for (p += 256, n -= 256; n >= 256; p += 256, n -= 256) {
    x0 = fold_wide(x0, by_2048, load_wide(p));
    x1 = fold_wide(x1, by_2048, load_wide(p + 64));
    x2 = fold_wide(x2, by_2048, load_wide(p + 128));
    x3 = fold_wide(x3, by_2048, load_wide(p + 192));
  }
  x0 = fold_wide(x0, by_512, x1);
  x0 = fold_wide(x0, by_512, x2);
  x0 = fold_wide(x0, by_512, x3);
  for (; n >= 64; p += 64, n -= 64) x0 = fold_wide(x0, by_512, load_wide(p));
  __m128i y = _mm512_castsi512_si128(x0);
  y = fold(y, by_128, _mm512_extracti32x4_epi32(x0, 1));
  y = fold(y, by_128, _mm512_extracti32x4_epi32(x0, 2));
  y = fold(y, by_128, _mm512_extracti32x4_epi32(x0, 3));
  return finish_128(y, by_128, p, n);
}

#else

bool has_clmul() { return false; }
uint32_t crc32_update_clmul(uint32_t state, base::ByteView bytes) {
  return crc32_update_portable(state, bytes);
}
bool has_wide_clmul() { return false; }
uint32_t crc32_update_wide(uint32_t state, base::ByteView bytes) {
  return crc32_update_portable(state, bytes);
}

#endif

uint32_t crc32_update(uint32_t state, base::ByteView bytes) {
  static const auto update = has_wide_clmul() ? &crc32_update_wide
                             : has_clmul()    ? &crc32_update_clmul
                                              : &crc32_update_portable;
  return update(state, bytes);
}

}  // namespace mrc::wire
