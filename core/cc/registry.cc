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
  if (!fraction(c.gamma) || !fraction(c.max_md_jump) || !fraction(c.avg_weight) || !fraction(c.clear_delay_fraction)) return EINVAL;
  if (!(c.eta >= 0) || !(c.fi >= 0) || !(c.fi_scale >= 0)) return EINVAL;   // also refuses NaN
  if (c.max_cwnd < 0 || c.adjust_bytes_threshold < 0 || c.qa_gate > 62) return EINVAL;
  for (const base::Duration d : {c.adjust_period_threshold, c.base_rtt, c.qa_threshold, c.target_delay, c.min_base_rtt}) {
    if (d.ns < 0) return EINVAL;
  }
  Registry& r = registry();
  const std::lock_guard guard(r.lock);
  return algorithm.empty() || r.factories.contains(algorithm) ? 0 : EINVAL;
}

base::Result<std::unique_ptr<Controller>> make_controller(std::string_view algorithm, const CcConfig& config, const LinkParams& link,
                                                          base::Instant now) {
  using R = base::Result<std::unique_ptr<Controller>>;
  if (const base::Errno e = check_config(algorithm, config)) return R::error(e);
  if (link.bytes_per_second <= 0 || link.mtu <= 0 || link.base_rtt.ns <= 0) return R::error(EINVAL);
  Registry& r = registry();
  const std::lock_guard guard(r.lock);
  return r.factories.find(algorithm.empty() ? "null" : algorithm)->second(config, link, now);
}

std::vector<std::string> algorithms() {
  Registry& r = registry();
  const std::lock_guard guard(r.lock);
  std::vector<std::string> out;
  for (const auto& [name, factory] : r.factories) out.push_back(name);
  return out;
}

base::Errno register_controller(std::string name, Factory factory) {
  Registry& r = registry();
  const std::lock_guard guard(r.lock);
  return r.factories.emplace(std::move(name), factory).second ? 0 : EEXIST;
}

}  // namespace mrc::cc
