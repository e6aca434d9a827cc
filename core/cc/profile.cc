// A change is tried on a copy and kept only whole.
#include "cc/profile.h"

#include <cerrno>

namespace mrc::cc {

using base::Errno;
using base::ProfileState;

namespace {

bool allowed(const CcProfile& p, const CcProfileChange& c, const CcProfileLimits& limits) {
  const bool gives = c.algorithm || c.config;
  if (c.state == ProfileState::init && gives) return false;  // INIT forgets all of it
  if (p.state != ProfileState::online) return true;
  return !c.algorithm && (!c.config || limits.modify_online);
}

}  // namespace

Errno CcProfileStore::modify(uint64_t id, const CcProfileChange& c) {
  CcProfile p = query(id);
  if (c.cur_state && *c.cur_state != p.state) return EINVAL;
  if (!allowed(p, c, limits_)) return EINVAL;
  if (c.algorithm) p.algorithm = c.algorithm;
  if (c.config) p.config = c.config;
  if (const Errno e = check_config(p.algorithm.value_or(""), p.config.value_or(CcConfig{}))) return e;
  if (c.state) {
    const Errno e =
        base::transition(p.state, *c.state, p.algorithm.has_value(), p.config.has_value(), p.users > 0);
    if (e != 0) return e;
    p.state = *c.state;
  }
  if (p.state == ProfileState::init && (c.state || (!p.algorithm && !p.config))) {
    profiles_.erase(id);
    return 0;
  }
  if (!profiles_.contains(id) && profiles_.size() >= limits_.max_profiles) return EINVAL;
  profiles_[id] = std::move(p);
  return 0;
}

CcProfile CcProfileStore::query(uint64_t id) const {
  const auto it = profiles_.find(id);
  return it == profiles_.end() ? CcProfile{} : it->second;
}

base::Result<CcProfile> CcProfileStore::hold(uint64_t id) {
  const auto it = profiles_.find(id);
  if (it == profiles_.end() || it->second.state != ProfileState::online) {
    return base::Result<CcProfile>::error(EINVAL);
  }
  ++it->second.users;
  return it->second;
}

void CcProfileStore::release(uint64_t id) {
  const auto it = profiles_.find(id);
  if (it != profiles_.end() && it->second.users > 0) --it->second.users;
}

std::vector<uint64_t> CcProfileStore::ids() const {
  std::vector<uint64_t> out;
  out.reserve(profiles_.size());
  for (const auto& [id, profile] : profiles_) out.push_back(id);
  return out;
}

}  // namespace mrc::cc
