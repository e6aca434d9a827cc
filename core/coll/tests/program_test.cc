// What is no program is refused with a reason.
#include "coll/program.h"

#include "testing/check.h"

using namespace mrc;        // NOLINT(google-build-using-namespace)
using namespace mrc::coll;  // NOLINT(google-build-using-namespace)

namespace {

// Two ranks, f32, a little scratch: legal as it stands.
ProgramSpec good() {
  ProgramSpec s;
  s.dtype = static_cast<uint32_t>(DType::f32);
  s.ranks = 2;
  s.scratch_bytes = 64;
  s.steps = {{Kind::send, 0, Buf::input, Buf::scratch, 1, 64, 0, 64},
             {Kind::recv, 0, Buf::input, Buf::scratch, 1, 0, 0, 64},
             {Kind::reduce, 0, Buf::scratch, Buf::output, 0, 0, 128, 64}};
  s.deps = {{}, {}, {1}};
  return s;
}

bool refused(const ProgramSpec& s, const char* because) {
  std::string why;
  return Program::compile(s, why) == nullptr && why.find(because) != std::string::npos;
}
template <typename F>
bool refused_with(F change, const char* because) {
  ProgramSpec s = good();
  change(s);
  return refused(s, because);
}

}  // namespace

TEST_CASE("a legal program knows what it needs") {
  std::string why;
  const auto p = Program::compile(good(), why);
  REQUIRE(p != nullptr);
  CHECK_EQ(p->input_bytes(), 128u);
  CHECK_EQ(p->output_bytes(), 192u);
  CHECK(p->remote(Buf::scratch));
  CHECK(!p->remote(Buf::output));
  CHECK(p->sent_from(Buf::input));
  CHECK(!p->sent_from(Buf::output));
  CHECK(p->writes(Buf::output));
  CHECK_EQ(p->peers().size(), 1u);
  CHECK(p->peers()[0].announce);
  CHECK_EQ(p->peer_of_rank(0), Program::kNoPeer);
  CHECK_EQ(p->roots().size(), 2u);
  CHECK_EQ(*p->dependents(1).begin(), 2u);
  CHECK_EQ(p->traffic(), 128u);
}

TEST_CASE("a long message that is combined lands in the scratch and is written elsewhere") {
  std::string why;
  ProgramSpec s = good();
  s.steps.pop_back();
  s.deps.pop_back();
  s.steps[1] = {Kind::recv, kReduce, Buf::scratch, Buf::output, 1, 0, 128, 64};
  const auto p = Program::compile(s, why);
  REQUIRE(p != nullptr);
  CHECK_EQ(p->output_bytes(), 192u);
  CHECK(p->remote(Buf::scratch));
  CHECK(!p->remote(Buf::output));
  CHECK(p->writes(Buf::output));
  const auto not_with = [&s](auto change, const char* because) {
    ProgramSpec other = s;
    change(other.steps[1]);
    return refused(other, because);
  };
  CHECK(not_with([](Step& r) { r.src_buf = Buf::output; }, "lands in the scratch"));
  CHECK(not_with([](Step& r) { r.dst_buf = Buf::scratch; }, "combined elsewhere"));
  CHECK(not_with([](Step& r) { r.src = 4; }, "reads beyond the scratch"));
  CHECK(not_with([](Step& r) { r.dst = 130; }, "cuts an element"));
  CHECK(not_with([](Step& r) { r.bytes = 0; }, "without bytes"));
  s.dtype = static_cast<uint32_t>(DType::c64);
  s.op = static_cast<uint32_t>(Op::max);
  CHECK(refused(s, "no meaning"));
}

TEST_CASE("numbers that mean nothing are refused") {
  CHECK(refused_with([](ProgramSpec& s) { s.dtype = 15; }, "element type"));
  CHECK(refused_with([](ProgramSpec& s) { s.op = 8; }, "operator is unknown"));
  CHECK(refused_with([](ProgramSpec& s) { s.ranks = 0; }, "ranks"));
  CHECK(refused_with([](ProgramSpec& s) { s.ranks = 1; }, "step 0: there is no such peer"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[0].kind = static_cast<Kind>(5); }, "kind"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[0].src_buf = static_cast<Buf>(3); }, "buffer"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[2].flags = kEager; }, "step 2: a flag"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[0].flags = kReduce; }, "a flag"));
  CHECK(refused_with([](ProgramSpec& s) { s.deps.pop_back(); }, "list of dependencies"));
  CHECK(refused_with([](ProgramSpec& s) { s.prints = {1}; }, "prints"));
}

TEST_CASE("memory beyond a buffer, offsets that wrap around and halves of elements are refused") {
  CHECK(refused_with([](ProgramSpec& s) { s.steps[1].dst = 4; }, "writes beyond the scratch"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[2].src = 4; }, "reads beyond the scratch"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[2].src = UINT64_MAX - 8; }, "too large"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[2].bytes = UINT64_MAX; }, "too large"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[2].dst = 130; }, "cuts an element"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[2].bytes = 62; }, "cuts an element"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[2].dst_buf = Buf::input; }, "input is not written"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[0].bytes = kMessageMax + 1; }, "1 GiB"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[0].bytes = 0; }, "without bytes"));
  CHECK(refused_with([](ProgramSpec& s) { s.steps[0].flags = kEager, s.steps[0].bytes = kEagerMax + 1; },
                     "16384"));
  CHECK(refused_with(
      [](ProgramSpec& s) { s.steps[2].dst_buf = Buf::scratch, s.steps[2].dst = 4, s.steps[2].bytes = 8; },
      "overlap"));
}

TEST_CASE("cycles cannot be written down, and operators have to fit the type") {
  CHECK(refused_with([](ProgramSpec& s) { s.deps[1] = {1}; }, "itself"));
  CHECK(refused_with([](ProgramSpec& s) { s.deps[1] = {2}; }, "a later step"));
  CHECK(refused_with([](ProgramSpec& s) { s.op = static_cast<uint32_t>(Op::bxor); }, "no meaning"));
  CHECK(refused_with(
      [](ProgramSpec& s) {
        s.dtype = static_cast<uint32_t>(DType::i32);
        s.steps[2] = {Kind::scale, 0, Buf::scratch, Buf::output, 0, 0, 0, 64};
      },
      "no meaning"));
}
