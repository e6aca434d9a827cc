"""One connection between two endpoints over all planes they share."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType

from softmrc.endpoint.region import Region, RemoteWindow
from softmrc.endpoint.stats import ConnectionStats, Notification
from softmrc.endpoint.transfer import Transfer
from softmrc.types import Buffer

__all__ = ["Connection"]


class Connection:
    """A peer. Made by `Endpoint.connect` or a `Listener`; every method may be called from any thread."""

    @property
    def peer(self) -> str:
        """The peer in words: name and addresses of its planes."""
        raise NotImplementedError

    @property
    def pmtu(self) -> int:
        """Payload bytes of a full packet."""
        raise NotImplementedError

    @property
    def closed(self) -> bool:
        """True once it was closed or lost."""
        raise NotImplementedError

    def register(self, buffer: Buffer, writable: bool = True) -> Region:
        """Register memory so that it can be sent from, and with `writable` be written to by the peer.

        Args:
            buffer: contiguous memory; kept alive until the region is released.
            writable: False: only for sending; then read-only memory is accepted.

        Raises:
            UsageError: not contiguous, or read-only with `writable`.
        """
        raise NotImplementedError

    async def remote_window(self) -> RemoteWindow:
        """Wait for the window the peer exposes (`Endpoint.listen(expose=...)`, `Endpoint.connect(expose=...)`)."""
        raise NotImplementedError

    def remote_window_sync(self, timeout: float | None = None) -> RemoteWindow:
        """Block until the peer has exposed a window; TimeoutError when it has not in time."""
        raise NotImplementedError

    def expose(self, region: Region) -> None:
        """Tell the peer about a window; it becomes its newest `remote_window`."""
        raise NotImplementedError

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

        More than 2^31 bytes become several messages; `imm` goes with the last one. Writes complete in order; their
        bytes may be placed in any order.

        Args:
            data: what to write. A buffer is registered for the time of the transfer and must not change until it is
                done; a `Region` is cheaper when used more than once.
            window: where to.
            offset: first byte in the window.
            imm: 32-bit value that the peer gets as a `Notification` after all earlier bytes are in place.
            length: bytes; None: all from `local_offset` on.
            local_offset: first byte of `data`.

        Raises:
            UsageError: outside of the data or window, or `imm` has more than 32 bits.
            PeerError: the connection is closed or lost.
        """
        raise NotImplementedError

    def notifications(self) -> AsyncIterator[Notification]:
        """Iterate over immediates of the peer; ends when the peer closed in good order.

        Unread ones are kept up to `Knobs.notification_depth`, then the peer is held back, for `hold_time` at most.
        """
        raise NotImplementedError

    def recv_notification(self, timeout: float | None = None) -> Notification:
        """Block until the peer has sent an immediate.

        Raises:
            TimeoutError: none in time.
            PeerClosedError: the peer closed and no more will come.
            PeerError: the peer is lost.
        """
        raise NotImplementedError

    def send_message(self, message: bytes) -> Transfer:
        """Send a control message of at most 16 MiB over MRC itself; it needs no memory of the application.

        Independent of writes: no order between the two is promised except with immediates.
        """
        raise NotImplementedError

    async def recv_message(self) -> bytes:
        """Wait for the next control message; errors as `recv_notification`."""
        raise NotImplementedError

    def recv_message_sync(self, timeout: float | None = None) -> bytes:
        """Block until the next control message is there; errors as `recv_notification`."""
        raise NotImplementedError

    def stats(self) -> ConnectionStats:
        """Return counters, window and the state of every path."""
        raise NotImplementedError

    def close(self, timeout: float | None = None) -> None:
        """Close in good order: wait until the peer has everything, say goodbye, free the queue pairs. Idempotent.

        Args:
            timeout: seconds to linger; None: `Knobs.linger`.
        """
        raise NotImplementedError

    async def aclose(self, timeout: float | None = None) -> None:
        """`close` without blocking the loop."""
        raise NotImplementedError

    def abort(self) -> None:
        """Close at once; what is on its way fails."""
        raise NotImplementedError

    def __enter__(self) -> Connection:
        """Enter: nothing to do."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close, or abort when an error leaves the block."""
        raise NotImplementedError

    async def __aenter__(self) -> Connection:
        """Enter: nothing to do."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close, or abort when an error leaves the block."""
        raise NotImplementedError
