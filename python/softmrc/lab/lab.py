"""A lab: made, found again, used and removed.

`Lab.up` makes one, `Lab.load` finds one that another process made. Everything about it follows from its spec; what is
on disk besides is who owns it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path as File
from types import TracebackType
from typing import Any

from softmrc.errors import MrcError, UsageError
from softmrc.lab.build import Maker
from softmrc.lab.counters import Count, sid_counters
from softmrc.lab.host import choose, room_lacks, room_notes
from softmrc.lab.names import Link, namespace, parse_node
from softmrc.lab.plan import Plan, make_plan
from softmrc.lab.queues import lab_rtt
from softmrc.lab.remove import end_lab, leftovers, remove_lab, sweep
from softmrc.lab.snapshot import snapshot
from softmrc.lab.spec import LabSpec
from softmrc.lab.state import LabState, Process, locked
from softmrc.lab.targets import find_links
from softmrc.lab.verify import Found, repair, verify
from softmrc.netns.enter import entered, make_room
from softmrc.netns.netlinks import Netlinks
from softmrc.netns.space import tell
from softmrc.srv6 import FABRIC_ENV, PLANES_ENV, FabricFile, Path, paths

__all__ = ["Lab"]


def _silent(_: str) -> None:
    pass


class Lab:
    """A fabric of namespaces; a context manager that removes it at the end of its block.

    Not for several threads at once: each thread loads its own.
    """

    def __init__(self, state: LabState) -> None:
        """Look at a lab that is there; `up` and `load` are the ways to get one."""
        self.state = state
        self.spec = state.spec
        self.name = state.spec.name
        self.plan: Plan = make_plan(state.spec)
        self.netlinks = Netlinks()
        self._children: list[subprocess.Popen[Any]] = []

    # --- made and found -------------------------------------------------------------------------------------

    @classmethod
    def up(cls, spec: LabSpec, *, keep: bool = False, step: Callable[[str], None] = _silent) -> Lab:
        """Make a lab; returns when packets pass.

        Labs that were left behind (their makers died) are removed first.

        Args:
            spec: what to make.
            keep: it outlives this process; without, it counts as left behind once this process is gone.
            step: told what is being done.

        Raises:
            UsageError: there is such a lab already, or this host cannot have one; the text says why and what to do.
            MrcError: the system refused something; nothing is left behind.
        """
        choice = choose(spec.switch, spec.delay_ns)
        if choice.mode == "soft":
            from softmrc.lab import soft

            found = soft.up(spec, keep=keep, step=step)
            if spec.switch == "auto":
                found.state.notes.append(f"switches in user space: {choice.why}")
                found.state.save()
            return found
        sweep()
        with locked(spec.name):
            old = LabState.load(spec.name)
            if old is not None and not old.abandoned and (old.mode != "kernel" or leftovers(spec.name)):
                raise UsageError(
                    f"lab {spec.name} is up already; softmrc lab down --name {spec.name}, or another --name"
                )
            if old is not None:
                remove_lab(spec.name, old)
            elif foreign := leftovers(spec.name):
                raise UsageError(
                    f"there are namespaces {', '.join(foreign[:3])} that no lab {spec.name} is known to have made: "
                    f"another --name, or softmrc lab down --name {spec.name} if they may go"
                )
            state = LabState(spec, maker=Process.of(os.getpid()))
            lab = cls(state)
            if lacks := room_lacks(lab.plan):
                raise UsageError(f"lab {spec.name}: {'; '.join(lacks)}")
            state.notes += room_notes(lab.plan)
            alone = make_room()
            state.save()
            try:
                lab._make(step)
                state.phase = "up"
                if keep:
                    if alone:
                        state.anchor()
                    state.maker = None
                state.save()
            except BaseException:
                lab.netlinks.close()
                remove_lab(spec.name, state)
                raise
        return lab

    def _make(self, step: Callable[[str], None]) -> None:
        maker = self.maker
        maker.make(step)
        from softmrc.lab import queues

        step("queues")
        queues.attach(self)
        self.write_fabric_file()
        step("waiting for the links")
        maker.settle()
        step("checking")
        _, found = repair(self)
        if not found.whole:
            words = [m.words for m in found.missing] + [d.words for d in found.down]
            raise MrcError(f"lab {self.name} is not what it should be: {'; '.join(words[:5])}")

    @classmethod
    def load(cls, name: str = "lab") -> Lab:
        """Return the lab of that name.

        Raises:
            UsageError: there is none, or it was not finished.
        """
        state = LabState.load(name)
        if state is None:
            raise UsageError(f"there is no lab {name}: softmrc lab up --name {name}")
        state.join()
        if state.phase != "up":
            raise UsageError(f"lab {name} was left unfinished: softmrc lab down --name {name}")
        if state.mode == "soft":
            from softmrc.lab import soft

            return soft.load(state)
        return cls(state)

    def down(self) -> list[str]:
        """End the programs in it and remove it; returns the namespaces that were there. Idempotent."""
        self.close()
        return end_lab(self.name)

    def close(self) -> None:
        """End the programs this object started and close its sockets; the lab stays."""
        from softmrc.lab.faults import release
        from softmrc.netns.space import end_all

        release(self)
        self.netlinks.close()
        end_all(self._children)
        self._children.clear()

    # --- what there is --------------------------------------------------------------------------------------

    @property
    def maker(self) -> Maker:
        """What builds and mends its parts."""
        return Maker(self.plan, self.netlinks)

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts."""
        return [n for n, p in self.plan.nodes.items() if p.node.kind == "host"]

    @property
    def has_namespaces(self) -> bool:
        """Whether any program reaches the fabric from inside a host, and not only those of softmrc."""
        return True

    @property
    def switches(self) -> list[str]:
        """Names of the switches."""
        return [n for n, p in self.plan.nodes.items() if p.node.kind != "host"]

    @property
    def nodes(self) -> list[str]:
        """Names of hosts and switches."""
        return list(self.plan.nodes)

    @property
    def links(self) -> list[Link]:
        """All links."""
        return self.plan.links

    @property
    def fabric_file(self) -> File:
        """What programs inside hosts read to find their paths."""
        return self.state.fabric_file

    def namespace(self, node: str) -> str:
        """Return the network namespace of a node.

        Raises:
            UsageError: no such node.
        """
        if node not in self.plan.nodes:
            parse_node(node)
            raise UsageError(f"lab {self.name} has no node {node}")
        return namespace(self.name, node)

    def links_of(self, target: str) -> list[Link]:
        """Return the links of a link's name, a host, a switch, a plane or a group; see `softmrc.lab.targets`.

        Raises:
            UsageError: nothing has that name; says what has.
        """
        return find_links(self.plan, target)

    def paths(self, src: str, dst: str) -> list[Path]:
        """Return the ways from host to host in all planes."""
        a, b = self._host(src), self._host(dst)
        return [p for plane in range(1, self.spec.planes + 1) for p in paths(self.spec.shape, plane, a, b)]

    def addresses(self, host: str) -> list[str]:
        """Return a host's addresses, one a plane."""
        return self.fabric().addresses(self._host(host))

    def _host(self, name: str) -> int:
        if name not in self.plan.nodes or self.plan.nodes[name].node.kind != "host":
            raise UsageError(f"lab {self.name} has no host {name}: h0 to h{self.spec.hosts - 1}")
        return self.plan.nodes[name].node.index

    def namespace_of_link(self, link: str) -> tuple[str, str]:
        """Return the namespace and device of a link's lower end, where both directions can be seen.

        Raises:
            UsageError: no link of that name.
        """
        if link not in self.plan.by_link:
            raise UsageError(f"lab {self.name} has no link {link}; links are named like {self.links[0].name}")
        found = self.plan.by_link[link]
        return self.namespace(found.a_node), found.a_dev

    def record(self, link: str, file: File) -> int:
        """Record what passes a link, both directions, into a pcap file; returns the process.

        SIGTERM ends it, or `down`.

        Raises:
            UsageError: no link of that name, or the file cannot be written.
        """
        from softmrc.lab.capture import start

        return start(*self.namespace_of_link(link), file)

    def socket(self, host: str, plane: int, port: int = 0) -> socket.socket:
        """Return a UDP socket of this process in a host, bound to its address in a plane."""
        with entered(self.namespace(host)):
            found = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        try:
            found.bind((self.addresses(host)[plane - 1], port))
        except OSError as error:
            found.close()
            raise MrcError(f"{host}: port {port} in plane {plane}: {error.strerror}") from None
        return found

    def counters(self) -> dict[str, Count]:
        """Return what each switch has passed on by its own uSID, by name."""
        return sid_counters(self)

    def capture(self, link: str, file: File, *, seconds: float | None = None, snap: int = 0) -> int:
        """Record like `record`, here and now, until interrupted or for so long; returns the number of packets.

        Raises:
            UsageError: no link of that name, or the file cannot be written.
        """
        from softmrc.lab.capture import capture

        return capture(self.namespace_of_link(link), file, seconds=seconds, snap=snap)

    # --- programs -------------------------------------------------------------------------------------------

    def environment(self, host: str) -> dict[str, str]:
        """Return the variables that tell a program in a host about its fabric."""
        return {FABRIC_ENV: str(self.fabric_file), PLANES_ENV: ",".join(self.addresses(host))}

    def command(self, node: str, *command: str) -> list[str]:
        """Return the command that runs `command` in a node."""
        return ["ip", "netns", "exec", self.namespace(node), *command]

    def popen(self, node: str, *command: str, **options: Any) -> subprocess.Popen[Any]:
        """Start a program in a node; it ends with this process, or with the lab.

        Args:
            node: a host, or a switch.
            command: the program and its arguments.
            options: of `subprocess.Popen`; `env` is added to the fabric's variables.
        """
        own = self.environment(node) if node in self.hosts else {}
        env = {**(options.pop("env", None) or os.environ), **own}
        options.setdefault("text", True)
        mortal = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        child = subprocess.Popen(self.command(node, *mortal, *command), env=env, **options)
        self._children.append(child)
        return child

    def run(self, node: str, *command: str, text: str | None = None, timeout: float | None = None) -> str:
        """Run a program in a node to its end and return its output.

        Raises:
            MrcError: it failed, or took longer than `timeout` seconds; the text has its first words.
        """
        child = self.popen(
            node, *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        try:
            out, err = child.communicate(text, timeout)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()
            raise MrcError(f"{node}: {' '.join(command)}: not done within {timeout} s") from None
        finally:
            self._children.remove(child)
        if child.returncode != 0:
            words = [line for line in err.splitlines() if line.strip()]
            raise MrcError(
                f"{node}: {' '.join(command)}: {words[-1] if words else f'exit status {child.returncode}'}"
            )
        return str(out)

    def nft(self, node: str, rules: str) -> None:
        """Load nftables rules in a node, all or none."""
        tell("ip", "netns", "exec", self.namespace(node), "nft", "-f", "-", text=rules)

    def adopt(self, pid: int) -> None:
        """Let a process outside its namespaces end with the lab."""
        with locked(self.name):
            state = LabState.load(self.name)
            process = Process.of(pid)
            if state is None or process is None:
                return
            state.helpers = [p for p in state.helpers if p.alive] + [process]
            state.save()
            self.state = state

    # --- state ----------------------------------------------------------------------------------------------

    def verify(self, nodes: Iterable[str] | None = None) -> Found:
        """Compare nodes, or all, with the plan; see `softmrc.lab.verify`."""
        return verify(self, nodes)

    def repair(self, nodes: Iterable[str] | None = None) -> tuple[Found, Found]:
        """Put back what is missing in nodes, or all; returns what was found before and after."""
        return repair(self, nodes)

    def snapshot(self) -> dict[str, dict[str, Any]]:
        """Return all that stands in the kernel, by node, in a form in which equal states are equal."""
        return snapshot(self)

    # --- the fabric file ------------------------------------------------------------------------------------

    def fabric(self) -> FabricFile:
        """Return what programs inside hosts are told."""
        trims = bool(self.state.more.get("trimming", False))
        return FabricFile(
            name=self.name,
            shape=self.spec.shape,
            trimming=trims,
            mode="usid" if self.spec.paths == "usid" else "plain",
            checksum=str(self.state.more.get("checksum", "offloaded")),
            rate_bps=self.spec.rate_bps or 0,
            mtu=self.spec.mtu,
            base_rtt=lab_rtt(self.spec),
        )

    def write_fabric_file(self) -> None:
        """Write it; queues that trim, or do not, have said so in `state.more`."""
        self.fabric().write(self.fabric_file)

    def __enter__(self) -> Lab:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Remove the lab."""
        with contextlib.suppress(ProcessLookupError):
            self.down()
