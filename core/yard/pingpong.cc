#include "yard/pingpong.h"

#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <stdexcept>

namespace mrc::yard {
namespace {

constexpr double kLost = 0.1;
constexpr uint32_t kLargest = 1400;
constexpr uint64_t kWarm = 500;

void set_receive_timeout(const Socket& s, double seconds) {
  const timeval t{0, static_cast<suseconds_t>(seconds * 1e6)};
  setsockopt(s.fd(), SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
}

double at(const std::vector<float>& sorted, double share) {
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return static_cast<double>(sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1]);
}

RoundTrips summary(std::vector<float>& us, uint64_t lost) {
  RoundTrips r;
  r.count = us.size();
  r.lost = lost;
  if (us.empty()) return r;
  std::sort(us.begin(), us.end());
  r.min_us = static_cast<double>(us.front());
  r.p50_us = at(us, 0.50);
  r.p90_us = at(us, 0.90);
  r.p99_us = at(us, 0.99);
  r.p999_us = at(us, 0.999);
  r.max_us = static_cast<double>(us.back());
  return r;
}

// Waits for the answer to `number`; late answers to earlier ones are skipped.
bool await_answer(const Socket& s, uint64_t number, bool spin, double asked) {
  std::array<char, kLargest> buffer{};
  while (true) {
    const ssize_t n = recv(s.fd(), buffer.data(), buffer.size(), spin ? MSG_DONTWAIT : 0);
    uint64_t got = 0;
    if (n >= static_cast<ssize_t>(sizeof got)) {
      std::memcpy(&got, buffer.data(), sizeof got);
      if (got == number) return true;
    }
    if (seconds_now() - asked > kLost) return false;
  }
}

}  // namespace

uint64_t answer_pings(const PongConfig& config, const std::function<void()>& ready) {
  check_seconds(config.seconds);
  const Socket s(parse(config.at), true, {});
  set_receive_timeout(s, kLost);
  if (ready) ready();
  std::array<char, kLargest> buffer{};
  const double start = seconds_now();
  double heard = 0;
  uint64_t answers = 0;
  while (true) {
    Address from;
    from.length = sizeof from.storage;
    const ssize_t n = recvfrom(s.fd(), buffer.data(), buffer.size(), config.spin ? MSG_DONTWAIT : 0,
                               from.raw(), &from.length);
    if (n >= 0) {
      (void)sendto(s.fd(), buffer.data(), static_cast<size_t>(n), 0, from.raw(), from.length);
      ++answers;
    }
    // The clock is read only now: a datagram is answered first.
    const double now = seconds_now();
    if (n >= 0) heard = now;
    if (now - start > config.seconds || (heard > 0 && now - heard > 1)) return answers;
  }
}

RoundTrips measure_pings(const PingConfig& config) {
  check_seconds(config.seconds);
  if (config.bytes < 16 || config.bytes > kLargest) throw std::invalid_argument("bytes must be 16 to 1400");
  if (config.iterations < 1 || config.iterations > 10'000'000) {
    throw std::invalid_argument("iterations must be 1 to 10,000,000");
  }
  const Address to = parse(config.to);
  const Socket s(parse({config.to.address, 0}), false, {});
  s.connect_to(to);
  set_receive_timeout(s, kLost);
  const uint64_t warm = std::min<uint64_t>(config.iterations / 10, kWarm), all = warm + config.iterations;
  std::vector<float> us;
  us.reserve(config.iterations);
  std::array<char, kLargest> buffer{};
  const double start = seconds_now();
  uint64_t lost = 0;
  for (uint64_t i = 0; i < all; ++i) {
    std::memcpy(buffer.data(), &i, sizeof i);
    const double asked = seconds_now();
    if (asked - start > config.seconds) break;
    const bool sent = send(s.fd(), buffer.data(), config.bytes, 0) >= 0;
    if (!sent || !await_answer(s, i, config.spin, asked)) {
      ++lost;
    } else if (i >= warm) {
      us.push_back(static_cast<float>((seconds_now() - asked) * 1e6));
    }
  }
  return summary(us, lost);
}

}  // namespace mrc::yard
