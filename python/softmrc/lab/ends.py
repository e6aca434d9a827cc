"""Brings about in the kernel what is wrong with links: devices down, a damaging program at the far end, another rate.

Decides which namespace, device and program a change of a link's state touches. Leaves what faults add up to to
condition.py, what is put back after a device was down to restore.py.

Loss and corruption act where a line ends (ingress of the receiver): the packets have used up the line. Without BPF an
nftables rule loses them there. A program or rule is there only while it has something to do.
"""

from __future__ import annotations

import errno
import struct
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol

from softmrc.errors import MrcError, UsageError
from softmrc.lab import tc
from softmrc.lab.bpf_build import bpf_object, why_no_bpf
from softmrc.lab.condition import LineState, LinkState
from softmrc.lab.ports import class_messages, find_program, queue_settings
from softmrc.lab.queue_spec import Dscps
from softmrc.lab.queues import port_spec
from softmrc.lab.restore import missing_of, save
from softmrc.lab.rtnl import Rtnl, devices, flags_of, set_up
from softmrc.netns.space import tell

if TYPE_CHECKING:
    from softmrc.lab.names import Link
    from softmrc.lab.spec import LabSpec

__all__ = ["Change", "KernelLines", "Wired"]

Change = tuple["Link", LinkState, LinkState]
"""A link, its state before, its state after."""
_WIRE = struct.Struct("=QQ")
_WIRE_PRIO = 7
_EXISTS = errno.EEXIST
_GONE = (errno.ENOENT, errno.EINVAL)


class Wired(Protocol):
    """What faults need of a lab in the kernel."""

    @property
    def spec(self) -> LabSpec:
        """What it is."""

    def namespace(self, node: str) -> str:
        """Return a node's namespace."""


class KernelLines:
    """The links of a lab; sockets stay open, so that a change takes a message. Any thread may use it."""

    def __init__(self, lab: Wired) -> None:
        """Open nothing yet."""
        self._lab = lab
        self._lock = threading.RLock()
        self._nets: dict[str, tuple[Rtnl, dict[str, int]]] = {}

    def check(self, link: Link, state: LinkState) -> None:
        """Refuse, before anything is touched, what this host cannot do.

        Raises:
            UsageError: says what is missing.
        """
        slowed = state.up.rate != 1 or state.down.rate != 1
        if slowed and self._lab.spec.link_rate(link.kind) is None:
            raise UsageError(f"{link.name} has no rate that could be lowered: softmrc lab up --rate")
        if (state.up.corrupt or state.down.corrupt) and bpf_object() is None:
            raise UsageError(f"corrupt needs BPF: {why_no_bpf()}")

    def remember(self, changes: Iterable[Change], saved: dict[str, dict[str, Any]]) -> None:
        """Fill in what devices that are about to be cut will take with them, by node."""
        with self._lock:
            for link, side in _cuts(changes):
                node, _ = _end(link, side)
                if node not in saved:
                    saved[node] = save(self._port(link, side)[0])

    def apply(self, changes: Iterable[Change], saved: dict[str, dict[str, Any]]) -> None:
        """Turn states into others: first what is lost or slowed, then all cuts at once, then what comes back.

        Args:
            changes: links with their states before and after.
            saved: what cut devices took with them, by node; kept by the caller and changed here.

        Raises:
            MrcError: the system refused something.
        """
        with self._lock:
            wanted = list(changes)
            for link, before, after in wanted:
                self._lines(link, before, after)
            self.remember(wanted, saved)
            for link, side in _cuts(wanted):
                net, index = self._port(link, side)
                net.do(set_up(index, False))
            heals = [(link, s) for link, before, after in wanted for s in sorted(before.cut - after.cut)]
            for link, side in heals:
                net, index = self._port(link, side)
                net.do(set_up(index, True))
            for link, side in heals:
                self._put_back(link, side, saved)

    def _put_back(self, link: Link, side: str, saved: dict[str, dict[str, Any]]) -> None:
        node, _ = _end(link, side)
        net, index = self._port(link, side)
        states = flags_of(net)
        net.do(*missing_of(saved.get(node, _NOTHING), index, lambda device: states.get(device, False)))

    def _lines(self, link: Link, before: LinkState, after: LinkState) -> None:
        for (sender, receiver), old, new in (
            (("a", "b"), before.up, after.up),
            (("b", "a"), before.down, after.down),
        ):
            if (old.loss, old.corrupt) != (new.loss, new.corrupt):
                if bpf_object() is None:
                    self._rule(link, receiver, old, new)
                else:
                    self._program(link, receiver, old, new)
            if old.rate != new.rate:
                self._rate(link, sender, new.rate)

    def _program(self, link: Link, side: str, old: LineState, new: LineState) -> None:
        net, index = self._port(link, side)
        if not new.damaged:
            net.do(tc.delete_filter(index, tc.INGRESS, _WIRE_PRIO), allow=_GONE)
            if not net.dump(*tc.filters_of(index, tc.EGRESS)):
                net.do(tc.delete_qdisc(index), allow=_GONE)  # it was made for this
            return
        settings = _WIRE.pack(round(new.loss * (1 << 32)), round(new.corrupt * (1 << 32)))
        if old.damaged and _write(net, index, tc.INGRESS, "wire", settings):
            return
        programs = bpf_object()
        if programs is None:
            raise MrcError(f"no BPF: {why_no_bpf()}")
        loaded = programs.load("wire")
        try:
            loaded.maps["wire_set"].write(settings)
            net.do(tc.clsact(index), allow=(_EXISTS,))
            net.do(tc.bpf_filter(index, tc.INGRESS, loaded.fd, "wire", _WIRE_PRIO))
        finally:
            loaded.close()

    def _rule(self, link: Link, side: str, old: LineState, new: LineState) -> None:
        """Without BPF: the same by nftables."""
        node, dev = _end(link, side)
        table = f"fault_{dev.replace('-', '_')}"
        rules = f"delete table netdev {table}\n" if old.damaged else ""
        if new.damaged:
            chance = "" if new.loss == 1 else f"numgen random mod 1000000000 < {round(new.loss * 1e9)} "
            rules += (
                f"table netdev {table} {{\nchain line {{\n"
                f'type filter hook ingress device "{dev}" priority 0\n{chance}drop\n}}\n}}\n'
            )
        tell("ip", "netns", "exec", self._lab.namespace(node), "nft", "-f", "-", text=rules)

    def _rate(self, link: Link, side: str, share: float) -> None:
        spec = self._lab.spec
        full = spec.link_rate(link.kind)
        if full is None:
            raise UsageError(f"{link.name} has no rate that could be lowered")
        net, index = self._port(link, side)
        bps = max(1000, round(full * share))
        net.do(*class_messages(index, bps, spec.mtu, change=True))
        port = port_spec(spec, link, side)
        if port is not None:
            _write(net, index, tc.EGRESS, "queue", queue_settings(port, Dscps().high(), bps))

    def _port(self, link: Link, side: str) -> tuple[Rtnl, int]:
        node, dev = _end(link, side)
        if node not in self._nets:
            net = Rtnl(self._lab.namespace(node))
            self._nets[node] = net, devices(net)
        net, indexes = self._nets[node]
        if dev not in indexes:
            raise MrcError(f"{node} has no device {dev}; softmrc lab down, then up again")
        return net, indexes[dev]

    def close(self) -> None:
        """Close the sockets. Idempotent."""
        with self._lock:
            for net, _ in self._nets.values():
                net.close()
            self._nets.clear()


def _write(net: Rtnl, index: int, parent: int, program: str, settings: bytes) -> bool:
    """Change the settings of a program at a device; returns whether it is there."""
    maps = find_program(net, index, parent, program)
    try:
        if maps:
            maps[f"{program}_set"].write(settings)
        return bool(maps)
    finally:
        for one in maps.values():
            one.close()


_NOTHING: dict[str, Any] = {"routes": (), "neighbours": (), "addresses": ()}


def _cuts(changes: Iterable[Change]) -> list[tuple[Link, str]]:
    return [(link, side) for link, before, after in changes for side in sorted(after.cut - before.cut)]


def _end(link: Link, side: str) -> tuple[str, str]:
    return (link.a_node, link.a_dev) if side == "a" else (link.b_node, link.b_dev)
