#include "testing/chaos_harm.h"

#include <cstdio>

namespace mrc::testing {

Harm::Harm(uint64_t seed, const PairConfig& pair, const HarmConfig& config, std::vector<uint32_t> without)
    : rng_(seed), pair_(pair), config_(config), without_(std::move(without)) {
  next_ = Instant{} + Duration::micros(rng_.below(200));
}

Instant Harm::heal_at() const {
  Instant at = Instant::never();
  for (const Heal& h : heals_) at = std::min(at, h.at);
  return at;
}

void Harm::forget_ports(int side) {
  std::erase_if(heals_, [side](const Heal& h) { return h.side == side; });
}

impair::Rule Harm::draw_rule(base::Rng& r, Instant now) {
  impair::Rule rule;
  const uint32_t scope = r.below(4);  // one path, one plane (twice as likely), everything
  rule.port = scope == 3 ? 0 : static_cast<uint8_t>(1 + r.below(pair_.planes));
  if (scope == 0) {
    const uint32_t k = r.below(pair_.evs_per_plane);
    const uint32_t tag = 2048u + rule.port * 256u + k;
    rule.ev = pair_.ipv4 ? tag : (static_cast<uint32_t>(rule.port) << 24) | (k << 16) | tag;
  }
  rule.dir = std::array<impair::Dir, 4>{impair::Dir::tx, impair::Dir::rx, impair::Dir::both,
                                        impair::Dir::both}[r.below(4)];
  rule.from = now;
  // Mostly about a round trip to a few; now and then long enough for back-offs to grow.
  rule.until = now + Duration::micros(20 + r.below(r.below(10) == 0 ? 20'000 : 1'500));
  const uint32_t kind = r.below(9);
  // Total loss is left to cuts of one plane; on everything at once it would only stop time.
  const uint32_t heavy = scope == 3 ? 300'000 : 1'000'000;
  switch (kind) {
    case 0:
      rule.drop_ppm = r.below(heavy);
      break;
    case 1:
      rule.dup_ppm = r.below(500'000);
      break;
    case 2:
      rule.reorder_ppm = r.below(500'000);
      rule.reorder_delay = Duration::micros(1 + r.below(300));
      break;
    case 3:
      rule.corrupt_ppm = r.below(heavy / 2);
      break;
    case 4:
      if (config_.trimming) rule.trim_ppm = r.below(700'000);
      break;
    case 5:
      rule.ce_ppm = r.below(1'000'000);
      break;
    case 6:
      rule.delay = Duration::micros(r.below(400));
      rule.jitter = Duration::micros(r.below(200));
      break;
    case 7:
      rule.rate_bps = 100'000'000ULL * (1 + r.below(100));
      rule.queue_bytes = 3000 + r.below(200'000);
      rule.ecn_bytes = rule.queue_bytes / 4;
      rule.trim_on_overflow = config_.trimming && r.below(2) == 0;
      break;
    default:
      if (scope == 3) {
        rule.drop_ppm = 100'000;
      } else {
        rule.down = true;
      }
      break;
  }
  return rule;
}

HarmStep Harm::draw(Instant now) {
  base::Rng r = rng_.fork();  // a fixed number of draws from rng_ an action
  HarmStep h;
  h.index = index_++;
  const uint32_t kind = r.below(100);
  char b[200];
  if (kind < 77) {
    h.kind = HarmStep::Kind::rule;
    h.rule = draw_rule(r, now);
    std::snprintf(b, sizeof b,
                  "rule port=%u ev=%s dir=%d for %lld us: drop=%u dup=%u reorder=%u corrupt=%u trim=%u ce=%u "
                  "delay=%lld us rate=%llu down=%d",
                  h.rule.port, h.rule.ev ? std::to_string(*h.rule.ev).c_str() : "any",
                  static_cast<int>(h.rule.dir),
                  static_cast<long long>((h.rule.until - h.rule.from).ns / 1000), h.rule.drop_ppm,
                  h.rule.dup_ppm, h.rule.reorder_ppm, h.rule.corrupt_ppm, h.rule.trim_ppm, h.rule.ce_ppm,
                  static_cast<long long>(h.rule.delay.ns / 1000),
                  static_cast<unsigned long long>(h.rule.rate_bps), h.rule.down);
  } else if (kind < 89) {
    h.kind = HarmStep::Kind::port;
    h.side = static_cast<int>(r.below(2));
    h.port = static_cast<uint8_t>(1 + r.below(pair_.planes));
    const Duration away = Duration::micros(10 + r.below(r.below(10) == 0 ? 10'000 : 1'000));
    if (!left_out(h.index)) heals_.push_back({now + away, h.side, h.port, h.index});
    std::snprintf(b, sizeof b, "side %d port %u down for %lld us", h.side, h.port,
                  static_cast<long long>(away.ns / 1000));
  } else if (kind < 92) {
    h.kind = HarmStep::Kind::pressure;
    h.side = static_cast<int>(r.below(2));
    h.pressure = std::array<uint8_t, 4>{0, 0, 70, 95}[r.below(4)];
    std::snprintf(b, sizeof b, "side %d receive queue %u %% full", h.side, h.pressure);
  } else if (kind < 98) {
    h.kind = config_.dynamic_mpr ? HarmStep::Kind::mpr : HarmStep::Kind::none;
    h.side = static_cast<int>(r.below(2));
    h.mpr = static_cast<uint8_t>(1 + r.below(32));
    std::snprintf(b, sizeof b, "side %d advertises mpr %u", h.side, h.mpr);
  } else {
    h.kind = HarmStep::Kind::restart;
    h.side = static_cast<int>(r.below(2));
    std::snprintf(b, sizeof b, "side %d restarts", h.side);
  }
  h.text = b;
  return h;
}

HarmStep Harm::take(Instant now) {
  const auto due = std::min_element(heals_.begin(), heals_.end(),
                                    [](const Heal& a, const Heal& b) { return a.at < b.at; });
  if (due != heals_.end() && due->at <= now) {
    HarmStep h;
    h.kind = HarmStep::Kind::port;
    h.index = due->index;
    h.side = due->side;
    h.port = due->port;
    h.up = true;
    h.text = "side " + std::to_string(h.side) + " port " + std::to_string(h.port) + " up again";
    heals_.erase(due);
    return h;
  }
  if (now < next_) return {};
  next_ = now + Duration::micros(1 + rng_.below(static_cast<uint32_t>(2 * config_.mean_gap.ns / 1000)));
  HarmStep h = draw(now);
  if (left_out(h.index)) h.kind = HarmStep::Kind::none;
  return h;
}

}  // namespace mrc::testing
