"""`softmrc bench collectives`: torch's collectives over MRC, gloo in turn, in the columns of nccl-tests."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from softmrc.cli.output import FAILED, INTERRUPTED, USAGE, fail, guard, need, note, put, put_json

if TYPE_CHECKING:
    from softmrc.bench.collectives import CollectiveRow, Wish
    from softmrc.bench.outage import Outage

__all__ = ["collectives", "parse_size"]

_SIZES = "1K,64K,1M,16M,64M"
_QUICK_SIZES = "1K,1M"
_HEAD = (
    f"{'place':9} {'op':14} {'ranks':>5} {'bytes':>11} {'time us':>10} {'algbw':>7} {'busbw':>7} {'wrong':>5}"
    f" {'peer us':>10} {'busbw':>7} {'ratio':>6}"
)


def parse_size(text: str) -> int:
    """Return bytes of "64K", "16M", "1G" or a plain number; units are powers of 1024.

    Raises:
        ValueError: it is none of these.
    """
    match = re.fullmatch(r"(\d+)([KMG]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(f"a size is like 1K, 16M or 4096, not {text!r}")
    return int(match[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[match[2].upper()]


_Op = Annotated[
    str, typer.Option(help="all_reduce, all_gather, reduce_scatter, broadcast, all_to_all; commas between.")
]
_Where = Annotated[
    str,
    typer.Option(help="loopback, udp (the same without memory), veth (two hosts), planes (4 x 200 Mbit/s)."),
]
_Sizes = Annotated[str, typer.Option(help=f"Bytes with K, M or G, commas between. [{_SIZES}]")]
_Outage = Annotated[
    str, typer.Option(help="Seconds without any plane, commas between; 3,30 compares with TCP's back-off.")
]
_Quick = Annotated[bool, typer.Option("--quick", help="Few sizes and loops: that it runs, not how fast.")]


def collectives(
    op: _Op = "all_reduce",
    ranks: Annotated[str, typer.Option(help="Processes, commas between.")] = "2,4",
    sizes: _Sizes = "",
    peer: Annotated[str, typer.Option(help="Backend to take turns with: gloo or none.")] = "gloo",
    where: _Where = "loopback",
    outage: _Outage = "",
    repeat: Annotated[int | None, typer.Option(help="Loops a size and backend; 5 by default.")] = None,
    quick: _Quick = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Time torch's collectives over MRC and over gloo, in turn in the same processes.

    Columns as in nccl-tests: algbw is bytes over time, busbw what each rank's wire carried; GB/s. `wrong` counts
    elements that differ from the right result. Large messages between ranks of one host go through memory;
    `udp` measures without. `veth`, `planes` and `--outage` need root: they build networks of their own and take
    them away again.

    \b
    softmrc bench collectives
    softmrc bench collectives --where loopback,udp,veth --ranks 2 --json
    softmrc bench collectives --where planes --ranks 2,4          what four slow planes carry
    softmrc bench collectives --outage 3,30 --sizes 0             every plane gone for a while
    softmrc bench collectives --op all_gather,all_to_all --sizes 1M

    Exit codes: 0 every measured row meets its target, 1 one does not, 2 wrong use, 130 interrupted (what was
    measured until then is printed).
    """
    with guard("bench", json):
        need("torch")
        from softmrc.bench.collectives import check_host

        if peer not in ("gloo", "none"):
            fail("bench", f"--peer is gloo or none, not {peer}", USAGE, json)
        loops = repeat or (2 if quick else 5)
        try:
            wish = _wish(op, ranks, sizes or (_QUICK_SIZES if quick else _SIZES), where, peer, loops)
            lengths = [float(x) for x in _words(outage)]
        except ValueError as error:
            fail("bench", str(error), USAGE, json)
        check_host([*wish.places, *(["planes"] if lengths else [])])
        rows, outages, interrupted = _run(wish, lengths, json)
    if json:
        put_json(
            {
                "partial": interrupted,
                "rows": [r.to_json() for r in rows],
                "outages": [o.to_json() for o in outages],
            }
        )
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(r.ok is False for r in rows) or any(o.ok is False for o in outages):
        raise typer.Exit(FAILED)


def _wish(op: str, ranks: str, sizes: str, where: str, peer: str, repeat: int) -> Wish:
    from softmrc.bench.collectives import Wish

    return Wish(
        ops=_words(op),
        ranks=[int(n) for n in _words(ranks)],
        sizes=[n for n in map(parse_size, _words(sizes)) if n],
        places=_words(where),
        peer=None if peer == "none" else peer,
        repeat=repeat,
    )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _run(wish: Wish, lengths: list[float], json: bool) -> tuple[list[CollectiveRow], list[Outage], bool]:
    from softmrc.bench.collectives import measure
    from softmrc.bench.outage import measure_outages

    rows: list[CollectiveRow] = []
    outages: list[Outage] = []
    tell = note if json else put

    def row_done(row: CollectiveRow) -> None:
        if not rows:
            tell(_HEAD)
        rows.append(row)
        tell(_line(row))

    def outage_done(found: Outage) -> None:
        outages.append(found)
        tell(_outage_line(found))

    say = note if sys.stderr.isatty() else (lambda _: None)
    try:
        if wish.sizes:
            measure(wish, row_done, say)
        measure_outages(lengths, wish.peer, outage_done, say)
    except KeyboardInterrupt:
        return rows, outages, True
    return rows, outages, False


def _line(row: CollectiveRow) -> str:
    theirs = ""
    if row.peer_time_us is not None and row.busbw_ratio is not None:
        theirs = f" {row.peer_time_us:>10.1f} {row.peer_busbw:>7.3f} {row.busbw_ratio:>6.2f}"
    share = f"  {row.share:.1%} of the planes" if row.share is not None else ""
    mark = {True: "  ok: ", False: "  MISS: ", None: ""}[row.ok]
    return (
        f"{row.place:9} {row.op:14} {row.ranks:>5} {row.bytes:>11,} {row.time_us:>10.1f} {row.algbw:>7.3f}"
        f" {row.busbw:>7.3f} {row.wrong:>5}{theirs}{share}{mark}{row.target or ''}"
    )


def _outage_line(found: Outage) -> str:
    mark = {True: "  ok", False: "  MISS", None: ""}[found.ok]
    if found.error:
        return f"all planes down {found.seconds:g} s   {found.backend:5} failed: {found.error}{mark}"
    went = (
        f"went on {found.resume_s:.2f} s after the return" if found.resume_s is not None else "never went on"
    )
    return f"all planes down {found.seconds:g} s   {found.backend:5} {went}, longest call {found.stall_s} s{mark}"
