#include "coll/program.h"

#include <algorithm>

#include "coll/reduce.h"

namespace mrc::coll {

namespace {

bool in_message(const Step& s) { return s.kind == Kind::send || s.kind == Kind::recv; }
bool reads_local(const Step& s) { return s.kind != Kind::recv || combines_long(s); }
bool writes_local(const Step& s) { return s.kind != Kind::send; }
// Combines elements, so that offsets and lengths must be whole ones.
bool computes(const Step& s) {
  return s.kind == Kind::reduce || s.kind == Kind::scale ||
         (s.kind == Kind::recv && (s.flags & kReduce) != 0);
}
uint8_t legal_flags(Kind k) {
  switch (k) {
    case Kind::send:
      return kEager;
    case Kind::recv:
      return kEager | kReduce;
    case Kind::scale:
      return kPremul;
    default:
      return 0;
  }
}

}  // namespace

std::shared_ptr<const Program> Program::compile(ProgramSpec spec, std::string& why) {
  std::shared_ptr<Program> p(new Program);
  if (!p->take(spec, why)) return nullptr;
  p->link(spec);
  return p;
}

bool Program::take(ProgramSpec& spec, std::string& why) {
  const auto no = [&why](const char* text) { return why = text, false; };
  if (spec.dtype >= static_cast<uint32_t>(DType::count_)) return no("the element type is unknown");
  if (spec.op >= static_cast<uint32_t>(Op::count_)) return no("the operator is unknown");
  if (spec.ranks == 0 || spec.ranks > kMaxRanks) return no("ranks: 1 to 65536");
  if (spec.steps.size() > kMaxSteps) return no("more than 1048576 steps");
  if (spec.deps.size() != spec.steps.size()) return no("each step has a list of dependencies");
  if (spec.scratch_bytes > kMaxOffset) return no("the scratch memory is too large");
  if (!spec.prints.empty() && spec.prints.size() != spec.ranks)
    return no("prints: one for each rank, or none");
  if (!spec.bases.empty() && spec.bases.size() != spec.ranks) return no("bases: one for each rank, or none");
  for (const uint64_t base : spec.bases) {
    if (base > kMaxOffset) return no("a base is too large");
  }
  dtype_ = static_cast<DType>(spec.dtype);
  op_ = static_cast<Op>(spec.op);
  ranks_ = spec.ranks;
  scratch_ = spec.scratch_bytes;
  for (uint32_t i = 0; i < spec.steps.size(); ++i) {
    if (check_step(spec, i, why)) continue;
    why = "step " + std::to_string(i) + ": " + why;
    return false;
  }
  steps_ = std::move(spec.steps);
  prints_ = std::move(spec.prints);
  bases_ = std::move(spec.bases);
  return true;
}

bool Program::check_step(const ProgramSpec& spec, uint32_t i, std::string& why) const {
  const Step& s = spec.steps[i];
  const auto no = [&why](const char* text) { return why = text, false; };
  if (s.kind >= Kind::count_) return no("the kind is unknown");
  if ((s.flags & ~legal_flags(s.kind)) != 0) return no("a flag that this kind does not have");
  if (s.src_buf >= Buf::count_ || s.dst_buf >= Buf::count_) return no("the buffer is 0, 1 or 2");
  if (s.src > kMaxOffset || s.dst > kMaxOffset || s.bytes > kMaxOffset)
    return no("an offset or length is too large");
  if (in_message(s)) {
    if (s.peer >= ranks_) return no("there is no such peer");
    if ((s.flags & kEager) != 0 && s.bytes > kEagerMax) return no("an eager message has at most 16384 bytes");
    if (s.bytes > kMessageMax) return no("a message has at most 1 GiB");
    if (s.bytes == 0 && (s.flags & kEager) == 0) return no("a message without bytes has to be eager");
    if (combines_long(s) && (s.src_buf != Buf::scratch || s.dst_buf == Buf::scratch))
      return no("a long message lands in the scratch, and is combined elsewhere");
  }
  if (s.dst_buf == Buf::input && !(s.kind == Kind::send && (s.flags & kEager) != 0) && s.bytes != 0)
    return no("the input is not written to");
  if (reads_local(s) && s.src_buf == Buf::scratch && s.src + s.bytes > scratch_)
    return no("it reads beyond the scratch");
  if (writes_local(s) && s.dst_buf == Buf::scratch && s.dst + s.bytes > scratch_)
    return no("it writes beyond the scratch");
  if (computes(s)) {
    const size_t size = size_of(dtype_);
    if (s.src % size != 0 || s.dst % size != 0 || s.bytes % size != 0) return no("it cuts an element in two");
    if (s.kind == Kind::scale ? !scalable(dtype_) : !supports(dtype_, op_))
      return no("the operator has no meaning for this element type");
  }
  const uint64_t apart = s.src > s.dst ? s.src - s.dst : s.dst - s.src;
  if (!in_message(s) && s.src_buf == s.dst_buf && apart != 0 && apart < s.bytes)
    return no("source and target overlap");
  for (const uint32_t d : spec.deps[i]) {
    if (d >= i) return no("it depends on itself or a later step");
  }
  return true;
}

void Program::cover(const Step& s) {
  const bool eager = (s.flags & kEager) != 0;
  const auto src = static_cast<size_t>(s.src_buf), dst = static_cast<size_t>(s.dst_buf);
  if (reads_local(s)) {
    extent_[src] = std::max(extent_[src], s.src + s.bytes);
    if (s.kind == Kind::send && !eager) sent_from_[src] = true;
  }
  if (writes_local(s) && s.bytes > 0) {
    extent_[dst] = std::max(extent_[dst], s.dst + s.bytes);
    written_[dst] = true;
    if (s.kind == Kind::recv && !eager) remote_[combines_long(s) ? src : dst] = true;
  }
}

void Program::add_message(uint32_t i) {
  const Step& s = steps_[i];
  traffic_ += s.bytes;
  uint32_t& index = by_rank_[s.peer];
  if (index == kNoPeer) {
    index = static_cast<uint32_t>(peers_.size());
    peers_.emplace_back().rank = s.peer;
  }
  peer_of_[i] = index;
  Peer& peer = peers_[index];
  const bool eager = (s.flags & kEager) != 0;
  auto& list = s.kind == Kind::send ? peer.sends : peer.recvs;
  message_of_[i] = static_cast<uint32_t>(list.size());
  list.push_back(i);
  if (s.kind == Kind::send) {
    peer.eager_sends += eager ? 1 : 0;
  } else if (!eager) {
    peer.announce = true;
  }
}

void Program::link(const ProgramSpec& spec) {
  const auto n = static_cast<uint32_t>(steps_.size());
  peer_of_.assign(n, kNoPeer);
  by_rank_.assign(ranks_, kNoPeer);
  message_of_.assign(n, 0);
  waits_.assign(n, 0);
  next_at_.assign(n + 1u, 0);
  for (uint32_t i = 0; i < n; ++i) {
    const Step& s = steps_[i];
    if (in_message(s)) add_message(i);
    cover(s);
    waits_[i] = static_cast<uint32_t>(spec.deps[i].size());
    if (waits_[i] == 0) roots_.push_back(i);
    for (const uint32_t d : spec.deps[i]) ++next_at_[d + 1];
  }
  for (uint32_t i = 0; i < n; ++i) next_at_[i + 1] += next_at_[i];
  next_.resize(next_at_[n]);
  std::vector<uint32_t> at(next_at_.begin(), next_at_.end() - 1);
  for (uint32_t i = 0; i < n; ++i) {
    for (const uint32_t d : spec.deps[i]) next_[at[d]++] = i;
  }
}

}  // namespace mrc::coll
