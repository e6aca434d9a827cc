"""Finds steps that touch the same bytes, one of them writing, in no fixed order.

Order comes from dependencies within a rank and from messages between ranks: a SEND begins before its payload has
arrived, and that is before the RECV is done and before the SEND is done. Nothing else is assumed of a runner or of
the network. One interleaving may hide a race; this finds it without running anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from softmrc.collectives.program import SCRATCH, Flag, Kind, Program, Step

__all__ = ["races"]


class _Access(NamedTuple):
    begin: int
    end: int
    write: bool
    after: int  # event before which it does not happen
    before: int  # event by which it has happened
    text: str


class _Order:
    """Events of all ranks (three a step: begun, arrived, done) and which come before which, as bit sets."""

    def __init__(self, programs: Sequence[Program]) -> None:
        self.first = []
        total = 0
        for program in programs:
            self.first.append(total)
            total += 3 * len(program.steps)
        self.preds: list[list[int]] = [[] for _ in range(total)]
        for rank, program in enumerate(programs):
            for index, step in enumerate(program.steps):
                begun, arrived, done = (self.event(rank, index, part) for part in range(3))
                self.preds[begun] += [self.event(rank, dep, 2) for dep in step.deps]
                self.preds[arrived].append(begun)
                self.preds[done].append(arrived)
        self._matches(programs)
        self.before = self._closure(total)

    def event(self, rank: int, index: int, part: int) -> int:
        return self.first[rank] + 3 * index + part

    def _matches(self, programs: Sequence[Program]) -> None:
        sends: dict[tuple[int, int], list[int]] = {}
        for rank, program in enumerate(programs):
            for index, step in enumerate(program.steps):
                if step.kind == Kind.SEND:
                    sends.setdefault((rank, step.peer), []).append(index)
        self.match: dict[tuple[int, int], tuple[int, int]] = {}
        for rank, program in enumerate(programs):
            counts: dict[int, int] = {}
            for index, step in enumerate(program.steps):
                if step.kind == Kind.RECV:
                    number = counts.get(step.peer, 0)
                    counts[step.peer] = number + 1
                    source = sends[step.peer, rank][number]
                    self.match[step.peer, source] = (rank, index)
                    # An eager one leaves its sender once it is staged, and is taken from its slot after that.
                    part = 2 if step.flags & Flag.EAGER else 1
                    self.preds[self.event(rank, index, 1)].append(self.event(step.peer, source, part))

    def _closure(self, total: int) -> list[int]:
        before = [0] * total
        waiting = [len(preds) for preds in self.preds]
        after: list[list[int]] = [[] for _ in range(total)]
        for event, preds in enumerate(self.preds):
            for pred in preds:
                after[pred].append(event)
        ready = [event for event in range(total) if not waiting[event]]
        while ready:
            event = ready.pop()
            mask = 1 << event
            for pred in self.preds[event]:
                mask |= before[pred]
            before[event] = mask
            for follower in after[event]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    ready.append(follower)
        return before

    def ordered(self, a: _Access, b: _Access) -> bool:
        return bool(self.before[b.after] >> a.before & 1 or self.before[a.after] >> b.before & 1)


def _itself(a: _Access, b: _Access) -> bool:
    """A step that reads exactly the bytes it writes, as in dst = dst * factor."""
    return a.after == b.after and a.before == b.before and (a.begin, a.end) == (b.begin, b.end)


def races(programs: Sequence[Program], shared: Sequence[tuple[int, int] | None]) -> list[str]:
    """Pairs of steps in conflict, in words; none for a right set of programs.

    Args:
        programs: by rank.
        shared: by rank, where input and output begin in one memory, or None when each has its own.
    """
    order = _Order(programs)
    found = []
    for place, accesses in _accesses(programs, shared, order).items():
        accesses.sort()
        live: list[_Access] = []
        for access in accesses:
            live = [other for other in live if other.end > access.begin]
            found += [
                f"rank {place[0]}: {other.text} and {access.text}"
                for other in live
                if (access.write or other.write)
                and not _itself(access, other)
                and not order.ordered(access, other)
            ]
            live.append(access)
    return found


def _accesses(
    programs: Sequence[Program], shared: Sequence[tuple[int, int] | None], order: _Order
) -> dict[tuple[int, str], list[_Access]]:
    found: dict[tuple[int, str], list[_Access]] = {}

    def note(
        rank: int, buf: int, off: int, step: Step, write: bool, events: tuple[int, int], text: str
    ) -> None:
        name, one = ("input", "output", "scratch")[buf], shared[rank]
        if one is not None and buf != SCRATCH:
            name, off = "shared", off + one[buf]
        if step.nbytes:
            found.setdefault((rank, name), []).append(_Access(off, off + step.nbytes, write, *events, text))

    for rank, program in enumerate(programs):
        for index, step in enumerate(program.steps):
            begun, arrived, done = (order.event(rank, index, part) for part in range(3))
            text = f"step {index} {Kind(step.kind).name}"
            if step.kind == Kind.SEND:
                eager = step.flags & Flag.EAGER
                note(rank, step.src_buf, step.src_off, step, False, (begun, done if eager else arrived), text)
                if not eager:
                    base = programs[step.peer].bases
                    off = step.dst_off + (base[rank] if base and step.dst_buf == 1 else 0)
                    note(step.peer, step.dst_buf, off, step, True, (begun, arrived), f"{text} of rank {rank}")
            elif step.kind != Kind.RECV or step.flags:
                since = arrived if step.kind == Kind.RECV else begun
                note(rank, step.dst_buf, step.dst_off, step, True, (since, done), text)
                from_slot = step.kind == Kind.RECV and step.flags & Flag.EAGER
                if not from_slot and (step.src_buf, step.src_off) != (step.dst_buf, step.dst_off):
                    note(rank, step.src_buf, step.src_off, step, False, (since, done), text)
    return found
