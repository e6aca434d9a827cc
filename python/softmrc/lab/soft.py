"""A lab without root and without a kernel that knows uSIDs: switches in one process, hosts as programs on loopback.

The same face as `softmrc.lab.Lab`. Programs in a host are ordinary processes that are told by their environment who
they are; softmrc's own find their switch by the fabric file. Others (iperf3, ping) have no way onto such a fabric.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path as File
from typing import Any, cast

from softmrc.errors import UsageError
from softmrc.lab.condition import LinkState
from softmrc.lab.counters import Count
from softmrc.lab.lab import Lab
from softmrc.lab.look import Look, faulty_links
from softmrc.lab.names import Link
from softmrc.lab.ports import PortCounters
from softmrc.lab.remove import remove_lab
from softmrc.lab.soft_client import ask, start_switch
from softmrc.lab.soft_loopback import raise_loopback
from softmrc.lab.soft_port import SoftSocket
from softmrc.lab.spec import LabSpec
from softmrc.lab.state import LabState, Process, locked
from softmrc.lab.verify import Down, Found
from softmrc.srv6 import FabricFile

__all__ = ["SoftLab", "load", "up"]

_MAX_MTU = 9216


def _silent(_: str) -> None:
    pass


class SoftLab(Lab):
    """A lab whose switches are a process of the same user."""

    _switch: subprocess.Popen[str] | None = None

    @property
    def has_namespaces(self) -> bool:
        """Whether any program reaches the fabric: here only those of softmrc."""
        return False

    def _start(self, keep: bool, step: Callable[[str], None]) -> None:
        step("user-space switch")
        self._switch, ready = start_switch(self.name, keep)
        process = Process.of(self._switch.pid)
        assert process is not None
        self.state.helpers.append(process)
        self.state.more |= ready
        self.state.more["trimming"] = self.spec.trimming and self.spec.rate_bps is not None

    def down(self) -> list[str]:
        """End the programs in its hosts, and the switch. Idempotent."""
        found = super().down()
        if self._switch is not None:
            with contextlib.suppress(OSError):
                self._switch.communicate()  # closes its end of the pipe; it is dead already
            self._switch = None
        return found

    # --- what the kernel would have ---------------------------------------------------------------------------

    def namespace(self, node: str) -> str:
        """Refuse: there is none.

        Raises:
            UsageError: always.
        """
        raise UsageError(
            f"lab {self.name} runs in a user-space switch: {node} has no network namespace; softmrc's own programs run "
            "in its hosts by softmrc lab exec, others need a lab in the kernel"
        )

    def command(self, node: str, *command: str) -> list[str]:
        """Return the command that runs `command` in a host: itself, its environment makes the difference.

        Raises:
            UsageError: a switch; nothing runs there.
        """
        if node not in self.hosts:
            if node in self.nodes:
                raise UsageError(f"{node} is part of the user-space switch: no program runs in it")
            raise UsageError(f"lab {self.name} has no host {node}: h0 to h{self.spec.hosts - 1}")
        return list(command)

    def socket(self, host: str, plane: int, port: int = 0) -> socket.socket:
        """Return a UDP socket of this process in a host: a `SoftSocket`, which has what probes need of a socket."""
        address = self.addresses(host)[plane - 1]
        gateway = self.fabric().gateway(address)
        assert gateway is not None
        return cast("socket.socket", SoftSocket(gateway, address, port))

    def counters(self) -> dict[str, Count]:
        """Return what each switch has passed on by its own uSID, by name."""
        nodes = ask(self.name, "counters")["nodes"]
        return {
            name: Count(
                nodes[name]["sid_packets"],
                nodes[name]["sid_bytes"],
                nodes[name]["drops"].get("list_ended", 0),
            )
            for name in self.switches
        }

    def port_counters(self) -> dict[str, dict[str, PortCounters]]:
        """Return what the ports have counted, as `softmrc.lab.queues.counters` does."""
        ports = ask(self.name, "counters")["ports"]
        return {link: {way: _counted(n) for way, n in ways.items()} for link, ways in ports.items()}

    def received(self, host: str) -> int:
        """Return the bytes that all ports of a host were sent."""
        return sum(self.sent_bytes([(link.name, "down") for link in self.links_of(host)]))

    def sent_bytes(self, ports: Sequence[tuple[str, str]]) -> list[int]:
        """Return the bytes that went onto lines, with Ethernet headers.

        Args:
            ports: name of a link, and "up" or "down".
        """
        sent: list[int] = ask(self.name, "sent", ports=list(ports))
        return sent

    def drops(self) -> dict[str, dict[str, int]]:
        """Return what was dropped, by node (a host's ports apart: `h3.p2`) and reason."""
        nodes = ask(self.name, "counters")["nodes"]
        return {name: n["drops"] for name, n in nodes.items() if n["drops"]}

    def stats(self) -> dict[str, Any]:
        """Return how the switch itself does: turns, lateness, processor time."""
        found: dict[str, Any] = ask(self.name, "stats")
        return found

    def look(self) -> Look:
        """Return the load of all links, as `softmrc.lab.look.look` does."""
        began = time.monotonic()
        ports = ask(self.name, "counters")["ports"]
        counts = {link: (ways["up"]["tx_bytes"], ways["down"]["tx_bytes"]) for link, ways in ports.items()}
        dead = {down.link: "no carrier" for down in self.verify().down}
        rates = {kind: self.spec.link_rate(kind) or 0 for kind in ("host", "fabric")}
        seconds = (began + time.monotonic()) / 2
        return Look(seconds, counts, dead, faulty_links(self), tuple(self.links), rates)

    # --- breaking -----------------------------------------------------------------------------------------------

    def apply_lines(self, changes: Iterable[tuple[Link, LinkState, LinkState]]) -> None:
        """Bring about what is wrong with links; see `softmrc.lab.faults`."""
        ask(
            self.name,
            "lines",
            changes=[
                {
                    "link": link.name,
                    "cut": bool(after.cut),
                    "up": asdict(after.up),
                    "down": asdict(after.down),
                }
                for link, _, after in changes
            ],
        )

    # --- state ----------------------------------------------------------------------------------------------------

    def verify(self, nodes: Iterable[str] | None = None) -> Found:
        """Say which links are down; nothing can be missing of a switch that answers.

        Raises:
            MrcError: it does not answer.
        """
        wanted = set(self.nodes if nodes is None else nodes)
        faults = ask(self.name, "faults")
        found = Found()
        for link in self.links:
            for node, dev, _ in link.ends():
                if node in wanted and any(way["down"] for way in faults[link.name].values()):
                    found.down.append(Down(link.name, node, dev, "no carrier"))
        return found

    def repair(self, nodes: Iterable[str] | None = None) -> tuple[Found, Found]:
        """Return the same twice: nothing is ever missing."""
        found = self.verify(nodes)
        return found, found

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """Return what is wrong with each link, by its lower end, in a form in which equal states are equal."""
        faults = ask(self.name, "faults")
        found: dict[str, dict[str, Any]] = {}
        for link in self.links:
            found.setdefault(link.a_node, {})[link.name] = faults[link.name]
        return found

    def record(self, link: str, file: File) -> int:
        """Record what passes a link, both directions, until the lab is down; returns the switch's process.

        Raises:
            UsageError: no link of that name, or the file cannot be written.
        """
        self.start_recording(link, file)
        return self.state.helpers[0].pid

    def capture(self, link: str, file: File, *, seconds: float | None = None, snap: int = 0) -> int:
        """Record until interrupted or for so long; returns the number of packets.

        Raises:
            UsageError: no link of that name, the file cannot be written, or `snap`: packets are kept whole here.
        """
        if snap:
            raise UsageError("snap: the user-space switch keeps packets whole; leave it out")
        before = self._entered(link)
        self.start_recording(link, file)
        try:
            with contextlib.suppress(KeyboardInterrupt):
                threading.Event().wait(seconds)
        finally:
            self.stop_recording(file)
        return self._entered(link) - before

    def _entered(self, link: str) -> int:
        ways = ask(self.name, "counters")["ports"].get(link, {})
        return sum(int(way["tx_packets"]) for way in ways.values())

    def start_recording(self, link: str, file: File) -> None:
        """Begin to write a link's packets to a pcap file (IPv6 packets without Ethernet)."""
        if link not in self.plan.by_link:
            raise UsageError(f"lab {self.name} has no link {link}; links are named like {self.links[0].name}")
        ask(self.name, "record", link=link, file=str(file.absolute()))

    def stop_recording(self, file: File) -> None:
        """End it; the file is complete then."""
        ask(self.name, "stop_recording", file=str(file.absolute()))

    def fabric(self) -> FabricFile:
        """Return what programs in hosts are told."""
        more = self.state.more
        return replace(
            super().fabric(), gateways=dict(more.get("gateways", {})), meeting=str(more.get("meeting", ""))
        )


def _counted(n: dict[str, int]) -> PortCounters:
    seen = n["tx_packets"] + n["dropped"] + n["flushed"]
    return PortCounters(
        seen=seen, bytes=n["tx_bytes"], marked=n["marked"], trimmed=n["trimmed"], dropped=n["dropped"],
        backlog=n["queued_bytes"],
    )  # fmt: skip


def up(spec: LabSpec, *, keep: bool = False, step: Callable[[str], None] = _silent) -> SoftLab:
    """Make a lab; see `Lab.up`, which calls this where the kernel will not do.

    Raises:
        UsageError: there is such a lab already, or the spec asks for what only a kernel has.
        MrcError: the system refused something; nothing is left behind.
    """
    if spec.encap:
        raise UsageError(
            "encap: IPv6-in-IPv6 paths are the kernel's; the user-space switch has uSID lists only"
        )
    if spec.mtu > _MAX_MTU:
        raise UsageError(f"mtu = {spec.mtu}: at most {_MAX_MTU} in the user-space switch")
    raise_loopback()
    with locked(spec.name):
        old = LabState.load(spec.name)
        if (
            old is not None
            and not old.abandoned
            and (old.mode != "soft" or any(p.alive for p in old.helpers))
        ):
            raise UsageError(
                f"lab {spec.name} is up already; softmrc lab down --name {spec.name}, or another --name"
            )
        remove_lab(spec.name, old)
        state = LabState(spec, mode="soft", maker=Process.of(os.getpid()))
        lab = _class_of(spec)(state)
        state.save()
        try:
            lab._start(keep, step)
            lab.write_fabric_file()
            state.phase = "up"
            if keep:
                state.maker = None
            state.save()
        except BaseException:
            remove_lab(spec.name, state)
            raise
    return lab


def load(state: LabState) -> SoftLab:
    """Return the lab of a state on disk."""
    return _class_of(state.spec)(state)


def _class_of(spec: LabSpec) -> type[SoftLab]:
    if spec.switch != "veth":
        return SoftLab
    from softmrc.lab.soft_veth import VethLab

    return VethLab
