// The arithmetic against plain definitions: every type, every operator, odd lengths and addresses.
#include "coll/reduce.h"

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "coll/half.h"
#include "testing/check.h"

using namespace mrc;        // NOLINT(google-build-using-namespace)
using namespace mrc::coll;  // NOLINT(google-build-using-namespace)

namespace {

constexpr size_t kCount = 1031;  // no multiple of any vector

template <typename T>
std::vector<T> random_values(uint64_t seed) {
  base::Rng rng(seed);
  std::vector<T> v(kCount);
  for (T& x : v) {
    if constexpr (std::is_floating_point_v<T>) {
      x = static_cast<T>(static_cast<double>(rng.next() % 20'000) / 7.0 - 1400.0);
    } else {
      x = static_cast<T>(rng.next());
    }
  }
  return v;
}

// Runs at an address that is aligned to nothing, and returns what came out.
template <typename T>
std::vector<T> run(DType t, Op op, const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<uint8_t> x(a.size() * sizeof(T) + 1), y(x.size());
  std::memcpy(x.data() + 1, a.data(), x.size() - 1);
  std::memcpy(y.data() + 1, b.data(), y.size() - 1);
  reduce(t, op, x.data() + 1, y.data() + 1, a.size() * sizeof(T) / size_of(t));
  std::vector<T> out(a.size());
  std::memcpy(out.data(), x.data() + 1, x.size() - 1);
  return out;
}

template <typename T, typename F>
bool agrees(DType t, Op op, F f) {
  const auto a = random_values<T>(1), b = random_values<T>(2);
  const auto got = run(t, op, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const T want = f(a[i], b[i]);
    if (std::memcmp(&want, &got[i], sizeof want) != 0) return false;
  }
  return true;
}

template <typename T>
void check_integer(DType t) {
  using U = std::make_unsigned_t<T>;
  CHECK(
      agrees<T>(t, Op::sum, [](T a, T b) { return static_cast<T>(static_cast<U>(a) + static_cast<U>(b)); }));
  CHECK(agrees<T>(t, Op::product, [](T a, T b) {
    return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }));
  CHECK(agrees<T>(t, Op::min, [](T a, T b) { return a < b ? a : b; }));
  CHECK(agrees<T>(t, Op::max, [](T a, T b) { return a < b ? b : a; }));
  CHECK(agrees<T>(t, Op::band, [](T a, T b) { return static_cast<T>(a & b); }));
  CHECK(agrees<T>(t, Op::bor, [](T a, T b) { return static_cast<T>(a | b); }));
  CHECK(agrees<T>(t, Op::bxor, [](T a, T b) { return static_cast<T>(a ^ b); }));
  CHECK(!supports(t, Op::avg));
  CHECK(!scalable(t));
}

template <typename T>
void check_float(DType t) {
  CHECK(agrees<T>(t, Op::sum, [](T a, T b) { return a + b; }));
  CHECK(agrees<T>(t, Op::product, [](T a, T b) { return a * b; }));
  CHECK(agrees<T>(t, Op::min, [](T a, T b) { return a < b ? a : b; }));
  CHECK(agrees<T>(t, Op::max, [](T a, T b) { return a > b ? a : b; }));
  for (const Op op : {Op::band, Op::bor, Op::bxor}) CHECK(!supports(t, op));
}

// 16-bit types: in f32, rounded once.
template <typename To, typename From>
void check_narrow(DType t, To widen, From narrow) {
  const auto one = [&](Op op, auto f) {
    CHECK(agrees<uint16_t>(t, op, [&](uint16_t a, uint16_t b) { return narrow(f(widen(a), widen(b))); }));
  };
  one(Op::sum, [](float a, float b) { return a + b; });
  one(Op::product, [](float a, float b) { return a * b; });
}

}  // namespace

TEST_CASE("integers of every width wrap around") {
  check_integer<uint8_t>(DType::u8);
  check_integer<int8_t>(DType::i8);
  check_integer<int16_t>(DType::i16);
  check_integer<uint16_t>(DType::u16);
  check_integer<int32_t>(DType::i32);
  check_integer<uint32_t>(DType::u32);
  check_integer<int64_t>(DType::i64);
  check_integer<uint64_t>(DType::u64);
}

TEST_CASE("floats are computed as the language does, and have no bit operators") {
  check_float<float>(DType::f32);
  check_float<double>(DType::f64);
}

TEST_CASE("minimum and maximum: NaN wins, minus zero is below zero, the order does not matter") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> a{nan, 1, 0.0f, -0.0f, -1},
      b{1, nan, -0.0f, 0.0f, std::numeric_limits<float>::infinity()};
  for (const auto& [x, y] : {std::pair{a, b}, std::pair{b, a}}) {
    const auto low = run(DType::f32, Op::min, x, y), high = run(DType::f32, Op::max, x, y);
    CHECK(std::isnan(low[0]) && std::isnan(low[1]) && std::isnan(high[0]) && std::isnan(high[1]));
    CHECK(std::signbit(low[2]) && std::signbit(low[3]) && !std::signbit(high[2]) && !std::signbit(high[3]));
    CHECK_EQ(low[4], -1.0f);
    CHECK(std::isinf(high[4]));
  }
  const std::vector<uint16_t> h{0x7E01, 0x3C00}, k{0x3C00, 0xFC01};  // f16: NaN and 1
  for (const Op op : {Op::min, Op::max}) {
    for (const uint16_t v : run(DType::f16, op, h, k)) CHECK((v & 0x7FFF) > 0x7C00);
  }
}

TEST_CASE("16-bit floats: one rounding an operation, to nearest even, also for what no vector holds") {
  check_narrow(DType::bf16, bf16_to_float, bf16_from_float);
  check_narrow(DType::f16, half_to_float, half_from_float);
}

TEST_CASE("half precision there and back: every value, and every rounding between two of them") {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const auto bits = static_cast<uint16_t>(h);
    const float f = half_to_float(bits);
    const bool nan = (bits & 0x7FFF) > 0x7C00;
    CHECK_EQ(half_from_float(f), static_cast<uint16_t>(nan ? bits | 0x200 : bits));
    if ((bits & 0x7FFF) >= 0x7BFF) continue;
    // Half way to the next one goes to the even one; a little more goes up.
    const float next = half_to_float(static_cast<uint16_t>(bits + 1));
    const float middle = (f + next) / 2;
    CHECK_EQ(half_from_float(middle) & 1, 0);
    CHECK_EQ(half_from_float(std::nextafterf(middle, next)), bits + 1);
  }
  CHECK_EQ(half_from_float(65519.0f), 0x7BFF);
  CHECK_EQ(half_from_float(65520.0f), 0x7C00);
  CHECK_EQ(bf16_from_float(std::bit_cast<float>(0x3F80'8000u)), 0x3F80);
  CHECK_EQ(bf16_from_float(std::bit_cast<float>(0x3F81'8000u)), 0x3F82);
  CHECK_EQ(bf16_from_float(std::numeric_limits<float>::quiet_NaN()), 0x7FC0);
}

TEST_CASE("bool: or and and, whatever number stands for true") {
  const std::vector<uint8_t> a{0, 0, 1, 2}, b{0, 3, 0, 1};
  for (const Op op : {Op::sum, Op::max, Op::bor})
    CHECK(run(DType::boolean, op, a, b) == (std::vector<uint8_t>{0, 1, 1, 1}));
  for (const Op op : {Op::product, Op::min, Op::band})
    CHECK(run(DType::boolean, op, a, b) == (std::vector<uint8_t>{0, 0, 0, 1}));
  CHECK(run(DType::boolean, Op::bxor, a, b) == (std::vector<uint8_t>{0, 1, 1, 0}));
}

TEST_CASE("complex numbers are added and multiplied, and have no order") {
  const std::vector<float> a{1, 2, 3, -4}, b{5, 6, -7, 8};
  CHECK(run(DType::c64, Op::sum, a, b) == (std::vector<float>{6, 8, -4, 4}));
  CHECK(run(DType::c64, Op::product, a, b) == (std::vector<float>{-7, 16, 11, 52}));
  const std::vector<double> c{1, 2}, d{3, 4};
  CHECK(run(DType::c128, Op::product, c, d) == (std::vector<double>{-5, 10}));
  for (const Op op : {Op::min, Op::max, Op::band}) CHECK(!supports(DType::c64, op));
}

TEST_CASE("scaling divides exactly, or multiplies") {
  const auto a = random_values<float>(3);
  std::vector<float> out(a.size());
  scale(DType::f32, out.data(), a.data(), 3.0, true, a.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK_EQ(out[i], a[i] / 3.0f);
  scale(DType::f32, out.data(), out.data(), 0.5, false, a.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK_EQ(out[i], a[i] / 3.0f * 0.5f);
  std::vector<uint16_t> h{0x4200, 0x3C00};  // 3, 1
  scale(DType::f16, h.data(), h.data(), 3.0, true, h.size());
  CHECK_EQ(h[0], 0x3C00);
  CHECK_EQ(h[1], half_from_float(1.0f / 3.0f));
  std::vector<double> c{3, 6};
  scale(DType::c128, c.data(), c.data(), 3.0, true, 1);
  CHECK(c == (std::vector<double>{1, 2}));
}
