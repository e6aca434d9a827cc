"""Where the runs of a sweep happen: processes of this machine, or the workers of a dask or ray cluster.

All three are joblib back ends. Decides how work is handed out and how results come back as they are done; knows nothing
of simulations.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from softmrc.errors import UsageError

__all__ = ["ENGINES", "check_workers", "workers"]

ENGINES = ("local", "dask", "ray")
_MAX_JOBS = 4_096
_PATIENCE_S = 5.0
_BATCH = 4  # a back end that returns everything at the end gets this many runs a worker at a time

Out = TypeVar("Out")


def check_workers(engine: str, jobs: int | None, address: str | None) -> None:
    """Refuse what `workers` would refuse, also where nothing is left to do.

    Raises:
        UsageError: an unknown engine, a number of jobs out of range, or an address without a cluster.
    """
    if engine not in ENGINES:
        raise UsageError(f"no engine {engine!r}; there is {', '.join(ENGINES)}")
    if jobs is not None and not 1 <= jobs <= _MAX_JOBS:
        raise UsageError(f"jobs is 1 to {_MAX_JOBS}, not {jobs}")
    if engine == "local" and address is not None:
        raise UsageError("an address is that of a cluster: add --engine dask or --engine ray")


@contextlib.contextmanager
def workers(
    engine: str, jobs: int | None, address: str | None
) -> Iterator[Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Iterator[Any]]]:
    """Give a function that calls another one with many argument tuples and yields results as they are done.

    Args:
        engine: one of `ENGINES`.
        jobs: calls at once; all cores, or all of the cluster, without it.
        address: of the scheduler; none lets dask or ray start on this machine.

    Raises:
        UsageError: an unknown engine, one that is not installed, or a number of jobs out of range.
    """
    check_workers(engine, jobs, address)
    try:
        import joblib
    except ImportError:
        raise UsageError("sweeps need joblib: pip install 'softmrc[sim]'") from None
    if address is not None:
        _check_reachable(engine, address)
    count = -1 if jobs is None else jobs
    with contextlib.ExitStack() as stack:
        if engine != "local":
            stack.enter_context(_connected(engine, address, jobs))
            stack.enter_context(joblib.parallel_config(backend=engine, n_jobs=count))
        yield lambda function, calls: _as_done(joblib, engine, count, function, calls)


def _check_reachable(engine: str, address: str) -> None:
    """Refuse a scheduler that does not answer; the clients themselves try for minutes.

    Raises:
        UsageError: nobody listens there; an address without a port passes.
    """
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE_S).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"no {engine} scheduler at {address}: {error}") from None


@contextlib.contextmanager
def _connected(engine: str, address: str | None, jobs: int | None) -> Iterator[None]:
    if engine == "dask":
        try:
            from dask.distributed import Client
        except ImportError:
            raise UsageError("--engine dask needs it: pip install 'dask[distributed]'") from None
        try:
            client = Client(address) if address else Client(n_workers=jobs, threads_per_worker=1)
        except OSError as error:
            raise UsageError(f"no dask scheduler at {address}: {error}") from None
        with client:
            yield
        return
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise UsageError("--engine ray needs it: pip install ray") from None
    try:
        ray.init(address=address, num_cpus=None if address else jobs, ignore_reinit_error=True)
    except (ConnectionError, RuntimeError) as error:
        raise UsageError(f"no ray cluster at {address}: {error}") from None
    register_ray()
    try:
        yield
    finally:
        ray.shutdown()


def _as_done(
    joblib: Any, engine: str, jobs: int, function: Callable[..., Out], calls: Sequence[tuple[Any, ...]]
) -> Iterator[Out]:
    if engine == "local" and jobs == 1:
        # No second process: an exception keeps its place, and a debugger works.
        for call in calls:
            yield function(*call)
        return
    if engine != "ray":
        parallel = joblib.Parallel(
            n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="all"
        )
        yield from parallel(joblib.delayed(function)(*call) for call in calls)
        return
    parallel = joblib.Parallel(n_jobs=jobs, batch_size=1)
    size = _BATCH * max(1, joblib.effective_n_jobs(jobs))
    for first in range(0, len(calls), size):
        yield from parallel(joblib.delayed(function)(*call) for call in calls[first : first + size])
