#include "ev/policy.h"

#include <cerrno>
#include <map>
#include <mutex>

#include "ev/select_bitmap.h"
#include "ev/select_oblivious.h"
#include "ev/select_rr.h"

namespace mrc::ev {

namespace {

struct Registry {
  std::mutex lock;  // registration may come from any thread of an application
  std::map<std::string, PolicyFactory, std::less<>> factories{
      {"bitmap", &make_bitmap_policy},
      {"bitmap-flat", &make_flat_bitmap_policy},
      {"oblivious", &make_oblivious_policy},
      {"rr", &make_rr_policy},
  };
};
Registry& registry() {
  static Registry r;
  return r;
}

}  // namespace

base::Result<std::unique_ptr<PathPolicy>> make_policy(std::string_view name) {
  Registry& r = registry();
  PolicyFactory make;  // called without the lock: it may be an application's own
  {
    const std::lock_guard guard(r.lock);
    const auto it = r.factories.find(name);
    if (it == r.factories.end()) return base::Result<std::unique_ptr<PathPolicy>>::error(EINVAL);
    make = it->second;
  }
  auto policy = make();
  if (!policy) return base::Result<std::unique_ptr<PathPolicy>>::error(EINVAL);
  return policy;
}

bool known_policy(std::string_view name) {
  Registry& r = registry();
  const std::lock_guard guard(r.lock);
  return r.factories.contains(name);
}

base::Errno register_policy(std::string name, PolicyFactory factory) {
  if (name.empty() || !factory) return EINVAL;
  Registry& r = registry();
  const std::lock_guard guard(r.lock);
  return r.factories.emplace(std::move(name), factory).second ? 0 : EEXIST;
}

std::vector<std::string> policies() {
  Registry& r = registry();
  const std::lock_guard guard(r.lock);
  std::vector<std::string> out;
  for (const auto& [name, factory] : r.factories) out.push_back(name);
  return out;
}

}  // namespace mrc::ev
