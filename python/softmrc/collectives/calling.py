"""What every collective call does: check, find the program, submit, wait.

Decides when a group can be used and how jobs of one group are ordered; leaves which buffers a call takes to
`reductions` and `moves`.
"""

from __future__ import annotations

import errno
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, cast

from softmrc.collectives.buffers import Buffer, as_buffer
from softmrc.collectives.calls import Call, Collective
from softmrc.collectives.dtypes import Op
from softmrc.collectives.mesh import Mesh
from softmrc.collectives.mismatch import mismatch_text
from softmrc.collectives.pieces import laid_out
from softmrc.collectives.placement import Placement
from softmrc.collectives.programs import Programs
from softmrc.collectives.work import Work
from softmrc.errors import PeerError, UsageError

__all__ = ["NOTHING", "Caller", "both_buffers", "in_place"]

NOTHING = Buffer(0, 0)
"""No memory: where a rank takes or gives nothing."""
_UNEVEN = Call(Collective.ALL_TO_ALL_V)


class Caller:
    """A group without its calls."""

    def __init__(
        self,
        mesh: Mesh,
        ranks: Sequence[int] | None = None,
        *,
        key: str = "world",
        timeout: float | None = None,
    ) -> None:
        """Make the group; all its ranks have to.

        Args:
            mesh: which the ranks belong to.
            ranks: members by rank in the mesh, in the group's order, this one among them; None: all.
            key: its name, the same on all members and never used before in this mesh.
            timeout: seconds for making it and for each call that does not say otherwise; None: the mesh's.

        Raises:
            UsageError: the name was used before, or this rank is no member.
            PeerError: a member did not come.
        """
        members = tuple(range(mesh.size) if ranks is None else ranks)
        self.mesh = mesh
        self.ranks = members
        self.timeout = mesh.timeout if timeout is None else float(timeout)
        self.number = mesh.lanes(key, members, self.timeout)
        self.rank = members.index(mesh.rank)
        self.size = len(members)
        # What all ranks know, and not what this one found out: they must choose the same algorithms.
        placement = Placement.of([mesh.memories[rank] for rank in members])
        self._programs = Programs(self.rank, placement)
        self._lock = threading.Lock()
        self._running: deque[Work] = deque()
        self._closed = False

    def close(self, timeout: float | None = None) -> None:
        """Give the group back; what still runs gets `timeout` seconds (None: 1) and fails then. Idempotent."""
        if self._closed:
            return
        self._closed = True
        for work in list(self._running):
            if not work.over_within(1.0 if timeout is None else timeout):
                break
        if not self.mesh.closed:
            self.mesh.release(self.number)

    def abort(self, reason: str = "") -> PeerError:
        """End the group on all its ranks: running calls raise there and here, with the error returned.

        Args:
            reason: for the text of the error.
        """
        text = f"rank {self.mesh.rank} aborted the group{': ' + reason if reason else ''}"
        return self.mesh.condemn(self.number, text)

    def verdict(
        self, what: str, waiting_for: Sequence[int], failure: Mapping[str, Any] | None, waited_s: float
    ) -> PeerError:
        """Find out, with all ranks, why a call failed; see `Mesh.verdict`."""
        says = ""
        if failure is not None and failure.get("status") == "mismatch":
            names = [self.mesh.name_of(rank) for rank in self.ranks]
            says = mismatch_text(failure, self.rank, int(failure["peer"]), names)
        return self.mesh.verdict(self.number, what, waiting_for, failure, waited_s, says)

    def _move(
        self,
        collective: Collective,
        source: Buffer,
        result: Buffer,
        same: bool,
        nbytes: int,
        root: int,
        sizes: tuple[int, ...],
        async_op: bool,
        timeout: float | None,
    ) -> Work:
        kind = (0, int(Op.SUM))
        return self._call(collective, source, result, same, nbytes, kind, root, sizes, 1.0, async_op, timeout)

    def _call(
        self,
        collective: Collective,
        source: Buffer,
        result: Buffer,
        same: bool,
        nbytes: int,
        kind: tuple[int, int],
        root: int,
        sizes: tuple[int, ...],
        factor: float,
        async_op: bool,
        timeout: float | None,
    ) -> Work:
        with self._lock:
            program = self._programs.find(collective, *kind, root, nbytes, sizes, same)
            call = Call(collective, kind[0], Op(kind[1]), root, nbytes, sizes)
            work = self._submit(program, source, result, factor, call, nbytes, timeout)
        if not async_op:
            work.wait()
        return work

    def _call_uneven(
        self,
        source: Buffer,
        result: Buffer,
        outgoing: tuple[int, ...],
        incoming: tuple[int, ...],
        async_op: bool,
        timeout: float | None,
    ) -> Work:
        """Call an uneven all_to_all, by bytes to and from each rank."""
        with self._lock:
            program = self._programs.all_to_all(outgoing, incoming)
            work = self._submit(program, source, result, 1.0, _UNEVEN, source.nbytes, timeout)
        if not async_op:
            work.wait()
        return work

    def _submit(
        self,
        program: Any,
        source: Buffer,
        result: Buffer,
        factor: float,
        call: Call,
        nbytes: int,
        timeout: float | None,
    ) -> Work:
        """Hand a program to the runner. With the lock held: jobs are numbered in this order on all ranks."""
        self._check_open()
        mesh, what = self.mesh, call.collective.name.lower()
        seconds = self.timeout if timeout is None else timeout
        memory = (source.addr, source.nbytes), (result.addr, result.nbytes)
        mesh.entered(self.number, what, nbytes, call)
        job = None
        try:
            job = mesh.runner.submit(self.number, program, *memory, factor)
        except OSError as error:
            if error.errno != errno.ECANCELED:
                raise
            # It broke since the check, or in a call that is over for this rank.
            failure = cast("Mapping[str, Any] | None", mesh.runner.failure_of(self.number))
            raise self.verdict(what, (), failure, 0.0) from error
        finally:
            mesh.running(self.number, job)
        work = Work(self, job, what, (source, result), seconds)
        running = self._running
        while running and running[0].done():
            running.popleft()
        running.append(work)  # A work that the caller drops goes on, and so must its memory.
        return work

    def _check_open(self) -> None:
        if self._closed:
            raise UsageError("the group is closed")
        broken = self.mesh.broken(self.number)
        if broken is not None:
            raise broken

    def _member(self, rank: int) -> int:
        if not 0 <= rank < self.size:
            raise UsageError(f"rank {rank} is none of 0 to {self.size - 1} of this group")
        return rank

    def _is_root(self, root: int) -> bool:
        return self._member(root) == self.rank

    def _sizes(self, nbytes: Sequence[int], whole: Buffer, part: Buffer) -> tuple[tuple[int, ...], int]:
        """Checked sizes by rank, and where this rank's piece begins."""
        sizes = tuple(map(int, nbytes))
        if len(sizes) != self.size or min(sizes) < 0 or sum(sizes) != whole.nbytes:
            raise UsageError(
                f"nbytes must be {self.size} sizes whose sum is the {whole.nbytes:,} bytes of all, not {list(sizes)}"
            )
        if any(size % whole.type.size for size in sizes):
            raise UsageError(f"nbytes {list(sizes)}: not all are whole {whole.type.name} elements")
        if sizes[self.rank] != part.nbytes:
            raise UsageError(
                f"this rank's piece has {part.nbytes:,} bytes, nbytes says {sizes[self.rank]:,} for rank {self.rank}"
            )
        return sizes, laid_out(sizes)[self.rank].off


def both_buffers(buffer: Any, out: Any) -> tuple[Buffer, Buffer]:
    """What a call takes and gives."""
    return as_buffer(buffer, write=False, name="buffer"), as_buffer(out, write=True, name="out")


def in_place(source: Buffer, result: Buffer, source_off: int, result_off: int) -> bool:
    """Whether the two are one memory, counting from where the shorter would begin in the longer.

    Raises:
        UsageError: they overlap in another way.
    """
    if source.addr + source_off == result.addr + result_off:
        return True
    if source.overlaps(result):
        raise UsageError("buffer and out overlap without being the same place; use separate memory")
    return False
