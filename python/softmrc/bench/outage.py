"""What a total loss of the network costs a job that reduces over and over: ours and the peer's in turn.

Two hosts, every plane cut at once by silent holes, and given back after a while. The figure is the time from the
return of the planes to the end of the first collective after it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

from softmrc.bench.collectives import Site, site
from softmrc.bench.proc import Program
from softmrc.netns import Hole

__all__ = ["RESUME_TARGET", "Outage", "measure_outages"]

RESUME_TARGET = 0.5
"""Seconds after the first plane's return within which ours goes on."""
_BYTES = 16 << 20
_BEFORE, _AFTER = 3.0, 3.0
_PATIENCE = 150.0  # for what TCP's back-off may take beyond the outage


@dataclass(frozen=True, kw_only=True)
class Outage:
    """One backend through one outage."""

    backend: str
    seconds: float
    """All planes were gone for so long."""
    stall_s: float | None
    """Longest time without a finished call; None: no call finished after the outage."""
    resume_s: float | None
    """From the planes' return to the first call that finished after it; None: none did."""
    calls: int
    error: str | None
    ok: bool | None
    """None: the peer's, of which nothing is asked."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return asdict(self)


def measure_outages(
    lengths: Sequence[float],
    peer: str | None,
    done: Callable[[Outage], None],
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Measure each length with ours and with the peer, each in a network of its own.

    Raises:
        BenchError: a rank could not start or gave no answer.
    """
    for seconds in lengths:
        for backend in ["mrc", *([peer] if peer else [])]:
            say(f"all planes down for {seconds:g} s, {backend}")
            done(_one(backend, seconds))


def _one(backend: str, seconds: float) -> Outage:
    with ExitStack() as stack:
        where = stack.enter_context(site("open planes" if backend == "mrc" else "veth"))
        # The peer gets one plane, which is all it can use.
        ranks = [stack.enter_context(_start(where, backend, rank, seconds)) for rank in (0, 1)]
        began = float(ranks[0].next_json(90)["began"])
        time.sleep(max(0.0, began + _BEFORE - time.monotonic()))
        gone_at, back_at = _cut(where, seconds)
        told = [rank.next_json(seconds + _AFTER + _PATIENCE) for rank in ranks]
    return _outcome(backend, seconds, told, gone_at, back_at)


def _start(where: Site, backend: str, rank: int, seconds: float) -> Program:
    config = {
        "ranks": 2, "backends": [backend], "timeout": 600.0, "pin": False,
        "steady": {"bytes": _BYTES, "seconds": _BEFORE + seconds + _AFTER},
    }  # fmt: skip
    return where.start(config, rank)


def _cut(where: Site, seconds: float) -> tuple[float, float]:
    """Open holes at both ends of all planes for so long; when the first opened and the first closed."""
    fabric = where.fabric
    assert fabric is not None
    count = len(fabric.addresses("a"))
    holes = [Hole(fabric.a, f"a{i}") for i in range(1, count + 1)]
    holes += [Hole(fabric.b, f"b{i}") for i in range(1, count + 1)]
    gone_at = time.monotonic()
    for hole in holes:
        hole.set()
    time.sleep(max(0.0, gone_at + seconds - time.monotonic()))
    for hole in holes:
        hole.clear()
    return gone_at, time.monotonic()


def _outcome(backend: str, seconds: float, told: list[dict[str, Any]], gone: float, back: float) -> Outage:
    ends: list[float] = told[0]["ends"]
    after = [end for end in ends if end > back]
    before = [end for end in ends if end <= gone + 0.5]
    resume = after[0] - back if after else None
    gaps = [late - early for early, late in itertools.pairwise(ends)]
    errors = [t["error"] for t in told if t["error"]]
    ok = (
        None
        if backend != "mrc"
        else bool(before) and not errors and resume is not None and resume <= RESUME_TARGET
    )
    return Outage(
        backend=backend, seconds=seconds, stall_s=round(max(gaps), 3) if after and gaps else None,
        resume_s=round(resume, 3) if resume is not None else None, calls=len(ends),
        error=errors[0] if errors else None, ok=ok,
    )  # fmt: skip
