"""Ranks as threads of this process, over real endpoints on 127.0.0.1."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from softmrc.collectives import Group, LocalStore, Mesh

PATIENCE = 20.0


class Crew:
    """All ranks of one mesh, and the group of all of them on each."""

    def __init__(self, meshes: Sequence[Mesh], groups: Sequence[Group]) -> None:
        self.meshes = meshes
        self.groups = groups

    def each(self, call: Callable[[Group], Any]) -> list[Any]:
        """Run `call(group)` on all ranks at once; what it returned or raised, by rank."""
        return together([partial(call, group) for group in self.groups])

    def run(self, call: Callable[[Group], Any]) -> list[Any]:
        """The same; raises what a rank raised."""
        results = self.each(call)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results


def together(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Run each in a thread of its own; what it returned or raised."""
    results: list[Any] = [TimeoutError("did not end")] * len(calls)

    def one(index: int) -> None:
        try:
            results[index] = calls[index]()
        except Exception as error:
            results[index] = error

    threads = [threading.Thread(target=one, args=(index,), daemon=True) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * PATIENCE)
    return results


@contextmanager
def crew(ranks: int, timeout: float = PATIENCE, local: bool = True, hosts: str = "") -> Iterator[Crew]:
    """Ranks that have met, until the block ends; `local`: long messages may go through memory.

    `hosts`: by rank, a letter for its host, which is what its groups take it for.
    """
    store = LocalStore()
    meshes = together(
        [partial(Mesh, store, rank, ranks, timeout=timeout, local=local) for rank in range(ranks)]
    )
    good = [mesh for mesh in meshes if isinstance(mesh, Mesh)]
    try:
        assert len(good) == ranks, meshes
        for mesh in good if hosts else ():
            mesh.memories = tuple(hosts)
        groups = together([partial(Group, mesh) for mesh in good])
        assert all(isinstance(group, Group) for group in groups), groups
        yield Crew(good, groups)
    finally:
        together([mesh.close for mesh in good])
