"""Open netlink sockets into many namespaces, so that a change costs a message and not a process."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

from softmrc.errors import MrcError
from softmrc.netns.enter import entered

__all__ = ["Netlinks"]


class Netlinks:
    """A cache of pyroute2 sockets, one a namespace; a context manager. Any thread may use it.

    One thread of its own holds the sockets: pyroute2 opens another one for each thread that uses it, and that would be
    in the namespace the thread happens to be in.
    """

    def __init__(self) -> None:
        """Open nothing yet."""
        self._lock = threading.Lock()
        self._worker: ThreadPoolExecutor | None = None
        self._sockets: dict[str, Any] = {}
        self._indexes: dict[str, dict[str, int]] = {}

    def ask(self, namespace: str, what: str, *args: Any, **options: Any) -> list[Any]:
        """Send one request of pyroute2's `IPRoute` and return the answers.

        Args:
            namespace: where.
            what: the method, for instance "link".
            args: its arguments.
            options: its arguments.

        Raises:
            MrcError: refused; names the namespace, the request and the reason.
        """
        with self._lock:
            if self._worker is None:
                self._worker = ThreadPoolExecutor(1, thread_name_prefix="netlink")
            answer = self._worker.submit(self._ask, namespace, what, args, options)
        return answer.result()

    def _ask(self, namespace: str, what: str, args: tuple[Any, ...], options: dict[str, Any]) -> list[Any]:
        from pyroute2 import IPRoute
        from pyroute2.netlink.exceptions import NetlinkError

        try:
            if namespace not in self._sockets:
                with entered(namespace):
                    self._sockets[namespace] = IPRoute()
            return list(getattr(self._sockets[namespace], what)(*args, **options) or ())
        except (NetlinkError, OSError) as error:
            told = " ".join(str(a) for a in (*args, *options.values()))
            raise MrcError(f"{namespace}: {what} {told}: {error.args[-1] if error.args else error}") from None

    def index(self, namespace: str, dev: str) -> int:
        """Return the index of a device.

        Raises:
            MrcError: there is none of that name.
        """
        known = self._indexes.get(namespace, {})
        if dev not in known:
            links = self.ask(namespace, "get_links")
            known = {str(link.get_attr("IFLA_IFNAME")): int(link["index"]) for link in links}
            self._indexes[namespace] = known
        if dev not in known:
            raise MrcError(f"{namespace} has no device {dev}")
        return known[dev]

    def close(self) -> None:
        """Close all sockets; they are opened again when needed. Idempotent."""
        with self._lock:
            worker, self._worker = self._worker, None
            if worker is not None:
                worker.submit(self._close).result()
                worker.shutdown()

    def _close(self) -> None:
        for socket in self._sockets.values():
            with contextlib.suppress(Exception):
                socket.close()
        self._sockets.clear()
        self._indexes.clear()

    def __enter__(self) -> Netlinks:
        """Enter: nothing to do."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close."""
        self.close()
