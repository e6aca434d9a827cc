// The streams of stream.h by io_uring: UDP_SEGMENT runs as SENDMSG entries, one multishot RECVMSG into
// buffers that the kernel takes in order. Decides which of its features are used; leaves the rings to
// uring.h.
#pragma once

#include <functional>

#include "yard/stream.h"

namespace mrc::yard {

// One destination, no labels; `batch` has no meaning: what the window allows goes out with one call. With
// `zero_copy` payload is not copied where the device allows it. Throws as send_stream(), and
// std::system_error (ENOSYS) where there is no io_uring.
Figures send_stream_uring(const SendConfig& config, bool zero_copy);
// `batch`: buffers of 64 KiB beyond those that cold memory takes.
Figures receive_stream_uring(const ReceiveConfig& config, const std::function<void()>& ready);

}  // namespace mrc::yard
