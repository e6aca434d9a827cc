"""Ranks as processes that are told, function by function, what to do.

They are forked from a process that has torch imported and nothing else, so that starting one takes milliseconds.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.stopping import stop

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["torch", "torch.distributed", "numpy"])

_CLONE_NEWNET = 0x40000000

PLANES = "127.0.0.1,127.0.0.2"


@dataclass(frozen=True)
class Place:
    """Where one rank lives: a network namespace of this host, and what is different in its environment."""

    namespace: str
    env: dict[str, str]


@dataclass(frozen=True)
class Options:
    """How a rank joins: backend, seconds, and where ranks meet."""

    backend: str
    timeout: float
    meeting: str
    join: bool
    env: dict[str, str]
    places: Sequence[Place] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of a call on one rank; `value` is what it returned, or the text of what it raised."""

    ok: bool
    value: Any
    kind: str = ""
    where: str = ""
    seconds: float = 0.0


class Ranks:
    """Processes 0 to size-1 of one process group."""

    def __init__(
        self,
        size: int,
        directory: Path,
        *,
        backend: str = "mrc",
        timeout: float = 20.0,
        meeting: str = "",
        join: bool = True,
        env: dict[str, str] | None = None,
        places: Sequence[Place] = (),
    ) -> None:
        """Start them; they join the process group unless `join` is false."""
        self.size = size
        env = {"SOFTMRC_PLANES": PLANES} | (env or {})
        self.options = Options(backend, timeout, meeting or f"file://{directory}/store", join, env, places)
        self._pipes: list[Connection] = []
        self.processes: list[Any] = []
        for rank in range(size):
            ours, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(target=_serve, args=(theirs, rank, size, self.options), daemon=False)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self.processes.append(process)
        if join:
            self.results(timeout=timeout + 20)

    def call(self, function: Callable[..., Any], *args: Any, timeout: float = 40.0) -> list[Any]:
        """Let every rank call `function(rank, size, *args)`; return what they return, or fail with what they raise."""
        self.cast(function, *args)
        return self.results(timeout=timeout)

    def cast(self, function: Callable[..., Any], *args: Any, ranks: Sequence[int] | None = None) -> None:
        """Let ranks call a function, without waiting for them."""
        for rank in range(self.size) if ranks is None else ranks:
            self._pipes[rank].send((function, args))

    def results(self, timeout: float = 40.0, ranks: Sequence[int] | None = None) -> list[Any]:
        """Wait for the calls cast; return their values, or fail with everything that was raised."""
        outcomes = self.outcomes(timeout, ranks)
        failed = {rank: outcome for rank, outcome in outcomes.items() if not outcome.ok}
        if failed:
            lines = [
                f"rank {rank}: {outcome.kind}: {outcome.value}\n{outcome.where}"
                for rank, outcome in failed.items()
            ]
            raise AssertionError("\n".join(lines))
        return [outcomes[rank].value for rank in sorted(outcomes)]

    def outcomes(self, timeout: float = 40.0, ranks: Sequence[int] | None = None) -> dict[int, Outcome]:
        """Wait for the calls cast and return what became of them."""
        deadline = time.monotonic() + timeout
        outcomes = {}
        for rank in range(self.size) if ranks is None else ranks:
            pipe = self._pipes[rank]
            if not pipe.poll(max(0.0, deadline - time.monotonic())):
                raise AssertionError(f"rank {rank} has not answered within {timeout:g} s")
            try:
                outcomes[rank] = pipe.recv()
            except EOFError:
                self.processes[rank].join(5)
                code = self.processes[rank].exitcode
                outcomes[rank] = Outcome(False, f"exit code {code}", "Exited")
        return outcomes

    def signal(self, rank: int, number: signal.Signals) -> None:
        """Send a signal to one rank; after SIGSTOP it stands when this returns."""
        if number == signal.SIGSTOP:
            stop(self.processes[rank].pid)
        else:
            os.kill(self.processes[rank].pid, number)

    def close(self, timeout: float = 20.0) -> list[int | None]:
        """Let all ranks leave the group and end; return their exit codes."""
        for pipe in self._pipes:
            pipe.send(None)
        for process in self.processes:
            process.join(timeout)
        codes = [process.exitcode for process in self.processes]
        self.kill()
        return codes

    def kill(self) -> None:
        """End what still runs."""
        for process in self.processes:
            if process.is_alive():
                os.kill(process.pid, signal.SIGKILL)
                process.join(5)


def _serve(pipe: Connection, rank: int, size: int, options: Options) -> None:
    # Whoever started the tests in the background ignores it, and ranks would with them.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.update(options.env)
    if options.places:
        _enter(options.places[rank])
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if options.join:
        pipe.send(_outcome(join, (rank, size, options)))
    while True:
        try:
            message = pipe.recv()
        except EOFError:
            os._exit(1)
        if message is None:
            break
        function, args = message
        pipe.send(_outcome(function, (rank, size, *args)))
    if dist.is_initialized():
        dist.destroy_process_group()


def _enter(place: Place) -> None:
    """Move this process, which has no threads yet, to another network namespace."""
    os.environ.update(place.env)
    with open(f"/run/netns/{place.namespace}") as handle:
        if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace {place.namespace}")


def join(rank: int, size: int, options: Options) -> None:
    """Join the process group."""
    import torch.distributed as dist

    dist.init_process_group(
        options.backend,
        init_method=options.meeting,
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=options.timeout),
    )


def _outcome(function: Callable[..., Any], args: tuple[Any, ...]) -> Outcome:
    started = time.monotonic()
    try:
        value = function(*args)
    except BaseException as error:
        taken = time.monotonic() - started
        return Outcome(False, str(error), type(error).__name__, traceback.format_exc(), taken)
    return Outcome(True, value, seconds=time.monotonic() - started)
