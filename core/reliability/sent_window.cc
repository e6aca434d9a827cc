#include "reliability/sent_window.h"

#include <algorithm>
#include <bit>

namespace mrc::reliability {

namespace {
constexpr uint64_t bit(uint32_t slot) { return uint64_t{1} << (slot & 63); }
}  // namespace

void SentWindow::resize(uint32_t capacity) {
  auto records = std::make_unique<SentRecord[]>(capacity);
  const size_t words = (capacity + 63) / 64;
  auto ready = std::make_unique<uint64_t[]>(words);
  auto held = std::make_unique<uint64_t[]>(words);
  // Acknowledged records still serve late timestamps, so as many as fit move along.
  const int64_t from = std::max({valid_from_, next_ - int64_t{capacity_}, next_ - int64_t{capacity}});
  for (int64_t s = from; s < next_; ++s) {
    const uint32_t old_slot = slot(s);
    const uint32_t new_slot = static_cast<uint32_t>(s) & (capacity - 1);
    records[new_slot] = records_[old_slot];
    if (ready_bits_[old_slot / 64] & bit(old_slot)) ready[new_slot / 64] |= bit(new_slot);
    if (held_bits_[old_slot / 64] & bit(old_slot)) held[new_slot / 64] |= bit(new_slot);
  }
  records_ = std::move(records);
  ready_bits_ = std::move(ready);
  held_bits_ = std::move(held);
  capacity_ = capacity;
  valid_from_ = from;
}

SentRecord& SentWindow::append() {
  if (next_ - unack_ - 1 >= int64_t{capacity_}) resize(capacity_ == 0 ? kIdleRecords : capacity_ * 2);
  SentRecord& r = records_[slot(next_)];
  r = SentRecord{};
  ++next_;
  return r;
}

void SentWindow::link_newest(int64_t seq) {
  SentRecord& r = at(seq);
  r.state = SentState::inflight;
  if (tail_ == kNone) {
    head_ = seq;
  } else {
    at(tail_).next = static_cast<uint16_t>(seq);
    r.prev = static_cast<uint16_t>(tail_);
  }
  tail_ = seq;
}

void SentWindow::unlink(int64_t seq) {
  const SentRecord& r = at(seq);
  const int64_t before = seq == head_ ? kNone : widen(r.prev);
  const int64_t after = seq == tail_ ? kNone : widen(r.next);
  if (before == kNone) {
    head_ = after;
  } else {
    at(before).next = static_cast<uint16_t>(after);
  }
  if (after == kNone) {
    tail_ = before;
  } else {
    at(after).prev = static_cast<uint16_t>(before);
  }
}

void SentWindow::set_ready(int64_t seq) {
  ready_bits_[slot(seq) / 64] |= bit(slot(seq));
  ++ready_count_;
}

void SentWindow::queue(int64_t seq, base::Instant held_until) {
  SentRecord& r = at(seq);
  r.state = SentState::lost;
  r.held_until = held_until;
  if (held_until.ns <= 0) {
    set_ready(seq);
    return;
  }
  held_bits_[slot(seq) / 64] |= bit(slot(seq));
  next_release_ = held_count_ == 0 ? held_until : std::min(next_release_, held_until);
  ++held_count_;
}

void SentWindow::unqueue(int64_t seq) {
  const uint32_t s = slot(seq);
  if (ready_bits_[s / 64] & bit(s)) {
    ready_bits_[s / 64] &= ~bit(s);
    --ready_count_;
  } else if (held_bits_[s / 64] & bit(s)) {
    held_bits_[s / 64] &= ~bit(s);
    --held_count_;
  }
}

void SentWindow::promote(base::Instant now) {
  if (held_count_ == 0 || now < next_release_) return;
  next_release_ = base::Instant::never();
  for (size_t w = 0; w < words(); ++w) {
    for (uint64_t left = held_bits_[w]; left != 0; left &= left - 1) {
      const auto s = static_cast<uint32_t>(w * 64 + static_cast<size_t>(std::countr_zero(left)));
      SentRecord& r = records_[s];
      if (r.held_until > now) {
        next_release_ = std::min(next_release_, r.held_until);
        continue;
      }
      held_bits_[w] &= ~bit(s);
      --held_count_;
      ready_bits_[w] |= bit(s);
      ++ready_count_;
    }
  }
}

void SentWindow::release_until_progress() {
  if (held_count_ == 0) return;
  for (size_t w = 0; w < words(); ++w) {
    for (uint64_t left = held_bits_[w]; left != 0; left &= left - 1) {
      const auto s = static_cast<uint32_t>(w * 64 + static_cast<size_t>(std::countr_zero(left)));
      if (!records_[s].until_progress) continue;
      held_bits_[w] &= ~bit(s);
      --held_count_;
      ready_bits_[w] |= bit(s);
      ++ready_count_;
    }
  }
}

int64_t SentWindow::first_ready(base::Instant now) {
  promote(now);
  if (ready_count_ == 0) return kNone;
  const uint32_t start = slot(unack_ + 1);
  const size_t n = words();
  // The word of `start` is visited twice: its high part first, its low part after the wrap.
  for (size_t i = 0; i <= n; ++i) {
    const size_t w = (start / 64 + i) % n;
    uint64_t bits = ready_bits_[w];
    const uint64_t below = bit(start) - 1;
    if (i == 0) bits &= ~below;
    if (i == n) bits &= below;
    if (bits == 0) continue;
    const auto s = static_cast<uint32_t>(w * 64 + static_cast<size_t>(std::countr_zero(bits)));
    return unack_ + 1 + ((s - start) & (capacity_ - 1));
  }
  return kNone;
}

void SentWindow::abandon() {
  unack_ = next_ - 1;
  head_ = tail_ = kNone;
  ready_count_ = held_count_ = 0;
  records_.reset();
  ready_bits_.reset();
  held_bits_.reset();
  capacity_ = 0;
  valid_from_ = next_;
}

void SentWindow::shrink() {
  if (empty() && capacity_ > kIdleRecords) resize(kIdleRecords);
}

}  // namespace mrc::reliability
