// The sender of stream.h below UDP and IP: runs as frames of our own through AF_PACKET, cut up by the kernel
// as UDP_SEGMENT runs are. Decides the headers and how the next hop is found; leaves receiving to stream.h.
#pragma once

#include <string>

#include "yard/stream.h"

namespace mrc::yard {

// Why no such socket can be opened here; "": one can. It takes CAP_NET_RAW.
std::string packet_missing();

// One IPv6 destination on a link of this host, no labels; `batch` and `from` have no meaning. Throws as
// send_stream(), and std::system_error where a socket, the interface or the neighbour cannot be had.
Figures send_stream_packet(const SendConfig& config);

}  // namespace mrc::yard
