// What goes wrong in a run, and when hosts notice.
#include <algorithm>
#include <cmath>

#include "sim/simulation.h"

namespace mrc::sim {

std::string Simulation::plan_faults() {
  const uint32_t links = fabric_.port_count() / 2;
  for (size_t i = 0; i < spec_.faults.size(); ++i) {
    const FaultSpec& f = spec_.faults[i];
    const std::string which = "fault " + std::to_string(i);
    const bool of_switch = f.kind == FaultKind::switch_down || f.kind == FaultKind::switch_up;
    if (f.at_ns < 0) return which + ": before the start";
    if (of_switch && (f.target < fabric_.hosts() || f.target >= fabric_.nodes()))
      return which + ": no such switch";
    if (!of_switch && f.target >= links) return which + ": no such link";
    const bool share = f.kind == FaultKind::link_loss || f.kind == FaultKind::link_corrupt;
    if (share && !(f.value >= 0 && f.value <= 1)) return which + ": a probability is 0 to 1";
    if (f.kind == FaultKind::link_rate && !(f.value > 1e-6 && f.value <= 1))
      return which + ": a rate is 0.000001 to 1 of the full one";
    Event e{from_ns(f.at_ns), f, false};
    events_.push_back(e);
    const bool edge = f.kind == FaultKind::link_down || f.kind == FaultKind::link_up ||
                      f.kind == FaultKind::port_down || f.kind == FaultKind::port_up;
    if (edge && fabric_.is_host(fabric_.port(2 * f.target).from) && f.directions == 3) {
      e.at += from_ns(spec_.port_notice_ns);
      e.notice = true;
      events_.push_back(e);
    }
  }
  std::stable_sort(events_.begin(), events_.end(),
                   [](const Event& x, const Event& y) { return x.at < y.at; });
  return {};
}

void Simulation::set_link(PortId id, bool up) {
  Port& p = fabric_.port(id);
  p.up = up;
  if (up || coupled_) return;  // coupled.h keeps its own books and drops when it serves the port
  for (Fifo* q : {&p.control, &p.data}) {
    while (!q->empty()) {
      ++p.n.lost;
      lose(pop(pool_, *q), totals_.drops_link);
    }
  }
}

void Simulation::apply(const Event& e, uint32_t which) {
  const FaultSpec& f = e.what;
  const auto ppb = static_cast<uint32_t>(std::lround(f.value * 1e9));
  if (f.kind == FaultKind::switch_down || f.kind == FaultKind::switch_up) {
    if (side_of(f.target) == which) fabric_.set_switch_up(f.target, f.kind == FaultKind::switch_up);
    any_switch_down_ = true;  // from now on arrivals ask
    return;
  }
  const bool up = f.kind == FaultKind::link_up || f.kind == FaultKind::port_up;
  if (e.notice) {
    if (which != 0) return;  // hosts are on side 0
    const Port& p = fabric_.port(2 * f.target);
    // The state now, not the one that this fault meant: the link may have changed again since.
    hosts_->on_port(e.at, p.from, p.plane, p.up);
    wake(p.from, e.at);
    return;
  }
  for (uint32_t dir = 0; dir < 2; ++dir) {
    if ((f.directions >> dir & 1) == 0) continue;
    Port& p = fabric_.port(2 * f.target + dir);
    if (side_of(p.from) != which) continue;
    switch (f.kind) {
      case FaultKind::link_loss:
        p.loss_ppb = ppb;
        break;
      case FaultKind::link_corrupt:
        p.corrupt_ppb = ppb;
        break;
      case FaultKind::link_rate:
        // A slow link may become slower than the fixed point can say.
        p.per_byte = static_cast<ByteTime>(std::min(static_cast<double>(p.full_per_byte) / f.value, 0x1p62));
        break;
      default:
        p.unseen = !up && f.directions != 3;
        set_link(2 * f.target + dir, up);
    }
    p.lossy = p.loss_ppb != 0 || p.corrupt_ppb != 0;
  }
}

}  // namespace mrc::sim
