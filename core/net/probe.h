// What this host offers a driver, found out by trying: no privileges, no traffic beyond loopback, nothing
// left changed. Decides what is looked at and how it is judged; leaves the telling to the command line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mrc::net {

enum class ProbeStatus : uint8_t { ok, warn, missing, unknown };
std::string_view to_string(ProbeStatus s);

struct ProbeItem {
  std::string item;  // stable key: "udp_segment", "rcvbuf", "interface eth0"
  ProbeStatus status = ProbeStatus::unknown;
  std::string value;  // what was found
  std::string hint;   // what it means or what to change; empty when nothing is to be done
};

struct ProbeInterface {
  std::string name;
  uint32_t index = 0, mtu = 0;
  bool up = false, running = false, loopback = false;
  std::vector<std::string> addresses;  // IPv4 first, link-local last and with scope (B28)
};

// The largest path MTU (payload bytes of a packet: 256, 512, 1024, 2048, 4096) whose datagrams fit; 0: none
// does.
uint32_t path_mtu_for_link(uint32_t link_mtu, bool v4);

std::vector<ProbeInterface> probe_interfaces();
// Everything, interfaces included, in a fixed order.
std::vector<ProbeItem> probe_host();

}  // namespace mrc::net
