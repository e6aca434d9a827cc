"""One NIC of several planes in user space: owns the device, the worker thread, listeners and connections."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Unpack

from softmrc.cpus import wanted_cpus
from softmrc.device import end_block, host_interfaces
from softmrc.endpoint.address import Plane
from softmrc.endpoint.connection import Connection
from softmrc.endpoint.dial import dial
from softmrc.endpoint.exchange import Exchange
from softmrc.endpoint.handshake import Handshake, token_bytes
from softmrc.endpoint.hub import Hub
from softmrc.endpoint.knobs import KnobArgs, Knobs
from softmrc.endpoint.link import Link
from softmrc.endpoint.listener import Listener, bind_sockets
from softmrc.endpoint.planes import expand_planes, ipv6_is_off
from softmrc.endpoint.region import Exposed, Region
from softmrc.endpoint.setup import establish
from softmrc.endpoint.stats import EndpointStats, PlaneStatus
from softmrc.endpoint.steering import Steering, guarded, planes_of_host
from softmrc.errors import MrcError, PeerError, UsageError, VerbsError
from softmrc.types import Buffer
from softmrc.verbs import MR, PD, Access, Context, Rule

__all__ = ["Endpoint"]

_SOFTWARE = "softmrc 0.1.0"
_log = logging.getLogger("softmrc.paths")
# Strong: an endpoint that is not closed lives until the end of the program, which closes it.
_open_endpoints: set[Endpoint] = set()


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
            planes: local addresses ("127.0.0.1", "fd00::1", "fe80::1%eth1"), interfaces ("eth1", "eth*"),
                prefixes ("10.1.0.0/16"), exclusions ("^docker0,lo"), lists of these with commas, or `Plane`
                objects; 1 to 31 in the end. `Endpoint.planes` tells what was chosen. None: those that the
                environment's SOFTMRC_PLANES names, as inside a host of a lab.
            udp_port: UDP port of every plane; 0: the kernel picks one each.
            evs_per_plane: entropy values (paths) of each plane, 1 to 4096; in a known fabric more if it has more
                paths, and the same number of each.
            seed: of the engine and of built-in impairments; None: from the operating system.
            name: shown to peers and in errors; None: host name and process id.
            knobs: see `Knobs`.

        Raises:
            UsageError: no plane, a bad address or knob.
            VerbsError: a socket could not be opened, for instance EADDRINUSE or EADDRNOTAVAIL; the text says
            which.
        """
        self._closed = True
        self.knobs = Knobs.of(knobs)
        self.cpus = wanted_cpus(self.knobs.cpus, self.knobs.numa)
        """CPUs the I/O thread is kept on; none: not pinned."""
        self.software = _SOFTWARE
        self.generation = os.urandom(8).hex()
        self._name = name or f"{socket.gethostname()}:{os.getpid()}"
        if len(self._name) > 200 or not self._name.isprintable():
            raise UsageError("a name has at most 200 printable characters")
        if not 1 <= evs_per_plane <= 4096:
            raise UsageError(f"evs_per_plane is 1 to 4096, not {evs_per_plane}")
        self.steering = Steering.of(self.knobs.fabric)
        planes = planes or planes_of_host()
        chosen = expand_planes(planes, host_interfaces)
        if not 1 <= len(chosen) <= 31:
            raise UsageError("an endpoint has 1 to 31 planes, for instance Endpoint('127.0.0.1')")
        self._say_planes(planes, chosen)
        wanted = guarded(
            [self.steering.plane(self._plane(p), evs_per_plane) for p in chosen], self.knobs.icrc
        )
        self.ctx = Context(
            self.knobs.device, wanted, seed=seed, evs_per_plane=evs_per_plane, udp_port=udp_port,
            rcvbuf=self.knobs.rcvbuf, sndbuf=self.knobs.sndbuf, impair_seed=seed,
            spin_us=round(self.knobs.spin * 1e6), batching=self.knobs.batching, cpus=list(self.cpus) or None,
        )  # fmt: skip
        self.pd = PD(self.ctx)
        self.hub = Hub(self.ctx, self._name, self.knobs.keepalive, self.steering.denial)
        self._closed = False
        _open_endpoints.add(self)

    def _say_planes(self, given: Sequence[str | Plane], chosen: Sequence[Plane]) -> None:
        if [p.address if isinstance(p, Plane) else p for p in given] != [p.address for p in chosen]:
            _log.info("%s: planes are %s", self._name, ", ".join(p.address for p in chosen))
        routed = [p for p in chosen if ":" not in p.address and not p.address.startswith("127.")]
        if len(routed) == len(chosen) and ipv6_is_off(host_interfaces()):
            _log.warning(
                "%s: IPv6 is off on this host: paths differ by UDP source port; no flow labels, no SRv6",
                self._name,
            )

    @staticmethod
    def _plane(plane: Plane) -> dict[str, Any]:
        return {
            "address": plane.address,
            "udp_port": plane.udp_port,
            "evs": plane.evs,
            "bytes_per_second": plane.bits_per_second // 8,
            "force_source_ports": plane.force_source_ports,
        }

    @property
    def name(self) -> str:
        """Name given to peers."""
        return self._name

    @property
    def closed(self) -> bool:
        """True after `close`."""
        return self._closed

    @property
    def planes(self) -> tuple[PlaneStatus, ...]:
        """The planes as opened: addresses, ports, EVs, link state."""
        self._require_open()
        return tuple(
            PlaneStatus(number=p["port"], evs=tuple(p["evs"]), **{k: p[k] for k in _PLANE_FIELDS})
            for p in self.ctx.planes
        )

    # --- peers ----------------------------------------------------------------------------------------------

    def listen(
        self,
        host: str | Sequence[str] | int | None = None,
        port: int = 0,
        *,
        expose: Buffer | Region | None = None,
        token: str | bytes | None = None,
        backlog: int = 4096,
    ) -> Listener:
        """Accept peers over TCP.

        Args:
            host: address or addresses to listen on; None: those of the planes. An int is taken as the port.
            port: TCP port; 0: the kernel picks one (`Listener.port`).
            expose: memory every accepted peer may write to.
            token: shared secret a peer must prove before it learns anything.
            backlog: of the TCP socket.

        Raises:
            VerbsError: EADDRINUSE and its like.
        """
        self._require_open()
        if isinstance(host, int):
            port = host
        if host is None or isinstance(host, int):
            hosts = [p.address for p in self.planes]
        else:
            hosts = [host] if isinstance(host, str) else list(host)
        secret = token_bytes(token)
        exposed = self._exposed(expose)
        try:
            sockets = bind_sockets(list(dict.fromkeys(self.steering.meet(h) for h in hosts)), port)
        except OSError as error:
            exposed.release()
            raise VerbsError(error.errno or 5, f"listen on {', '.join(hosts)} port {port}") from None
        listener = Listener(self, sockets, expose=exposed, token=secret, backlog=backlog)
        self.hub.run(listener._serve())
        self.hub.listeners.add(listener)
        return listener

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
            PeerError: nobody answered, the peer refused, or the ends do not fit (version, capability, address
            family).
        """
        self._require_open()
        secret = token_bytes(token)
        given = [addresses] if isinstance(addresses, str) else addresses
        hosts = [self.steering.meet(h) for h in given]
        exposed = self._exposed(expose)
        try:
            return await dial(self, hosts, port, expose=exposed, token=secret, timeout=timeout)
        finally:
            exposed.release()

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
        self._require_open()
        return self.hub.run(self.connect(addresses, port, expose=expose, token=token, timeout=timeout))

    async def connect_over(
        self,
        exchange: Exchange,
        *,
        initiator: bool,
        expose: Buffer | Region | None = None,
        token: str | bytes | None = None,
        timeout: float = 10.0,
    ) -> Connection:
        """Connect over a channel of the caller's.

        Exactly one end passes `initiator=True`. The channel stays open.
        """
        self._require_open()
        secret = token_bytes(token)
        shake = Handshake(exchange, initiator=initiator, software=self.software, token=secret)
        exposed = self._exposed(expose)
        try:
            async with asyncio.timeout(timeout):
                return await establish(self, exchange, shake, initiator=initiator, expose=exposed)
        except TimeoutError:
            raise PeerError(f"the peer did not complete the set-up within {timeout:g} s") from None
        finally:
            exposed.release()

    def _exposed(self, expose: Buffer | Region | None) -> Exposed:
        if expose is None or isinstance(expose, Region):
            return Exposed(expose, owned=False)
        return Exposed(self.register(expose), owned=True)

    def register(self, buffer: Buffer, writable: bool = True) -> Region:
        """Register memory for all connections; see `Connection.register`."""
        self._require_open()
        access = Access.LOCAL_WRITE | Access.REMOTE_WRITE if writable else Access(0)
        return Region(MR(self.pd, buffer, access), writable)

    # --- paths ----------------------------------------------------------------------------------------------

    def impair(self, rules: Iterable[Rule | Mapping[str, Any]] | Rule | None) -> list[int]:
        """Add built-in impairments (drop, delay, reorder, duplicate, corrupt, trim), or remove all with None.

        Args:
            rules: `softmrc.verbs.Rule` objects, or mappings with their members.

        Returns:
            The numbers of the rules.
        """
        self._require_open()
        if rules is None:
            self.ctx.clear_rules()
            return []
        return self.ctx.add_rules([rules] if isinstance(rules, Rule) else rules)

    def last_data_tx(self, plane: int, ev: int | None = None) -> float:
        """Time the last data packet left on a plane, or on one of its EVs.

        CLOCK_MONOTONIC seconds, 0: never.
        """
        self._require_open()
        return self.ctx.driver.last_data_tx_ns(plane, ev) / 1e9

    def set_plane_up(self, plane: int, up: bool) -> None:
        """Take a plane out of use, as if its link were down, or bring it back."""
        self._require_open()
        self.ctx.set_port_up(plane, up)

    def events(self) -> list[dict[str, Any]]:
        """Take what happened since the last call (the newest 4096).

        EV states, planes up and down, lost queue pairs.
        """
        return self.hub.take_events()

    def stats(self) -> EndpointStats:
        """Return the counters of engine and driver."""
        self._require_open()
        raw = self.ctx.stats()
        return EndpointStats(
            drops=raw.pop("drops"),
            plane_tx_bytes=raw.pop("port_tx_bytes"),
            plane_rx_bytes=raw.pop("port_rx_bytes"),
            counters=raw,
            connections=len(self.hub.connections()),
        )

    def _require_open(self) -> None:
        if self._closed:
            raise UsageError("the endpoint is closed")
        if self.hub.forked():
            raise UsageError("this process was forked from the one that owns the endpoint; open one here")

    # --- end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close every connection and listener in good order, then the sockets. Idempotent.

        A peer that does not acknowledge in time is given up; `Connection.close` says so, this does not. Writes
        that are not done by then fail with PeerError; regions are released.
        """
        if self._closed or self.hub.forked():
            return
        try:
            for listener in list(self.hub.listeners):
                listener.close()
            _close_together(self.hub.connections())
        finally:
            self._closed = True
            self._free()

    def _free(self) -> None:
        """Stop the thread and give everything back, whatever fails on the way."""
        with contextlib.ExitStack() as last_to_first:
            last_to_first.callback(_open_endpoints.discard, self)
            last_to_first.callback(self.ctx.close)
            self.hub.stop()
            for conn in self.hub.connections():  # came up while the others were closing
                conn._drop(PeerError(f"the endpoint of the connection to {conn.peer} was closed"))

    async def aclose(self) -> None:
        """`close` without blocking the loop."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Endpoint:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close; an error that leaves the block stays the one that is seen."""
        end_block(self.close, error)

    async def __aenter__(self) -> Endpoint:
        """Enter: nothing to do."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close; an error that leaves the block stays the one that is seen."""
        await asyncio.to_thread(end_block, self.close, error)


_PLANE_FIELDS = ("address", "udp_port", "up", "flow_labels", "mtu", "rcvbuf", "sndbuf")


def _close_together(connections: list[Link]) -> None:
    """Close side by side: one silent peer must not eat the patience meant for the others."""
    threads = [threading.Thread(target=_close_quietly, args=(c,)) for c in connections]
    for thread, conn in zip(threads, connections, strict=True):
        try:
            thread.start()
        except RuntimeError:  # Python 3.12 starts no threads once the interpreter ends
            _close_quietly(conn)
    for thread in threads:
        if thread.ident is not None:
            thread.join()


def _close_quietly(conn: Link) -> None:
    with contextlib.suppress(MrcError):
        conn.close()


@atexit.register
def _close_all() -> None:
    """Linger for what a finished program has sent (B06); nothing survives the interpreter."""
    with contextlib.ExitStack() as each:
        for ep in list(_open_endpoints):
            each.callback(ep.close)
