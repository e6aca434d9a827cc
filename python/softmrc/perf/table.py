"""Results for people: lines like those of `ib_write_bw`, and what the paths had to do with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

__all__ = ["heading", "icrc_words", "remarks", "row_head", "row_line", "totals_table"]

# Names and widths: rows are printed as they come, when nobody knows how wide the others will be.
_RATES = (
    ("bytes", 10), ("iterations", 13), ("peak Gb/s", 11), ("average Gb/s", 14), ("Mmsg/s", 10), ("median us", 12),
    ("p99 us", 12), ("CPU s/GB", 11),
)  # fmt: skip
_TRIPS = (
    ("bytes", 10), ("iterations", 13), ("min", 11), ("median", 11), ("p99", 11), ("p99.9", 11), ("max", 11),
    ("one way (median)", 18),
)  # fmt: skip


# Fewer bytes than these cost the start and the end of a measurement, and not themselves.
_ENOUGH_FOR_CPU = 1_000_000


def icrc_words(result: Mapping[str, Any], here: str) -> str:
    """Return what came of the wish to leave the iCRC off, to follow other words; empty where no end had it.

    Args:
        result: a row, or the start of a measurement at its server: `icrc` and `icrc_off_asked`.
        here: "client" or "server": who is told.
    """
    asked = result["icrc_off_asked"]
    if not asked:
        return ""
    who = "this end" if asked == [here] else f"the {asked[0]}"
    return f", iCRC on: only {who} asked for none" if result["icrc"] else ", iCRC off"


def heading(op: str, first: Mapping[str, Any]) -> str:
    """Return what was measured, in one line, as its client tells it.

    Args:
        op: of the plan.
        first: any row.
    """
    names = {
        "write": "RDMA write",
        "write_imm": "RDMA write with immediate",
        "lat": "write latency",
        "idle": "idle",
    }
    way = ", both ways" if first["both"] else ""
    sums = icrc_words(first, "client")
    return (
        f"{names[op]}{way}: {first['qps']} QP, {first['depth']} in flight each, {first['pmtu']} bytes a packet{sums}"
        if op != "lat"
        else f"{names[op]}: ping-pong, {first['pmtu']} bytes a packet{sums}; microseconds, there and back"
    )


def row_head(op: str) -> str:
    """Return the names of the columns of `row_line`."""
    return "".join(f"{name:>{width}}" for name, width in (_TRIPS if op == "lat" else _RATES))


def row_line(op: str, row: Mapping[str, Any]) -> str:
    """Return one row; the mark of one that was cut short stands at its end."""
    lat = row["lat_us"]
    if op == "lat":
        figures = [lat["min"], lat["p50"], lat["p99"], lat["p999"], lat["max"], row["one_way_us"]["p50"]]
        shown = [f"{figure:.2f}" for figure in figures]
    else:
        shown = [
            f"{row['peak_gbps']:.2f}", f"{row['goodput_gbps']:.2f}", f"{row['msg_rate_mps']:.4f}",
            f"{lat['p50']:.1f}", f"{lat['p99']:.1f}",
            "-" if row["cpu_s_per_gb"] is None or row["bytes"] < _ENOUGH_FOR_CPU else f"{row['cpu_s_per_gb']:.3f}",
        ]  # fmt: skip
    cells = [str(row["size"]), str(row["iters"]), *shown]
    widths = [width for _, width in (_TRIPS if op == "lat" else _RATES)]
    line = "".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    return f"{line}  (partial)" if row["partial"] else line


def totals_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return what each plane carried, over all rows."""
    planes: dict[int, int] = {}
    sent: dict[int, int] = {}
    lost: dict[int, int] = {}
    bad: dict[int, int] = {}
    for row in rows:
        for plane in row["per_plane"]:
            planes[plane["plane"]] = planes.get(plane["plane"], 0) + plane["bytes"]
        for ev in row["per_ev"]:
            sent[ev["plane"]] = sent.get(ev["plane"], 0) + ev["sent"]
            lost[ev["plane"]] = lost.get(ev["plane"], 0) + ev["lost"]
    for ev in rows[-1]["per_ev"] if rows else ():
        bad[ev["plane"]] = bad.get(ev["plane"], 0) + (ev["state"] not in ("good", "skip"))
    total = sum(planes.values()) or 1
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("plane", "share", "sent", "packets", "lost", "EVs not GOOD"):
        table.add_column(name, justify="right")
    for number, count in sorted(planes.items()):
        table.add_row(
            str(number), f"{count / total:.1%}", f"{count / 1e9:.3f} GB", str(sent.get(number, 0)),
            str(lost.get(number, 0)), str(bad.get(number, 0)),
        )  # fmt: skip
    return table


def remarks(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what was not as it should be, and what it cost in all."""
    names = {
        "rtx": "retransmissions", "local_rx_drops": "packets dropped in a receive buffer",
        "assumed_bad": "EVs taken for bad", "qp_errors": "queue pairs lost", "errors": "work requests failed",
        "tx_errors": "packets refused by the kernel",
    }  # fmt: skip
    found = [f"{total} {text}" for key, text in names.items() if (total := sum(r[key] for r in rows))]
    out = ["; ".join(found) or "no retransmission, no loss, no path or queue pair lost"]
    moved = sum(r["bytes"] for r in rows)
    cpu = [r["cpu"] for r in rows]
    if moved >= _ENOUGH_FOR_CPU:
        out.append(
            f"CPU per GB: this process {sum(c['process_s'] for c in cpu) / moved * 1e9:.3f} s, "
            f"the peer's {sum(c['peer_process_s'] for c in cpu) / moved * 1e9:.3f} s"
        )
    jains = [r["jain"] for r in rows if r["qps"] > 1]
    if jains:
        out.append(f"fairness between queue pairs (Jain): {min(jains):.4f}")
    return out
