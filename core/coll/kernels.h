// The loops behind reduce.h, for one element type and operator each. Written so that the compiler makes
// vector code of them at whatever width the function they are inlined into has.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "coll/half.h"

#define MRC_INLINE [[gnu::always_inline]] inline

namespace mrc::coll {

// Unaligned access without undefined behaviour.
template <typename T>
MRC_INLINE T load(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <typename T>
MRC_INLINE void store(uint8_t* p, T v) {
  std::memcpy(p, &v, sizeof v);
}

// Arithmetic of integers without sign, wide enough not to be promoted to a signed one.
template <typename T>
using Wrap = std::conditional_t<sizeof(T) < 4, uint32_t,
                                std::make_unsigned_t<std::conditional_t<std::is_integral_v<T>, T, int>>>;
template <typename T>
using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

struct Sum {
  template <typename T>
  MRC_INLINE static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrap<T>>(a) + static_cast<Wrap<T>>(b));
    } else {
      return a + b;
    }
  }
};
struct Product {
  template <typename T>
  MRC_INLINE static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<Wrap<T>>(a) * static_cast<Wrap<T>>(b));
    } else {
      return a * b;
    }
  }
};
// Of equal floats only zeros can differ in bits: -0 is the lesser one.
template <bool least>
struct Extreme {
  template <typename T>
  MRC_INLINE static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return least ? (b < a ? b : a) : (a < b ? b : a);
    } else {
      using B = Bits<T>;
      constexpr B kQuiet =
          sizeof(T) == 4 ? static_cast<B>(0x7FC0'0000u) : static_cast<B>(0x7FF8'0000'0000'0000ull);
      const B x = std::bit_cast<B>(a), y = std::bit_cast<B>(b);
      B r = (least ? a < b : a > b) ? x : y;
      r = a == b ? (least ? (x | y) : (x & y)) : r;
      r = __builtin_isunordered(a, b) ? kQuiet : r;
      return std::bit_cast<T>(r);
    }
  }
};
using Min = Extreme<true>;
using Max = Extreme<false>;
struct And {
  template <typename T>
  MRC_INLINE static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <typename T>
  MRC_INLINE static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <typename T>
  MRC_INLINE static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};

template <typename T, typename F>
MRC_INLINE void loop(uint8_t* a, const uint8_t* s, size_t n) {
  for (size_t i = 0; i < n; ++i)
    store<T>(a + i * sizeof(T), F::apply(load<T>(a + i * sizeof(T)), load<T>(s + i * sizeof(T))));
}

template <typename F>
MRC_INLINE void loop_bool(uint8_t* a, const uint8_t* s, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const auto x = static_cast<uint8_t>(a[i] != 0), y = static_cast<uint8_t>(s[i] != 0);
    a[i] = F::apply(x, y);
  }
}

template <typename T>
MRC_INLINE void loop_complex_product(uint8_t* a, const uint8_t* s, size_t n) {
  for (size_t i = 0; i < 2 * n; i += 2) {
    const T ar = load<T>(a + i * sizeof(T)), ai = load<T>(a + (i + 1) * sizeof(T));
    const T br = load<T>(s + i * sizeof(T)), bi = load<T>(s + (i + 1) * sizeof(T));
    store<T>(a + i * sizeof(T), ar * br - ai * bi);
    store<T>(a + (i + 1) * sizeof(T), ar * bi + ai * br);
  }
}

template <typename T, bool divide>
MRC_INLINE void loop_scale(uint8_t* d, const uint8_t* s, double factor, size_t n) {
  const auto f = static_cast<T>(factor);
  for (size_t i = 0; i < n; ++i) {
    const T x = load<T>(s + i * sizeof(T));
    store<T>(d + i * sizeof(T), divide ? x / f : x * f);
  }
}

// 16-bit floats go through f32 in blocks that stay in the first cache. C converts a block each way.
inline constexpr size_t kBlock = 256;

struct Bf16 {
  MRC_INLINE static void widen(float* out, const uint8_t* in, size_t n) {
    for (size_t i = 0; i < n; ++i) out[i] = bf16_to_float(load<uint16_t>(in + 2 * i));
  }
  MRC_INLINE static void narrow(uint8_t* out, const float* in, size_t n) {
    for (size_t i = 0; i < n; ++i) store<uint16_t>(out + 2 * i, bf16_from_float(in[i]));
  }
};
struct Half {
  MRC_INLINE static void widen(float* out, const uint8_t* in, size_t n) {
    for (size_t i = 0; i < n; ++i) out[i] = half_to_float(load<uint16_t>(in + 2 * i));
  }
  MRC_INLINE static void narrow(uint8_t* out, const float* in, size_t n) {
    for (size_t i = 0; i < n; ++i) store<uint16_t>(out + 2 * i, half_from_float(in[i]));
  }
};

template <typename C, typename F>
MRC_INLINE void loop_narrow(uint8_t* a, const uint8_t* s, size_t n) {
  float x[kBlock], y[kBlock];
  for (size_t at = 0; at < n; at += kBlock) {
    const size_t m = n - at < kBlock ? n - at : kBlock;
    C::widen(x, a + 2 * at, m);
    C::widen(y, s + 2 * at, m);
    for (size_t i = 0; i < m; ++i) x[i] = F::apply(x[i], y[i]);
    C::narrow(a + 2 * at, x, m);
  }
}

template <typename C, bool divide>
MRC_INLINE void loop_scale_narrow(uint8_t* d, const uint8_t* s, double factor, size_t n) {
  float x[kBlock];
  const auto f = static_cast<float>(factor);
  for (size_t at = 0; at < n; at += kBlock) {
    const size_t m = n - at < kBlock ? n - at : kBlock;
    C::widen(x, s + 2 * at, m);
    for (size_t i = 0; i < m; ++i) x[i] = divide ? x[i] / f : x[i] * f;
    C::narrow(d + 2 * at, x, m);
  }
}

}  // namespace mrc::coll
