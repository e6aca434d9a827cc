// The task graph by hand: who learns of a send's end when, and which graphs are refused.
#include "sim/tasks.h"

#include "testing/check.h"

using namespace mrc::sim;  // NOLINT(google-build-using-namespace)

namespace {

Ps ns(int64_t n) { return from_ns(n); }

struct Graph {
  Workload w;
  Graph() { w.dep_ptr.push_back(0); }
  TaskId add(uint8_t kind, int32_t node, int32_t peer, int64_t size, std::vector<int32_t> after,
             int64_t start_ns = 0, int64_t delay_ns = 0) {
    w.kind.push_back(kind);
    w.node.push_back(node);
    w.peer.push_back(peer);
    w.qp.push_back(-1);
    w.group.push_back(0);
    w.size.push_back(size);
    w.start.push_back(start_ns);
    w.delay.push_back(delay_ns);
    w.dep_idx.insert(w.dep_idx.end(), after.begin(), after.end());
    w.dep_ptr.push_back(static_cast<int64_t>(w.dep_idx.size()));
    return static_cast<TaskId>(w.kind.size() - 1);
  }
  TaskId send(int32_t src, int32_t dst, std::vector<int32_t> after = {}, int64_t start_ns = 0,
              int64_t delay_ns = 0) {
    return add(0, src, dst, 1000, std::move(after), start_ns, delay_ns);
  }
  TaskId compute(int32_t node, std::vector<int32_t> after, int64_t duration_ns) {
    return add(1, node, -1, 0, std::move(after), 0, duration_ns);
  }
};

Tasks loaded(const Graph& g, uint32_t hosts = 4) {
  Tasks t;
  REQUIRE(t.load(g.w, hosts).empty());
  return t;
}

std::vector<TaskId> due(Tasks& t, uint32_t host, Ps now) {
  std::vector<TaskId> out;
  for (TaskId id; t.take_send(host, now, id);) out.push_back(id);
  return out;
}

void settle(Tasks& t) {
  t.settle_cross([](uint32_t, Ps) {});
}

}  // namespace

TEST_CASE("tasks: a start and a delay are kept to the nanosecond, ties go by number") {
  Graph g;
  g.send(0, 1, {}, 500, 20);
  g.send(0, 2, {}, 520, 0);
  g.send(0, 3);
  Tasks t = loaded(g);
  CHECK_EQ(t.next_start(0), Ps{0});
  CHECK_EQ(t.next_start(1), kNever);
  CHECK(due(t, 0, 0) == std::vector<TaskId>{2});
  CHECK_EQ(t.next_start(0), ns(520));
  CHECK(due(t, 0, ns(520) - 1).empty());
  CHECK((due(t, 0, ns(520)) == std::vector<TaskId>{0, 1}));
  CHECK_EQ(t.times().ready[0], ns(500));
}

TEST_CASE("tasks: the destination goes on when the bytes are there, the source when it has heard of it") {
  Graph g;
  const TaskId first = g.send(0, 1);
  const TaskId reply = g.send(1, 0, {0}), again = g.send(0, 2, {0});
  Tasks t = loaded(g);
  CHECK(due(t, 0, 0) == std::vector<TaskId>{first});
  t.on_posted(first, ns(3));
  t.on_delivered(first, ns(700));
  CHECK_EQ(t.next_start(1), ns(700));
  CHECK_EQ(t.next_start(0), kNever);
  CHECK(t.times().status[first] == TaskStatus::open);  // its sender does not know yet
  t.on_acked(first, ns(1300));
  CHECK(t.times().status[first] == TaskStatus::done);
  CHECK_EQ(t.next_start(0), ns(1300));
  CHECK(due(t, 1, ns(700)) == std::vector<TaskId>{reply});
  CHECK(due(t, 0, ns(1300)) == std::vector<TaskId>{again});
  CHECK_EQ(t.finished(), size_t{1});
}

TEST_CASE("tasks: a third host hears of it from the sender, between windows") {
  Graph g;
  const TaskId first = g.send(0, 1);
  const TaskId third = g.send(2, 3, {0});
  Tasks t = loaded(g);
  t.on_delivered(first, ns(700));
  settle(t);
  CHECK_EQ(t.next_start(2), kNever);  // delivered is not yet known anywhere but there
  t.on_acked(first, ns(1300));
  CHECK_EQ(t.next_start(2), kNever);
  uint32_t woken = 99;
  t.settle_cross([&](uint32_t host, Ps at) {
    woken = host;
    CHECK_EQ(at, ns(1300));
  });
  CHECK_EQ(woken, 2u);
  CHECK(due(t, 2, ns(1300)) == std::vector<TaskId>{third});
}

TEST_CASE(
    "tasks: a computation ends after its duration and releases here at once, elsewhere between windows") {
  Graph g;
  const TaskId work = g.compute(0, {}, 5'000'000'000);  // beyond 2^32 ns
  const TaskId here = g.send(0, 1, {0}), there = g.send(3, 1, {0});
  Tasks t = loaded(g);
  const Ps end = ns(5'000'000'000);
  CHECK_EQ(t.next_start(0), end);
  CHECK(due(t, 0, end) == std::vector<TaskId>{here});
  CHECK_EQ(t.times().posted[work], Ps{0});
  CHECK_EQ(t.times().delivered[work], end);
  CHECK(t.times().status[work] == TaskStatus::done);
  CHECK_EQ(t.next_start(3), kNever);
  settle(t);
  CHECK(due(t, 3, end) == std::vector<TaskId>{there});
}

TEST_CASE("tasks: one waits for the last of several, and each counts once") {
  Graph g;
  g.send(0, 2);
  g.send(1, 2);
  const TaskId join = g.compute(2, {0, 1}, 100);
  Tasks t = loaded(g);
  t.on_delivered(0, ns(50));
  t.on_delivered(0, ns(60));  // a second one says nothing new
  CHECK_EQ(t.next_start(2), kNever);
  CHECK_EQ(t.times().delivered[0], ns(50));
  t.on_delivered(1, ns(80));
  CHECK_EQ(t.next_start(2), ns(180));
  CHECK(due(t, 2, ns(180)).empty());
  CHECK_EQ(t.times().ready[join], ns(80));
  CHECK_EQ(t.times().acked[join], ns(180));
}

TEST_CASE("tasks: a failed send is finished, what waits for it stays open") {
  Graph g;
  const TaskId first = g.send(0, 1);
  g.send(1, 0, {0});
  Tasks t = loaded(g);
  t.on_failed(first, ns(10));
  CHECK(t.times().status[first] == TaskStatus::failed);
  CHECK_EQ(t.finished(), size_t{1});
  CHECK(!t.all_done());
  t.on_failed(first, ns(20));
  CHECK_EQ(t.finished(), size_t{1});
  t.on_delivered(first, ns(30));
  t.on_acked(first, ns(40));
  CHECK(t.times().status[first] == TaskStatus::failed);
}

TEST_CASE("tasks: greedy sends keep nobody waiting for the end") {
  Graph g;
  g.add(0, 0, 1, kGreedy, {});
  g.send(2, 3);
  Tasks t = loaded(g);
  CHECK_EQ(t.greedy(), size_t{1});
  CHECK(!t.all_done());
  t.on_delivered(1, 1);
  t.on_acked(1, 2);
  CHECK(t.all_done());
}

TEST_CASE("tasks: what makes no sense is refused by name") {
  const auto refused = [](auto change, const char* word) {
    Graph g;
    g.send(0, 1);
    g.send(1, 0, {0});
    change(g.w);
    Tasks t;
    const std::string bad = t.load(g.w, 2);
    if (bad.find(word) == std::string::npos) std::fprintf(stderr, "'%s' lacks '%s'\n", bad.c_str(), word);
    CHECK(bad.find(word) != std::string::npos);
  };
  refused([](Workload& w) { w.node[1] = 2; }, "task 1: no such host");
  refused([](Workload& w) { w.node[0] = -1; }, "task 0: no such host");
  refused([](Workload& w) { w.peer[1] = 7; }, "task 1: no such destination");
  refused([](Workload& w) { w.peer[1] = 1; }, "task 1: sends to itself");
  refused([](Workload& w) { w.kind[0] = 2; }, "task 0: kind");
  refused([](Workload& w) { w.size[0] = -1; }, "task 0: negative");
  refused([](Workload& w) { w.start[1] = -5; }, "task 1: negative");
  refused([](Workload& w) { w.delay[1] = int64_t{1} << 62; }, "task 1: beyond");
  refused([](Workload& w) { w.dep_idx[0] = 9; }, "does not exist");
  refused([](Workload& w) { w.dep_idx[0] = -1; }, "does not exist");
  refused([](Workload& w) { w.dep_ptr[1] = 5; }, "task 0: its part");
  refused([](Workload& w) { w.dep_ptr = {0, 1, 0}, w.dep_idx.clear(); }, "task 0: its part");
  refused([](Workload& w) { w.qp[1] = -2; }, "task 1: its QP");
  refused([](Workload& w) { w.qp[1] = INT32_MAX; }, "task 1: its QP");
  refused([](Workload& w) { w.qp.pop_back(); }, "lengths");
  refused([](Workload& w) { w.dep_ptr.pop_back(); }, "lengths");
}
