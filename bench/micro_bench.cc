// micro_bench [--quick] [--json]: figures of the core on this machine; exit status 1 if a bound is passed.
#include <cstdio>
#include <cstring>
#include <exception>

#include "bench/bench.h"

namespace {

using mrc::bench::Row;

void print_json(const std::vector<Row>& rows) {
  std::printf("{");
  for (size_t i = 0; i < rows.size(); ++i)
    std::printf("%s\"%s_%s\": %.6g", i == 0 ? "" : ", ", rows[i].name.c_str(), rows[i].unit.c_str(),
                rows[i].value);
  std::printf("}\n");
}

void print_table(const std::vector<Row>& rows) {
  for (const Row& r : rows) {
    std::printf("%-32s %12.2f %-7s", r.name.c_str(), r.value, r.unit.c_str());
    if (r.limit > 0) std::printf(" %s %.0f", r.value <= r.limit ? "within" : "ABOVE", r.limit);
    std::printf("\n");
  }
}

int run(const mrc::bench::Options& options, bool json) {
  std::vector<Row> rows;
  mrc::bench::wire_rows(options, rows);
  mrc::bench::coll_rows(options, rows);
  mrc::bench::engine_rows(options, rows);
  if (json) {
    print_json(rows);
  } else {
    print_table(rows);
  }
  for (const Row& r : rows)
    if (r.limit > 0 && r.value > r.limit) return 1;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  mrc::bench::Options options;
  bool json = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      options.quick = true;
    } else if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else {
      return std::fprintf(stderr, "usage: micro_bench [--quick] [--json]\n"), 2;
    }
  }
  try {
    return run(options, json);
  } catch (const std::exception& e) {
    return std::fprintf(stderr, "micro_bench: %s\n", e.what()), 1;
  }
}
