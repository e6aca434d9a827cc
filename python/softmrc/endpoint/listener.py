"""Waits for peers, and hands their connections out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType

from softmrc.endpoint.connection import Connection

__all__ = ["Listener"]


class Listener:
    """Accepts connections for an endpoint: `async for conn in listener`, or `listener.accept(timeout)`."""

    @property
    def port(self) -> int:
        """TCP port it listens on."""
        raise NotImplementedError

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses it listens on."""
        raise NotImplementedError

    @property
    def refused(self) -> tuple[tuple[str, str], ...]:
        """The newest refused peers (at most 64): address and reason."""
        raise NotImplementedError

    def accept(self, timeout: float | None = None) -> Connection:
        """Block until a peer has connected.

        Raises:
            TimeoutError: none came in time.
            UsageError: the listener is closed.
        """
        raise NotImplementedError

    async def accept_async(self) -> Connection:
        """Wait for a peer without blocking the loop.

        Raises:
            UsageError: the listener is closed.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Stop listening; connections already handed out stay. Idempotent."""
        raise NotImplementedError

    def __aiter__(self) -> AsyncIterator[Connection]:
        """Iterate over connections until the listener is closed."""
        raise NotImplementedError

    def __enter__(self) -> Listener:
        """Enter: nothing to do."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Close."""
        self.close()

    async def __aenter__(self) -> Listener:
        """Enter: nothing to do."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
