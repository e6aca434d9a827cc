"""Studies of single paths: permutation (R5), lossy EV (R6), two EVs (R12), meaning of losses (R23), reverse (R24)."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from itertools import pairwise

from softmrc.errors import MrcError
from softmrc.lab import faults
from softmrc.lab.fair import bottlenecks
from softmrc.lab.flows import Flow, FlowResult, LinkWatch
from softmrc.lab.lab import Lab
from softmrc.lab.names import Link
from softmrc.lab.paper_site import BIN_S, Site, line_rate, round_trip, together
from softmrc.paper.check import Verdict, at_least, at_most, between, equal, shown

__all__ = ["lossy_path", "meaning_of_loss", "permutation", "reverse_path", "two_evs"]

_SLOW_BPS = 50_000_000
"""Where eight ports send at once: together no faster than four elsewhere, which is what two cores carry with ease."""

_NEAR = 0.06
"""How far a share of the line may be off and still count as that share."""


def uplinks(lab: Lab, plane: int, t0: int) -> list[Link]:
    """Return the links from a T0 to the T1s of its plane."""
    return [link for link in lab.links if link.kind == "fabric" and link.a_node == f"p{plane}.t0-{t0}"]


def worst_bin(results: Sequence[FlowResult], begin: float, end: float) -> float:
    """Return the lowest rate of a whole bin between two times, bit/s."""
    rates = [rate for _, rate in together(results).windows(begin, end, BIN_S)]
    return min(rates) if rates else math.nan


# --- R5 -----------------------------------------------------------------------------------------------------


def permutation(site: Site) -> Verdict:
    """R5: eight hosts of two racks send to eight of two others; over all paths, and over one drawn by lot each."""
    sprayed: list[float] = []
    single: list[float] = []
    fair: list[float] = []
    alone: list[bool] = []
    carried: list[float] = []
    all_at_line = 0
    draws = max(2, 2 * site.effort.seeds)
    with site.lab(planes=1, t0=4, t1=4, hosts=16, rate_bps=_SLOW_BPS) as lab:
        for seed in range(draws):
            lot = random.Random(seed)
            pairs = [(f"h{i}", f"h{sink}") for i, sink in enumerate(lot.sample(range(8, 16), 8))]
            drawn = [lot.choice(lab.paths(*pair)) for pair in pairs]
            site.say(f"R5: draw {seed + 1} of {draws}, all paths")
            sprayed += _shares(site, lab, [Flow(source=a, sink=b) for a, b in pairs], site.effort.hold + 3.0)
            site.say(f"R5: draw {seed + 1} of {draws}, one path each")
            ones = [Flow(source=a, sink=b, via=(p.address,)) for (a, b), p in zip(pairs, drawn, strict=True)]
            rates = _shares(site, lab, ones, site.effort.hold + 3.0)
            due = bottlenecks([(a, *p.switches, b) for (a, b), p in zip(pairs, drawn, strict=True)])
            single += rates
            fair += due.rates
            alone += due.alone
            carried += [sum(rates[i] for i in flows) for flows in due.full]
            all_at_line += min(rates) >= 0.9
    checks = [
        at_least("all paths: slowest flow, of line", min(sprayed), 0.97, "0.995"),
        between("one path each: mean, of line", sum(single) / len(single), 0.5, 0.7, "0.62 (ECMP, 1 QP)"),
        at_least(
            "one path each: share of flows near 1, 1/2, 1/3 or 1/4", _near_parts(single), 0.8, "clusters"
        ),
        at_most("one path each: draws with all flows at line, share", all_at_line / draws, 0.02, "< 0.02"),
        at_least("one path each: links that are full by water filling, of line, least", min(carried), 0.95),
        at_most(
            "one path each: flows of single bottlenecks, off water filling, most",
            max((abs(r - f) for r, f, one in zip(single, fair, alone, strict=True) if one), default=math.nan),
            _NEAR,
        ),
        shown("likewise, share of flows", sum(alone) / len(alone)),
        shown("water filling: mean, of line", sum(fair) / len(fair)),
        shown("water filling: share of flows near 1, 1/2, 1/3 or 1/4", _near_parts(fair)),
    ]
    ours = (
        f"all paths: slowest flow {100 * min(sprayed):.1f} % of line; one path each: mean "
        f"{100 * sum(single) / len(single):.0f} %, slowest {100 * min(single):.0f} %"
    )
    series = {"sprayed": sorted(sprayed[:8]), "single": sorted(single[:8]), "water_filling": sorted(fair[:8])}
    return Verdict(
        checks, ours, f"{draws} draws; one path each is softmrc over a uSID list drawn by lot", series
    )


def _near_parts(rates: Sequence[float]) -> float:
    """Return the share of rates near 1, 1/2, 1/3 or 1/4."""
    return sum(any(abs(r - 1 / n) <= _NEAR for n in (1, 2, 3, 4)) for r in rates) / len(rates)


def _shares(site: Site, lab: Lab, flows: Sequence[Flow], seconds: float) -> list[float]:
    """Return what each flow got while all ran, of line."""
    with site.flows(lab, flows, seconds) as running:
        results = running.results()
    begin = max(r.goodput.start for r in results) + 0.5
    end = min(r.goodput.end for r in results)
    if end - begin < 1.0:
        raise MrcError(f"flows ran together for {max(0.0, end - begin):.1f} s only: this machine is too busy")
    return [r.goodput.rate(begin, end) / line_rate(lab, r.row["pmtu"]) for r in results]


# --- R6 -----------------------------------------------------------------------------------------------------


def lossy_path(site: Site) -> Verdict:
    """R6: of 16 EVs, two a plane, one loses packets."""
    losses = (0.2, 1.0) if site.effort.name == "quick" else (0.01, 0.05, 0.2, 0.5, 1.0)
    verdict = Verdict()
    words = []
    with site.lab(planes=8, t0=2, t1=4, hosts=2, rate_bps=_SLOW_BPS) as lab:
        for loss in losses:
            site.say(f"R6: {100 * loss:g} % on one path")
            words.append(_one_loss(site, lab, loss, verdict))
    verdict.ours = "; ".join(words)
    verdict.note = f"8 planes of {_SLOW_BPS / 1e6:g} Mbit/s, bins of {BIN_S:g} s"
    return verdict


def _one_loss(site: Site, lab: Lab, loss: float, verdict: Verdict) -> str:
    plane = 3
    ups = uplinks(lab, plane, 0)
    hold = max(2.0, 2 * site.effort.hold)
    flow = Flow(source="h0", sink="h1", ends=("--evs", "4", "--backups", "2"))
    with site.flows(lab, [flow], 1.7 + hold) as running, LinkWatch(lab, [(u, "a") for u in ups]) as watch:
        time.sleep(0.5)
        before = site.wait(1.0)
        sent = watch.sent(*before)
        victim = ups[sent.index(max(sent))]
        begin = time.monotonic()
        fault = faults.fail(lab, victim.name, loss=loss, direction="up")
        running.send_all()
        faults.heal(lab, fault.number)
        (result,) = running.results()
    end = result.goodput.end
    base = result.goodput.rate(*before)
    bad = result.ev_changes("assumed_bad", begin - 0.02)
    where = [result.path_of(e["plane"], e["ev"]) for e in bad]
    on_victim = f"p{plane} t0-0 {victim.b_node.partition('.')[2]} t0-1"
    rtt = round_trip(lab)
    packet = (result.row["pmtu"] + 106) * 8 / (_SLOW_BPS / 2)
    limit = packet * 8 / loss + max(3 * rtt, 4 * rtt)
    # The plane's load, shares of its active EVs aside: after the EV left, over before.
    after = watch.sent(begin + 0.5, end - 0.05)
    load = (sum(after) / (end - 0.55 - begin)) / (sum(sent) / (before[1] - before[0]))
    name = f"{100 * loss:g} %"
    worst = worst_bin([result], begin, end) / base
    first = (bad[0]["at"] - begin) if bad else math.nan
    verdict.extend(
        [
            at_least(f"{name}: worst bin, of before", worst, 0.99, "1.00"),
            at_most(f"{name}: EV left after the fault, ms", first * 1e3, limit * 1e3, "at once"),
            equal(f"{name}: EVs demoted", len(set(where)), 1, "1"),
            equal(f"{name}: of them on other paths", sum(w != on_victim for w in set(where)), 0, "0"),
            at_least(f"{name}: load of the plane, after over before", load, 0.98, "1.00"),
            shown(f"{name}: timeouts", float(result.row["timeouts"])),
        ]
    )
    verdict.series[f"bins_{100 * loss:g}"] = [
        n / base * 8 / result.goodput.width for n in result.goodput.counts
    ]
    return f"{name}: worst bin {100 * worst:.1f} %, EV out after {first * 1e3:.0f} ms"


# --- R12 ----------------------------------------------------------------------------------------------------


def two_evs(site: Site) -> Verdict:
    """R12: pair 1 has two EVs, pair 2 joins on one of them; with steering by marks, and without."""
    with_marks = _join(site, steering=True)
    without = _join(site, steering=False)
    low = (without["pair1"] + without["pair2"]) / 2
    checks = [
        at_least("pair 1 after 100 RTT, of line", with_marks["pair1"], 0.95, "near line"),
        at_least("pair 2 after 100 RTT, of line", with_marks["pair2"], 0.95, "near line"),
        at_most("packets sent again", with_marks["resent"], 1e-4, "none visible"),
        at_least("share of pair 1 on EV-B after", with_marks["moved"], 0.9, "moved"),
        between("without steering: mean of both, of line", low, 0.4, 0.8, "~0.5"),
        shown("without: pair 1", without["pair1"], "~0.5"),
        shown("without: pair 2", without["pair2"], "~0.5"),
    ]
    ours = (
        f"{100 * with_marks['pair1']:.0f} and {100 * with_marks['pair2']:.0f} % of line; without steering "
        f"{100 * without['pair1']:.0f} and {100 * without['pair2']:.0f} %"
    )
    return Verdict(checks, ours, "one plane, two T1s")


def _join(site: Site, *, steering: bool) -> dict[str, float]:
    site.say(f"R12: {'with' if steering else 'without'} steering by marks")
    ends = () if steering else ("--no-ecn-steering",)
    hold = site.effort.hold + 1
    with site.lab(planes=1, t0=2, t1=2, hosts=4) as lab:
        ups = uplinks(lab, 1, 0)
        lists = [p.address for p in lab.paths("h1", "h3")]
        first = Flow(source="h0", sink="h2", ends=("--evs", "2", *ends))
        second = Flow(source="h1", sink="h3", via=(lists[0],), ends=ends)
        with site.flows(lab, [first], hold + 4) as one, LinkWatch(lab, [(u, "a") for u in ups]) as watch:
            with site.flows(lab, [second], hold + 0.5) as two:
                time.sleep(100 * round_trip(lab))
                begin, end = site.wait(hold - 0.5)
                (other,) = two.results()
            (mine,) = one.results()
        sent = watch.sent(begin, end)
        line = line_rate(lab, mine.row["pmtu"])
        seconds = end - begin
        on_b = sent[1] * 8 / seconds / (lab.spec.rate_bps or 1)
        rate1, rate2 = mine.goodput.rate(begin, end), other.goodput.rate(begin, end)
    packets = sum(p["sent"] for r in (mine, other) for p in r.row["per_ev"])
    return {
        "pair1": rate1 / line,
        "pair2": rate2 / line,
        "resent": (mine.row["rtx"] + other.row["rtx"]) / max(packets, 1),
        "moved": min(1.0, on_b / max(rate1 / line, 1e-9)),
    }


# --- R23 ----------------------------------------------------------------------------------------------------


def meaning_of_loss(site: Site) -> Verdict:
    """R23: trims inside the fabric and at the last hop blame no path; a silent hole does, and at once."""
    inside = _overload(site, last_hop=False)
    last = _overload(site, last_hop=True)
    with site.lab(planes=1, t0=2, t1=4, hosts=2) as lab:
        rtt = round_trip(lab)
        quiet = [_hole(site, lab) for _ in range(max(2, site.effort.seeds))]
    slowest = max(q["last"] for q in quiet)
    limit = 50 / 13  # the paper's 50 us at 13 us, in round trips
    checks = [
        at_least("trims inside the fabric", inside["trims"], 1),
        equal("of them: EVs ASSUMED_BAD", inside["bad"], 0, "0"),
        at_least("trims at the last hop", last["trims"], 1),
        equal("of them: EVs ASSUMED_BAD", last["bad"], 0, "0"),
        at_least(
            "silent hole: share with ASSUMED_BAD", sum(q["demoted"] > 0 for q in quiet) / len(quiet), 1, "1"
        ),
        at_most(
            "last data towards a hole, RTTs after it opened, worst", slowest / rtt, limit, "a few tens of us"
        ),
        shown("likewise, ms", slowest * 1e3),
        shown("first EV out, ms after, worst", max(q["first"] for q in quiet) * 1e3),
    ]
    blamed = inside["bad"] + last["bad"]
    ours = (
        f"{blamed:.0f} EVs blamed over {inside['trims'] + last['trims']:.0f} trims; last data on a dead path "
        f"{slowest * 1e3:.0f} ms after ({slowest / rtt:.1f} RTT)"
    )
    return Verdict(checks, ours, f"RTT {rtt * 1e3:.1f} ms")


def _overload(site: Site, *, last_hop: bool) -> dict[str, float]:
    site.say(f"R23: overload {'of the last hop' if last_hop else 'inside the fabric'}")
    count = 4
    fields = {"planes": 1, "t0": 2, "hosts": 2 * count, "t1": 4 if last_hop else 1}
    with site.lab(**fields) as lab:
        before = _trims(lab)
        sinks = [count] * count if last_hop else range(count, 2 * count)
        flows = [Flow(source=f"h{i}", sink=f"h{s}", ends=("--evs", "4")) for i, s in enumerate(sinks)]
        with site.flows(lab, flows, site.effort.hold + 1.5) as running:
            results = running.results()
        trims = _trims(lab) - before
    bad = sum(len(r.ev_changes("assumed_bad")) for r in results)
    return {"trims": float(trims), "bad": float(bad)}


def _trims(lab: Lab) -> int:
    """Return the packets that the fabric has trimmed."""
    from softmrc.lab.queues import counters

    return sum(port.trimmed for ports in counters(lab).values() for port in ports.values())


def _hole(site: Site, lab: Lab) -> dict[str, float]:
    site.say("R23: a T1 falls silent")
    ups = uplinks(lab, 1, 0)
    with (
        site.flows(lab, [Flow(source="h0", sink="h1", ends=("--evs", "4"))], 3.2) as running,
        LinkWatch(lab, [(u, "a") for u in ups], 0.003) as watch,
    ):
        time.sleep(1.5)
        begin = time.monotonic()
        fault = faults.fail(lab, "p1.t1-1", silent=True)
        running.send_all()
        healed = time.monotonic()
        faults.heal(lab, fault.number)
        (result,) = running.results()
    # Probes are far smaller than a full packet a look.
    full = result.row["pmtu"] * 8
    busy = [
        t for (t, rate), gap in zip(watch.rates(1), _gaps(watch.times), strict=False) if rate * gap >= full
    ]
    late = [t - begin for t in busy if begin <= t < healed]
    bad = result.ev_changes("assumed_bad", begin - 0.02)
    return {
        "last": max(late, default=0.0),
        "first": bad[0]["at"] - begin if bad else math.nan,
        "demoted": len({(e["plane"], e["ev"]) for e in bad}),
    }


def _gaps(times: Sequence[float]) -> list[float]:
    return [b - a for a, b in pairwise(times)]


# --- R24 ----------------------------------------------------------------------------------------------------


_REVERSE_S = 0.15
"""Seconds after the fault in which SACKs on the dead path are counted."""


def reverse_path(site: Site) -> Verdict:
    """R24: the path that brings most SACKs back dies, that way only, while data goes one way."""
    runs = []
    with site.lab(planes=4, t0=2, t1=4, hosts=2) as lab:
        rtt = round_trip(lab)
        for _ in range(max(2, site.effort.seeds)):
            runs.append(_kill_reverse(site, lab))
    worst = max(r["replaced"] for r in runs)
    checks = [
        at_most(
            "SACKs still sent to the dead path, RTTs of their usual rate, worst",
            worst / rtt,
            3,
            "1 probe per RTT",
        ),
        equal("timeouts of the sender", sum(r["timeouts"] for r in runs), 0, "0"),
        at_least("throughput after over before, worst", min(r["kept"] for r in runs), 0.99),
        shown("share of the SACKs on the dead path before", sum(r["share"] for r in runs) / len(runs)),
    ]
    ours = f"replaced within {worst / rtt:.1f} RTT ({worst * 1e3:.0f} ms), {checks[1].ours:.0f} timeouts"
    return Verdict(
        checks, ours, "the ablation with a fixed reverse EV is run in the simulator only (softmrc paper)"
    )


def _kill_reverse(site: Site, lab: Lab) -> dict[str, float]:
    site.say("R24: the way of the SACKs dies")
    ups = [link for plane in range(1, lab.spec.planes + 1) for link in uplinks(lab, plane, 1)]
    with site.flows(lab, [Flow(source="h0", sink="h1", ends=("--evs", "4"))], 3.0) as running:
        with LinkWatch(lab, [(u, "a") for u in ups]) as watch:
            time.sleep(0.7)
            before = site.wait(0.7)
        sent = watch.sent(*before)
        victim = sent.index(max(sent))
        with LinkWatch(lab, [(ups[victim], "a")], 0.001) as close:
            time.sleep(_REVERSE_S / 10)
            fault = faults.fail(lab, ups[victim].name, silent=True, direction="up")
            begin = fault.since_ns / 1e9
            time.sleep(max(0.0, begin + 3 * _REVERSE_S - time.monotonic()))
        running.send_all()
        faults.heal(lab, fault.number)
        (result,) = running.results()
    base = result.goodput.rate(*before)
    usual = max(sent) / (before[1] - before[0])
    # What still went there, less what goes there for good: EV probes that look whether it is back.
    first = max(t for t in close.times if t <= begin)
    middle = begin + _REVERSE_S
    (after,), (rest,) = close.sent(first, middle), close.sent(middle, begin + 3 * _REVERSE_S)
    return {
        "replaced": (after - rest / 2) / usual,
        "share": max(sent) / max(sum(sent), 1),
        "timeouts": float(result.row["timeouts"]),
        "kept": result.goodput.rate(begin, result.goodput.end) / base,
    }
