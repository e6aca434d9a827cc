// A small test registry: TEST_CASE("name") { CHECK(a == b); REQUIRE(ok); }.
// doctest is not on PyPI and `make test` must work without root, so the ~60 lines live here.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace mrc::testing {

struct TestCase {
  const char* name;
  void (*body)();
};
inline std::vector<TestCase>& test_cases() {
  static std::vector<TestCase> all;
  return all;
}
inline int& failures() {
  static int n = 0;
  return n;
}
struct Registrar {
  Registrar(const char* name, void (*body)()) { test_cases().push_back({name, body}); }
};
struct Abort {};  // thrown by REQUIRE; never leaves run_all()

template <typename T>
std::string show(const T& v) {
  std::ostringstream o;
  if constexpr (requires { o << +v; }) {
    o << +v;  // characters as numbers
    return o.str();
  } else if constexpr (requires { o << v; }) {
    o << v;
    return o.str();
  } else {
    return "?";
  }
}
inline bool report(bool ok, const char* expr, const char* file, int line, const std::string& more = {}) {
  if (!ok) {
    ++failures();
    std::fprintf(stderr, "%s:%d: failed: %s%s%s\n", file, line, expr, more.empty() ? "" : "  with ",
                 more.c_str());
  }
  return ok;
}

// Runs every case whose name contains argv[1] (all without it); the exit status is 1 on any failure.
inline int run_all(int argc, char** argv) {
  int ran = 0;
  int bad = 0;
  for (const TestCase& t : test_cases()) {
    if (argc > 1 && std::strstr(t.name, argv[1]) == nullptr) continue;
    const int before = failures();
    try {
      t.body();
    } catch (const Abort&) {
    }
    ++ran;
    if (failures() != before) {
      ++bad;
      std::fprintf(stderr, "FAILED %s\n", t.name);
    }
  }
  std::printf("%d passed, %d failed\n", ran - bad, bad);
  return bad != 0 || ran == 0 ? 1 : 0;
}

}  // namespace mrc::testing

#define MRC_CAT2(a, b) a##b
#define MRC_CAT(a, b) MRC_CAT2(a, b)
#define TEST_CASE(name)                                                                                      \
  static void MRC_CAT(test_body_, __LINE__)();                                                               \
  static const ::mrc::testing::Registrar MRC_CAT(test_reg_, __LINE__)(name, &MRC_CAT(test_body_, __LINE__)); \
  static void MRC_CAT(test_body_, __LINE__)()
#define CHECK(expr) ::mrc::testing::report(static_cast<bool>(expr), #expr, __FILE__, __LINE__)
#define CHECK_EQ(a, b)                                                                           \
  do {                                                                                           \
    const auto mrc_a = (a); /* by value: `a` may live in a temporary */                          \
    const auto mrc_b = (b);                                                                      \
    ::mrc::testing::report(mrc_a == mrc_b, #a " == " #b, __FILE__, __LINE__,                     \
                           ::mrc::testing::show(mrc_a) + " and " + ::mrc::testing::show(mrc_b)); \
  } while (false)
#define REQUIRE(expr)                                \
  do {                                               \
    if (!CHECK(expr)) throw ::mrc::testing::Abort{}; \
  } while (false)
#define MRC_TEST_MAIN() \
  int main(int argc, char** argv) { return ::mrc::testing::run_all(argc, argv); }
