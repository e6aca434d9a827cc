"""From a plan to a result: everything a run needs in one value, and the call that carries it out.

Decides nothing about the simulation; it hands the plan to the simulator and keeps beside the outcome what figures and
reports need to know.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from softmrc.errors import MrcError, UsageError
from softmrc.sim.result.cost import Rates
from softmrc.sim.result.model import Result

if TYPE_CHECKING:
    from softmrc.sim.config import Fault, Queues, Topology, Transport
    from softmrc.sim.run import Outcome, Progress
    from softmrc.sim.scenario import Scenario
    from softmrc.sim.workload import Workload

__all__ = ["Limits", "Plan", "execute", "plan_of"]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What ends a run early; its result is then partial."""

    wall_s: float | None = None
    """Wall-clock time, s."""
    max_rss_mib: int | None = None
    """Memory of this process, MiB."""

    def __post_init__(self) -> None:
        """Check ranges.

        Raises:
            UsageError: a limit that is no number above 0.
        """
        if self.wall_s is not None and not 0 < self.wall_s < math.inf:
            raise UsageError(f"the limit of wall time is a number of seconds above 0, not {self.wall_s}")
        if self.max_rss_mib is not None and self.max_rss_mib < 1:
            raise UsageError(f"the limit of memory is 1 MiB or more, not {self.max_rss_mib}")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One run: what is simulated, what is watched, what it costs."""

    name: str
    topology: Topology
    workload: Workload
    transport: Transport
    queues: Queues
    faults: Sequence[Fault] = ()
    seed: int = 1
    until_ns: int | None = None
    sample_ns: int | None = None
    watch_flows: tuple[int, ...] = ()
    """Sends whose goodput the series has, by task id."""
    watch_hosts: tuple[int, ...] = ()
    watch_links: tuple[str, ...] = ()
    """`h3.p2` and the like; with `.up` or `.down` one direction."""
    pcap_links: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Everything above but the seed, as JSON takes it."""
    rates: Rates = field(default_factory=Rates)
    limits: Limits = field(default_factory=Limits)
    quick: bool = False
    label: str = ""
    """Of the transport, where its name alone does not say it: "mrc:no-trimming"."""

    @property
    def frames(self) -> int | None:
        """About how many frames hosts send until all is done, acknowledgements included; none if a send never ends.

        For the time that is left: it knows nothing of what is sent again.
        """
        from softmrc.sim.config import Mrc, Tcp
        from softmrc.sim.workload import GREEDY

        sizes = self.workload.size
        if bool((sizes == GREEDY).any()):
            return None
        chosen = self.transport
        payload: int = chosen.mss if isinstance(chosen, Tcp) else chosen.mtu
        # Measured shares of frames without data, and one a message.
        answers = 1 / 2 if isinstance(chosen, Tcp) else 1 / 16
        if isinstance(chosen, Mrc):
            answers = payload / max(chosen.sack_bytes, payload)
        packets = int((-(-sizes // payload)).sum())
        return packets + int(packets * answers) + int((sizes > 0).sum())

    @property
    def clean(self) -> Plan:
        """The same run without its incidents: what is broken before the first packet stays broken."""
        return replace(self, faults=[f for f in self.faults if f.at_ns <= 0], pcap_links=())

    def within(self, limits: Limits) -> Plan:
        """Return the same run with tighter limits: what `limits` leaves open stays."""
        mine = self.limits
        return replace(
            self,
            limits=Limits(
                wall_s=mine.wall_s if limits.wall_s is None else limits.wall_s,
                max_rss_mib=mine.max_rss_mib if limits.max_rss_mib is None else limits.max_rss_mib,
            ),
        )


def plan_of(scenario: Scenario, *, seed: int | None = None, quick: bool = False, label: str = "") -> Plan:
    """Return the run that a scenario describes.

    Args:
        scenario: as loaded.
        seed: of workload, hashes and choices; the scenario's own without it.
        quick: whether the scenario was loaded with its [quick] table, for the result.
        label: name of the transport with its options, for the result.

    Raises:
        UsageError: the workload or a rate is impossible.
    """
    chosen = scenario.seed if seed is None else seed
    if not 0 <= chosen < 1 << 63:
        raise UsageError(f"a seed is a whole number from 0 to 2^63 - 1, not {chosen}")
    sample, stop = scenario.sample, scenario.stop
    return Plan(
        name=scenario.name,
        topology=scenario.topology,
        workload=scenario.workload(chosen),
        transport=scenario.transport,
        queues=scenario.queues,
        faults=scenario.faults,
        seed=chosen,
        until_ns=stop.until_ns,
        sample_ns=sample.interval_ns,
        watch_flows=tuple(sample.flows),
        watch_hosts=tuple(sample.hosts),
        watch_links=tuple(sample.links),
        pcap_links=tuple(sample.pcap),
        settings=scenario.settings(),
        rates=Rates.from_table(scenario.cost),
        limits=Limits(wall_s=stop.wall_s, max_rss_mib=stop.max_rss_mib),
        quick=quick,
        label=label,
    )


def _simulated(plan: Plan, progress: Callable[[Progress], None] | None, *, check: bool) -> Outcome:
    from softmrc.sim.run import simulate

    return simulate(
        plan.topology,
        plan.workload,
        plan.transport,
        queues=plan.queues,
        faults=plan.faults,
        seed=plan.seed,
        until_ns=plan.until_ns,
        sample_ns=plan.sample_ns,
        watch_links=plan.watch_links,
        watch_flows=plan.watch_flows,
        watch_hosts=plan.watch_hosts,
        pcap_links=plan.pcap_links,
        check=check,
        wall_s=plan.limits.wall_s,
        max_rss_mib=plan.limits.max_rss_mib,
        progress=progress,
    )


def execute(
    plan: Plan,
    *,
    progress: Callable[[Progress], None] | None = None,
    check: bool = False,
    clean_end_ns: int | None = None,
) -> Result:
    """Carry out a run on one core and return what came of it.

    Args:
        plan: the run.
        progress: called about once a second.
        check: watch the invariants of the fabric all along (slower).
        clean_end_ns: when `plan.clean` was done, for the cost.

    Raises:
        UsageError: the simulator cannot build what the plan asks for, or a plugin raised.
    """
    from softmrc.sim.policies import blamed

    try:
        outcome = _simulated(plan, progress, check=check)
    except MrcError:
        raise
    except Exception as error:
        told = blamed(error)
        if told is None:
            raise
        raise told from error
    return Result(
        name=plan.name,
        transport=plan.label or plan.transport.name,
        settings=plan.settings,
        outcome=outcome,
        workload=plan.workload,
        faults=plan.faults,
        rates=plan.rates,
        clean_end_ns=clean_end_ns,
        quick=plan.quick,
    )
