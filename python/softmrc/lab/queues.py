"""The queues of a lab: which port gets which, and what they count.

Leaves how a port is made to ports.py. `attach` is called once, while the lab is built; `counters` at any time, by any
process that has loaded the lab.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from softmrc.lab import tc
from softmrc.lab.bpf_build import bpf_object, why_no_bpf
from softmrc.lab.bpf_kernel import BpfMap
from softmrc.lab.offload import split_datagrams
from softmrc.lab.ports import PortCounters, counters_of, find_program, install, shaper_counts
from softmrc.lab.queue_spec import Dscps, QueueSpec, base_rtt
from softmrc.lab.rtnl import Rtnl, devices
from softmrc.netns.enter import entered

if TYPE_CHECKING:
    from softmrc.lab.names import Link
    from softmrc.lab.spec import LabSpec
    from softmrc.lab.state import LabState

__all__ = ["QueueReader", "Queued", "attach", "counters", "lab_rtt", "port_spec", "why_no_trimming"]


class Queued(Protocol):
    """What queues need of a lab."""

    @property
    def spec(self) -> LabSpec:
        """What it is."""

    @property
    def links(self) -> list[Link]:
        """Its links."""

    @property
    def state(self) -> LabState:
        """What is known about it on disk."""

    def namespace(self, node: str) -> str:
        """Return a node's namespace."""


def why_no_trimming(spec: LabSpec) -> str:
    """Return "" where a lab of this spec trims, otherwise why it does not."""
    if not spec.trimming:
        return "trimming is off"
    if spec.rate_bps is None:
        return "links are as fast as the machine, so nothing queues"
    return why_no_bpf()


def lab_rtt(spec: LabSpec) -> float:
    """Return the base round trip of a lab, seconds; 0 where links have no rate."""
    rates = [rate for kind in ("host", "fabric") if (rate := spec.link_rate(kind)) is not None]
    links = 6 if spec.t2 else 4
    return base_rtt(min(rates), spec.mtu, links) + 2 * links * spec.delay_ns / 1e9 if rates else 0.0


def port_spec(spec: LabSpec, link: Link, side: str) -> QueueSpec | None:
    """Return the queue of the port on side "a" or "b" of a link; None: of a host, or of a link without a rate."""
    rate = spec.link_rate(link.kind)
    if rate is None or (link.kind == "host" and side == "a"):
        return None
    return QueueSpec.of_switch(
        rate, spec.mtu, last_hop=link.kind == "host", trimming=spec.trimming, ecn=spec.ecn, rtt=lab_rtt(spec)
    )


def attach(lab: Queued) -> None:
    """Put queues on every port of a lab; its state says afterwards whether they trim, and what it has to do without.

    Raises:
        MrcError: the system refused.
    """
    programs = bpf_object()
    high = Dscps().high()
    with _Sockets(lab) as at:
        for link in lab.links:
            rate = lab.spec.link_rate(link.kind)
            if rate is None:
                continue
            for node, dev, side in link.ends():
                net, index = at.port(node, dev)
                install(net, index, rate, lab.spec.mtu, programs, port_spec(lab.spec, link, side), high)
    for link in lab.links:
        if link.kind == "host" and lab.spec.rate_bps is not None:
            with entered(lab.namespace(link.a_node)):
                split_datagrams(link.a_dev)
    lab.state.more["trimming"] = not why_no_trimming(lab.spec)
    if programs is None and lab.spec.rate_bps is not None:
        lab.state.notes.append(f"no trimming and no marks: {why_no_bpf()}")


class _Sockets:
    """Netlink sockets into a lab's namespaces, one a namespace."""

    def __init__(self, lab: Queued) -> None:
        self._lab = lab
        self._open: dict[str, tuple[Rtnl, dict[str, int]]] = {}

    def port(self, node: str, dev: str) -> tuple[Rtnl, int]:
        if node not in self._open:
            net = Rtnl(self._lab.namespace(node))
            self._open[node] = net, devices(net)
        net, indexes = self._open[node]
        return net, indexes[dev]

    def net(self, node: str) -> Rtnl:
        return self._open[node][0]

    def close(self) -> None:
        for net, _ in self._open.values():
            net.close()
        self._open.clear()

    def __enter__(self) -> _Sockets:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class _Watched:
    link: str
    direction: str
    node: str
    index: int
    state: BpfMap | None


class QueueReader:
    """Reads the counters of a lab's ports again and again; a context manager."""

    def __init__(self, lab: Queued) -> None:
        """Find the ports; a lab with queues of its own (`port_counters`) reads them itself.

        Raises:
            MrcError: a namespace or a device is gone.
        """
        self._own: Callable[[], dict[str, dict[str, PortCounters]]] | None
        self._own = getattr(lab, "port_counters", None)
        self._sockets = _Sockets(lab)
        self._ports: list[_Watched] = []
        if self._own is not None:
            return
        try:
            for link in lab.links:
                for (node, dev, _), direction in zip(link.ends(), ("up", "down"), strict=True):
                    net, index = self._sockets.port(node, dev)
                    maps = find_program(net, index, tc.EGRESS, "queue")
                    state = maps.pop("queue_now", None)
                    for other in maps.values():
                        other.close()
                    self._ports.append(_Watched(link.name, direction, node, index, state))
        except BaseException:
            self.close()
            raise

    def read(self) -> dict[str, dict[str, PortCounters]]:
        """Return the counters: by link, and "up" (what its lower end sends) or "down"."""
        if self._own is not None:
            return self._own()
        shapers = {node: shaper_counts(self._sockets.net(node)) for node in {p.node for p in self._ports}}
        found: dict[str, dict[str, PortCounters]] = {}
        for port in self._ports:
            state = None if port.state is None else port.state.read()
            shaper = shapers[port.node].get(port.index, (0, 0))
            found.setdefault(port.link, {})[port.direction] = counters_of(state, shaper)
        return found

    def close(self) -> None:
        """Close all descriptors. Idempotent."""
        for port in self._ports:
            if port.state is not None:
                port.state.close()
        self._sockets.close()

    def __enter__(self) -> QueueReader:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def counters(lab: Queued) -> dict[str, dict[str, PortCounters]]:
    """Return what the ports of a lab have counted; see `QueueReader.read`."""
    with contextlib.closing(QueueReader(lab)) as reader:
        return reader.read()
