"""Results for people: lines like those of `ib_write_bw`, and what the paths had to do with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

__all__ = ["heading", "remarks", "rows_table", "totals_table"]


def heading(op: str, first: Mapping[str, Any]) -> str:
    """Return what was measured, in one line."""
    names = {
        "write": "RDMA write",
        "write_imm": "RDMA write with immediate",
        "lat": "write latency",
        "idle": "idle",
    }
    way = ", both ways" if first["both"] else ""
    return (
        f"{names[op]}{way}: {first['qps']} QP, {first['depth']} in flight each, {first['pmtu']} bytes a packet"
        if op != "lat"
        else f"{names[op]}: ping-pong, {first['pmtu']} bytes a packet; microseconds, there and back"
    )


def rows_table(op: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a line for each size."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = ("bytes", "iterations", "min", "median", "p99", "p99.9", "max", "one way (median)")
    if op != "lat":
        columns = (
            "bytes",
            "iterations",
            "peak Gb/s",
            "average Gb/s",
            "Mmsg/s",
            "median us",
            "p99 us",
            "CPU s/GB",
        )
    for name in columns:
        table.add_column(name, justify="right")
    for row in rows:
        lat = row["lat_us"]
        if op == "lat":
            cells = [lat["min"], lat["p50"], lat["p99"], lat["p999"], lat["max"], row["one_way_us"]["p50"]]
            shown = [f"{c:.2f}" for c in cells]
        else:
            shown = [
                f"{row['peak_gbps']:.2f}", f"{row['goodput_gbps']:.2f}", f"{row['msg_rate_mps']:.4f}",
                f"{lat['p50']:.1f}", f"{lat['p99']:.1f}",
                "-" if row["cpu_s_per_gb"] is None else f"{row['cpu_s_per_gb']:.3f}",
            ]  # fmt: skip
        mark = " (partial)" if row["partial"] else ""
        table.add_row(str(row["size"]), f"{row['iters']}{mark}", *shown)
    return table


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
    if moved:
        out.append(
            f"CPU per GB: this process {sum(c['process_s'] for c in cpu) / moved * 1e9:.3f} s, "
            f"the peer's {sum(c['peer_process_s'] for c in cpu) / moved * 1e9:.3f} s"
        )
    jains = [r["jain"] for r in rows if r["qps"] > 1]
    if jains:
        out.append(f"fairness between queue pairs (Jain): {min(jains):.4f}")
    return out
