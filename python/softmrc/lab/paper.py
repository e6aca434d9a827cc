"""Targets of the paper that a testbed can show, run on a lab: which, in which order, and the report.

Targets, published values and the form of the report are those of `softmrc paper`; criteria are the same, as ratios.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from softmrc.errors import MrcError, UsageError
from softmrc.lab import paper_job, paper_links, paper_mapper, paper_paths
from softmrc.lab.paper_site import FULL, QUICK, Site
from softmrc.paper.check import Verdict
from softmrc.paper.report import Entry, Report
from softmrc.paper.targets import TARGETS, Target, chosen

__all__ = ["STUDIES", "BedEntry", "bed_targets", "run_bed"]

STUDIES: dict[str, Callable[[Site], Verdict]] = {
    "R5": paper_paths.permutation,
    "R6": paper_paths.lossy_path,
    "R7": paper_links.links_fail,
    "R8": paper_links.ports_fail,
    "R12": paper_paths.two_evs,
    "R13": paper_links.few_spines,
    "R16": paper_job.silent_t1,
    "R17": paper_job.flaps,
    "R21": paper_links.equal_planes,
    "R22": paper_links.every_port,
    "R23": paper_paths.meaning_of_loss,
    "R24": paper_paths.reverse_path,
    "R25": paper_mapper.localise,
}
_WHY: dict[str, str] = {
    "R5": (
        "a flow whose uplink and downlink are both full is marked and trimmed at each, so it gets less than its "
        "rivals (0.2 beside 0.8 of a link): shares of this congestion control are not max-min where flows meet twice"
    ),
    "R12": (
        "an EV that was left because of its marks is tried again now and then, and what is trimmed then is sent again; "
        "without steering by marks trims make EVs SKIP as well"
    ),
    "R13": (
        "with most paths of the only plane dead, most SACKs are lost, too, until EV probes have found the paths that "
        "live; a round trip is milliseconds here"
    ),
    "R16": (
        "every step waits for the slowest of 128 queue pairs in four processes, so a process that waits for a core "
        "shows; and three uplinks carry the plane's load of four"
    ),
    "R17": (
        "the queue of the job's own packets is most of its round trip, so two or three of a queue pair are on an EV "
        "before the first loss is noticed; the step waits for the slowest queue pair"
    ),
    "R21": (
        "planes get equal packets, but what is trimmed on the short plane is repaired over the others, and one window "
        "for all planes does not come down to what the short plane carries"
    ),
    "R24": (
        "the turn of a plane takes a round trip, its EV probe is waited for two, and a process that waits for a core "
        "adds to both"
    ),
    "R25": (
        "at a probe every ms a port, the first of 2 % loss is lost after 25 ms in the mean, and two more losses have "
        "to follow before it is told from chance and from its neighbours"
    ),
}
"""Where a criterion is missed: the mechanism that counters and events point to."""


@dataclass
class BedEntry(Entry):
    """One target on the testbed; suspected mechanisms are those of the testbed."""

    @property
    def note(self) -> str:
        """The study's remark, with what is missed, by how much and probably why."""
        if self.verdict is None:
            return self.why_not
        missed = [f"missed: {c.name} is {c.ours:.4g}, not {c.range}" for c in self.verdict.missed()]
        why = f"suspected: {_WHY[self.target.id]}" if missed and self.target.id in _WHY else ""
        return "; ".join(part for part in (*missed, self.verdict.note, why) if part)


def bed_targets(only: str) -> list[Target]:
    """Return the testbed's targets named in a list with commas; all of them for an empty text.

    Raises:
        UsageError: a name is none of them.
    """
    wanted = chosen(only) if only.strip(" ,") else [t for t in TARGETS if t.id in STUDIES]
    if other := [t.id for t in wanted if t.id not in STUDIES]:
        raise UsageError(
            f"{', '.join(other)}: for the simulator (softmrc paper); here there is {', '.join(STUDIES)}"
        )
    return wanted


def run_bed(
    targets: Sequence[Target],
    *,
    quick: bool = False,
    name: str = "paper",
    rate_bps: int = 100_000_000,
    switch: str = "auto",
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Run the studies of some targets, one after another, each on labs of its own.

    Args:
        targets: of `bed_targets`.
        quick: one draw and short states.
        name: of the labs.
        rate_bps: of a host's port where a study says nothing else.
        switch: "kernel", "soft" or "auto".
        say: told what is being done.

    Returns:
        The report; `partial` when it was interrupted.
    """
    effort = QUICK if quick else FULL
    report = Report(effort.name, effort.seeds)
    site = Site(effort, name, rate_bps, switch, say)
    began = time.monotonic()
    with site.nursery:
        _run_all(site, targets, report)
    report.seconds = time.monotonic() - began
    return report


def _run_all(site: Site, targets: Sequence[Target], report: Report) -> None:
    for target in targets:
        started = time.monotonic()
        entry = BedEntry(target, None)
        try:
            entry.verdict = STUDIES[target.id](site)
        except MrcError as error:
            entry.failed, entry.why_not = True, f"failed: {error}"
        except KeyboardInterrupt:
            report.partial, entry.why_not = True, "interrupted"
        entry.seconds = time.monotonic() - started
        report.entries.append(entry)
        if report.partial:
            break
