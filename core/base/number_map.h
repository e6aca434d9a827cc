// Numbers to numbers, for lookups on the way of every packet: open addressing in one array, one cache line a
// lookup as a rule. Never iterated, so its order can decide nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace mrc::base {

class NumberMap {
 public:
  // Null if absent; valid until the next insert or erase.
  [[nodiscard]] const uint32_t* find(uint32_t key) const {
    if (size_ == 0) return nullptr;
    for (size_t i = home(key);; i = next(i)) {
      if (!cells_[i].used) return nullptr;
      if (cells_[i].key == key) return &cells_[i].value;
    }
  }
  [[nodiscard]] bool contains(uint32_t key) const { return find(key) != nullptr; }
  [[nodiscard]] size_t size() const { return size_; }
  // The key must be absent.
  void insert(uint32_t key, uint32_t value) {
    if (cells_.size() * 2 <= (size_ + 1) * 3) grow();
    put(key, value);
    ++size_;
  }
  bool erase(uint32_t key) {
    if (size_ == 0) return false;
    size_t i = home(key);
    for (; cells_[i].used && cells_[i].key != key; i = next(i)) {
    }
    if (!cells_[i].used) return false;
    cells_[i].used = false;
    --size_;
    // What came after it in the chain may have been meant for its place.
    for (i = next(i); cells_[i].used; i = next(i)) {
      const Cell c = std::exchange(cells_[i], Cell{});
      put(c.key, c.value);
    }
    return true;
  }

 private:
  struct Cell {
    uint32_t key = 0, value = 0;
    bool used = false;
  };
  [[nodiscard]] size_t home(uint32_t key) const {
    // Keys may be chosen by peers' software: mix, so that a pattern in them makes no long chain.
    uint64_t z = (key + 0x9e3779b97f4a7c15ULL) * 0xbf58476d1ce4e5b9ULL;
    z ^= z >> 32;
    return static_cast<size_t>(z) & (cells_.size() - 1);
  }
  [[nodiscard]] size_t next(size_t i) const { return (i + 1) & (cells_.size() - 1); }
  void put(uint32_t key, uint32_t value) {
    size_t i = home(key);
    while (cells_[i].used) i = next(i);
    cells_[i] = Cell{key, value, true};
  }
  void grow() {
    std::vector<Cell> old(cells_.empty() ? 8 : cells_.size() * 2);
    old.swap(cells_);
    for (const Cell& c : old) {
      if (c.used) put(c.key, c.value);
    }
  }
  std::vector<Cell> cells_;
  size_t size_ = 0;
};

}  // namespace mrc::base
