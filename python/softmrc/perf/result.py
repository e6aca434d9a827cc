"""What a row came to, as one JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softmrc.errors import PeerError
from softmrc.perf.plan import BIN_MS, Plan, Row, integer
from softmrc.perf.usage import Usage

__all__ = ["MAX_BINS", "bins_for_peer", "jain", "latencies", "read_report", "row_result"]

MAX_BINS = 4096
_U63 = (1 << 63) - 1


def jain(shares: Sequence[int]) -> float:
    """Return Jain's fairness index: 1 when all shares are equal, 1/n when one has it all."""
    squares = sum(s * s for s in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


def latencies(found: Mapping[str, Any], scale: float = 1.0) -> dict[str, float]:
    """Return microseconds from a histogram of nanoseconds."""
    names = ("min", "p50", "p90", "p99", "p999", "max", "mean")
    return {name: round(found[f"{name}_ns"] / 1e3 * scale, 3) for name in names}


def bins_for_peer(arrived: Mapping[str, Any]) -> dict[str, Any]:
    """Return a timeline of arrivals that fits into one message: pairs of bins become one until it does."""
    width, counts, rest = arrived["width_ns"], list(arrived["bytes"]), arrived["rest"]
    while len(counts) > MAX_BINS:
        if len(counts) % 2:
            rest += counts.pop()
        counts = [a + b for a, b in zip(counts[::2], counts[1::2], strict=True)]
        width *= 2
    return {"start_ns": arrived["start_ns"], "width_ns": width, "bytes": counts, "rest": rest}


def _read_bins(data: Any) -> dict[str, Any] | None:
    if data is None:
        return None
    if not isinstance(data, Mapping):
        raise PeerError("the peer's report is malformed: arrived")
    counts = data.get("bytes")
    if not isinstance(counts, list) or len(counts) > MAX_BINS:
        raise PeerError("the peer's report is malformed: bytes")
    return {
        "start_ns": integer(data, "start_ns", 0, _U63),
        "width_ns": integer(data, "width_ns", 1, _U63),
        "bytes": [integer({"bytes": n}, "bytes", 0, _U63) for n in counts],
        "rest": integer(data, "rest", 0, _U63),
    }


def read_report(data: Mapping[str, Any]) -> dict[str, Any]:
    """Check what the peer says about a row.

    Raises:
        PeerError: malformed.
    """
    counts = {
        name: integer(data, name, 0, _U63)
        for name in ("bytes", "messages", "ns", "cpu_process_us", "cpu_host_us", "rtx", "qp_errors",
                     "assumed_bad", "not_good", "local_rx_drops", "errors")
    }  # fmt: skip
    return {**counts, "arrived": _read_bins(data.get("arrived"))}


def _bins(
    arrived: Mapping[str, Any] | None, sent: Mapping[str, Any] | None, seconds: float
) -> dict[str, Any]:
    """Return the bins of the row: at the receiver when it counted, else what was acknowledged here.

    Those that end after the row did are left out: their rest of silence is not the transport's.
    """
    found, where = (arrived, "receiver") if arrived and arrived["start_ns"] else (sent, "sender")
    if not found:
        return {"width_ms": BIN_MS, "bytes": [], "start_ns": 0, "at": where}
    whole = int(seconds * 1e9 // found["width_ns"])
    return {
        "width_ms": found["width_ns"] / 1e6,
        "bytes": found["bytes"][:whole],
        "start_ns": found["start_ns"],
        "at": where,
    }


def _peak(bins: Mapping[str, Any]) -> float:
    """Return the best bin, Gbit/s."""
    return float(max(bins["bytes"], default=0) * 8 / (bins["width_ms"] * 1e6))


def _cpu(usage: Usage, report: Mapping[str, Any] | None, same_host: bool, moved: int) -> dict[str, Any]:
    peer_process = report["cpu_process_us"] / 1e6 if report else 0.0
    peer_host = report["cpu_host_us"] / 1e6 if report else 0.0
    # On one machine both ends see the same counter of the host; ours covers the measurement and no more.
    host = usage.host if same_host else usage.host + peer_host
    return {
        "cpu_s_per_gb": round(host / (moved / 1e9), 4) if moved else None,
        "cpu": {
            "process_s": round(usage.process, 4),
            "host_s": round(usage.host, 4),
            "peer_process_s": round(peer_process, 4),
            "peer_host_s": round(peer_host, 4),
            "same_host": same_host,
        },
    }


def row_result(
    plan: Plan,
    row: Row,
    *,
    pmtu: int,
    icrc: Mapping[str, Any],
    raw: Mapping[str, Any],
    counters: Mapping[str, Any],
    usage: Usage,
    report: Mapping[str, Any] | None,
    same_host: bool,
    partial: bool,
) -> dict[str, Any]:
    """Put a row together.

    Args:
        plan: of the session.
        row: what was asked for.
        pmtu: payload of a full packet.
        icrc: whether packets carried one, and who asked for none.
        raw: counts of our traffic, and its bytes by time (`sent`, `arrived`).
        counters: what our transport did.
        usage: CPU time.
        report: the peer's, checked; None: it had no chance to report.
        same_host: both ends share a host and its CPU counter.
        partial: the row was cut short.
    """
    seconds = max(raw["to_ns"] - raw["from_ns"], 0) / 1e9
    own = _traffic(plan, row, raw, seconds)
    moved, messages, rate = own["bytes"], own["messages"], own["gbps"]
    result: dict[str, Any] = {"op": plan.op, "size": row.size, "iters": messages, "pmtu": pmtu, **icrc}
    arrived = report["arrived"] if report is not None else None
    bins = _bins(arrived, raw.get("sent"), seconds)
    peak = max(_peak(bins), own["gbps"])
    if plan.both and report is not None:
        back = _rate(report["bytes"], report["ns"] / 1e9)
        result["to_peer"] = {"bytes": moved, "gbps": round(rate, 4)}
        result["from_peer"] = {"bytes": report["bytes"], "gbps": round(back, 4)}
        moved, messages, rate = moved + report["bytes"], messages + report["messages"], rate + back
        peak += max(_peak(_bins(raw["arrived"], None, seconds)), back)
    result |= {
        "seconds": round(seconds, 6),
        "bytes": moved,
        "goodput_gbps": round(rate, 4),
        "peak_gbps": round(peak, 4),
        "msg_rate_mps": round(messages / seconds / 1e6, 6) if seconds else 0.0,
        **own["latency"],
        **_cpu(usage, report, same_host, moved),
        "qps": plan.qps,
        "depth": plan.depth_for(row.size),
        "both": plan.both,
        "jain": round(own["jain"], 6),
        "bins": bins,
        **counters,
        "errors": raw["errors"],
        "partial": partial,
    }
    for name in ("rtx", "qp_errors", "assumed_bad", "not_good", "local_rx_drops", "errors"):
        result[name] += report[name] if report is not None else 0
    return result


def _rate(count: int, seconds: float) -> float:
    return count * 8 / seconds / 1e9 if seconds else 0.0


def _traffic(plan: Plan, row: Row, raw: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    if plan.op != "lat":
        return {
            "bytes": raw["bytes"],
            "messages": raw["messages"],
            "gbps": _rate(raw["bytes"], seconds),
            "latency": {"lat_us": latencies(raw["latency"])},
            "jain": jain(raw["qp_bytes"]),
        }
    trip = raw["round_trip"]
    moved = trip["count"] * row.size
    return {
        "bytes": moved,
        "messages": trip["count"],
        "gbps": _rate(moved, seconds),
        "latency": {"lat_us": latencies(trip), "one_way_us": latencies(trip, 0.5)},
        "jain": 1.0,
    }
