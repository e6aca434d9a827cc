"""Compiled programs in the runner's form, kept for one group."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from softmrc._core import CollProgram
from softmrc.collectives.calls import Call, Collective
from softmrc.collectives.compiled import compiled, compiled_all_to_all
from softmrc.collectives.dtypes import Op
from softmrc.collectives.placement import Placement
from softmrc.collectives.program import Program
from softmrc.collectives.tuning import Tuning, tuning

__all__ = ["Programs"]

_KEPT = 512


class Programs:
    """Finds or makes the program of a call. Not for several threads at once: its group has a lock."""

    def __init__(self, rank: int, placement: Placement) -> None:
        """Begin empty.

        Args:
            rank: of this process in the group.
            placement: of all ranks of the group, on all of them the same.
        """
        self._rank = rank
        self._placement = placement
        self._kept: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def table(self) -> Tuning:
        """Which algorithm when."""
        return tuning(self._placement.near)

    def find(
        self,
        collective: Collective,
        dtype: int,
        op: int,
        root: int,
        nbytes: int,
        sizes: tuple[int, ...],
        same: bool,
    ) -> Any:
        """The program of a call; arguments as in `Call`; `same`: it is done in place."""
        table = self.table()
        key = (collective, dtype, op, root, nbytes, sizes, same, id(table))
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found[0]
        call = Call(collective, dtype, Op(op), root, nbytes, sizes)
        return self._keep(key, table, lambda: compiled(call, self._rank, self._placement, same, table))

    def all_to_all(self, outgoing: tuple[int, ...], incoming: tuple[int, ...]) -> Any:
        """The program of an uneven all_to_all, by bytes to and from each rank."""
        table = self.table()
        key = (outgoing, incoming, id(table))
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
            return found[0]
        call = Call(Collective.ALL_TO_ALL_V)
        return self._keep(
            key, table, lambda: compiled_all_to_all(call, self._rank, outgoing, incoming, table)
        )

    def _keep(self, key: tuple[Any, ...], table: object, make: Callable[[], Program]) -> Any:
        program = make()
        native = CollProgram(
            program.dtype,
            program.op,
            program.ranks,
            program.scratch_bytes,
            program.steps,
            list(program.prints),
            *([list(program.bases)] if program.bases else []),
        )
        while len(self._kept) >= _KEPT:
            self._kept.popitem(last=False)
        # The table is kept beside it: its id stays its own.
        self._kept[key] = (native, table)
        return native
