#include "engine/mr_table.h"

#include <cerrno>

#include "testing/check.h"

using mrc::base::Rng;
using mrc::engine::Access;
using mrc::engine::MrTable;

TEST_CASE("remote writes are held inside the region, its domain and its rights") {
  MrTable t(Rng(1), 100);
  const auto mr = t.add(7, 0x10000, 4096, Access::local_write | Access::remote_write, 0x500000);
  REQUIRE(mr.ok());
  const uint32_t key = mr.value().rkey;
  CHECK(t.remote_write(key, 7, 0x500000, 4096) != nullptr);
  CHECK(t.remote_write(key, 7, 0x500FFF, 1) != nullptr);
  CHECK(t.remote_write(key, 7, 0x500FFF, 2) == nullptr);
  CHECK(t.remote_write(key, 7, 0x4FFFFF, 1) == nullptr);
  CHECK(t.remote_write(key, 7, 0xFFFFFFFFFFFFFFFF, 2) == nullptr);
  CHECK(t.remote_write(key, 7, 0x500000, 0xFFFFFFFF) == nullptr);
  CHECK(t.remote_write(key, 8, 0x500000, 1) == nullptr);
  CHECK(t.remote_write(key ^ 1, 7, 0x500000, 1) == nullptr);
  const auto ro = t.add(7, 0x20000, 64, Access::local_write, 0x20000);
  CHECK(t.remote_write(ro.value().rkey, 7, 0x20000, 1) == nullptr);
}

TEST_CASE("a region in use stays, keys are not reused at once, bad ranges are refused") {
  MrTable t(Rng(2), 2);
  CHECK_EQ(t.add(1, 0, 0, 0, 0).error(), EINVAL);
  CHECK_EQ(t.add(1, 0xFFFFFFFFFFFFFFF0, 64, Access::local_write, 0).error(), EINVAL);
  CHECK_EQ(t.add(1, 0x1000, 64, Access::remote_write, 0).error(), EINVAL);
  const auto a = t.add(1, 0x1000, 64, Access::local_write, 0x1000);
  auto* r = t.local(a.value().lkey, 1, 0x1010, 0x30);
  REQUIRE(r != nullptr);
  CHECK(t.local(a.value().lkey, 1, 0x1010, 0x31) == nullptr);
  CHECK(t.local(a.value().lkey, 2, 0x1010, 1) == nullptr);
  ++r->in_use;
  CHECK_EQ(t.remove(a.value().lkey), EBUSY);
  t.unpin(a.value().lkey);
  CHECK_EQ(t.remove(a.value().lkey), 0);
  CHECK_EQ(t.remove(a.value().lkey), EINVAL);
  const auto b = t.add(1, 0x1000, 64, Access::local_write, 0x1000);
  CHECK(b.value().lkey != a.value().lkey);
  t.add(1, 0x2000, 64, Access::local_write, 0x2000);
  CHECK_EQ(t.add(1, 0x3000, 64, Access::local_write, 0x3000).error(), ENOMEM);
}
