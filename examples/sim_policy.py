"""A path policy and a congestion controller of one's own, in the simulator.

Run: .venv/bin/python examples/sim_policy.py
As a plugin of a scenario: plugins = ["sim_policy.py"], then transport.policy = "example-rr".
"""

from __future__ import annotations

from softmrc.sim.builder import Builder
from softmrc.sim.config import Clos, Fault, Mrc
from softmrc.sim.policies import (
    Ack,
    Link,
    Loss,
    Nack,
    PathPolicy,
    Slots,
    WindowController,
    register_controller,
    register_policy,
)
from softmrc.sim.run import simulate


class RoundRobin(PathPolicy):
    """All EVs in turn, blind to planes: what the engine has as "rr"."""

    def __init__(self) -> None:
        self.at = 0

    def reset(self, slots: Slots) -> None:
        """Begin anywhere, so that senders do not start in step."""
        self.at = slots.below(len(slots))

    def next(self, slots: Slots, ports: int, avoid: int | None) -> int | None:
        """Take the next good EV whose plane is free; pass over the first marked one."""
        avoided = None
        cleared = False
        for _ in range(len(slots)):
            self.at = (self.at + 1) % len(slots)
            if not ports >> slots.port(self.at) & 1:
                continue
            if slots.skip(self.at) and not cleared:
                slots.clear_skip(self.at)
                cleared = True
                continue
            if not slots.good(self.at):
                continue
            if avoid is None or slots.tag(self.at) != avoid:
                return self.at
            avoided = self.at
        return avoided


class FixedWindow(WindowController):
    """A window that never moves: what the engine has as "fixed-window"."""

    def on_link(self, now_ns: int, link: Link) -> None:
        """Fit the window to the planes that are left."""
        super().on_link(now_ns, link)
        self.window = self.first_window(link)


class HalveOnMark(WindowController):
    """Half the window on a mark or trim, at most once a base RTT; one packet more for each window acknowledged."""

    cut_ns = 0

    def on_ack(self, event: Ack) -> None:
        """Grow, or shrink on a mark."""
        super().on_ack(event)
        if event.ecn:
            self._cut(event.now_ns)
        else:
            grown = self.window + self.link.mtu * event.newly_bytes // self.window
            self.window = min(grown, self.first_window(self.link))

    def on_nack(self, event: Nack) -> None:
        """Shrink on a trim."""
        super().on_nack(event)
        self._cut(event.now_ns)

    def on_loss(self, event: Loss) -> None:
        """Shrink on a loss, unless a plane has failed."""
        super().on_loss(event)
        if not event.failure:
            self._cut(event.now_ns)

    def _cut(self, now_ns: int) -> None:
        if now_ns - self.cut_ns >= self.base_rtt_ns:
            self.cut_ns = now_ns
            self.window = max(self.window // 2, self.link.mtu)


register_policy("example-rr", RoundRobin)
register_controller("example-fixed-window", FixedWindow)
register_controller("example-halve-on-mark", HalveOnMark)


def main() -> None:
    """Four senders, one receiver, a link that loses packets: the engine's own against ours."""
    fabric = Clos(hosts=8, planes=2, hosts_per_t0=4, t1_per_plane=2)
    builder = Builder()
    builder.sends([0, 1, 2, 3], 4, 200_000)
    workload = builder.build()
    faults = [Fault(0, "link_loss", "p1.t0-0.t1-0", 0.02)]
    for name, kind in {
        "bitmap, NSCC": Mrc(evs=16),
        "example-rr, NSCC": Mrc(evs=16, policy="example-rr"),
        "bitmap, example-halve-on-mark": Mrc(evs=16, cc="example-halve-on-mark"),
    }.items():
        outcome = simulate(fabric, workload, kind, faults=faults)
        done_us = outcome.tasks["acked_ns"].max() / 1000
        print(
            f"{name:30} {done_us:7.1f} us, {outcome.totals['data_packets_rtx']} packets again, "
            f"{outcome.totals['trims']} trims"
        )


if __name__ == "__main__":
    main()
