// The arithmetic of collectives beside a plain copy: what it costs when the data is in the cache.
#include <cstring>

#include "bench/bench.h"
#include "coll/reduce.h"

namespace mrc::bench {

void coll_rows(const Options& o, std::vector<Row>& out) {
  constexpr size_t kBytes = 128 * 1024;
  std::vector<uint8_t> acc(kBytes), src(kBytes);
  const double copy = time_per_call(o, [&] { keep(std::memcpy(acc.data(), src.data(), kBytes)); });
  out.push_back({"copy_128k", kBytes / copy / 1e9, "GB/s"});
  const auto row = [&](const char* name, coll::DType t, coll::Op op) {
    const size_t n = kBytes / coll::size_of(t);
    const double s = time_per_call(o, [&] { coll::reduce(t, op, acc.data(), src.data(), n); });
    out.push_back({name, kBytes / s / 1e9, "GB/s"});
  };
  row("sum_f32_128k", coll::DType::f32, coll::Op::sum);
  row("sum_f16_128k", coll::DType::f16, coll::Op::sum);
  row("sum_bf16_128k", coll::DType::bf16, coll::Op::sum);
  row("max_f32_128k", coll::DType::f32, coll::Op::max);
  row("sum_i64_128k", coll::DType::i64, coll::Op::sum);
}

}  // namespace mrc::bench
