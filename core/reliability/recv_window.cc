#include "reliability/recv_window.h"

#include <algorithm>

namespace mrc::reliability {

RecvWindow::RecvWindow(base::Psn rq_psn, uint32_t mpr)
    : rq_psn_(rq_psn), mpr_(std::clamp<uint32_t>(mpr, 1, kMaxPsns)), granted_(cack_ + mpr_) {}

RecvWindow::Verdict RecvWindow::classify(base::Psn psn, int64_t& seq) const {
  const int32_t d = psn.minus(psn_of(cack_));
  if (d == -static_cast<int32_t>(base::Psn::kHalf)) return Verdict::impossible;
  seq = cack_ + d;
  if (d <= 0) return Verdict::old_duplicate;
  if (seq > granted_) return Verdict::above;
  return received(seq) ? Verdict::duplicate : Verdict::fresh;
}

bool RecvWindow::received(int64_t seq) const {
  if (seq <= cack_) return true;
  return seq <= max_rcv_ && ooo_ > 0 && (words_[slot(seq) / 64] >> (seq & 63) & 1) != 0;
}

uint64_t RecvWindow::bits(int64_t seq) const {
  if (seq > max_rcv_ || ooo_ == 0) return 0;
  const uint32_t n = capacity_ / 64;
  const uint32_t w = slot(seq) / 64;
  const auto shift = static_cast<uint32_t>(seq & 63);
  uint64_t v = words_[w] >> shift;
  if (shift != 0) v |= words_[(w + 1) % n] << (64 - shift);
  const int64_t known = max_rcv_ - seq + 1;
  return known >= 64 ? v : v & ((uint64_t{1} << known) - 1);
}

void RecvWindow::resize(uint32_t capacity) {
  auto slots = std::make_unique<RecvSlot[]>(capacity);
  auto words = std::make_unique<uint64_t[]>(capacity / 64);
  for (int64_t s = cack_ + 1; ooo_ > 0 && s <= max_rcv_; ++s) {
    if (!received(s)) continue;
    const uint32_t to = static_cast<uint32_t>(s) & (capacity - 1);
    slots[to] = slots_[slot(s)];
    words[to / 64] |= uint64_t{1} << (to & 63);
  }
  slots_ = std::move(slots);
  words_ = std::move(words);
  capacity_ = capacity;
}

void RecvWindow::mark(int64_t seq, const RecvSlot& s) {
  uint32_t need = std::max(capacity_, kIdleSlots);
  while (int64_t{need} < seq - cack_) need *= 2;
  if (need != capacity_) resize(need);
  slots_[slot(seq)] = s;
  words_[slot(seq) / 64] |= uint64_t{1} << (seq & 63);
  ++ooo_;
  max_rcv_ = std::max(max_rcv_, seq);
}

void RecvWindow::step() {
  const int64_t seq = cack_ + 1;
  if (received(seq)) {
    words_[slot(seq) / 64] &= ~(uint64_t{1} << (seq & 63));
    --ooo_;
  }
  cack_ = seq;
  max_rcv_ = std::max(max_rcv_, seq);
  granted_ = std::max(granted_, cack_ + mpr_);
}

void RecvWindow::set_mpr(uint32_t mpr) {
  mpr_ = std::clamp<uint32_t>(mpr, 1, kMaxPsns);
  granted_ = std::max(granted_, cack_ + mpr_);
}

void RecvWindow::shrink() {
  if (ooo_ > 0 || !oversized()) return;
  slots_.reset();
  words_.reset();
  capacity_ = 0;
}

}  // namespace mrc::reliability
