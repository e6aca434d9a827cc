// A mutex that serves callers in turn: the I/O thread takes it again at once after each batch, and a plain
// mutex would let it win for ever.
#pragma once

#include <mutex>

namespace mrc::net {

class FairMutex {
 public:
  // Whoever waits for `data_` holds `next_`, so the last owner queues up behind it.
  void lock() {
    const std::lock_guard turn(next_);
    data_.lock();
  }
  void unlock() { data_.unlock(); }

 private:
  std::mutex next_, data_;
};

}  // namespace mrc::net
