"""Small networks of two hosts: one link, several planes, a chain of switches, the same with uSIDs (SRv6)."""

from __future__ import annotations

import time
from contextlib import ExitStack
from types import TracebackType

from softmrc.errors import UsageError
from softmrc.netns.space import Namespace, tell
from softmrc.netns.sweep import sweep

__all__ = ["Fabric"]

# A new veth passes nothing until the kernel's link watch has run, at most once a second.
_SETTLE = 1.1
_BLOCK = "fc00:0"  # 32 bits before the uSIDs, 16 bits each


def _usid(switch: int) -> str:
    return f"{0x1000 + switch:x}"


class Fabric:
    """Two hosts `a` and `b`, the links between them, and switches; a context manager.

    Addresses of plane i: host a `fd00:i::1`, host b `fd00:i::2`; links `a1..` and `b1..`.
    """

    def __init__(self) -> None:
        """Make the two hosts, after removing what dead owners left."""
        sweep()
        self._stack = ExitStack()
        self.switches: list[Namespace] = []
        self._wired = 0.0
        try:
            self.a = self._stack.enter_context(Namespace("a"))
            self.b = self._stack.enter_context(Namespace("b"))
        except BaseException:
            self._stack.close()
            raise

    @classmethod
    def planes(
        cls,
        count: int = 1,
        mtu: int = 1500,
        *,
        bits_per_second: int | None = None,
        burst: int = 128 << 10,
        keep_addresses: bool = True,
    ) -> Fabric:
        """Hosts joined by `count` links.

        Args:
            count: of links, 1 to 31.
            mtu: of each.
            bits_per_second: rate of each in both directions; None: as fast as the machine.
            burst: bytes the rate limiter passes at once; below 64 KiB it splits segmented bursts.
            keep_addresses: IPv6 addresses survive a link that goes down.
        """
        if not 1 <= count <= 31:
            raise UsageError(f"1 to 31 links, not {count}")
        fabric = cls()
        try:
            for i in range(1, count + 1):
                fabric.add_plane(i, mtu, bits_per_second=bits_per_second, burst=burst, keep=keep_addresses)
            fabric.settle()
        except BaseException:
            fabric.close()
            raise
        return fabric

    def add_plane(
        self,
        number: int,
        mtu: int,
        *,
        bits_per_second: int | None = None,
        burst: int = 128 << 10,
        keep: bool = True,
    ) -> None:
        """Add link `number`; traffic passes after `settle`."""
        self.a.wire(f"a{number}", self.b, f"b{number}", mtu)
        for host, dev, end in ((self.a, f"a{number}", 1), (self.b, f"b{number}", 2)):
            if keep:
                host.sysctl(f"net.ipv6.conf.{dev}.keep_addr_on_down", 1)
            host.address(dev, f"fd00:{number}::{end}/64")
            if bits_per_second is not None:
                host.rate(dev, bits_per_second, burst=burst)
        self._wired = time.monotonic()

    @classmethod
    def chain(cls, hops: int = 3, mtu: int = 1500, *, usid: bool = False) -> Fabric:
        """Hosts `fd0a::1` and `fd0b::1` with `hops` switches between them.

        Args:
            hops: switches, 1 to 9.
            mtu: of each link.
            usid: the switches shift uSIDs in the destination as well (SRv6 End with next-csid), and the hosts
                have the addresses `fc00:0:a001::` and `fc00:0:b001::`; see `usid_list`.
        """
        if not 1 <= hops <= 9:
            raise UsageError(f"1 to 9 switches, not {hops}")
        fabric = cls()
        try:
            fabric._wire_chain(hops, mtu)
            if usid:
                fabric._add_usids()
            fabric.settle()
        except BaseException:
            fabric.close()
            raise
        return fabric

    def _wire_chain(self, hops: int, mtu: int) -> None:
        self.switches = [
            self._stack.enter_context(Namespace(f"t{i}", forwarding=True)) for i in range(1, hops + 1)
        ]
        first, last = self.switches[0], self.switches[-1]
        self.a.wire("a1", first, "west", mtu)
        for i, (left, right) in enumerate(zip(self.switches, self.switches[1:], strict=False), 1):
            left.wire("east", right, "west", mtu)
            left.address("east", f"fd01:{i}::1/64")
            right.address("west", f"fd01:{i}::2/64")
        last.wire("east", self.b, "b1", mtu)
        self._wired = time.monotonic()
        self.a.address("a1", "fd0a::1/64")
        first.address("west", "fd0a::ff/64")
        last.address("east", "fd0b::ff/64")
        self.b.address("b1", "fd0b::1/64")
        self.a.route("fd0b::/64", via="fd0a::ff")
        self.b.route("fd0a::/64", via="fd0b::ff")
        for i, switch in enumerate(self.switches, 1):
            if i < hops:
                switch.route("fd0b::/64", via=f"fd01:{i}::2")
            if i > 1:
                switch.route("fd0a::/64", via=f"fd01:{i - 1}::1")

    def _add_usids(self) -> None:
        hops = len(self.switches)
        for host, name, via, dev in ((self.a, "a001", "fd0a::ff", "a1"), (self.b, "b001", "fd0b::ff", "b1")):
            own = f"{_BLOCK}:{name}::"
            host.address("lo", f"{own}/128")
            host.route("fc00::/32", via=via, dev=dev, src=own)
        for i, switch in enumerate(self.switches, 1):
            # The SID hangs on a link of its own: on one of the fabric's it would vanish with that link.
            tell("ip", "-n", switch.name, "link", "add", "sid0", "type", "ifb")
            switch.up("sid0")
            tell(
                *f"ip -n {switch.name} -6 route add {_BLOCK}:{_usid(i)}::/48 encap seg6local action End "
                "flavors next-csid lblen 32 nflen 16 dev sid0".split()
            )
            east = f"fd01:{i}::2" if i < hops else "fd0b::1"
            west = f"fd01:{i - 1}::1" if i > 1 else "fd0a::1"
            switch.route(f"{_BLOCK}:b001::/48", via=east)
            switch.route(f"{_BLOCK}:a001::/48", via=west)
            if i < hops:
                switch.route(f"{_BLOCK}:{_usid(i + 1)}::/48", via=east)
            if i > 1:
                switch.route(f"{_BLOCK}:{_usid(i - 1)}::/48", via=west)

    def usid_list(self, to: str) -> str:
        """Return the destination that leads through every switch to host "a" or "b"."""
        order = range(1, len(self.switches) + 1)
        way = order if to == "b" else reversed(order)
        return ":".join([_BLOCK, *(_usid(i) for i in way), f"{to}001::"])

    def addresses(self, host: str) -> list[str]:
        """Return the addresses of host "a" or "b" on all planes."""
        end = 1 if host == "a" else 2
        links = sorted(int(dev[1:]) for dev in getattr(self, host)._names if dev[1:].isdigit())
        return [f"fd00:{i}::{end}" for i in links]

    def settle(self) -> None:
        """Wait until new links pass traffic."""
        time.sleep(max(0.0, self._wired + _SETTLE - time.monotonic()))

    def close(self) -> None:
        """Remove everything. Idempotent."""
        self._stack.close()

    def __enter__(self) -> Fabric:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
