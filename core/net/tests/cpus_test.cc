// Nothing is kept on a CPU unless somebody asks; who asks for one that cannot be had is told.
#include "net/cpus.h"

#include <sched.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "net/tests/driver_pair.h"

using namespace mrc;       // NOLINT(google-build-using-namespace)
using namespace mrc::net;  // NOLINT(google-build-using-namespace)

namespace {

// What each thread of this process may use, in the kernel's words.
std::multiset<std::string> masks() {
  std::multiset<std::string> out;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Cpus_allowed_list:")) out.insert(line.substr(line.find_last_of(" \t") + 1));
    }
  }
  return out;
}

uint32_t first_usable() {
  cpu_set_t set;
  REQUIRE(sched_getaffinity(0, sizeof set, &set) == 0);
  uint32_t cpu = 0;
  while (!CPU_ISSET(cpu, &set)) ++cpu;
  return cpu;
}

base::Result<std::unique_ptr<Driver>> open_on(std::vector<uint32_t> cpus, std::string& why,
                                              Progress progress = Progress::thread) {
  DriverConfig c;
  c.progress = progress;
  c.cpus = std::move(cpus);
  PlaneConfig plane;
  plane.address = "127.0.0.41";
  plane.evs = 1;
  c.planes.push_back(plane);
  return Driver::open(c, why);
}

}  // namespace

TEST_CASE("by default the I/O thread may go wherever its maker may") {
  const auto before = masks();
  std::string why;
  const auto d = open_on({}, why);
  REQUIRE(d.ok());
  const auto after = masks();
  CHECK_EQ(after.size(), before.size() + 1);
  CHECK_EQ(std::set<std::string>(after.begin(), after.end()).size(),
           std::set<std::string>(before.begin(), before.end()).size());
}

TEST_CASE("asked to, the I/O thread is kept where it was told to, and no other thread is") {
  const auto before = masks();
  const uint32_t cpu = first_usable();
  std::string why;
  const auto d = open_on({cpu}, why);
  REQUIRE(d.ok());
  auto after = masks();
  const auto found = after.find(std::to_string(cpu));
  REQUIRE(found != after.end());
  after.erase(found);
  CHECK(after == before);
}

TEST_CASE("a CPU that cannot be had is named, and nothing stays open") {
  std::string why;
  CHECK_EQ(open_on({first_usable(), 8191}, why).error(), EINVAL);
  CHECK(why.find("CPU 8191") != std::string::npos);
  CHECK_EQ(open_on({8192}, why).error(), EINVAL);
  CHECK(why.find("8192") != std::string::npos);
  CHECK_EQ(open_on({first_usable()}, why, Progress::caller).error(), EINVAL);
  CHECK(why.find("progress()") != std::string::npos);
  CHECK(open_on({}, why, Progress::caller).ok());
}
