// Each loop is compiled twice: for every x86-64, and for processors with AVX2 and F16C. Which one runs is
// found out once; both give the same bits (no fused multiply-add: see CMakeLists.txt).
#include "coll/reduce.h"

#include "coll/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define MRC_WIDE [[gnu::target("avx2,f16c")]]
#else
#define MRC_WIDE
#endif

namespace mrc::coll {

namespace {

#if defined(__x86_64__)
bool has_wide() {
  static const bool yes = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("f16c") != 0;
  return yes;
}
// The processor's own conversions; what does not fill a register goes the plain way, with the same result.
struct HalfWide {
  MRC_WIDE static void widen(float* out, const uint8_t* in, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
      _mm256_storeu_ps(out + i,
                       _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + 2 * i))));
    Half::widen(out + i, in + 2 * i, n - i);
  }
  MRC_WIDE static void narrow(uint8_t* out, const float* in, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
      const __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i), h);
    }
    Half::narrow(out + 2 * i, in + i, n - i);
  }
};
#else
bool has_wide() { return false; }
using HalfWide = Half;
#endif

// What to run, as types: body(acc, src, n).
template <typename T, typename F>
struct Plainly {
  MRC_INLINE static void body(uint8_t* a, const uint8_t* s, size_t n) { loop<T, F>(a, s, n); }
};
template <typename F>
struct Boolean {
  MRC_INLINE static void body(uint8_t* a, const uint8_t* s, size_t n) { loop_bool<F>(a, s, n); }
};
template <typename C, typename F>
struct Narrow {
  MRC_INLINE static void body(uint8_t* a, const uint8_t* s, size_t n) { loop_narrow<C, F>(a, s, n); }
};
template <typename T>
struct ComplexProduct {
  MRC_INLINE static void body(uint8_t* a, const uint8_t* s, size_t n) { loop_complex_product<T>(a, s, n); }
};
template <typename T>
struct ComplexSum {
  MRC_INLINE static void body(uint8_t* a, const uint8_t* s, size_t n) { loop<T, Sum>(a, s, 2 * n); }
};

template <typename Body>
void run_plain(uint8_t* a, const uint8_t* s, size_t n) {
  Body::body(a, s, n);
}
template <typename Body>
MRC_WIDE void run_wide(uint8_t* a, const uint8_t* s, size_t n) {
  Body::body(a, s, n);
}

using Run = void (*)(uint8_t*, const uint8_t*, size_t);

template <typename Body, typename WideBody = Body>
Run pick() {
  return has_wide() ? &run_wide<WideBody> : &run_plain<Body>;
}

template <typename T>
Run integer(Op op) {
  switch (op) {
    case Op::sum:
      return pick<Plainly<T, Sum>>();
    case Op::product:
      return pick<Plainly<T, Product>>();
    case Op::min:
      return pick<Plainly<T, Min>>();
    case Op::max:
      return pick<Plainly<T, Max>>();
    case Op::band:
      return pick<Plainly<T, And>>();
    case Op::bor:
      return pick<Plainly<T, Or>>();
    case Op::bxor:
      return pick<Plainly<T, Xor>>();
    default:
      return nullptr;
  }
}
Run boolean(Op op) {
  switch (op) {
    case Op::sum:
    case Op::max:
    case Op::bor:
      return pick<Boolean<Or>>();
    case Op::product:
    case Op::min:
    case Op::band:
      return pick<Boolean<And>>();
    case Op::bxor:
      return pick<Boolean<Xor>>();
    default:
      return nullptr;
  }
}
template <template <typename> typename With, template <typename> typename WithWide>
Run floating(Op op) {
  switch (op) {
    case Op::sum:
    case Op::avg:
      return pick<With<Sum>, WithWide<Sum>>();
    case Op::product:
      return pick<With<Product>, WithWide<Product>>();
    case Op::min:
      return pick<With<Min>, WithWide<Min>>();
    case Op::max:
      return pick<With<Max>, WithWide<Max>>();
    default:
      return nullptr;
  }
}
template <typename F>
using F32 = Plainly<float, F>;
template <typename F>
using F64 = Plainly<double, F>;
template <typename F>
using F16 = Narrow<Half, F>;
template <typename F>
using F16Wide = Narrow<HalfWide, F>;
template <typename F>
using BF16 = Narrow<Bf16, F>;

template <typename T>
Run complex(Op op) {
  if (op == Op::sum || op == Op::avg) return pick<ComplexSum<T>>();
  return op == Op::product ? pick<ComplexProduct<T>>() : nullptr;
}

Run find(DType t, Op op) {
  switch (t) {
    case DType::u8:
      return integer<uint8_t>(op);
    case DType::i8:
      return integer<int8_t>(op);
    case DType::i16:
      return integer<int16_t>(op);
    case DType::u16:
      return integer<uint16_t>(op);
    case DType::i32:
      return integer<int32_t>(op);
    case DType::u32:
      return integer<uint32_t>(op);
    case DType::i64:
      return integer<int64_t>(op);
    case DType::u64:
      return integer<uint64_t>(op);
    case DType::f16:
      return floating<F16, F16Wide>(op);
    case DType::bf16:
      return floating<BF16, BF16>(op);
    case DType::f32:
      return floating<F32, F32>(op);
    case DType::f64:
      return floating<F64, F64>(op);
    case DType::boolean:
      return boolean(op);
    case DType::c64:
      return complex<float>(op);
    case DType::c128:
      return complex<double>(op);
    case DType::count_:
      break;
  }
  return nullptr;
}

using Scale = void (*)(uint8_t*, const uint8_t*, double, size_t);
template <typename T, bool divide>
MRC_WIDE void scale_wide(uint8_t* d, const uint8_t* s, double f, size_t n) {
  loop_scale<T, divide>(d, s, f, n);
}
template <typename T, bool divide>
void scale_plain(uint8_t* d, const uint8_t* s, double f, size_t n) {
  loop_scale<T, divide>(d, s, f, n);
}
template <typename C, bool divide>
MRC_WIDE void narrow_wide(uint8_t* d, const uint8_t* s, double f, size_t n) {
  loop_scale_narrow<C, divide>(d, s, f, n);
}
template <typename C, bool divide>
void narrow_plain(uint8_t* d, const uint8_t* s, double f, size_t n) {
  loop_scale_narrow<C, divide>(d, s, f, n);
}

template <bool divide>
Scale find_scale(DType t) {
  const bool wide = has_wide();
  switch (t) {
    case DType::f16:
      return wide ? &narrow_wide<HalfWide, divide> : &narrow_plain<Half, divide>;
    case DType::bf16:
      return wide ? &narrow_wide<Bf16, divide> : &narrow_plain<Bf16, divide>;
    case DType::f32:
    case DType::c64:
      return wide ? &scale_wide<float, divide> : &scale_plain<float, divide>;
    case DType::f64:
    case DType::c128:
      return wide ? &scale_wide<double, divide> : &scale_plain<double, divide>;
    default:
      return nullptr;
  }
}

}  // namespace

bool supports(DType t, Op op) { return find(t, op) != nullptr; }
bool scalable(DType t) { return find_scale<true>(t) != nullptr; }

void reduce(DType t, Op op, void* acc, const void* src, size_t count) {
  find(t, op)(static_cast<uint8_t*>(acc), static_cast<const uint8_t*>(src), count);
}

void scale(DType t, void* dst, const void* src, double factor, bool divide, size_t count) {
  const size_t parts = t == DType::c64 || t == DType::c128 ? 2 : 1;
  const Scale f = divide ? find_scale<true>(t) : find_scale<false>(t);
  f(static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), factor, count * parts);
}

}  // namespace mrc::coll
