// The arithmetic of collectives: acc = op(acc, src), element by element. Decides rounding, NaN and
// wrap-around rules; equal inputs give equal bits on every processor. Leaves when and how much to the runner.
//
// Integers wrap around. f16 and bf16 are computed in f32 and rounded to nearest even, once an operation. MIN
// and MAX: NaN wins (as a quiet NaN), and -0 is below +0, so that the order of the operands never matters.
// bool: SUM, MAX and BOR are "or", PRODUCT, MIN and BAND are "and"; the result is 0 or 1. Complex: SUM and
// PRODUCT only.
#pragma once

#include "coll/types.h"

namespace mrc::coll {

// Whether the pair has a meaning. AVG is SUM here, for types that can be divided.
bool supports(DType t, Op op);
// SCALE exists for floating and complex types.
bool scalable(DType t);

// `count` elements. The pointers need no alignment; the ranges are equal or apart. The pair is supported.
void reduce(DType t, Op op, void* acc, const void* src, size_t count);
// dst = src * factor, or src / factor. The type is scalable.
void scale(DType t, void* dst, const void* src, double factor, bool divide, size_t count);

}  // namespace mrc::coll
