"""Collectives in one call, for programs without torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType

from softmrc.collectives.group import Group
from softmrc.collectives.mesh import Mesh
from softmrc.collectives.store import Store, TcpStore
from softmrc.errors import UsageError

__all__ = ["World", "init"]

_DEFAULT_PORT = 29500


class World(Group):
    """The group of all ranks; closing it closes the mesh below as well."""

    def __init__(self, mesh: Mesh, store: TcpStore | None) -> None:
        """Made by `init`.

        Args:
            mesh: that is closed with it.
            store: that is closed with it, None when it is the caller's.
        """
        self._store = store
        super().__init__(mesh, key="softmrc world")

    def subgroup(self, ranks: Sequence[int], key: str, *, timeout: float | None = None) -> Group:
        """Make a group of some ranks; those alone call it.

        Args:
            ranks: members, in the group's order.
            key: its name, the same on all members and used once only.
            timeout: seconds for making it and for its calls; None: this group's.
        """
        return Group(self.mesh, ranks, key=key, timeout=timeout)

    def close(self, timeout: float | None = None) -> None:
        """Leave in good order: what was sent arrives, the others are told. Idempotent.

        Args:
            timeout: seconds for what is on its way.
        """
        super().close(timeout)
        self.mesh.close(timeout)
        if self._store is not None:
            self._store.close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        """Close, or abort when an error leaves the block."""
        if kind is not None:
            self.mesh.abort(str(error))
        super().__exit__(kind, error, tb)


def init(
    rank: int | None = None,
    size: int | None = None,
    *,
    store: Store | str | None = None,
    planes: Sequence[str] | None = None,
    timeout: float = 300.0,
    hold_time: float | None = None,
) -> World:
    """Meet the other ranks of this program and return the group of all of them.

    Args:
        rank: of this process, 0 to size - 1; None: RANK of the environment.
        size: number of ranks; None: WORLD_SIZE.
        store: where they meet: a store, or "host:port" of rank 0, which serves it there; None: MASTER_ADDR and
            MASTER_PORT. The port is TCP, and used while the ranks meet only; reachable by ranks one trusts.
        planes: addresses or interfaces to use, as for `Mesh`; None: SOFTMRC_PLANES, SOFTMRC_IFACES, or by route.
        timeout: seconds for meeting, and for each call that does not say otherwise.
        hold_time: seconds that a total loss of the network is waited out; None: `timeout`.

    Example:
        A program that is started once a rank::

            import array
            from softmrc.collectives import init

            with init(rank, 4, store="10.0.0.1:29500") as group:
                values = array.array("d", [float(group.rank)] * 1000)
                group.all_reduce(values)
                work = group.broadcast(values, root=2, async_op=True)
                work.wait()

    Raises:
        UsageError: no rank, size or store was given, or they cannot be.
        PeerError: ranks did not come or cannot be reached; the text names them.
    """
    own = _number("RANK", "rank") if rank is None else rank
    count = _number("WORLD_SIZE", "size") if size is None else size
    if not 0 <= own < count:
        raise UsageError(f"rank is 0 to {count - 1} of {count} ranks, not {own}")
    served: TcpStore | None = None
    if store is None or isinstance(store, str):
        host, port = _place(store)
        store = served = TcpStore(host, port, serve=own == 0, timeout=timeout)
    try:
        mesh = Mesh(store, own, count, planes=planes, timeout=timeout, hold_time=hold_time)
        try:
            return World(mesh, served)
        except BaseException:
            mesh.abort("the group of all ranks was not made")
            raise
    except BaseException:
        if served is not None:
            served.close()
        raise


def _number(variable: str, name: str) -> int:
    text = os.environ.get(variable, "")
    if not text.isdecimal():
        raise UsageError(f"give `{name}`, or set {variable} to a number: it is {text!r}")
    return int(text)


def _place(store: str | None) -> tuple[str, int]:
    if store is None:
        host = os.environ.get("MASTER_ADDR", "")
        if not host:
            raise UsageError("give `store` as host:port of rank 0, or set MASTER_ADDR and MASTER_PORT")
        return host, int(os.environ.get("MASTER_PORT", "") or _DEFAULT_PORT)
    host, _, port = store.rpartition(":")
    if not host or not port.isdecimal():
        raise UsageError(f"store is host:port of rank 0, for instance 10.0.0.1:29500, not {store!r}")
    return host.strip("[]"), int(port)
