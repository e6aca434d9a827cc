"""One run: start the ranks, give the signal, let things break, take what the ranks print until they end."""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from softmrc.errors import MrcError
from softmrc.train_demo.plan import Incident, Plan

__all__ = ["Place", "Run", "Step", "execute"]

_READY_SECONDS = 90.0
_LEAD_SECONDS = 0.5  # from the signal to the first step: every rank has read it by then
_SILENCE_SECONDS = 90.0  # of all ranks; then the run is given up
_TIMEOUT = 60.0  # of a collective


@dataclass(frozen=True)
class Step:
    """One optimiser step of rank 0; seconds after the signal."""

    number: int
    began: float
    ended: float
    loss: float


@dataclass
class Run:
    """What is known of a run, while it goes on and afterwards."""

    backend: str
    wanted: int
    incidents: tuple[Incident, ...]
    began: float = 0.0
    """CLOCK_MONOTONIC of the signal."""
    steps: list[Step] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)
    report: dict[str, Any] | None = None

    @property
    def digest(self) -> str | None:
        """Hash of the parameters that all ranks agree on; None: they do not, or have not finished."""
        return next(iter(self.digests.values())) if len(set(self.digests.values())) == 1 else None


class Place(Protocol):
    """Where ranks run and what can be broken there."""

    def start(self, rank: int, config: dict[str, Any], backend: str) -> subprocess.Popen[str]:
        """Start one rank with pipes for its input and output."""

    def store(self) -> str:
        """Return where ranks meet, as init_process_group takes it."""

    def rules(self, incidents: Sequence[Incident], began: float) -> list[dict[str, Any]]:
        """Return rules for the ranks' own endpoints, where nothing else can be broken."""

    def play(self, incidents: Sequence[Incident], began: float) -> contextlib.AbstractContextManager[None]:
        """Break and heal at the planned times, for as long as the block runs; everything is healed after it."""


def execute(
    plan: Plan, place: Place, backend: str, incidents: tuple[Incident, ...], watch: Callable[[Run], None]
) -> Run:
    """Train once.

    Args:
        plan: what is trained.
        place: where.
        backend: of torch.distributed.
        incidents: what fails; none: the quiet run.
        watch: called often with what is known.

    Raises:
        MrcError: the ranks did not come up; the text has the last words of one.
    """
    run = Run(backend, plan.steps, incidents)
    config = {
        "ranks": plan.ranks, "backend": backend, "store": place.store(), "steps": plan.steps, "seed": plan.seed,
        "width": plan.width, "batch": plan.batch, "timeout": _TIMEOUT,
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        ranks: list[subprocess.Popen[str]] = []
        stack.callback(_end, ranks)
        for rank in range(plan.ranks):
            ranks.append(place.start(rank, {**config, "rank": rank}, backend))
        lines = _Lines(ranks)
        stack.callback(lines.close)
        _await_ready(lines, ranks)
        run.began = time.monotonic() + _LEAD_SECONDS
        signal = json.dumps({"at": run.began, "rules": place.rules(incidents, run.began)})
        for rank_process in ranks:
            assert rank_process.stdin is not None
            rank_process.stdin.write(signal + "\n")
            rank_process.stdin.flush()
        stack.enter_context(place.play(incidents, run.began))
        _follow(run, lines, watch)
    return run


def _await_ready(lines: _Lines, ranks: Sequence[subprocess.Popen[str]]) -> None:
    ready: set[int] = set()
    until = time.monotonic() + _READY_SECONDS
    while len(ready) < len(ranks):
        for line in lines.take(0.5):
            if line.get("kind") == "ready":
                ready.add(line["rank"])
        dead = [i for i, p in enumerate(ranks) if p.poll() is not None]
        if dead:
            raise MrcError(f"rank {dead[0]} ended before it was ready; its last words are above")
        if time.monotonic() > until:
            missing = sorted(set(range(len(ranks))) - ready)
            raise MrcError(f"ranks {missing} were not ready within {_READY_SECONDS:g} s")


def _follow(run: Run, lines: _Lines, watch: Callable[[Run], None]) -> None:
    heard = time.monotonic()
    while lines.open:
        for line in lines.take(0.1):
            heard = time.monotonic()
            _note(run, line)
        watch(run)
        if time.monotonic() - max(heard, run.began) > _SILENCE_SECONDS:
            run.errors.append(f"nothing happened for {_SILENCE_SECONDS:g} s; given up")
            return


def _note(run: Run, line: dict[str, Any]) -> None:
    kind = line.get("kind")
    if kind == "step" and line["rank"] == 0:
        run.steps.append(
            Step(line["step"], line["began"] - run.began, line["ended"] - run.began, line["loss"])
        )
    elif kind == "failed":
        run.errors.append(f"rank {line['rank']}: {line['error']}")
    elif kind == "end":
        run.digests[line["rank"]] = line["digest"]
        if line["rank"] == 0:
            run.report = line["report"]


class _Lines:
    """The JSON lines of all ranks, as they come."""

    def __init__(self, ranks: Sequence[subprocess.Popen[str]]) -> None:
        self._wait = selectors.DefaultSelector()
        for process in ranks:
            assert process.stdout is not None
            self._wait.register(process.stdout, selectors.EVENT_READ)

    @property
    def open(self) -> bool:
        """Whether any rank may still say something."""
        return bool(self._wait.get_map())

    def take(self, seconds: float) -> list[dict[str, Any]]:
        """Wait that long for lines; what is no JSON goes to standard error, where a person sees it."""
        found = []
        for key, _ in self._wait.select(seconds):
            text = key.fileobj.readline()  # type: ignore[union-attr]
            if not text:
                self._wait.unregister(key.fileobj)
                continue
            try:
                found.append(json.loads(text))
            except ValueError:
                sys.stderr.write(text)
        return found

    def close(self) -> None:
        """Forget the pipes."""
        self._wait.close()


def _end(ranks: Sequence[subprocess.Popen[str]]) -> None:
    """End whatever still runs, and reap it."""
    for process in ranks:
        if process.poll() is None:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
