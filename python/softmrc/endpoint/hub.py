"""The thread of an endpoint and what it serves.

Which connection a completion or event belongs to, and the clock tick.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from softmrc.endpoint.denial import Denial
from softmrc.endpoint.moves import tell
from softmrc.endpoint.relapse import note_relapse
from softmrc.endpoint.worker import Worker
from softmrc.errors import MrcError, PeerError, UsageError
from softmrc.verbs import CQ, CompChannel, Context

if TYPE_CHECKING:
    from softmrc.endpoint.connection import Connection
    from softmrc.endpoint.link import Link
    from softmrc.endpoint.listener import Listener

__all__ = ["Hub"]

T = TypeVar("T")
_TICK_SECONDS = 0.5
_MAX_EVENTS = 4096
_log = logging.getLogger("softmrc")


class Hub:
    """Connections of an endpoint by completion queue and QPN."""

    def __init__(self, ctx: Context, name: str, keepalive: float, denial: Denial) -> None:
        """Start the thread."""
        self._ctx, self._denial = ctx, denial
        self._name = name
        self._keepalive = keepalive
        self.channel = CompChannel(ctx)
        self.listeners: set[Listener] = set()
        self._lock = threading.Lock()
        self._by_cq: dict[int, Link] = {}
        self._by_qpn: dict[int, Link] = {}
        self._events: deque[dict[str, Any]] = deque(maxlen=_MAX_EVENTS)
        self._warned: set[str] = set()
        self._stopped = False
        self._worker = Worker(name)
        ctx.pump.add_sink(self._on_event)
        self._worker.add_reader(self.channel.fd, self._on_readable)
        self._worker.call_soon(self._tick)

    def forked(self) -> bool:
        """Return True in a child process, where nothing of this works."""
        return self._worker.forked

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the thread and block for its result."""
        return self._worker.run(work)

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Run a coroutine on the thread."""
        return self._worker.submit(work)

    @property
    def here(self) -> bool:
        """True on the endpoint's thread itself, where nothing may block."""
        return self._worker.here

    def call_later(self, seconds: float, function: Callable[[], object]) -> None:
        """Run a function on the thread after some time; any thread."""
        self._worker.call_soon(lambda: self._worker.call_later(seconds, function))

    def call_soon(self, function: Callable[[], object]) -> None:
        """Run a function on the thread."""
        self._worker.call_soon(function)

    def connections(self) -> list[Link]:
        """Return the live connections."""
        with self._lock:
            return list(self._by_cq.values())

    def adopt(self, conn: Link, cq: CQ, qpns: tuple[int, ...]) -> None:
        """Serve a connection from now on.

        Raises:
            UsageError: the endpoint is closed.
        """
        with self._lock:
            if self._stopped:
                raise UsageError("the endpoint is closed")
            self._by_cq[cq.handle] = conn
            self._by_qpn |= dict.fromkeys(qpns, conn)

    def forget(self, cq: CQ, qpns: tuple[int, ...]) -> None:
        """Stop serving it."""
        with self._lock:
            self._by_cq.pop(cq.handle, None)
            for qpn in qpns:
                self._by_qpn.pop(qpn, None)

    def take_events(self) -> list[dict[str, Any]]:
        """Take the newest events, oldest first."""
        out: list[dict[str, Any]] = []
        with contextlib.suppress(IndexError):
            while True:
                out.append(self._events.popleft())
        return out

    def warn_planes(self, conn: Connection, used: int, ours: int, theirs: int) -> None:
        """Say once for each peer that not all planes fit together (B60)."""
        if conn.peer not in self._warned:
            self._warned.add(conn.peer)
            _log.warning(
                "%s: using %d planes with %s; this end has %d, that end %d",
                self._name,
                used,
                conn.peer,
                ours,
                theirs,
            )

    def stop(self) -> None:
        """Stop the thread; connections must be closed."""
        with self._lock:
            self._stopped = True
        self._worker.stop(self.channel.fd)
        self._ctx.pump.remove_sink(self._on_event)

    # --- on the thread --------------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        with contextlib.suppress(MrcError, OSError):
            while (cq := self.channel.get_cq_event(timeout=0)) is not None:
                cq.ack_events(1)
                conn = self._by_cq.get(cq.handle)
                if conn is not None:
                    conn._drain()

    def _on_event(self, event: dict[str, Any]) -> None:
        conn = self._by_qpn.get(event.get("qpn", 0))
        if event["kind"] == "ev_state" and conn is not None and conn.path_names:
            event = {**event, "path": conn.path_names.get((event["port"], event["ev"]), "")}
        self._events.append(event)
        if event["kind"] == "qp_error" and conn is not None:
            self.call_soon(conn._on_qp_error)
        if event["kind"] == "ev_state" and event["reason"] == "relapse" and conn is not None:
            self.call_soon(partial(note_relapse, conn, event["port"]))
        if event["kind"] == "port_moved":
            for one in self.connections():
                self.call_soon(partial(tell, one, event["port"]))

    def _tick(self) -> None:
        if self._stopped:
            return
        if failure := self._ctx.driver.failure():
            _log.error("%s: %s", self._name, failure)
            for conn in self.connections():
                conn._drop(PeerError(f"the endpoint failed: {failure}"))
            return
        now = self._ctx.driver.now_ns() / 1e9
        for conn in self.connections():
            conn._tick(now, self._keepalive)
        self._denial.tick(now)
        self._worker.call_later(_TICK_SECONDS, self._tick)
