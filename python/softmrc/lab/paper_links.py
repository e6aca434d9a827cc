"""Studies of links: uplinks, T1 (R7), ports of a NIC (R8), few spines (R13), equal planes (R21), all ports (R22)."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from softmrc.bench.proc import Program
from softmrc.errors import MrcError
from softmrc.lab import faults
from softmrc.lab.course import Bins
from softmrc.lab.flows import BIN_MS, Flow, FlowResult
from softmrc.lab.lab import Lab
from softmrc.lab.paper_paths import uplinks
from softmrc.lab.paper_site import BIN_S, Site, round_trip
from softmrc.paper.check import Check, Verdict, at_least, at_most, between, equal, shown

__all__ = ["equal_planes", "every_port", "few_spines", "links_fail", "ports_fail"]

_SLOW_BPS = 50_000_000
_SETTLE = 0.4
"""Seconds after a change that belong to the change."""


_SPINES_SETTLE = 1.0
"""Likewise where most paths of the only plane die: the target allows 100 ms at 400 Gb/s, which is minutes here."""


@dataclass(frozen=True)
class _Phase:
    """A state that was held: from when to when."""

    name: str
    begin: float
    end: float

    def rate(self, bins: Bins, settle: float = _SETTLE) -> float:
        """Return the mean rate, bit/s, after `settle` seconds."""
        return bins.rate(self.begin + settle, self.end)

    def worst(self, bins: Bins) -> float:
        """Return the lowest bin, bit/s; the change at its beginning included."""
        rates = [rate for _, rate in bins.windows(self.begin, self.end, BIN_S)]
        return min(rates) if rates else math.nan


def _hold(name: str, seconds: float) -> _Phase:
    begin = time.monotonic()
    time.sleep(seconds)
    return _Phase(name, begin, time.monotonic())


# --- R7 -----------------------------------------------------------------------------------------------------


def links_fail(site: Site) -> Verdict:
    """R7: uplinks fail one by one, several at once and return, a T1 dies and returns, under a cross-T1 pair."""
    hold = site.effort.hold + 0.5
    step = 0.25
    with site.lab(planes=4, t0=2, t1=8, hosts=2) as lab:
        site.say("R7: uplinks and a T1 fail")
        lot = random.Random(7)
        ups = [link.name for plane in range(1, 5) for link in uplinks(lab, plane, 0)]
        chosen = lot.sample(ups, len(ups) // 4)
        flow = Flow(source="h0", sink="h1", options=("-q", "4"), ends=("--evs", "32"))
        with site.flows(lab, [flow], 0.8 + 6 * hold + step * len(chosen)) as running:
            time.sleep(0.5)
            base = _hold("before", hold)
            began = time.monotonic()
            for name in chosen:
                faults.fail(lab, name)
                time.sleep(step)
            one_by_one = _Phase("one by one", began, _hold("", hold / 2).end)
            faults.heal(lab)
            _hold("healed", hold)
            began = time.monotonic()
            for name in lot.sample(ups, len(ups) // 8):
                faults.fail(lab, name)
            at_once = _Phase("at once", began, _hold("", hold).end)
            faults.heal(lab)
            restored = _hold("restored", hold)
            faults.fail(lab, "p2.t1-3")
            dead = _hold("T1 dead", hold)
            faults.heal(lab)
            (result,) = running.results()
    return _judge_links(result, base, one_by_one, at_once, restored, dead, len(chosen), len(ups))


def _judge_links(
    result: FlowResult, base: _Phase, one_by_one: _Phase, at_once: _Phase, restored: _Phase, dead: _Phase, failed: int,
    there: int,
) -> Verdict:  # fmt: skip
    bins = result.goodput
    start = base.rate(bins, 0)
    worst = {p.name: p.worst(bins) / start for p in (one_by_one, at_once, dead)}
    steady = dead.rate(bins) / start
    checks = [
        at_least("(a) one by one: worst bin, of before", worst["one by one"], 0.98, "0.991"),
        at_least("(b) at once: worst bin, of before", worst["at once"], 0.95, "0.96"),
        between("(b) restored, of before", restored.rate(bins) / start, 0.98, 1.02, "unchanged"),
        at_least("(c) T1 dead: steady, of before", steady, 0.99, "0.997"),
        at_least("(c) T1 dead: worst bin, of before", worst["T1 dead"], 0.97, "0.983"),
        equal("queue pairs in error", result.row["qp_errors"], 0, "0"),
    ]
    ours = (
        f"(a) worst {worst['one by one']:.3f}, (b) worst {worst['at once']:.3f}, (c) steady {steady:.3f}, "
        f"worst {worst['T1 dead']:.3f}"
    )
    note = f"{failed} of {there} uplinks one by one, half as many at once; 4 queue pairs of 128 EVs"
    return Verdict(checks, ours, note, {"bins": _curve(bins, start)})


def _curve(bins: Bins, unit: float) -> list[float]:
    return [n * 8 / bins.width / unit for n in bins.counts]


# --- R8 -----------------------------------------------------------------------------------------------------


def ports_fail(site: Site) -> Verdict:
    """R8: ports of a NIC go one by one and return, then four at once; below one T0, both directions."""
    hold = max(1.0, site.effort.hold)
    with site.lab(planes=8, t0=1, t1=0, hosts=2, rate_bps=_SLOW_BPS) as lab:
        site.say("R8: ports of a NIC fail one by one, then four at once")
        with site.flows(lab, [Flow(source="h0", sink="h1", both=True)], 1.0 + 12 * hold) as running:
            time.sleep(0.5)
            phases = [_hold("8", hold)]
            for port in range(1, 8):
                faults.fail(lab, f"h0.p{port}")
                phases.append(_hold(f"{8 - port}", hold))
            faults.heal(lab)
            restored = _hold("restored", hold)
            for port in range(1, 5):
                faults.fail(lab, f"h0.p{port}")
            four = _hold("four at once", hold)
            faults.heal(lab)
            (result,) = running.results()
        rtt = round_trip(lab)
    bins = result.goodput
    start = phases[0].rate(bins, 0)
    plateaus = [phase.rate(bins) / start for phase in phases]
    paper = (0.871, 0.748, 0.622, 0.500, 0.371, 0.250)
    checks = [
        between(
            f"{k} down: of start", plateaus[k], (8 - k) / 8 - 0.02, (8 - k) / 8 + 0.02, f"{paper[k - 1]:g}"
        )
        for k in range(1, 7)
    ]
    gap = max(_gap(bins, phase.begin, plateaus[k] * start) for k, phase in enumerate(phases) if k)
    at_once, back = four.rate(bins) / start, restored.rate(bins) / start
    checks += [
        shown("7 down: of start", plateaus[7]),
        between("four at once, of start", at_once, 0.48, 0.51, "0.497"),
        at_least("restored, of start", back, 0.99, "1.00"),
        at_most(
            "longest gap after a port, ms (2 RTT and a bin)",
            gap * 1e3,
            2 * rtt * 1e3 + BIN_MS,
            "~1.1 s (remap)",
        ),
        equal("queue pairs in error", result.row["qp_errors"], 0, "0"),
    ]
    ours = f"{' '.join(f'{p:.3f}' for p in plateaus[1:7])}; four at once {at_once:.3f}; restored {back:.3f}"
    note = f"rates of one direction, while both send; planes of {_SLOW_BPS / 1e6:g} Mbit/s"
    return Verdict(checks, ours, note, {"plateaus": plateaus, "bins": _curve(bins, start)})


def _gap(bins: Bins, begin: float, level: float) -> float:
    """Return the longest time with less than half of a rate within 0.4 s of a change, seconds."""
    return bins.longest_below(begin, begin + 0.4, level / 2)


# --- R13 ----------------------------------------------------------------------------------------------------


def few_spines(site: Site) -> Verdict:
    """R13: two hosts in two racks over four spines whose links fail; with uplinks as fast as the NIC, and a quarter."""
    hold = site.effort.hold + _SPINES_SETTLE + 0.5
    rate = 2 * site.rate_bps
    wide, _ = _spines(site, rate, rate, ((1, 2, 3),), hold)
    narrow, curve = _spines(site, rate, rate // 4, ((1,), (2,), (3,)), hold)
    pair, _ = _spines(site, rate, rate // 4, ((1, 2),), hold)
    checks: list[Check] = [at_least("(a) three of four gone, uplinks at NIC rate", wide[0], 0.98, "0.99")]
    paper = (0.745, 0.497, 0.247)
    for k, found in enumerate(narrow[:3], 1):
        want = 1 - k / 4
        checks.append(
            between(f"(b) {k} of four gone, of start", found, want - 0.02, want + 0.02, f"{paper[k - 1]:g}")
        )
    checks += [
        between("(c) two at once, of start", pair[0], 0.48, 0.52, "0.497"),
        shown("(b) restored, of start", narrow[3]),
    ]
    words = [f"{100 * f:.1f}" for f in narrow[:3]]
    ours = f"(a) {100 * wide[0]:.1f} %; (b) {' / '.join(words)} %; (c) {100 * pair[0]:.1f} %"
    return Verdict(checks, ours, f"one plane of {rate / 1e6:g} Mbit/s", {"bins": curve})


def _spines(
    site: Site, rate: int, uplink: int, steps: Sequence[Sequence[int]], hold: float
) -> tuple[list[float], list[float]]:
    """Fail uplinks step by step, then heal; returns the rate of each state over that of the first, and the curve."""
    site.say(f"R13: uplinks of {uplink / 1e6:g} Mbit/s")
    with (
        site.lab(planes=1, t0=2, t1=4, hosts=2, rate_bps=rate, fabric_rate_bps=uplink) as lab,
        site.flows(
            lab, [Flow(source="h0", sink="h1", ends=("--evs", "16"))], 0.8 + (2 + len(steps)) * hold
        ) as running,
    ):
        time.sleep(0.5)
        base = _hold("before", hold)
        phases = []
        for step in steps:
            for spine in step:
                faults.fail(lab, f"p1.t0-0.t1-{spine - 1}")
            phases.append(_hold("", hold))
        faults.heal(lab)
        phases.append(_hold("", hold - 0.2))
        (result,) = running.results()
    start = base.rate(result.goodput, 0)
    return [p.rate(result.goodput, _SPINES_SETTLE) / start for p in phases], _curve(result.goodput, start)


# --- R21 ----------------------------------------------------------------------------------------------------


def equal_planes(site: Site) -> Verdict:
    """R21: cross traffic on one plane, and missing uplinks of one plane: all planes come down to it."""
    hold = site.effort.hold + 1
    verdict = Verdict()
    words = []
    with site.lab(planes=4, t0=2, t1=1, hosts=4) as lab:
        for share in (0.25, 0.5) if lab.has_namespaces else ():
            site.say(f"R21: cross traffic of {share:g} of a plane")
            alone, mixed, cross = _crossed(site, lab, share, hold)
            capacity = alone / lab.spec.planes
            found = mixed / (lab.spec.planes * (capacity - cross))
            verdict.extend([
                between(f"x = {share:g} C: MRC over p(C - x)", found, 0.97, 1.03, "1"),
                shown(f"x = {share:g} C: cross traffic that arrived, of a plane", cross / capacity),
            ])  # fmt: skip
            words.append(f"{found:.2f}")
    kept = []
    quarter = site.rate_bps // 4
    with site.lab(planes=4, t0=2, t1=4, hosts=2, fabric_rate_bps=quarter) as lab:
        for missing in (1, 2):
            site.say(f"R21: {missing} of 4 uplinks of a plane are missing")
            with site.flows(lab, [Flow(source="h0", sink="h1")], 0.8 + 2 * hold) as running:
                time.sleep(0.5)
                base = _hold("before", hold)
                for k in range(missing):
                    faults.fail(lab, f"p1.t0-0.t1-{k}")
                short = _hold("short", hold - 0.2)
                running.send_all()
                faults.heal(lab)
                (result,) = running.results()
            found = short.rate(result.goodput) / base.rate(result.goodput, 0)
            want = 1 - missing / 4
            verdict.extend(
                [
                    between(
                        f"{missing} of 4 uplinks gone: of line", found, want - 0.03, want + 0.03, f"{want:g}"
                    )
                ]
            )
            kept.append(f"{found:.3f}")
    verdict.ours = f"{' / '.join(words) or 'not run'} of p(C - x); {' / '.join(kept)} of line"
    verdict.note = (
        "cross traffic is UDP at a fixed rate" if words else "no cross traffic: it needs namespaces"
    )
    verdict.note += "; the ablation (any plane) is run in the simulator only"
    return verdict


def _crossed(site: Site, lab: Lab, share: float, hold: float) -> tuple[float, float, float]:
    """Return our rate alone, our rate beside cross traffic, and what arrived of that, bit/s of payload."""
    port, rate = 5400, int(share * (lab.spec.rate_bps or 0))
    size = lab.spec.mtu - 48
    address = lab.addresses("h3")[0]
    server = Program(None, lab.command("h3", "iperf3", "-s", "-1", "-p", str(port), "-J"))
    with server, site.flows(lab, [Flow(source="h0", sink="h2")], 0.8 + 2 * hold + 1.5) as running:
        server.await_listening(port)
        time.sleep(0.5)
        base = _hold("alone", hold)
        words = ["iperf3", "-u", "-c", address, "-p", str(port), "-b", str(rate), "-l", str(size)]
        with Program(None, lab.command("h1", *words, "-t", f"{hold + 1:g}", "-J")) as cross:
            time.sleep(0.5)
            beside = _hold("beside", hold)
            report = cross.json(hold + 10, last_line=False)
            if "error" in report:
                raise MrcError(f"iperf3: {report['error']}")
        (result,) = running.results()
    end = report["end"]["sum"]
    arrived = end["bits_per_second"] * (1 - end["lost_percent"] / 100)
    return base.rate(result.goodput, 0), beside.rate(result.goodput), float(arrived)


# --- R22 ----------------------------------------------------------------------------------------------------


def every_port(site: Site) -> Verdict:
    """R22: with all ports of a NIC down its queue pairs fail; with one left they do not."""
    from softmrc.lab.job import Job

    budget = 2.0
    found = {}
    with site.lab(planes=4, t0=1, t1=0, hosts=2) as lab:
        for left in (1, 0):
            site.say(f"R22: {left} of 4 ports left")
            with Job(lab, ["h0", "h1"], hold_time=budget) as job:
                job.step(200_000)
                for plane in range(1, 5 - left):
                    faults.fail(lab, f"h0.p{plane}")
                if not left:
                    faults.fail(lab, "h0.p4")
                began = time.monotonic()
                took = job.try_step(200_000, 3 * budget)
                found[left] = (took, time.monotonic() - began)
            faults.heal(lab)
    one, none = found[1], found[0]
    checks = [
        equal("one port left: the transfer is done", float(one[0] is None), 1, "no error"),
        equal("no port left: the queue pair fails", float(none[0] is not None), 1, "error"),
        between("it fails after, of the budget", none[1] / budget, 0.9, 2.0, "retry budget"),
    ]
    why = str(none[0] or "")
    ours = f"one port left: done in {one[1]:.2f} s; none: error after {none[1]:.1f} s of a budget of {budget:g} s"
    return Verdict(checks, ours, f"the error says: {why[:160]}" if why else "")
