"""The demonstration from start to end: the quiet run, the disturbed run, the gloo twin; figure and verdict."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from softmrc.errors import MrcError, UsageError
from softmrc.train_demo.places import LabPlace, LoopbackPlace
from softmrc.train_demo.plan import Incident, Plan, schedule
from softmrc.train_demo.run import Place, Run, execute
from softmrc.train_demo.verdict import Verdict, judge, outcome

__all__ = ["WHERE", "Demonstration", "Watcher", "choose_place", "perform"]

WHERE = ("auto", "lab", "loopback")
_HORIZON = 3600.0  # failures are planned for so long; a run that is done has no use for the rest


class Watcher:
    """Told what goes on; the live view is one."""

    def begin(self, title: str) -> None:
        """Another run begins."""

    def update(self, run: Run) -> None:
        """There may be news of it."""

    def end(self, run: Run) -> None:
        """It is over."""


@dataclass(frozen=True)
class Demonstration:
    """All runs, and what came of the promises."""

    plan: Plan
    where: str
    runs: tuple[tuple[str, Run], ...]
    verdict: Verdict
    figure: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return {
            "ok": self.verdict.ok, "broken": list(self.verdict.broken), "where": self.where, "seed": self.plan.seed,
            "ranks": self.plan.ranks, "planes": self.plan.planes, "rate_bps": self.plan.rate_bps,
            "runs": [{"name": name, **outcome(run)} for name, run in self.runs],
            "incidents": [str(i) for i in dict(self.runs)["mrc, failing network"].incidents[:32]],
            "figure": self.figure,
        }  # fmt: skip


def choose_place(where: str) -> str:
    """Return "lab" or "loopback".

    Raises:
        UsageError: there is no such place, or no lab can be made here; the text says what is missing.
    """
    if where not in WHERE:
        raise UsageError(f"--where is {', '.join(WHERE)}, not {where!r}")
    from softmrc.netns import missing

    lacks = missing()
    if where == "lab" and lacks:
        raise UsageError(
            f"a lab needs network namespaces: {', '.join(lacks)}; --where loopback needs nothing"
        )
    return where if where != "auto" else ("loopback" if lacks else "lab")


@contextlib.contextmanager
def _place(plan: Plan, where: str) -> Iterator[LabPlace | LoopbackPlace]:
    if where == "loopback":
        yield LoopbackPlace(plan)
        return
    from softmrc.lab import Lab, LabSpec

    hosts_per_t0 = (plan.ranks + 1) // 2
    spec = LabSpec(
        name=f"train{os.getpid()}",
        planes=plan.planes,
        t0=2,
        t1=plan.t1,
        hosts=2 * hosts_per_t0,
        rate_bps=plan.rate_bps,
    )
    with Lab.up(spec) as lab:
        yield LabPlace(plan, lab)


def perform(
    plan: Plan, where: str, peer: str | None, out: str | os.PathLike[str], watcher: Watcher
) -> Demonstration:
    """Train in a quiet and in a failing network, with the peer beside it, and judge.

    Args:
        plan: what is trained and how often something fails.
        where: "lab" or "loopback".
        peer: "gloo", or None.
        out: directory of the figure; made if it is not there.
        watcher: told what goes on.

    Raises:
        MrcError: ranks did not come up, or the lab could not be made.
    """
    directory = Path(out)
    directory.mkdir(parents=True, exist_ok=True)
    failures = schedule(plan, _HORIZON)
    runs: list[tuple[str, Run]] = []
    with _place(plan, where) as place:
        wanted: list[tuple[str, str, tuple[Incident, ...]]] = [
            ("mrc, quiet", "mrc", ()),
            ("mrc, failing network", "mrc", failures),
        ]
        if peer is not None:
            if peer in place.can_disturb:
                wanted.append((f"{peer}, failing network", peer, failures))
            else:  # said in the name: nobody should take it for a comparison
                wanted.append((f"{peer}, undisturbed", peer, ()))
        for name, backend, incidents in wanted:
            watcher.begin(f"{name} ({place.words})")
            run = _attempt(plan, place, backend, incidents, watcher)
            runs.append((name, run))
            watcher.end(run)
    verdict = judge(runs[1][1], runs[0][1])
    return Demonstration(
        plan, place.words, tuple(runs), verdict, _draw(runs, directory / f"train-demo-{plan.seed}.png")
    )


def _attempt(
    plan: Plan, place: Place, backend: str, incidents: tuple[Incident, ...], watcher: Watcher
) -> Run:
    """The peer may fail in any way it likes: that is an outcome. Ours may not."""
    try:
        return execute(plan, place, backend, incidents, watcher.update)
    except MrcError as error:
        if backend == "mrc":
            raise
        return Run(backend, plan.steps, (), errors=[str(error)])


def _draw(runs: list[tuple[str, Run]], path: Path) -> str | None:
    from softmrc.train_demo.figure import draw

    try:
        draw(runs, path)
    except UsageError:  # no matplotlib: everything else was measured all the same, and the caller says so
        return None
    return os.fspath(path)
