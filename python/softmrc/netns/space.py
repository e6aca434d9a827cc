"""One network namespace: its links, addresses and routes, and the programs in it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from softmrc.errors import MrcError
from softmrc.netns.host import require
from softmrc.netns.sweep import new_name, remove

__all__ = ["Namespace", "tell"]

_NODAD = 0x02  # IFA_F_NODAD
_TBF_ROOT = 0x10000


def tell(*command: str, text: str | None = None) -> str:
    """Run a program of the system and return its output.

    Raises:
        MrcError: it failed; the text has its first words.
    """
    run = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        words = [line for line in run.stderr.splitlines() if line.strip(" ^~")]
        raise MrcError(f"{' '.join(command)}: {words[0] if words else f'exit status {run.returncode}'}")
    return run.stdout


class Namespace:
    """A namespace that lives until `close`; a context manager. Its name begins with its owner's process number."""

    def __init__(self, role: str = "n", *, forwarding: bool = False) -> None:
        """Make it, with loopback up and addresses usable at once.

        Args:
            role: letters and digits at the end of the name.
            forwarding: it is a switch: packets for others are passed on.

        Raises:
            UsageError: this host cannot; the text says why.
            MrcError: the system refused.
        """
        require()
        from pyroute2 import NetNS, netns
        from pyroute2.netlink.exceptions import NetlinkError

        self.name = new_name(role)
        self._errors: tuple[type[Exception], ...] = (NetlinkError, OSError)
        self._names: dict[str, int] = {}
        self._children: list[subprocess.Popen[str]] = []
        # pyroute2 opens the socket in a child process, which forgets to close its copy.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            netns.create(self.name)
            try:
                self._link = NetNS(self.name, flags=0)
            except BaseException:
                netns.remove(self.name)
                raise
        try:
            self.up("lo")
            self.sysctl("net.ipv6.conf.all.accept_dad", 0)
            self.sysctl("net.ipv6.conf.default.accept_dad", 0)
            self.sysctl("net.ipv6.conf.default.router_solicitations", 0)
            if forwarding:
                self.sysctl("net.ipv6.conf.all.forwarding", 1)
                self.sysctl("net.ipv4.ip_forward", 1)
        except BaseException:
            self.close()
            raise

    # --- programs -------------------------------------------------------------------------------------------

    def command(self, *command: str) -> list[str]:
        """Return the command that runs `command` inside, and dies with the thread that started it."""
        mortal = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
        return ["ip", "netns", "exec", self.name, *mortal, *command]

    def run(self, *command: str, text: str | None = None) -> str:
        """Run a program inside to its end and return its output; `MrcError` when it fails."""
        return tell(*self.command(*command), text=text)

    def popen(self, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Start a program inside; it is ended with the namespace at the latest."""
        child = subprocess.Popen(self.command(*command), text=True, **options)
        self._children.append(child)
        return child

    def sysctl(self, key: str, value: int | str) -> None:
        """Set a kernel setting of this namespace."""
        self.run("sysctl", "-qw", f"{key}={value}")

    def nft(self, rules: str) -> None:
        """Load nftables rules, all or none."""
        self.run("nft", "-f", "-", text=rules)

    # --- links ----------------------------------------------------------------------------------------------

    def wire(self, dev: str, other: Namespace, other_dev: str, mtu: int = 1500) -> None:
        """Connect `dev` here to `other_dev` there by a veth pair, both up."""
        peer = {"ifname": other_dev, "net_ns_fd": other.name, "mtu": mtu}
        self._ask("link", "add", ifname=dev, kind="veth", mtu=mtu, peer=peer)
        self._names.pop(dev, None)
        self.up(dev)
        other.up(other_dev)

    def up(self, dev: str) -> None:
        """Set a link up."""
        self._ask("link", "set", index=self._index(dev), state="up")

    def down(self, dev: str) -> None:
        """Set a link down. Its routes go, and without `keep_addr_on_down` its IPv6 addresses."""
        self._ask("link", "set", index=self._index(dev), state="down")

    def mtu(self, dev: str, mtu: int) -> None:
        """Change the MTU of a link."""
        self._ask("link", "set", index=self._index(dev), mtu=mtu)

    def address(self, dev: str, address: str, *, dad: bool = False) -> None:
        """Add an address like "fd00::1/64"; usable at once unless duplicates are to be detected."""
        ip, length = address.split("/")
        more = {"family": 10, "flags": 0 if dad else _NODAD} if ":" in ip else {"family": 2}
        self._ask("addr", "add", index=self._index(dev), address=ip, prefixlen=int(length), **more)

    def route(self, to: str, via: str | None = None, dev: str | None = None, src: str | None = None) -> None:
        """Add a route, or replace the one to the same destination."""
        more: dict[str, Any] = {"family": 10 if ":" in (via or to) else 2}
        if via is not None:
            more["gateway"] = via
        if dev is not None:
            more["oif"] = self._index(dev)
        if src is not None:
            more["prefsrc"] = src
        self._ask("route", "replace", dst=to, **more)

    def drop_route(self, to: str) -> None:
        """Remove the route to a destination."""
        self._ask("route", "del", dst=to, family=10 if ":" in to else 2)

    def rate(self, dev: str, bits_per_second: int, *, burst: int = 128 << 10, limit: int = 512 << 10) -> None:
        """Slow a link down with a token bucket (TBF), or change its rate.

        Args:
            dev: the link; what leaves by it is slowed.
            bits_per_second: of whole packets.
            burst: bytes of the bucket; below 64 KiB, segmented bursts are split into real packets.
            limit: bytes of the queue; what does not fit is dropped.
        """
        self._ask(
            "tc", "replace", "tbf", self._index(dev), _TBF_ROOT,
            rate=bits_per_second // 8, burst=burst, limit=limit,
        )  # fmt: skip

    def received_bytes(self, dev: str) -> int:
        """Return the bytes a link has received."""
        (link,) = self._ask("link", "get", index=self._index(dev))
        return int(link.get_attr("IFLA_STATS64")["rx_bytes"])

    # --- inside ---------------------------------------------------------------------------------------------

    def _index(self, dev: str) -> int:
        if dev not in self._names:
            found = self._link.link_lookup(ifname=dev)
            if not found:
                raise MrcError(f"{self.name} has no link {dev}")
            self._names[dev] = found[0]
        return self._names[dev]

    def _ask(self, what: str, *args: Any, **kwargs: Any) -> Any:
        try:
            return list(getattr(self._link, what)(*args, **kwargs) or ())
        except self._errors as error:
            told = " ".join(str(a) for a in (*args, *kwargs.values()))
            raise MrcError(f"{self.name}: {what} {told}: {error}") from None

    # --- end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End the programs inside and remove the namespace, its links and rules. Idempotent."""
        with contextlib.suppress(Exception):
            self._link.close()
        remove(self.name)
        end_all(self._children)
        self._children.clear()

    def __enter__(self) -> Namespace:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def end_all(children: Sequence[subprocess.Popen[str]]) -> None:
    """End and reap child processes, and close their pipes."""
    for child in children:
        if child.poll() is None:
            child.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(5)
        for pipe in (child.stdin, child.stdout, child.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def python(*args: str) -> tuple[str, ...]:
    """Return the command of this Python with arguments; warnings about its environment stay off."""
    return (sys.executable, *args)


def exists(name: str) -> bool:
    """Return whether a namespace of this name exists."""
    return (Path("/run/netns") / name).exists()
