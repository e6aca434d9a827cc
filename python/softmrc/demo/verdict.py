"""What the demonstration promises, and whether it holds: the object of `--json`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from softmrc.demo import metrics
from softmrc.demo.plan import RECOVERY_S, SETTLE_S
from softmrc.demo.run import Run, Source

__all__ = ["LIMITS", "broken_promises", "judge", "summary"]

LIMITS = {"min_bin_after_cut_ratio": 0.8, "last_packet_on_cut_path_ms": 50.0, "recovered_share": 0.9}


def _evs(run: Run, paths: list[tuple[int, int]]) -> list[dict[str, int]]:
    return [{"plane": run.shown(plane), "ev": ev} for plane, ev in paths]


def _count(words: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(words).items()))


def judge(run: Run, source: Source) -> dict[str, Any]:
    """Compute the keys of one run."""
    times = run.plan.times
    cut, heal, end = (run.at_ns(t) for t in (times.cut, times.heal, times.end))
    settled = run.at_ns(min(SETTLE_S, times.cut / 2))
    received, sent = run.received, run.sent
    length = received["length"]
    whole = (
        received["sha256"] == source.digest_of(length)
        and not received["wrong"]
        and received["chunks"] == sent["chunks"]
        and length == min(source.size, received["chunks"] * source.lengths[0])
    )
    plane = run.plane_rx.get(run.cut_plane, [])
    everything = _sum_planes(run)
    bad = sorted((p, ev) for p, ev, _ in sent["ever_bad"])
    lossy_lost = next((n for p, ev, n in sent["lost"] if (p, ev) == run.lossy), 0)
    ratio = metrics.min_bin_after_cut_ratio(run.placed, settled, cut, heal, run.plan.planes)
    share = metrics.recovered_share(plane, everything, heal + int(RECOVERY_S * 1e9), end, run.planes)
    return {
        "bytes": received["bytes_ok"],
        "bytes_ok": whole,
        "qp_errors": max(len(sent["failed"]), sent["qp_errors"]) + (received["error"] is not None),
        "min_bin_after_cut_ratio": round(ratio, 4),
        "last_packet_on_cut_path_ms": round(metrics.last_before(run.last_cut_tx, cut, heal), 2),
        "recovered_share": round(share, 4),
        "assumed_bad": _evs(run, bad),
        "harmed": _evs(run, run.harmed),
        "assumed_bad_reasons": _count(why for _, _, why in sent["ever_bad"]),
        "assumed_bad_exact": bad == run.harmed,
        "rate_before_mbps": round(metrics.rate(run.placed, settled, cut) * 8 / 1e6, 1),
        "rate_outage_mbps": round(metrics.rate(run.placed, cut + metrics.GRACE_NS, heal) * 8 / 1e6, 1),
        "rate_after_mbps": round(metrics.rate(run.placed, heal + int(RECOVERY_S * 1e9), end) * 8 / 1e6, 1),
        "lossy_path_lost": lossy_lost,
        "retransmissions": sent["rtx"],
        "packets": sent["data_tx"],
        "cpu_share": round((sent["cpu_s"] + received["cpu_s"]) / max(run.wall_s, 0.1), 3),
        "cwnd": run.cwnd,
        "round_trip_us": run.srtt_us,
        "errors": [*sent["failed"], *([received["error"]] if received["error"] else [])],
    }


def _sum_planes(run: Run) -> list[tuple[int, float]]:
    """Add the planes up, on the sampling times of the first one."""
    series = list(run.plane_rx.values())
    if not series:
        return []
    return [(at, sum(metrics.value_at(s, at) for s in series)) for at, _ in max(series, key=len)]


def broken_promises(keys: dict[str, Any]) -> list[str]:
    """Return every promise of the multipath run that does not hold, in words."""
    broken = []
    if not keys["bytes_ok"]:
        broken.append("the bytes that arrived are not the bytes of the file")
    if keys["qp_errors"]:
        broken.append(f"{keys['qp_errors']} errors of the connection: {'; '.join(keys['errors'])}")
    if keys["min_bin_after_cut_ratio"] < LIMITS["min_bin_after_cut_ratio"]:
        broken.append(
            f"a 100 ms bin of the outage has {keys['min_bin_after_cut_ratio']:.2f} of its share, "
            "0.80 is promised"
        )
    if keys["last_packet_on_cut_path_ms"] > LIMITS["last_packet_on_cut_path_ms"]:
        broken.append(
            f"data went into the cut plane for {keys['last_packet_on_cut_path_ms']:.0f} ms, 50 are promised"
        )
    if keys["recovered_share"] < LIMITS["recovered_share"]:
        broken.append(
            f"the healed plane carries {keys['recovered_share']:.2f} of its share, 0.90 is promised"
        )
    if not keys["assumed_bad_exact"]:
        bad = {(e["plane"], e["ev"]) for e in keys["assumed_bad"]}
        harmed = {(e["plane"], e["ev"]) for e in keys["harmed"]}
        broken.append(
            f"paths assumed bad are not the harmed ones: {len(bad - harmed)} without harm, "
            f"{len(harmed - bad)} not noticed"
        )
    if not keys["lossy_path_lost"]:
        broken.append("the lossy path lost nothing")
    return broken


def summary(multi: dict[str, Any], single: dict[str, Any], seed: int) -> dict[str, Any]:
    """Put both runs into the one object that is printed."""
    broken = broken_promises(multi)
    return {**multi, "single_path": single, "seed": seed, "ok": not broken, "broken": broken}
