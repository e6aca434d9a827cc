"""One NIC of several planes in user space."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Unpack

from softmrc.endpoint.address import Plane
from softmrc.endpoint.connection import Connection
from softmrc.endpoint.exchange import Exchange
from softmrc.endpoint.knobs import KnobArgs
from softmrc.endpoint.listener import Listener
from softmrc.endpoint.region import Region
from softmrc.endpoint.stats import EndpointStats, PlaneStatus
from softmrc.types import Buffer

__all__ = ["Endpoint"]


class Endpoint:
    """One NIC of several planes; a context manager, plain and asynchronous."""

    def __init__(
        self,
        *planes: str | Plane,
        udp_port: int = 0,
        evs_per_plane: int = 16,
        seed: int | None = None,
        name: str | None = None,
        **knobs: Unpack[KnobArgs],
    ) -> None:
        """Open sockets on every plane and start the I/O thread.

        Args:
            planes: local addresses, "127.0.0.1" or "fd00::1" or "fe80::1%eth1", or `Plane` objects; 1 to 31.
            udp_port: UDP port of every plane; 0: the kernel picks one each.
            evs_per_plane: entropy values (paths) of each plane, 1 to 4096.
            seed: of the engine and of built-in impairments; None: from the operating system.
            name: shown to peers and in errors; None: host name and process id.
            knobs: see `Knobs`.

        Raises:
            UsageError: no plane, a bad address or knob.
            VerbsError: a socket could not be opened, for instance EADDRINUSE or EADDRNOTAVAIL; the text says which.
        """
        raise NotImplementedError

    @property
    def name(self) -> str:
        """Name given to peers."""
        raise NotImplementedError

    @property
    def planes(self) -> tuple[PlaneStatus, ...]:
        """The planes as opened: addresses, ports, EVs, link state."""
        raise NotImplementedError

    def listen(
        self,
        host: str | Sequence[str] | int | None = None,
        port: int = 0,
        *,
        expose: Buffer | Region | None = None,
        token: str | bytes | None = None,
        backlog: int = 128,
    ) -> Listener:
        """Accept peers over TCP.

        Args:
            host: address or addresses to listen on; None: those of the planes. An int is taken as the port.
            port: TCP port; 0: the kernel picks one (`Listener.port`).
            expose: memory every accepted peer may write to.
            token: shared secret a peer must prove before it learns anything.
            backlog: of the TCP socket.
        """
        raise NotImplementedError

    async def connect(
        self,
        addresses: str | Sequence[str],
        port: int,
        *,
        expose: Buffer | Region | None = None,
        token: str | bytes | None = None,
        timeout: float = 10.0,
    ) -> Connection:
        """Connect to a listening endpoint, trying each address until one answers.

        Args:
            addresses: where the peer listens; names are resolved.
            port: its TCP port.
            expose: memory the peer may write to.
            token: shared secret; the peer must prove it, too.
            timeout: seconds for everything.

        Raises:
            PeerError: nobody answered, the peer refused, or the ends do not fit (version, capability, address family).
        """
        raise NotImplementedError

    def connect_sync(
        self,
        addresses: str | Sequence[str],
        port: int,
        *,
        expose: Buffer | Region | None = None,
        token: str | bytes | None = None,
        timeout: float = 10.0,
    ) -> Connection:
        """Blocking `connect`."""
        raise NotImplementedError

    async def connect_over(
        self,
        exchange: Exchange,
        *,
        initiator: bool,
        expose: Buffer | Region | None = None,
        token: str | bytes | None = None,
        timeout: float = 10.0,
    ) -> Connection:
        """Connect over a channel of the caller's; exactly one end passes `initiator=True`."""
        raise NotImplementedError

    def register(self, buffer: Buffer, writable: bool = True) -> Region:
        """Register memory for all connections; see `Connection.register`."""
        raise NotImplementedError

    def impair(self, rules: Iterable[Mapping[str, Any]] | None) -> list[int]:
        """Add built-in impairments (drop, delay, reorder, duplicate, corrupt, trim), or remove all with None.

        Args:
            rules: see `softmrc.verbs.Context.add_rule` for the members.

        Returns:
            The numbers of the rules.
        """
        raise NotImplementedError

    def last_data_tx(self, plane: int, ev: int | None = None) -> float:
        """Time the last data packet left on a plane, or on one of its EVs; CLOCK_MONOTONIC seconds, 0: never."""
        raise NotImplementedError

    def set_plane_up(self, plane: int, up: bool) -> None:
        """Take a plane out of use, as if its link were down, or bring it back."""
        raise NotImplementedError

    def stats(self) -> EndpointStats:
        """Return the counters of engine and driver."""
        raise NotImplementedError

    def close(self) -> None:
        """Close every connection and listener in good order, then the sockets. Idempotent."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """`close` without blocking the loop."""
        raise NotImplementedError

    def __enter__(self) -> Endpoint:
        """Enter: nothing to do."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close."""
        self.close()

    async def __aenter__(self) -> Endpoint:
        """Enter: nothing to do."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        await self.aclose()
