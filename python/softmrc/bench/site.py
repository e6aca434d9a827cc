"""The networks of the rows: loopback, one veth path, four slow ones, a chain of switches. One stands at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from softmrc.netns import Fabric, Namespace, missing

__all__ = ["Site", "Sites"]


@dataclass(frozen=True)
class Site:
    """Two hosts, as their programs see them."""

    label: str
    a: Namespace | None
    b: Namespace | None
    a_planes: tuple[str, ...]
    b_planes: tuple[str, ...]
    fabric: Fabric | None = None

    @property
    def links(self) -> list[str]:
        """Links of host b, one a plane."""
        return [f"b{i}" for i in range(1, len(self.b_planes) + 1)] if self.fabric is not None else ["lo"]


LOOPBACK = Site("loopback", None, None, ("127.0.0.1",), ("127.0.0.2",))


class Sites:
    """Makes the network a row asks for, and takes the one before away; a context manager."""

    def __init__(self) -> None:
        """Begin with none."""
        self._key: tuple[object, ...] = ()
        self._site: Site | None = None

    def path(self, mtu: int) -> Site:
        """One veth path; loopback where namespaces are missing."""
        if missing():
            return LOOPBACK
        return self._get(("path", mtu), lambda: self._planes(f"veth {mtu}", Fabric.planes(1, mtu), 1))

    def four(self, mtu: int, bits_per_second: int = 500_000_000, *, split: bool = False) -> Site:
        """Four paths with a rate limit each.

        Args:
            mtu: of each path.
            bits_per_second: of each path.
            split: segmented bursts become real packets, so that loss takes one of them and not all.
        """
        burst = 16 << 10 if split else 128 << 10
        return self._get(
            ("four", mtu, bits_per_second, split),
            lambda: self._planes(
                f"4 x {bits_per_second // 10**6} Mbit/s, MTU {mtu}",
                Fabric.planes(4, mtu, bits_per_second=bits_per_second, burst=burst),
                4,
            ),
        )

    def chain(self, hops: int, mtu: int) -> Site:
        """Switches that forward by address and shift uSIDs."""

        def make() -> Site:
            fabric = Fabric.chain(hops, mtu, usid=True)
            return Site(
                f"{hops} uSID switches, MTU {mtu}", fabric.a, fabric.b, ("fd0a::1",), ("fd0b::1",), fabric
            )

        return self._get(("chain", hops, mtu), make)

    @staticmethod
    def _planes(label: str, fabric: Fabric, count: int) -> Site:
        ends = [tuple(f"fd00:{i}::{end}" for i in range(1, count + 1)) for end in (1, 2)]
        return Site(label, fabric.a, fabric.b, ends[0], ends[1], fabric)

    def _get(self, key: tuple[object, ...], make: Callable[[], Site]) -> Site:
        if self._key != key or self._site is None:
            self.close()
            self._site, self._key = make(), key
        return self._site

    def close(self) -> None:
        """Take the network away. Idempotent."""
        site, self._site, self._key = self._site, None, ()
        if site is not None and site.fabric is not None:
            site.fabric.close()

    def __enter__(self) -> Sites:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
