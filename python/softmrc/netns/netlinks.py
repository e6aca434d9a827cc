"""Open netlink sockets into many namespaces, so that a change costs a message and not a process."""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType
from typing import Any

from softmrc.errors import MrcError
from softmrc.netns.enter import entered

__all__ = ["Netlinks"]


class Netlinks:
    """A cache of pyroute2 sockets, one a namespace; a context manager.

    For the thread that made it alone: pyroute2 opens another socket for any other thread, and that one would be in the
    other thread's namespace.
    """

    def __init__(self) -> None:
        """Open nothing yet."""
        self._thread = threading.get_ident()
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
        from pyroute2.netlink.exceptions import NetlinkError

        try:
            return list(getattr(self._socket(namespace), what)(*args, **options) or ())
        except (NetlinkError, OSError) as error:
            code, reason = (error.args + ("", ""))[:2]
            told = " ".join(str(a) for a in (*args, *options.values()))
            raise MrcError(f"{namespace}: {what} {told}: {reason or code}") from None

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

    def _socket(self, namespace: str) -> Any:
        from pyroute2 import IPRoute

        if threading.get_ident() != self._thread:
            raise MrcError("these netlink sockets belong to another thread")
        if namespace not in self._sockets:
            with entered(namespace):
                self._sockets[namespace] = IPRoute()
        return self._sockets[namespace]

    def close(self) -> None:
        """Close all sockets; they are opened again when needed."""
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
