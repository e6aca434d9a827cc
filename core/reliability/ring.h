// A growable FIFO in one power-of-two array. Holds queued work and pending control packets.
// Decides only where elements lie; its owner bounds the size and says when spare memory goes back.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace mrc::reliability {

template <typename T>
class Ring {
 public:
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] size_t capacity() const { return capacity_; }
  [[nodiscard]] size_t bytes() const { return capacity_ * sizeof(T); }
  T& operator[](size_t i) { return data_[(head_ + i) & (capacity_ - 1)]; }
  const T& operator[](size_t i) const { return data_[(head_ + i) & (capacity_ - 1)]; }
  T& front() { return (*this)[0]; }
  T& back() { return (*this)[size_ - 1]; }

  void push_back(T v) {
    if (size_ == capacity_) resize(capacity_ == 0 ? kFirst : capacity_ * 2);
    data_[(head_ + size_) & (capacity_ - 1)] = std::move(v);
    ++size_;
  }
  void pop_front() {
    head_ = (head_ + 1) & (capacity_ - 1);
    --size_;
  }
  void clear() { size_ = 0; }
  // Gives memory back while at most `keep` elements (a power of two) are held and the array is larger.
  void trim(size_t keep) {
    if (capacity_ > keep && size_ <= keep) resize(keep);
  }

 private:
  static constexpr size_t kFirst = 4;
  void resize(size_t n) {
    std::unique_ptr<T[]> bigger = std::make_unique<T[]>(n);
    for (size_t i = 0; i < size_; ++i) bigger[i] = std::move((*this)[i]);
    data_ = std::move(bigger);
    capacity_ = n;
    head_ = 0;
  }
  std::unique_ptr<T[]> data_;
  size_t capacity_ = 0, head_ = 0, size_ = 0;
};

}  // namespace mrc::reliability
