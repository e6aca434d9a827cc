#include "ev/policy.h"

#include <cerrno>
#include <map>
#include <mutex>

#include "ev/select_bitmap.h"
#include "ev/select_rr.h"

namespace mrc::ev {

namespace {

struct Registry {
  std::mutex lock;  // registration may come from any thread of an application
  std::map<std::string, PolicyFactory, std::less<>> factories{
      {"bitmap", &make_bitmap_policy},
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
  const std::lock_guard guard(r.lock);
  const auto it = r.factories.find(name);
  if (it == r.factories.end()) return base::Result<std::unique_ptr<PathPolicy>>::error(EINVAL);
  return it->second();
}

base::Errno register_policy(std::string name, PolicyFactory factory) {
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
