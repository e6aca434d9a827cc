#include "base/number_map.h"

#include <map>

#include "base/rng.h"
#include "testing/check.h"

using mrc::base::NumberMap;
using mrc::base::Rng;

TEST_CASE("number map: agrees with std::map through inserts and erases") {
  NumberMap m;
  std::map<uint32_t, uint32_t> model;
  Rng rng(7);
  for (int i = 0; i < 20'000; ++i) {
    // Few keys, close together, and both ends of the range: chains that wrap and overlap.
    const uint32_t key = rng.below(2) == 0 ? rng.below(300) : UINT32_MAX - rng.below(300);
    const auto it = model.find(key);
    CHECK_EQ(m.contains(key), it != model.end());
    if (it != model.end()) CHECK_EQ(*m.find(key), it->second);
    if (it == model.end() && rng.below(3) != 0) {
      m.insert(key, static_cast<uint32_t>(i));
      model.emplace(key, i);
    } else {
      CHECK_EQ(m.erase(key), model.erase(key) == 1);
    }
    CHECK_EQ(m.size(), model.size());
  }
  for (const auto& [key, value] : model) CHECK_EQ(*m.find(key), value);
}

TEST_CASE("number map: empty") {
  NumberMap m;
  CHECK(m.find(0) == nullptr);
  CHECK(!m.erase(0));
}
