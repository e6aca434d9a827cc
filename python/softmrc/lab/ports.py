"""One port of the lab in the kernel: its shaper, its two classes, and the BPF program before them.

Decides what stands on a device and reads what it counted. Leaves numbers to queue_spec.py, which devices to queues.py.

A switch's port: clsact (program `queue`: marks, trims, drops, picks the class) -> HTB at the line's rate -> control
first, data second, each a FIFO. A host's port is the same without marks, trims and drops, and its data class splits
segmented bursts into packets: so switches see real packets, and a host's own acknowledgements overtake its data.
"""

from __future__ import annotations

import os
import struct
from dataclasses import asdict, dataclass

from softmrc.errors import MrcError
from softmrc.lab import tc
from softmrc.lab.bpf_kernel import BpfMap, maps_of_program, program_by_id
from softmrc.lab.bpf_object import BpfObject
from softmrc.lab.queue_spec import QueueSpec
from softmrc.lab.rtnl import Message, Rtnl, attributes

__all__ = ["PortCounters", "Shaper", "find_program", "install", "queue_settings", "shaper_messages"]

_SETTINGS = struct.Struct("=9Q")
_STATE = struct.Struct("=9Q")
_COUNTED = ("seen", "bytes", "high", "marked", "trimmed", "dropped", "trim_failed", "bursts")
_HEADERS = 14
_BURST_S = 2e-3  # how late a timer may be on a busy machine without slowing the line
_HOST_LIMIT = 8 << 20
_NEVER = 0
_KIND, _OPTIONS, _STATS2, _BPF_NAME, _BPF_ID = 1, 2, 7, 7, 11
_STATS_QUEUE = 3
_NEXT_ICMP = 58


@dataclass(frozen=True)
class PortCounters:
    """What a port has done since it was made.

    Attributes:
        seen: packets that came to the queue (a segmented burst counts once).
        bytes: of them.
        high: of them in the control class on arrival.
        marked: CE set.
        trimmed: cut to their headers.
        dropped: found no room and were not trimmed.
        trim_failed: were to be trimmed and could not be: packed ones, foreign ones. Queued, or dropped, as all others.
        bursts: segmented bursts among those seen; a switch should see none.
        overflow: dropped by the shaper's own queues, beyond what the program lets in.
        backlog: bytes in the shaper now.
    """

    seen: int = 0
    bytes: int = 0
    high: int = 0
    marked: int = 0
    trimmed: int = 0
    dropped: int = 0
    trim_failed: int = 0
    bursts: int = 0
    overflow: int = 0
    backlog: int = 0

    def since(self, before: PortCounters) -> PortCounters:
        """Return what happened after `before`; the backlog is today's."""
        then = asdict(before)
        return PortCounters(**{k: v if k == "backlog" else v - then[k] for k, v in asdict(self).items()})

    def to_json(self) -> dict[str, int]:
        """Return the fields."""
        return asdict(self)


def queue_settings(spec: QueueSpec | None, high: tuple[int, ...], rate_bps: int | None = None) -> bytes:
    """Pack what the program `queue` reads.

    Args:
        spec: of a switch's port; None: a host's, which only picks classes.
        high: DSCPs of the control class.
        rate_bps: of the line now, where it is not what it ought to be.
    """
    first = sum(1 << code for code in high)
    if spec is None:
        return _SETTINGS.pack(0, 0, 0, 0, 0, first, 0, 0, 0)
    bps = rate_bps or spec.rate_bps

    def line_ns(count: int) -> int:
        return max(1, count * 8 * 10**9 // bps) if count else _NEVER

    return _SETTINGS.pack(
        max(1, 8 * 10**12 // bps),
        line_ns(spec.ecn_min), line_ns(spec.ecn_max), line_ns(spec.trim_bytes), line_ns(spec.data_bytes), first,
        sum(1 << code for code in spec.dscps.may_be_trimmed()), spec.trimmed_dscp,
        line_ns(_burst(bps, spec.mtu)),
    )  # fmt: skip


@dataclass(frozen=True)
class Shaper:
    """The rate of a port, and what its queues hold.

    Attributes:
        rate_bps: of the line.
        mtu: of the line.
        data_limit, control_limit: bytes.
        splits: segmented bursts are split.
    """

    rate_bps: int
    mtu: int
    data_limit: int
    control_limit: int
    splits: bool = False


def _burst(rate_bps: int, mtu: int) -> int:
    """Return the bytes that a shaper lets through at once after a pause."""
    return max(2 * (mtu + _HEADERS), int(rate_bps / 8 * _BURST_S))


def class_messages(index: int, rate_bps: int, mtu: int, *, change: bool = False) -> list[Message]:
    """Return the requests for the classes of a shaper; with `change` for another rate of those that stand.

    Each class is sure of half of the line and may use all of it; control goes first.
    """
    line = max(1, rate_bps // 8)
    half = max(1, line // 2)
    burst = _burst(rate_bps, mtu)
    return [
        tc.htb_class(index, tc.LINE_CLASS, 0x10000, line, line, burst, change=change),
        tc.htb_class(index, tc.CONTROL_CLASS, tc.LINE_CLASS, half, line, burst, 0, change=change),
        tc.htb_class(index, tc.DATA_CLASS, tc.LINE_CLASS, half, line, burst, 1, change=change),
    ]


def shaper_messages(index: int, shaper: Shaper) -> list[Message]:
    """Return the requests that make a shaper with its classes and queues."""
    most = shaper.mtu + 100  # a packet with all headers
    data = (
        tc.splitter(index, tc.DATA_CLASS, 0x200000, most, shaper.data_limit)
        if shaper.splits
        else tc.fifo(index, tc.DATA_CLASS, 0x200000, shaper.data_limit)
    )
    return [
        tc.htb(index),
        *class_messages(index, shaper.rate_bps, shaper.mtu),
        tc.fifo(index, tc.CONTROL_CLASS, 0x100000, shaper.control_limit),
        data,
    ]


def _class_filters(index: int, high: tuple[int, ...]) -> list[Message]:
    """Without BPF: the control class by DSCP, and neighbour discovery, by u32 filters."""
    found = [tc.class_filter(index, code << 22, 0x0FC00000, 0, tc.CONTROL_CLASS) for code in high]
    return [*found, tc.class_filter(index, _NEXT_ICMP << 8, 0x0000FF00, 4, tc.CONTROL_CLASS)]


def install(
    net: Rtnl,
    index: int,
    rate_bps: int,
    mtu: int,
    programs: BpfObject | None,
    spec: QueueSpec | None = None,
    high: tuple[int, ...] = (),
) -> None:
    """Put a queue on a device that has none.

    Args:
        net: socket in its namespace.
        index: of the device.
        rate_bps: of the line, bit/s.
        mtu: of the line.
        programs: None: without BPF, so without marks and trims.
        spec: of a switch's port; None: of a host's.
        high: DSCPs of the control class.

    Raises:
        MrcError: the system refused; the text has its words.
    """
    if spec is None:
        shaper = Shaper(rate_bps, mtu, _HOST_LIMIT, _HOST_LIMIT, splits=True)
    else:
        # The program decides what is dropped; its queue and the shaper's differ by a timer's delay.
        room = 2 if programs is not None else 1
        shaper = Shaper(rate_bps, mtu, room * spec.data_bytes, room * spec.control_bytes)
    messages = shaper_messages(index, shaper)
    if programs is None:
        net.do(*messages, *_class_filters(index, high))
        return
    loaded = programs.load("queue")
    try:
        loaded.maps["queue_set"].write(queue_settings(spec, high))
        net.do(*messages, tc.clsact(index), tc.bpf_filter(index, tc.EGRESS, loaded.fd, "queue"))
    finally:
        loaded.close()


def find_program(net: Rtnl, index: int, parent: int, name: str) -> dict[str, BpfMap]:
    """Return the maps of the program of that name at a device; empty where there is none. The caller closes them."""
    for kind, body in net.dump(*tc.filters_of(index, parent)):
        if kind != tc.NEW_FILTER:
            continue
        for key, value in attributes(body[20:]):
            found = dict(attributes(value)) if key == _OPTIONS else {}
            if found.get(_BPF_NAME, b"").rstrip(b"\0") == name.encode() and _BPF_ID in found:
                return _maps(struct.unpack("=I", found[_BPF_ID])[0])
    return {}


def _maps(number: int) -> dict[str, BpfMap]:
    try:
        fd = program_by_id(number)
    except OSError as error:
        raise MrcError(f"BPF program {number}: {error.strerror}") from None
    try:
        return maps_of_program(fd)
    finally:
        os.close(fd)


def shaper_counts(net: Rtnl) -> dict[int, tuple[int, int]]:
    """Return (packets dropped, bytes waiting) of the shapers of a namespace, by device."""
    found: dict[int, tuple[int, int]] = {}
    for kind, body in net.dump(*tc.qdiscs_of(0)):
        index, parent = struct.unpack_from("=i4xI", body, 4)
        if kind != tc.NEW_QDISC or parent != tc.ROOT:
            continue
        for key, value in attributes(body[20:]):
            if key == _STATS2:
                queue = dict(attributes(value)).get(_STATS_QUEUE)
                if queue is not None:
                    _, backlog, dropped = struct.unpack_from("=III", queue)
                    found[index] = (dropped, backlog)
    return found


def counters_of(state: bytes | None, shaper: tuple[int, int]) -> PortCounters:
    """Return the counters of a port from its program's map and its shaper's counts."""
    counted = _STATE.unpack(state)[1:] if state is not None else (0,) * 8
    return PortCounters(**dict(zip(_COUNTED, counted, strict=True)), overflow=shaper[0], backlog=shaper[1])
