// Congestion control algorithms by name, and the sanity of their configuration (reference 12.4).
#include <cerrno>
#include <map>
#include <mutex>

#include "cc/fixed_window.h"
#include "cc/nscc.h"

namespace mrc::cc {

namespace {

template <typename T>
std::unique_ptr<Controller> make(const CcConfig& c, const LinkParams& l, base::Instant now) {
  return std::make_unique<T>(c, l, now);
}

// Far above any link; bounded so that no sum or product of settings leaves its type.
constexpr int64_t kMaxBytes = int64_t{1} << 50;
constexpr base::Duration kMaxTime = base::Duration::seconds(3600);

struct Registry {
  std::mutex lock;
  std::map<std::string, Factory, std::less<>> factories{
      {"uet-1.0-nscc", &make<Nscc>},
      {"fixed-window", &make<FixedWindow>},
      {"null", &make<NoControl>},
  };
};
Registry& registry() {
  static Registry r;
  return r;
}

}  // namespace

base::Errno check_config(std::string_view algorithm, const CcConfig& c) {
  const auto fraction = [](double v) { return v >= 0 && v <= 1; };
  const auto size = [](double v) { return v >= 0 && v <= kMaxBytes; };  // also refuses NaN
  if (!fraction(c.gamma) || !fraction(c.max_md_jump) || !fraction(c.avg_weight)) return EINVAL;
  if (!fraction(c.clear_delay_fraction)) return EINVAL;
  if (!size(c.eta) || !size(c.fi) || !size(c.fi_scale)) return EINVAL;
  if (c.max_cwnd < 0 || c.max_cwnd > kMaxBytes || c.adjust_bytes_threshold < 0 || c.qa_gate > 62)
    return EINVAL;
  for (const base::Duration d :
       {c.adjust_period_threshold, c.base_rtt, c.qa_threshold, c.target_delay, c.min_base_rtt}) {
    if (d.ns < 0 || d > kMaxTime) return EINVAL;
  }
  Registry& r = registry();
  const std::lock_guard guard(r.lock);
  return algorithm.empty() || r.factories.contains(algorithm) ? 0 : EINVAL;
}

base::Result<std::unique_ptr<Controller>> make_controller(std::string_view algorithm, const CcConfig& config,
                                                          const LinkParams& link, base::Instant now) {
  using R = base::Result<std::unique_ptr<Controller>>;
  if (const base::Errno e = check_config(algorithm, config)) return R::error(e);
  if (link.bytes_per_second <= 0 || link.bytes_per_second > kMaxBytes) return R::error(EINVAL);
  if (link.mtu <= 0 || link.mtu > kMaxBytes) return R::error(EINVAL);
  if (link.base_rtt.ns <= 0 || link.base_rtt > kMaxTime) return R::error(EINVAL);
  Factory make;  // called without the lock: it may be an application's own
  {
    Registry& r = registry();
    const std::lock_guard guard(r.lock);
    make = r.factories.find(algorithm.empty() ? "null" : algorithm)->second;
  }
  auto controller = make(config, link, now);
  if (!controller) return R::error(EINVAL);
  return controller;
}

std::vector<std::string> algorithms() {
  Registry& r = registry();
  const std::lock_guard guard(r.lock);
  std::vector<std::string> out;
  out.reserve(r.factories.size());
  for (const auto& [name, factory] : r.factories) out.push_back(name);
  return out;
}

base::Errno register_controller(std::string name, Factory factory) {
  if (name.empty() || !factory) return EINVAL;
  Registry& r = registry();
  const std::lock_guard guard(r.lock);
  return r.factories.emplace(std::move(name), factory).second ? 0 : EEXIST;
}

}  // namespace mrc::cc
