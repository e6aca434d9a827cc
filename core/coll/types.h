// What a collective is made of: element types, operators, and the steps of a program. Numbers are those of
// the Python side and of the wire.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mrc::coll {

enum class DType : uint8_t {
  u8,
  i8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  f16,
  bf16,
  f32,
  f64,
  boolean,
  c64,
  c128,
  count_
};
enum class Op : uint8_t { sum, product, min, max, band, bor, bxor, avg, count_ };
enum class Kind : uint8_t { send, recv, reduce, copy, scale, count_ };
enum class Buf : uint8_t { input, output, scratch, count_ };

// Flags of a step.
inline constexpr uint8_t kEager = 1;   // through a slot of the lane, copied; no announcement
inline constexpr uint8_t kReduce = 2;  // RECV: combined with what is at `dst`
inline constexpr uint8_t kPremul = 4;  // SCALE: by the factor of the job; without: divided by the ranks

inline constexpr uint64_t kEagerMax = 16'384;
inline constexpr uint64_t kMessageMax = uint64_t{1} << 30;

// Offsets and lengths in bytes. SEND: `dst` is a place at the peer. RECV: what is not eager lands at `dst`,
// or if it is to be combined at `src`, in the scratch memory, unless it can be combined from where it is.
struct Step {
  Kind kind{};
  uint8_t flags = 0;
  Buf src_buf{}, dst_buf{};
  uint32_t peer = 0;
  uint64_t src = 0, dst = 0, bytes = 0;
};

// A RECV that combines what does not come through a slot.
constexpr bool combines_long(const Step& s) {
  return s.kind == Kind::recv && (s.flags & kReduce) != 0 && (s.flags & kEager) == 0;
}

// Bytes of an element; 0 for a number that is no type.
constexpr size_t size_of(DType t) {
  switch (t) {
    case DType::u8:
    case DType::i8:
    case DType::boolean:
      return 1;
    case DType::i16:
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::i32:
    case DType::u32:
    case DType::f32:
      return 4;
    case DType::i64:
    case DType::u64:
    case DType::f64:
    case DType::c64:
      return 8;
    case DType::c128:
      return 16;
    case DType::count_:
      break;
  }
  return 0;
}

}  // namespace mrc::coll
