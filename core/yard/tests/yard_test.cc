// The yardsticks over loopback: they carry what they say they carry, and end when they must.
#include <chrono>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "testing/check.h"
#include "yard/duplex.h"
#include "yard/packet_stream.h"
#include "yard/pingpong.h"
#include "yard/placement.h"
#include "yard/stream.h"
#include "yard/uring.h"
#include "yard/uring_stream.h"

namespace {

using namespace mrc::yard;

constexpr uint16_t kPort = 27310;  // below those that sockets get by themselves
constexpr int kTries = 3;

template <typename E, typename F>
bool throws(F f) {
  try {
    f();
  } catch (const E&) {
    return true;
  }
  return false;
}

struct Run {
  Figures sent, received;
};

// The receiver is bound before the sender starts. Once more when nothing came: a machine whose cores are
// taken away for the whole time that a sender has lets nothing through; one that sends nothing never does.
Run stream(SendConfig s, ReceiveConfig r, uint16_t port) {
  Run run;
  s.to = {{"127.0.0.1", port}};
  r.at = {"127.0.0.1", port};
  for (int i = 0; i < kTries && run.received.bytes == 0; ++i) {
    std::thread sender;
    run.received = receive_stream(r, [&] { sender = std::thread([&] { run.sent = send_stream(s); }); });
    sender.join();
  }
  return run;
}

}  // namespace

TEST_CASE("runs with a window arrive whole, and the clock covers what is counted") {
  SendConfig s;
  s.payload = 1024;
  s.segments = 16;
  s.window = 128;
  s.seconds = 0.5;
  ReceiveConfig r;
  r.ack_every = 16;
  r.warm_up = 0.05;
  r.seconds = 0.2;
  const Run run = stream(s, r, kPort);
  CHECK(run.received.bytes > 0);
  CHECK_EQ(run.received.bytes, run.received.datagrams * 1024);
  CHECK(run.received.seconds >= 0.2);
  CHECK(run.sent.bytes >= run.received.bytes);
  CHECK_EQ(run.sent.bytes, run.sent.datagrams * 1024);
}

TEST_CASE("single datagrams, by sendmmsg and one a call, from and to cold memory") {
  SendConfig s;
  s.payload = 64;
  s.segments = 1;
  s.batch = 32;
  s.window = 256;
  s.cold_bytes = 1 << 20;
  s.seconds = 0.3;
  ReceiveConfig r;
  r.gro = false;
  r.ack_every = 32;
  r.cold_bytes = 1 << 20;
  r.warm_up = 0;
  r.seconds = 0.15;
  const Run many = stream(s, r, kPort + 1);
  CHECK(many.received.datagrams > 0);
  CHECK_EQ(many.received.bytes, many.received.datagrams * 64);
  s.batch = 1;
  r.batch = 1;
  const Run one = stream(s, r, kPort + 2);
  CHECK(one.received.datagrams > 0);
  CHECK_EQ(one.sent.calls >= one.sent.datagrams, true);
}

TEST_CASE("a sender that ends early gives figures for the time it sent; none gives zero") {
  SendConfig s;
  s.window = 120;
  s.seconds = 0.3;
  ReceiveConfig r;
  r.ack_every = 15;
  r.warm_up = 0.05;
  r.seconds = 40;
  const Run run = stream(s, r, kPort + 3);
  CHECK(run.received.bytes > 0);
  CHECK(run.received.seconds < 20);  // those of the sender, not its own
  r.at = {"127.0.0.1", kPort + 4};
  r.patience = 0.05;
  CHECK_EQ(receive_stream(r, {}).bytes, uint64_t{0});
}

TEST_CASE("both ways in two loops") {
  DuplexConfig a;
  a.at = {"127.0.0.1", kPort + 5};
  a.to = {"127.0.0.2", kPort + 6};
  a.payload = 1024;
  a.warm_up = 0.05;
  a.seconds = 0.2;
  a.linger = 0.2;
  DuplexConfig b = a;
  b.at = a.to;
  b.to = a.at;
  b.cold_bytes = 1 << 20;
  Figures fa, fb;
  for (int i = 0; i < kTries && (fa.bytes == 0 || fb.bytes == 0); ++i) {
    std::thread t([&] { fa = run_duplex(a, {}); });
    fb = run_duplex(b, {});
    t.join();
  }
  CHECK(fa.bytes > 0);
  CHECK(fb.bytes > 0);
  CHECK_EQ(fa.bytes, fa.datagrams * 1024);
}

TEST_CASE("round trips, asleep and spinning") {
  for (const bool spin : {false, true}) {
    PongConfig pong;
    pong.at = {"127.0.0.1", static_cast<uint16_t>(kPort + (spin ? 7 : 8))};
    pong.spin = spin;
    pong.seconds = 5;
    PingConfig ping;
    ping.to = pong.at;
    ping.iterations = 200;
    ping.spin = spin;
    ping.seconds = 3;
    RoundTrips r;
    std::thread t;
    const uint64_t answers = answer_pings(pong, [&] { t = std::thread([&] { r = measure_pings(ping); }); });
    t.join();
    CHECK(r.count > 0);
    CHECK(answers >= r.count);
    CHECK(r.min_us > 0);
    CHECK(r.min_us <= r.p50_us && r.p50_us <= r.p90_us && r.p90_us <= r.p99_us);
    CHECK(r.p99_us <= r.p999_us && r.p999_us <= r.max_us);
  }
}

TEST_CASE("nobody there: pings are lost, not waited for") {
  PingConfig ping;
  ping.to = {"127.0.0.1", kPort + 9};
  ping.iterations = 3;
  ping.seconds = 1;
  const RoundTrips r = measure_pings(ping);
  CHECK_EQ(r.count, uint64_t{0});
  CHECK(r.lost >= 1);
}

TEST_CASE("cores are at some distance, and none from themselves") {
  if (std::thread::hardware_concurrency() > 1) CHECK(core_to_core_ns(0, 1) >= 0);
  CHECK(throws<std::invalid_argument>([] { core_to_core_ns(0, 0); }));
  CHECK_EQ(core_to_core_ns(0, 1023), 0.0);
}

TEST_CASE("values out of range are refused") {
  SendConfig s;
  s.to = {{"127.0.0.1", kPort}};
  s.segments = 16;  // 16 x 4160 is more than one run may have
  CHECK(throws<std::invalid_argument>([&] { send_stream(s); }));
  s.segments = 1;
  s.seconds = 0;
  CHECK(throws<std::invalid_argument>([&] { send_stream(s); }));
  s.seconds = 0.01;
  s.to = {{"localhost", kPort}};
  CHECK(throws<std::invalid_argument>([&] { send_stream(s); }));
  s.to.clear();
  CHECK(throws<std::invalid_argument>([&] { send_stream(s); }));
  ReceiveConfig r;
  r.at = {"192.0.2.1", kPort};
  CHECK(throws<std::system_error>([&] { receive_stream(r, {}); }));
  r.batch = 0;
  CHECK(throws<std::invalid_argument>([&] { receive_stream(r, {}); }));
  DuplexConfig d;
  d.window = 0;
  CHECK(throws<std::invalid_argument>([&] { run_duplex(d, {}); }));
}

TEST_CASE("streams by io_uring carry what they say, with sockets at the other end and by themselves") {
  SendConfig s;
  s.to = {{"127.0.0.1", kPort + 20}};
  s.payload = 1024;
  s.segments = 16;
  s.window = 128;
  s.seconds = 0.4;
  ReceiveConfig r;
  r.at = {"127.0.0.1", kPort + 20};
  r.ack_every = 16;
  r.warm_up = 0.05;
  r.seconds = 0.15;
  if (!uring_missing().empty()) {
    CHECK(throws<std::system_error>([&] { (void)send_stream_uring(s, false); }));
    CHECK(throws<std::system_error>([&] { (void)receive_stream_uring(r, {}); }));
    return;
  }
  for (int how = 0; how < 4; ++how) {  // sender and receiver, ring or sockets; the last without copying
    const bool ring_sends = how != 1, ring_receives = how != 0;
    Figures sent, got;
    for (int i = 0; i < kTries && got.bytes == 0; ++i) {
      std::thread sender;
      const auto start = [&] {
        sender = std::thread([&] { sent = ring_sends ? send_stream_uring(s, how == 3) : send_stream(s); });
      };
      got = ring_receives ? receive_stream_uring(r, start) : receive_stream(r, start);
      sender.join();
    }
    CHECK(got.bytes > 0);
    CHECK_EQ(got.bytes, got.datagrams * 1024);
    CHECK(got.seconds >= 0.15);
    CHECK(sent.bytes >= got.bytes);
    CHECK_EQ(sent.bytes, sent.datagrams * 1024);
  }
}

TEST_CASE("a ring takes one destination, and nothing that it would not obey") {
  SendConfig s;
  s.to = {{"127.0.0.1", kPort + 21}, {"127.0.0.1", kPort + 22}};
  CHECK(throws<std::exception>([&] { (void)send_stream_uring(s, false); }));
  ReceiveConfig r;
  r.at = {"127.0.0.1", kPort + 21};
  r.batch = 0;
  CHECK(throws<std::exception>([&] { (void)receive_stream_uring(r, {}); }));
  if (!uring_missing().empty()) return;
  r.batch = 8;
  r.patience = 0.05;
  CHECK_EQ(receive_stream_uring(r, {}).bytes, 0u);
}

TEST_CASE("frames of our own arrive as the datagrams they say they are") {
  SendConfig s;
  s.to = {{"::1", kPort + 23}};
  s.payload = 1024;
  s.segments = 16;
  s.window = 128;
  s.seconds = 0.4;
  ReceiveConfig r;
  r.at = {"::1", kPort + 23};
  r.ack_every = 16;
  r.warm_up = 0.05;
  r.seconds = 0.15;
  if (!packet_missing().empty()) {
    CHECK(throws<std::system_error>([&] { (void)send_stream_packet(s); }));
    return;
  }
  Figures sent, got;
  for (int i = 0; i < kTries && got.bytes == 0; ++i) {
    std::thread sender;
    got = receive_stream(r, [&] { sender = std::thread([&] { sent = send_stream_packet(s); }); });
    sender.join();
  }
  CHECK(got.bytes > 0);
  CHECK_EQ(got.bytes, got.datagrams * 1024);
  CHECK(sent.bytes >= got.bytes);
  // IPv6 alone, one destination, and one that is on a link.
  s.to = {{"127.0.0.1", kPort + 23}};
  CHECK(throws<std::invalid_argument>([&] { (void)send_stream_packet(s); }));
  s.to = {{"::1", kPort + 23}, {"::1", kPort + 24}};
  CHECK(throws<std::invalid_argument>([&] { (void)send_stream_packet(s); }));
}
