"""`softmrc bench collectives`: torch's collectives over MRC beside gloo's, in the columns of nccl-tests.

Decides where the ranks run, what a row is and which figure it must reach; leaves timing and checking to the ranks
themselves (`softmrc.torch_backend.measure`, a program of its own: this room knows no torch).
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from softmrc.bench.proc import Program, python_module
from softmrc.errors import UsageError
from softmrc.netns import Fabric, require

__all__ = [
    "OPS",
    "PLACES",
    "CollectiveRow",
    "Site",
    "Wish",
    "bus_factor",
    "check_host",
    "measure",
    "planes_capacity",
    "site",
]

OPS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
PLACES = ("loopback", "udp", "veth", "planes")
"""One host as it is (large messages between its ranks go through memory), the same over UDP alone, two hosts on one
path, two hosts on four slow ones."""
PLANES, PLANE_BPS, PLANE_MTU = 4, 200_000_000, 9000
_PORT = 29_600
_SET_UP_SECONDS = 60.0
_HEADERS, _ETHERNET = (
    92,
    14,
)  # IPv6, UDP and MRC around a payload (reference 2.1); what a shaper counts besides
# Of all_reduce; what other rows reach is reported.
_BUSBW_TARGETS = {1 << 20: 1.5, 16 << 20: 1.8, 64 << 20: 1.8}
_TIME_TARGETS = {1 << 10: 0.2}
_SHARE_TARGET = 0.9


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is to be measured."""

    ops: Sequence[str] = ("all_reduce",)
    ranks: Sequence[int] = (2, 4)
    sizes: Sequence[int] = (1 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20)
    """Bytes, as nccl-tests count them: the larger of what a rank gives and gets."""
    places: Sequence[str] = ("loopback",)
    peer: str | None = "gloo"
    """Another backend of torch to take turns with; None: ours alone."""
    repeat: int = 5
    """Loops a size and backend; the median counts."""

    def __post_init__(self) -> None:
        """Refuse what cannot be measured.

        Raises:
            UsageError: an unknown collective or place, or a number out of its range.
        """
        for name, given, known in (("op", self.ops, OPS), ("place", self.places, PLACES)):
            for word in given:
                if word not in known:
                    raise UsageError(f"no {name} {word!r}; there is {', '.join(known)}")
        if any(not 2 <= n <= 64 for n in self.ranks):
            raise UsageError("ranks are 2 to 64")
        if any(not 4 <= s <= 1 << 32 for s in self.sizes):
            raise UsageError("sizes are 4 bytes to 4 GiB")
        if not 1 <= self.repeat <= 101:
            raise UsageError(f"repeat is 1 to 101, not {self.repeat}")


@dataclass(frozen=True, kw_only=True)
class CollectiveRow:
    """One line of the table."""

    place: str
    op: str
    bytes: int
    ranks: int
    time_us: float
    algbw: float
    """GB/s: bytes over time."""
    busbw: float
    """GB/s: what each rank's wire carried, after nccl-tests' factors."""
    wrong: int
    """Elements that differ from the right result, over all ranks."""
    peer: str | None
    peer_time_us: float | None
    peer_busbw: float | None
    peer_wrong: int | None
    busbw_ratio: float | None
    share: float | None
    """Of what rate-limited planes carry; None elsewhere."""
    target: str | None
    ok: bool | None
    """None: nothing is asked of this row but a right result."""
    runs: dict[str, list[float]] = field(default_factory=dict)
    """Every loop's time a call, us."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON takes it."""
        return asdict(self)


def bus_factor(op: str, ranks: int) -> float:
    """Bytes on a rank's wire for each byte of the collective (nccl-tests, PERFORMANCE)."""
    if op == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return 1.0 if op == "broadcast" else (ranks - 1) / ranks


def planes_capacity() -> float:
    """Payload that the rate-limited planes carry in one direction together, GB/s."""
    payload = (PLANE_MTU - _HEADERS) // 64 * 64
    return PLANES * PLANE_BPS / 8e9 * payload / (payload + _HEADERS + _ETHERNET)


def measure(
    wish: Wish, done: Callable[[CollectiveRow], None], say: Callable[[str], None] = lambda _: None
) -> None:
    """Measure every row and hand it over as soon as it is known.

    Args:
        wish: what to measure.
        done: takes each row.
        say: told what is being measured, for people.

    Raises:
        BenchError: a rank failed or gave no answer; the text has its last words.
        UsageError: this host cannot make the namespaces of a place.
    """
    for place in wish.places:
        for ranks in wish.ranks:
            say(f"{place}, {ranks} ranks")
            for raw in _run(wish, place, ranks):
                done(_row(raw, place, wish.peer))


def _row(raw: dict[str, Any], place: str, peer: str | None) -> CollectiveRow:
    op, nbytes, ranks = raw["op"], raw["bytes"], raw["ranks"]
    ours, theirs = raw["time_us"]["mrc"], raw["time_us"].get(peer)
    bus = bus_factor(op, ranks) * nbytes / 1e3
    ratio = theirs / ours if theirs else None
    share = bus / ours / planes_capacity() if place == "planes" else None
    wrong = raw["wrong"]["mrc"]
    target, met = _judge(op, nbytes, place, ratio, share)
    return CollectiveRow(
        place=place, op=op, bytes=nbytes, ranks=ranks, time_us=ours, algbw=round(nbytes / ours / 1e3, 4),
        busbw=round(bus / ours, 4), wrong=wrong, peer=peer, peer_time_us=theirs,
        peer_busbw=round(bus / theirs, 4) if theirs else None,
        peer_wrong=raw["wrong"].get(peer), busbw_ratio=round(ratio, 3) if ratio else None,
        share=round(share, 4) if share is not None else None, target=target,
        ok=False if wrong else met, runs=raw["times_us"],
    )  # fmt: skip


def _judge(
    op: str, nbytes: int, place: str, ratio: float | None, share: float | None
) -> tuple[str | None, bool | None]:
    if op != "all_reduce":
        return None, None
    if share is not None:
        return (f"share >= {_SHARE_TARGET:g}", share >= _SHARE_TARGET) if nbytes >= 1 << 20 else (None, None)
    if ratio is None:
        return None, None
    if nbytes in _BUSBW_TARGETS:
        least = _BUSBW_TARGETS[nbytes]
        return f"busbw >= {least:g} x", ratio >= least
    if nbytes in _TIME_TARGETS:
        most = _TIME_TARGETS[nbytes]
        return f"time <= {most:g} x", 1 / ratio <= most
    return None, None


# --- where ranks run ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Site:
    """How to start rank r at a place."""

    store: str
    fabric: Fabric | None
    memory: bool = True
    """Ranks of one host may exchange through memory."""

    def start(self, config: dict[str, Any], rank: int) -> Program:
        """Start one rank."""
        told = json.dumps({**config, "rank": rank, "store": self.store})
        command = python_module("softmrc.torch_backend.measure", told)
        if self.fabric is None:
            near = [] if self.memory else ["SOFTMRC_LOCAL=0"]
            return Program(None, ["env", "GLOO_SOCKET_IFNAME=lo", *near, *command])
        host = "ab"[rank % 2]
        space = self.fabric.a if host == "a" else self.fabric.b
        own = ",".join(self.fabric.addresses(host))
        return Program(space, ["env", f"GLOO_SOCKET_IFNAME={host}1", f"SOFTMRC_PLANES={own}", *command])


@contextmanager
def site(place: str) -> Iterator[Site]:
    """Make the networks of a place, and take them away."""
    if place in ("loopback", "udp"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        yield Site(f"tcp://127.0.0.1:{port}", None, memory=place == "loopback")
        return
    count, rate = {"veth": (1, None), "planes": (PLANES, PLANE_BPS), "open planes": (PLANES, None)}[place]
    with Fabric.planes(count, PLANE_MTU, bits_per_second=rate) as fabric:
        yield Site(f"tcp://[{fabric.addresses('a')[0]}]:{_PORT}", fabric)


def _run(wish: Wish, place: str, ranks: int) -> Iterator[dict[str, Any]]:
    backends = [wish.peer, "mrc"] if wish.peer else ["mrc"]
    # A slow wire needs fewer and smaller sizes to say the same.
    sizes = [s for s in wish.sizes if place != "planes" or s <= 16 << 20]
    config = {
        "ranks": ranks, "backends": backends, "ops": list(wish.ops), "sizes": sizes, "repeat": wish.repeat,
        "timeout": 120.0, "pin": place != "planes",
    }  # fmt: skip
    with ExitStack() as stack:
        where = stack.enter_context(site(place))
        programs = [stack.enter_context(where.start(config, rank)) for rank in range(ranks)]
        for _ in range(len(wish.ops) * len(sizes)):
            yield programs[0].next_json(_SET_UP_SECONDS + 30.0 * wish.repeat)
        for program in programs:
            program.output(_SET_UP_SECONDS)


def check_host(places: Sequence[str]) -> None:
    """Refuse places this host cannot make, before anything begins.

    Raises:
        UsageError: namespaces are needed and cannot be made; the text says what is missing.
    """
    if any(place not in ("loopback", "udp") for place in places):
        require()
