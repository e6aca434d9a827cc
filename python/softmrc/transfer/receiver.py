"""The receiving side: one thread a peer, files verified and moved into place as they come.

Decides which files a peer may write to and when; leaves the file itself to `incoming`, names to `names`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from softmrc.endpoint import Endpoint, Listener
from softmrc.transfer.errors import BusyError
from softmrc.transfer.incoming import IncomingFile
from softmrc.transfer.session import Session
from softmrc.transfer.tree import Tree

__all__ = ["Outcome", "Receiver"]

MAX_PEERS = 16
"""Peers served at a time; more are turned away."""


@dataclass
class Outcome:
    """How one peer's transfer stands, or ended."""

    peer: str
    files: int = 0
    """Files moved into place or found there already."""
    bytes_total: int = 0
    bytes_received: int = 0
    """Bytes that came in and were verified."""
    bytes_kept: int = 0
    """Bytes that were there from an earlier try."""
    seconds: float = 0.0
    complete: bool = False
    error: str | None = None
    interrupted: bool = False
    """The peer went away; it may come back and go on."""
    incomplete: list[str] = field(default_factory=list)
    """Files the sender gave up, with reasons."""


class Receiver:
    """Receives files into a directory until it is closed."""

    def __init__(
        self,
        endpoint: Endpoint,
        listener: Listener,
        tree: Tree,
        report: Callable[[str, Outcome], object],
    ) -> None:
        """Serve the peers of `listener`.

        Args:
            endpoint: owner of the listener.
            listener: where peers come from.
            tree: where files go.
            report: called with "start", "progress" and "end" from the threads of the peers.
        """
        self.endpoint = endpoint
        self.tree = tree
        self._listener = listener
        self._report = report
        self._lock = threading.Lock()
        self._sessions: set[Session] = set()
        self._owners: dict[str, Session] = {}

    def serve(self, once: bool) -> Outcome | None:
        """Accept peers until stopped by an exception; with `once`, until one transfer has ended.

        A peer that is lost in the middle does not count: it may come back and go on.

        Returns:
            With `once`: how the transfer ended.
        """
        while True:
            if once and (done := self._finished_one()) is not None:
                return done
            try:
                connection = self._listener.accept(timeout=0.25)
            except TimeoutError:
                continue
            with self._lock:
                self._sessions = {s for s in self._sessions if s.is_alive() or (once and s.counts)}
                full = sum(s.is_alive() for s in self._sessions) >= MAX_PEERS
                if not full:
                    session = Session(self, connection, Outcome(peer=connection.peer))
                    self._sessions.add(session)
            if full:
                connection.abort()
            else:
                session.start()

    def _finished_one(self) -> Outcome | None:
        with self._lock:
            return next((s.outcome for s in self._sessions if s.counts and not s.is_alive()), None)

    def say(self, what: str, outcome: Outcome) -> None:
        """Tell the caller about a peer."""
        self._report(what, outcome)

    def open_file(self, session: Session, file: Callable[[], IncomingFile], key: str) -> IncomingFile:
        """Open an unfinished file for a session; an older session that holds it must let it go.

        A sender that was killed and started again meets its own dead predecessor here: the newer one wins.

        Raises:
            BusyError: another process holds the file, or the predecessor does not end.
        """
        for _ in range(2):
            try:
                opened = file()
            except BusyError:
                with self._lock:
                    owner = self._owners.get(key)
                if owner is None or owner is session:
                    raise
                owner.replace_by_newer()
                owner.join(timeout=15.0)
                continue
            with self._lock:
                self._owners[key] = session
            return opened
        raise BusyError("the earlier transfer of the same file does not end; stop it first")

    def close(self) -> None:
        """End all peers and the listener. Idempotent."""
        self._listener.close()
        with self._lock:
            sessions = list(self._sessions)
        for session in sessions:
            session.stop()
        deadline = time.monotonic() + 5.0
        for session in sessions:
            session.join(timeout=max(0.1, deadline - time.monotonic()))
