"""`softmrc bench sim`: how fast the simulator is, and beside it a user's own build of uet-htsim on the same files.

Every run is a process of its own on one core. Where both are measured they take turns, ours first. Without a build of
htsim the completion times are set beside recorded ones.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from softmrc.bench.settings import BenchError
from softmrc.bench.sim_cases import CASES, LINK_MBPS, Case
from softmrc.bench.table import RowResult
from softmrc.errors import UsageError

__all__ = ["CaseRuns", "choose_cases", "htsim_figures", "measure", "rows_of"]

RSS_LIMIT_MIB = 4_096
GROWTH_LIMIT = 2.0
COMPLETION_LIMIT = 0.10
_FINISHED = re.compile(r"finished at ([0-9.]+)")
_PACKETS = re.compile(r"^New: (\d+) Rtx: (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class CaseRuns:
    """All runs of one case."""

    case: Case
    ours: list[dict[str, Any]]
    theirs: list[dict[str, Any]]
    alike: dict[str, Any] | None = None
    """Ours once more, on switches that hash EVs and mark as htsim's do; none where there is nothing to compare."""

    @property
    def packets_per_s(self) -> float:
        """Median of ours."""
        return float(statistics.median(run["data_packets"] / run["wall_s"] for run in self.ours))

    @property
    def their_packets_per_s(self) -> float | None:
        """Median of htsim's; none if it was not run."""
        if not self.theirs:
            return None
        return float(statistics.median(run["data_packets"] / run["wall_s"] for run in self.theirs))

    @property
    def peak_rss_mib(self) -> float:
        """Largest of ours."""
        return float(max(run["peak_rss_mib"] for run in self.ours))

    @property
    def speedup(self) -> float | None:
        """Ours over htsim's packets a second, run in turn; none if it was not run."""
        theirs = self.their_packets_per_s
        return self.packets_per_s / theirs if theirs else None

    def peer_completion(self) -> tuple[dict[str, float], str] | None:
        """Return htsim's completion times in us and whether they were measured or recorded."""
        if self.theirs:
            return dict(self.theirs[0]["completion_us"]), "measured"
        known = self.case.recorded
        if known is None:
            return None
        return {"p50": known.p50_us, "p99": known.p99_us, "max": known.max_us}, "recorded"

    def to_json(self) -> dict[str, Any]:
        """Return the figures of the case."""
        first = self.ours[0]
        made = {
            "name": self.case.name,
            "hosts": self.case.hosts,
            "tiers": self.case.tiers,
            "data_packets": first["data_packets"],
            "rtx": first["rtx"],
            "data_packets_per_s": round(self.packets_per_s),
            # Well below 1 on a busy machine: then the packets a second are those of a part of a core.
            "cpu_share": round(
                min(1.0, sum(r["cpu_s"] for r in self.ours) / sum(r["wall_s"] for r in self.ours)), 2
            ),
            "peak_rss_mib": round(self.peak_rss_mib, 1),
            "wall_s": [round(run["wall_s"], 3) for run in self.ours],
            "completion_us": first["completion_us"],
        }
        if self.alike is not None:
            made["completion_alike_us"] = self.alike["completion_us"]
        if self.theirs:
            made["speedup_vs_htsim"] = round(self.speedup or 0.0, 2)
            made["htsim"] = {**self.theirs[0], "data_packets_per_s": round(self.their_packets_per_s or 0.0)}
        return made


def choose_cases(names: Sequence[str], quick: bool) -> list[Case]:
    """Return the cases of these names; all, or with `quick` the small ones, without names.

    Raises:
        UsageError: a name that is none.
    """
    known = {case.name: case for case in CASES}
    for name in names:
        if name not in known:
            raise UsageError(f"no such case: {name!r}; there is {', '.join(known)}")
    return [known[name] for name in names] if names else [case for case in CASES if case.quick or not quick]


def measure(
    cases: Sequence[Case],
    *,
    repeat: int = 3,
    htsim: str | None = None,
    say: Callable[[str], None] = lambda _: None,
    done: Callable[[CaseRuns], None] = lambda _: None,
) -> list[CaseRuns]:
    """Run the cases, each `repeat` times.

    Args:
        cases: what to simulate.
        repeat: runs of each, 1 to 101.
        htsim: path of a user's `htsim_uec`; it runs in turn with ours.
        say: told what is being run.
        done: told each case as it is done.

    Raises:
        UsageError: no such program, or a number out of range.
        BenchError: a run failed or left flows unfinished.
    """
    if not 1 <= repeat <= 101:
        raise UsageError(f"repeat is 1 to 101, not {repeat}")
    if htsim is not None and not (os.path.isfile(htsim) and os.access(htsim, os.X_OK)):
        raise UsageError(f"{htsim} is no program; --htsim takes the path of your own build of htsim_uec")
    made = []
    with tempfile.TemporaryDirectory(prefix="softmrc-bench-") as name:
        for case in cases:
            matrix, topology = case.write(Path(name), seed=1)
            runs = CaseRuns(case, [], [])
            for turn in range(repeat):
                say(f"{case.name}: {turn + 1} of {repeat}")
                runs.ours.append(_ours(case, matrix, topology))
                if htsim is not None:
                    say(f"{case.name}: htsim, {turn + 1} of {repeat}")
                    runs.theirs.append(_theirs(case, os.path.abspath(htsim), matrix, topology))
            if htsim is not None or case.recorded is not None:
                say(f"{case.name}: on switches like htsim's")
                runs = replace(runs, alike=_ours(case, matrix, topology, "alike"))
            made.append(runs)
            done(runs)
    return made


def _ours(case: Case, matrix: Path, topology: Path, *fabric: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "softmrc.bench._simrun", str(matrix), str(topology), str(LINK_MBPS), "1"]
    out, _, _ = _run([*command, *fabric], matrix.parent, f"{case.name}: our simulation")
    figures: dict[str, Any] = json.loads(out)
    if figures["flows_done"] != case.hosts:
        raise BenchError(f"{case.name}: {figures['flows_done']} of {case.hosts} flows were done")
    return figures


def _theirs(case: Case, program: str, matrix: Path, topology: Path) -> dict[str, Any]:
    command = [program, "-tm", str(matrix), "-topo", str(topology), "-linkspeed", str(LINK_MBPS)]
    out, wall_s, rss_mib = _run(
        [*command, "-sender_cc_only", "-end", "20000"], matrix.parent, f"{case.name}: htsim"
    )
    return {**htsim_figures(out, case.hosts), "wall_s": wall_s, "peak_rss_mib": rss_mib}


def htsim_figures(out: str, flows: int) -> dict[str, Any]:
    """Return packets and completion times from what htsim_uec prints.

    Raises:
        BenchError: not all flows are reported as finished, or the packets are not counted.
    """
    import numpy as np

    from softmrc.sim.result.percentiles import summary

    times = np.array([float(text) for text in _FINISHED.findall(out)])
    counted = _PACKETS.search(out)
    if times.size != flows or counted is None:
        tail = out.strip().splitlines()[-1:] or ["nothing"]
        raise BenchError(
            f"htsim reported {times.size} of {flows} flows as finished; its last line: {tail[0]}"
        )
    shown = summary(times)
    return {
        "data_packets": int(counted[1]),
        "rtx": int(counted[2]),
        "completion_us": {key: shown[key] for key in ("p50", "p99", "max")},
    }


def _run(command: Sequence[str], folder: Path, what: str) -> tuple[str, float, float]:
    """Return what a program printed, its wall time in s and its peak memory in MiB."""
    errors = folder / "stderr.txt"
    begun = time.monotonic()
    with (
        errors.open("w+") as stderr,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            out = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        except BaseException:
            process.kill()
            raise
        stderr.seek(0)
        said = stderr.read().strip().splitlines()[-1:] or ["it said nothing"]
    if process.returncode:
        raise BenchError(f"{what} ended with {process.returncode}: {said[0]}")
    return out, time.monotonic() - begun, usage.ru_maxrss / 1024


def rows_of(runs: Sequence[CaseRuns]) -> list[RowResult]:
    """Return the judged rows of what was measured."""
    rows = []
    for one in runs:
        if one.case.target is not None:
            rows.append(_speed(one))
        if one.peer_completion() is not None:
            rows.append(_completion(one))
    by_name = {one.case.name: one for one in runs}
    large, small = by_name.get("two_tier_8192"), by_name.get("two_tier_128")
    if large is not None:
        rows.append(
            _row(
                "peak_rss_8192",
                "MiB of the simulation of 8,192 hosts",
                large.peak_rss_mib,
                RSS_LIMIT_MIB,
                "<=",
            )
        )
    if large is not None and small is not None:
        about = "cost of a packet among 8,192 hosts over that among 128"
        rows.append(_row("cost_growth", about, small.packets_per_s / large.packets_per_s, GROWTH_LIMIT, "<="))
    return rows


def _row(name: str, about: str, value: float, target: float, sense: str, **more: Any) -> RowResult:
    ok = value <= target if sense == "<=" else value >= target
    peer, detail = more.get("peer", {}), more.get("detail", {})
    return RowResult(
        name=name,
        about=about,
        value=round(value, 4),
        target=target,
        sense=sense,
        ok=ok,
        peer=peer,
        detail=detail,
    )


def _speed(one: CaseRuns) -> RowResult:
    peer: dict[str, Any] = {}
    if one.theirs:
        rate = round(one.their_packets_per_s or 0.0)
        peer = {"name": "htsim", "ours": round(one.packets_per_s), "median": rate, "unit": "packets/s"}
    elif one.case.recorded:
        peer = {"name": "uet-htsim, recorded", "packets_per_s": one.case.recorded.packets_per_s}
    about = f"data packets a second, {one.case.hosts} hosts, {one.case.tiers} tiers"
    assert one.case.target is not None
    return _row(
        one.case.name, about, one.packets_per_s, one.case.target, ">=", peer=peer, detail=one.to_json()
    )


def _completion(one: CaseRuns) -> RowResult:
    found = one.peer_completion()
    assert found is not None
    theirs, source = found
    named = one.ours[0]["completion_us"]
    # Switches that follow the path an EV names keep every path equally full; htsim's hash, and some are fuller.
    ours = named if one.alike is None else one.alike["completion_us"]
    ratios = {key: round(ours[key] / theirs[key], 4) for key in ("p50", "p99", "max")}
    worst = max(abs(ratio - 1) for ratio in ratios.values())
    about = (
        f"largest difference of p50, p99, max completion from htsim's ({source}), on switches like its own"
    )
    peer = {"name": "htsim", "source": source, "completion_us": theirs}
    detail = {
        "completion_us": ours,
        "ratios": ratios,
        "named_paths": {
            "completion_us": named,
            "ratios": {key: round(named[key] / theirs[key], 4) for key in ratios},
            # No queue, no loss, no wait.
            "ideal_us": round(one.case.ideal_us, 2),
        },
    }
    return _row(f"completion_{one.case.name}", about, worst, COMPLETION_LIMIT, "<=", peer=peer, detail=detail)
