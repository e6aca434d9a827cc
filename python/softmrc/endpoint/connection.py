"""One connection between two endpoints over all planes they share: what users call.

Its life is in `link.py`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from types import TracebackType

from softmrc.device import end_block
from softmrc.endpoint.bringup import draw_ways, receive_on, send_on
from softmrc.endpoint.link import Link
from softmrc.endpoint.mailbox import Kind
from softmrc.endpoint.offer import QpOffer
from softmrc.endpoint.region import Region, RemoteWindow
from softmrc.endpoint.stats import ConnectionStats, Notification, Route
from softmrc.endpoint.steering import Ways
from softmrc.endpoint.tap import Tap
from softmrc.endpoint.transfer import Transfer
from softmrc.errors import PeerClosedError, PeerError, UsageError
from softmrc.types import Buffer
from softmrc.verbs import QP

__all__ = ["Connection"]


class Connection(Link):
    """A peer. Made by `Endpoint.connect` or a `Listener`; every method may be called from any thread."""

    # --- identity -------------------------------------------------------------------------------------------

    @property
    def peer_generation(self) -> str:
        """Random number of the peer's incarnation; another one after a restart."""
        return self._offer.generation

    @property
    def planes(self) -> tuple[int, ...]:
        """Local planes in use."""
        return tuple(mine for mine, _ in self._pairs)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Which plane of the peer each local plane talks to."""
        its = {p.number: p for p in self._offer.planes}
        return tuple(
            Route(plane=mine, peer_plane=n, address=its[n].address, udp_port=its[n].udp_port)
            for mine, n in self._pairs
        )

    @property
    def peer_addresses(self) -> tuple[str, ...]:
        """Addresses of all planes the peer has, also of those this end has no counterpart for."""
        return tuple(p.address for p in self._offer.planes)

    @property
    def peer_left(self) -> bool:
        """True once the peer has said goodbye, or that it aborts."""
        return self._bye_seen

    @property
    def silent_for(self) -> float:
        """Seconds since the peer was heard last: since it acknowledged or sent something."""
        return time.monotonic() - self._heard

    @property
    def pmtu(self) -> int:
        """Payload bytes of a full packet."""
        return self._pmtu

    @property
    def icrc(self) -> bool:
        """Whether packets carry an iCRC and are checked: unless both ends asked to leave it off."""
        return self._ep.knobs.icrc or not self._offer.icrc_off

    def open_beside(
        self, qp: QP, psn: int, its_end: QpOffer, *, max_wimm: int, sack_bytes: int | None = None
    ) -> Ways:
        """Bring a further queue pair up that takes the planes, packet size and knobs of this connection.

        Args:
            qp: in state RESET; RTS in the end.
            psn: its first PSN, as the peer was told.
            its_end: number and first PSN of the queue pair at the peer.
            max_wimm: immediates in flight, each way.
            sack_bytes: see `receive_on`.

        Returns:
            The ways of its EVs through the fabric, where one is known.
        """
        ways = draw_ways(self._ep, self._offer, self._pairs)
        receive_on(
            self._ep,
            qp,
            its_end,
            self._offer,
            self._pairs,
            self._pmtu,
            max_wimm=max_wimm,
            ways=ways,
            sack_bytes=sack_bytes,
        )
        send_on(self._ep, qp, psn, self._offer, max_wimm=max_wimm)
        return ways

    # --- memory ---------------------------------------------------------------------------------------------

    def register(self, buffer: Buffer, writable: bool = True) -> Region:
        """Register memory so that it can be sent from, and with `writable` be written to by the peer.

        Args:
            buffer: contiguous memory; kept alive until the region is released.
            writable: False: only for sending; then read-only memory is accepted.

        Raises:
            UsageError: not contiguous, empty, or read-only with `writable`.
        """
        return self._ep.register(buffer, writable)

    async def remote_window(self) -> RemoteWindow:
        """Wait for the window the peer exposes: `listen(expose=...)`, `connect(expose=...)` or `expose`."""
        while self._window is None:
            self._window = await self._windows.get_async()
        return self._newest_window()

    def remote_window_sync(self, timeout: float | None = None) -> RemoteWindow:
        """Block until the peer has exposed a window; TimeoutError when it has not in time."""
        if self._window is None:
            self._window = self._windows.get(timeout)
        return self._newest_window()

    def _newest_window(self) -> RemoteWindow:
        for window in self._windows.drain():
            self._window = window
        assert self._window is not None
        return self._window

    def expose(self, region: Region) -> None:
        """Tell the peer about a window; it becomes its newest `remote_window`."""
        self._send_mail(Kind.CONTROL, json.dumps({"window": region.descriptor.to_json()}).encode())

    # --- writing --------------------------------------------------------------------------------------------

    def write(
        self,
        data: Buffer | Region,
        window: RemoteWindow,
        offset: int = 0,
        imm: int | None = None,
        length: int | None = None,
        local_offset: int = 0,
    ) -> Transfer:
        """Write bytes into the peer's memory. Returns at once; queues without bound on the caller's side.

        More than 2^31 bytes become several messages; `imm` goes with the last one. Writes complete in order;
        their bytes may be placed in any order.

        Args:
            data: what to write. A buffer is registered for the time of the transfer and must not change until
                it is done; a `Region` is cheaper when used more than once.
            window: where to.
            offset: first byte in the window.
            imm: 32-bit value that the peer gets as a `Notification` after all earlier bytes are in place.
            length: bytes; None: all from `local_offset` on.
            local_offset: first byte of `data`.

        Raises:
            UsageError: outside of the data or window, or `imm` has more than 32 bits.
            PeerError: the connection is closed or lost.
        """
        if imm is not None and not 0 <= imm < 1 << 32:
            raise UsageError(f"imm is a number of 32 bits, not {imm}")
        with self._lock:
            self._require_open()
            transfer = self._outbox.add(data, window, offset, imm, length, local_offset)
            error = self._outbox.post()
            self._spoke = time.monotonic()
        if error is not None:
            self._ep.hub.call_soon(self._drain)
        return transfer

    def notifications(self) -> AsyncIterator[Notification]:
        """Iterate over immediates of the peer; ends when the peer closed in good order.

        Unread ones are kept up to `Knobs.notification_depth`, then the peer is held back, for `hold_time` at
        most.
        """
        return self._iterate_notes()

    async def _iterate_notes(self) -> AsyncIterator[Notification]:
        while True:
            try:
                note = await self._notes.get_async()
            except PeerClosedError:
                return
            yield note

    async def recv_notification_async(self) -> Notification:
        """Wait for the next immediate without blocking the loop; errors as `recv_notification`."""
        return await self._notes.get_async()

    def recv_notification(self, timeout: float | None = None) -> Notification:
        """Block until the peer has sent an immediate.

        Raises:
            TimeoutError: none in time.
            PeerClosedError: the peer closed and no more will come.
            PeerError: the peer is lost.
        """
        return self._notes.get(timeout)

    # --- messages -------------------------------------------------------------------------------------------

    def send_message(self, message: bytes) -> Transfer:
        """Send a control message of at most 16 MiB over MRC itself; it needs no memory of the application.

        Independent of writes: no order between the two is promised. Done once it is in the peer's mailbox.
        """
        return self._send_mail(Kind.MESSAGE, bytes(message))

    async def recv_message(self) -> bytes:
        """Wait for the next control message; errors as `recv_notification`."""
        return await self._mails.get_async()

    def recv_message_sync(self, timeout: float | None = None) -> bytes:
        """Block until the next control message is there; errors as `recv_notification`."""
        return self._mails.get(timeout)

    def serve(
        self,
        message: Callable[[bytes], object],
        notification: Callable[[Notification], object],
        ended: Callable[[BaseException], object],
    ) -> None:
        """Have messages and immediates given to functions from now on, instead of `recv_message` and its like.

        What waits already is given first. The functions are called on the endpoint's thread, in the order of
        arrival, and must not block.

        Args:
            message: takes each control message.
            notification: takes each immediate.
            ended: takes why no more will come, once: `PeerClosedError` after an orderly close of the peer.
        """
        with self._lock:
            mails: Tap[bytes] = Tap(self._ep.hub, message, self._mail_taken, ended)
            notes: Tap[Notification] = Tap(self._ep.hub, notification, self._note_taken)
            notes.take_over(self._notes)
            mails.take_over(self._mails)
            self._notes, self._mails = notes, mails

    def stats(self) -> ConnectionStats:
        """Return counters, window and the state of every path."""
        with self._lock:
            return self._final or self._snapshot()

    def give_up(self, why: PeerError) -> None:
        """Free everything at once and tell the peer nothing: it is known to be gone. Idempotent, never blocks.

        Args:
            why: what transfers on their way, and later calls, fail with.
        """
        if not self._ep.hub.forked():
            self._drop(why)

    async def aclose(self, timeout: float | None = None) -> None:
        """`close` without blocking the loop."""
        await asyncio.to_thread(self.close, timeout)

    def __enter__(self) -> Connection:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close, or abort when an error leaves the block."""
        end_block(self.close if kind is None else self.abort, error)

    async def __aenter__(self) -> Connection:
        """Enter: nothing to do."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close, or abort when an error leaves the block."""
        await asyncio.to_thread(end_block, self.close if kind is None else self.abort, error)
