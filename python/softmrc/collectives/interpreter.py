"""Runs the programs of all ranks in one process, in plain Python, in any order their dependencies allow.

The oracle for algorithms, and the meaning of a program: what it accepts, a runner must run. Every interleaving that
the seed picks is legal for a runner; payload of SENDs is read as late, and written as early or late, as a network
may, or stays where it is until it is combined, as among ranks that share memory. Refuses programs that touch bytes out
of bounds, whose SENDs and RECVs do not match, or that stand still.
`softmrc.collectives.races` says whether steps that touch the same bytes are ordered at all.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from softmrc.collectives.arithmetic import combine, scale
from softmrc.collectives.program import EAGER_MAX, MESSAGE_MAX, SCRATCH, Flag, Kind, Program, Step
from softmrc.errors import UsageError

__all__ = ["BadProgram", "Memory", "interpret"]


class BadProgram(UsageError):
    """A program that no runner could run rightly; says which step of which rank, and why."""


@dataclass(slots=True)
class Memory:
    """What one rank brings: its buffers."""

    input: bytearray
    output: bytearray
    """With `shared`: the memory that holds both."""

    shared: tuple[int, int] | None = None
    """Where input and output begin in the one memory that holds both; None: each has its own."""

    def view(self, buf: int, scratch: bytearray) -> tuple[memoryview, int]:
        """Memory and offset of a buffer's first byte."""
        if buf == SCRATCH:
            return memoryview(scratch), 0
        if self.shared is not None:
            return memoryview(self.output), self.shared[buf]
        return memoryview(self.output if buf else self.input), 0


@dataclass(slots=True)
class _Message:
    step: Step
    index: int
    eager: bytes | None
    landed: bool = False
    noted: bool = False
    """Stays with its sender until the receiver combines it; the SEND is done then."""

    @property
    def is_there(self) -> bool:
        return self.eager is not None or self.landed or self.noted


@dataclass(slots=True)
class _Rank:
    program: Program
    memory: Memory
    factor: float
    scratch: bytearray
    done: list[bool]
    started: list[bool]
    waits: list[int]  # by step: dependencies that are not done
    ready: set[int]  # steps that wait for no dependency and are not done
    dependents: dict[int, list[int]] = field(default_factory=dict)
    messages: dict[int, int] = field(default_factory=dict)  # step -> number among those to or from its peer
    next_send: dict[int, deque[int]] = field(default_factory=dict)
    recvs: dict[int, list[int]] = field(default_factory=dict)  # by peer


def interpret(
    programs: Sequence[Program],
    memories: Sequence[Memory],
    *,
    seed: int = 0,
    slots: int = 16,
    factors: Sequence[float] | None = None,
) -> None:
    """Run the programs of all ranks to their end, in the memories given.

    Args:
        programs: by rank.
        memories: by rank; outputs are written.
        seed: which interleaving.
        slots: eager messages that may wait at a receiver, by lane.
        factors: by rank, of PREMUL_SUM; 1 each when left out.

    Raises:
        BadProgram: see the module.
    """
    _World(programs, memories, random.Random(seed), slots, factors or [1.0] * len(programs)).run()


class _World:
    """All ranks and what is under way between them."""

    def __init__(
        self,
        programs: Sequence[Program],
        memories: Sequence[Memory],
        chance: random.Random,
        slots: int,
        factors: Sequence[float],
    ) -> None:
        self.chance = chance
        self.slots = slots
        self.lanes: dict[tuple[int, int], list[_Message]] = {}
        self.taken: dict[tuple[int, int], int] = {}
        self.ranks = [self._rank(*each) for each in zip(programs, memories, factors, strict=True)]

    @staticmethod
    def _rank(program: Program, memory: Memory, factor: float) -> _Rank:
        count = len(program.steps)
        scratch = bytearray(b"\xa5" * program.scratch_bytes)
        waits = [len(set(step.deps)) for step in program.steps]
        ready = {index for index, left in enumerate(waits) if not left}
        rank = _Rank(program, memory, factor, scratch, [False] * count, [False] * count, waits, ready)
        for index, step in enumerate(program.steps):
            for dep in set(step.deps):
                if not 0 <= dep < index:
                    raise BadProgram(f"step {index} ({_words(step)}) depends on {dep}, no earlier step")
                rank.dependents.setdefault(dep, []).append(index)
        numbers: dict[tuple[int, int], int] = {}
        for index, step in enumerate(program.steps):
            if step.kind in (Kind.SEND, Kind.RECV):
                key = (step.kind, step.peer)
                rank.messages[index] = numbers.get(key, 0)
                numbers[key] = rank.messages[index] + 1
                if step.kind == Kind.SEND:
                    rank.next_send.setdefault(step.peer, deque()).append(index)
                else:
                    rank.recvs.setdefault(step.peer, []).append(index)
        return rank

    def run(self) -> None:
        """Take random enabled events until there is none."""
        while True:
            events = [
                (rank, index)
                for rank, state in enumerate(self.ranks)
                for index in sorted(state.ready)
                if self._enabled(rank, index, state.program.steps[index])
            ]
            if not events:
                break
            # Several events of one look, each only if it is still possible: quick, and as random.
            self.chance.shuffle(events)
            for rank, index in events[: max(1, len(events) // 2)]:
                step = self.ranks[rank].program.steps[index]
                if index in self.ranks[rank].ready and self._enabled(rank, index, step):
                    self._advance(rank, index, step)
        left = [
            (rank, index)
            for rank, state in enumerate(self.ranks)
            for index, ok in enumerate(state.done)
            if not ok
        ]
        if left:
            rank, index = left[0]
            step = self.ranks[rank].program.steps[index]
            raise BadProgram(
                f"stands still: step {index} of rank {rank} ({_words(step)}) and {len(left) - 1} others"
            )
        for (src, dst), sent in self.lanes.items():
            if self.taken.get((src, dst), 0) != len(sent):
                raise BadProgram(f"rank {src} sent {len(sent)} messages to rank {dst}, which takes fewer")

    def _enabled(self, rank: int, index: int, step: Step) -> bool:
        state = self.ranks[rank]
        if step.kind == Kind.RECV:
            lane = self.lanes.get((step.peer, rank), [])
            number = state.messages[index]
            return len(lane) > number and lane[number].is_there
        if step.kind == Kind.SEND and state.started[index]:
            return not self.lanes[rank, step.peer][state.messages[index]].noted
        if step.kind == Kind.SEND and not state.started[index]:
            if state.next_send[step.peer][0] != index:
                return False
            lane = self.lanes.setdefault((rank, step.peer), [])
            if not step.flags & Flag.EAGER:
                return True
            waiting = lane[self.taken.get((rank, step.peer), 0) :]
            return sum(message.eager is not None for message in waiting) < self.slots
        return True

    def _advance(self, rank: int, index: int, step: Step) -> None:
        state = self.ranks[rank]
        if step.kind == Kind.SEND:
            self._send(rank, index, step)
            return
        if step.kind == Kind.RECV:
            self._recv(rank, index, step)
        else:
            dst = self._bytes(rank, step.dst_buf, step.dst_off, step)
            src = self._bytes(rank, step.src_buf, step.src_off, step)
            dst[:] = self._computed(state, step, dst, src)
        self._done(rank, index)

    def _done(self, rank: int, index: int) -> None:
        state = self.ranks[rank]
        state.done[index] = True
        state.ready.discard(index)
        for dependent in state.dependents.get(index, ()):
            state.waits[dependent] -= 1
            if not state.waits[dependent]:
                state.ready.add(dependent)

    def _computed(self, state: _Rank, step: Step, dst: memoryview, src: memoryview) -> bytes:
        program = state.program
        if step.kind == Kind.REDUCE:
            return combine(program.dtype, program.op, dst, src)
        if step.kind == Kind.COPY:
            return bytes(src)
        return scale(program.dtype, src, state.factor if step.flags & Flag.PREMUL else 1.0 / program.ranks)

    def _send(self, rank: int, index: int, step: Step) -> None:
        state = self.ranks[rank]
        lane = self.lanes.setdefault((rank, step.peer), [])
        if not state.started[index]:
            if step.nbytes > (EAGER_MAX if step.flags & Flag.EAGER else MESSAGE_MAX) or step.peer == rank:
                raise BadProgram(f"step {index} of rank {rank} ({_words(step)}) is too long or to itself")
            state.started[index] = True
            state.next_send[step.peer].popleft()
            source = self._bytes(rank, step.src_buf, step.src_off, step)
            eager = bool(step.flags & Flag.EAGER)
            lane.append(_Message(step, index, bytes(source) if eager else None))
            if eager:
                self._done(rank, index)
            return
        # Messages of a lane arrive in order.
        number = state.messages[index]
        if not all(message.is_there for message in lane[:number]):
            return
        if self._combines(step.peer, rank, number) and self.chance.random() < 0.5:
            lane[number].noted = True
            return
        # The network delivers: the source is read now.
        base = self.ranks[step.peer].program.bases
        offset = step.dst_off + (base[rank] if base and step.dst_buf == 1 else 0)
        self._bytes(step.peer, step.dst_buf, offset, step)[:] = self._bytes(
            rank, step.src_buf, step.src_off, step
        )
        lane[number].landed = True
        self._done(rank, index)

    def _recv(self, rank: int, index: int, step: Step) -> None:
        number = self.ranks[rank].messages[index]
        message = self.lanes[step.peer, rank][number]
        sent, want = message.step, self.ranks[rank].program
        if (sent.nbytes, sent.flags & Flag.EAGER) != (step.nbytes, step.flags & Flag.EAGER):
            raise BadProgram(
                f"message {number} from rank {step.peer} to {rank}: {_words(sent)} meets {_words(step)}"
            )
        here = self._bytes(rank, step.dst_buf, step.dst_off, step)
        if message.eager is None:
            base = want.bases[step.peer] if want.bases and sent.dst_buf == 1 else 0
            combined = bool(step.flags & Flag.REDUCE)
            landing = (step.src_buf, step.src_off) if combined else (step.dst_buf, step.dst_off)
            if (sent.dst_buf, sent.dst_off + base) != landing:
                raise BadProgram(
                    f"message {number} from rank {step.peer} to {rank} lands elsewhere: {_words(sent)}"
                )
            if message.noted:
                landed = self._bytes(step.peer, sent.src_buf, sent.src_off, sent)
                self._done(step.peer, message.index)
            else:
                landed = self._bytes(rank, *landing, step)
            if combined:
                here[:] = combine(want.dtype, want.op, here, landed)
        elif step.flags & Flag.REDUCE:
            here[:] = combine(want.dtype, want.op, here, memoryview(message.eager))
        else:
            here[:] = message.eager
        self.taken[step.peer, rank] = self.taken.get((step.peer, rank), 0) + 1

    def _combines(self, rank: int, sender: int, number: int) -> bool:
        """Whether a rank combines that message of another one, if it is long."""
        state = self.ranks[rank]
        recvs = state.recvs.get(sender, [])
        return number < len(recvs) and bool(state.program.steps[recvs[number]].flags & Flag.REDUCE)

    def _bytes(self, rank: int, buf: int, offset: int, step: Step) -> memoryview:
        state = self.ranks[rank]
        view, base = state.memory.view(buf, state.scratch)
        if offset < 0 or base + offset + step.nbytes > len(view):
            raise BadProgram(
                f"{_words(step)}: {step.nbytes} bytes at {offset} of buffer {buf} of rank {rank}"
            )
        return view[base + offset : base + offset + step.nbytes]


def _words(step: Step) -> str:
    return f"{Kind(step.kind).name} peer {step.peer}, {step.nbytes} bytes, flags {step.flags}"
