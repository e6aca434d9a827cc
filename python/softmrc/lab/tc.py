"""Traffic control as netlink messages: HTB, TBF and FIFO queues, clsact, and filters that choose a class or run BPF.

Decides how each is packed. Leaves what stands where, and with which numbers, to queues.py.
"""

from __future__ import annotations

import socket
import struct

from softmrc.lab.rtnl import Message, attribute, string

__all__ = [
    "CONTROL_CLASS", "DATA_CLASS", "EGRESS", "INGRESS", "LINE_CLASS", "NEW_FILTER", "NEW_QDISC", "ROOT", "bpf_filter",
    "class_filter", "clsact", "delete_filter", "delete_qdisc", "fifo", "filters_of", "htb", "htb_class", "qdiscs_of",
    "splitter",
]  # fmt: skip

NEW_QDISC, _DEL_QDISC, _GET_QDISC = 36, 37, 38
_NEW_CLASS = 40
NEW_FILTER, _DEL_FILTER, _GET_FILTER = 44, 45, 46
_CREATE, _EXCLUSIVE, _REPLACE = 0x400, 0x200, 0x100

ROOT, _CLSACT = 0xFFFFFFFF, 0xFFFFFFF1
INGRESS, EGRESS = 0xFFFFFFF2, 0xFFFFFFF3
LINE_CLASS, CONTROL_CLASS, DATA_CLASS = 0x10001, 0x10010, 0x10020
_KIND, _OPTIONS, _SIZES = 1, 2, 8
_ETH_ALL, _ETH_IPV6 = 0x0003, 0x86DD
_TICK_NS = 64
_ETHERNET = 1  # link layer, named so that no table of rates is needed
_MOST32 = (1 << 32) - 1
_QUANTUM = 64_000


def _tcmsg(index: int, parent: int, handle: int = 0, info: int = 0) -> bytes:
    return struct.pack("=BxxxiIII", 0, index, handle, parent, info)


def _ticks(bytes_: int, bytes_per_second: int) -> int:
    return min(_MOST32, bytes_ * 10**9 // bytes_per_second // _TICK_NS)


def _rate(bytes_per_second: int) -> bytes:
    return struct.pack("=BBHhHI", 0, _ETHERNET, 0, 0, 0, min(_MOST32, bytes_per_second))


def _qdisc(index: int, parent: int, handle: int, kind: str, options: bytes) -> Message:
    body = _tcmsg(index, parent, handle) + string(_KIND, kind) + attribute(_OPTIONS, options)
    return NEW_QDISC, _CREATE | _EXCLUSIVE, body


def htb(index: int) -> Message:
    """Make the root: what no filter and no priority names goes to the data class.

    The empty size table makes the kernel measure a packet when it is queued. Otherwise it counts the length from before
    the programs ran, and a trimmed packet would use up the line like a full one.
    """
    glob = struct.pack("=IIIII", 3, 10, DATA_CLASS & 0xFFFF, 0, 0)
    kind, flags, body = _qdisc(index, ROOT, 0x10000, "htb", attribute(2, glob))
    return (
        kind,
        flags,
        body + attribute(_SIZES, attribute(1, struct.pack("=BBhiIIII", 0, 0, 0, 0, 0, 0, 0, 0))),
    )


def htb_class(
    index: int,
    number: int,
    parent: int,
    bytes_per_second: int,
    ceil: int,
    burst: int,
    prio: int = 0,
    *,
    change: bool = False,
) -> Message:
    """Make a class of the shaper, or change its rate.

    Args:
        index: of the device.
        number: of the class.
        parent: of the class.
        bytes_per_second: it gets for certain.
        ceil: bytes per second at most.
        burst: bytes it may send at once after a pause.
        prio: 0 goes first.
        change: it stands already.
    """
    options = struct.pack("=IIIII", _ticks(burst, bytes_per_second), _ticks(burst, ceil), _QUANTUM, 0, prio)
    nested = attribute(1, _rate(bytes_per_second) + _rate(ceil) + options)
    for kind, value in ((6, bytes_per_second), (7, ceil)):
        if value > _MOST32:
            nested += attribute(kind, struct.pack("=Q", value))
    body = _tcmsg(index, parent, number) + string(_KIND, "htb") + attribute(_OPTIONS, nested)
    return _NEW_CLASS, 0 if change else _CREATE | _EXCLUSIVE, body


def fifo(index: int, parent: int, handle: int, limit: int) -> Message:
    """Make a queue of `limit` bytes."""
    return _qdisc(index, parent, handle, "bfifo", struct.pack("=I", limit))


def splitter(index: int, parent: int, handle: int, most: int, limit: int) -> Message:
    """Make a queue of `limit` bytes that splits segmented bursts into packets.

    It is a token bucket so fast that it never holds anything back, but whose bucket takes `most` bytes: what is longer
    and can be split, it splits.
    """
    rate = 12_500_000_000  # 100 Gbit/s
    head = _rate(rate) + _rate(0) + struct.pack("=III", limit, _ticks(most, rate) or 1, 0)
    options = (
        attribute(1, head) + attribute(4, struct.pack("=Q", rate)) + attribute(6, struct.pack("=I", most))
    )
    return _qdisc(index, parent, handle, "tbf", options)


def clsact(index: int) -> Message:
    """Make the place where programs hang."""
    return NEW_QDISC, _CREATE | _EXCLUSIVE, _tcmsg(index, _CLSACT, 0xFFFF0000) + string(_KIND, "clsact")


def delete_qdisc(index: int, parent: int = _CLSACT) -> Message:
    """Remove the clsact, or with `ROOT` the shaper."""
    return _DEL_QDISC, 0, _tcmsg(index, parent, 0xFFFF0000 if parent == _CLSACT else 0)


def _info(prio: int, protocol: int) -> int:
    return prio << 16 | socket.htons(protocol)


def bpf_filter(index: int, parent: int, fd: int, name: str, prio: int = 1) -> Message:
    """Run a program on every packet; its result is final."""
    options = attribute(6, struct.pack("=I", fd)) + string(7, name) + attribute(8, struct.pack("=I", 1))
    body = (
        _tcmsg(index, parent, 1, _info(prio, _ETH_ALL)) + string(_KIND, "bpf") + attribute(_OPTIONS, options)
    )
    return NEW_FILTER, _CREATE | _EXCLUSIVE, body


def delete_filter(index: int, parent: int, prio: int = 1) -> Message:
    """Remove the filters of one priority."""
    return _DEL_FILTER, 0, _tcmsg(index, parent, 0, _info(prio, _ETH_ALL))


def class_filter(index: int, word: int, mask: int, at: int, number: int) -> Message:
    """Send IPv6 packets whose 32-bit word at `at` equals `word` under `mask` to a class of the shaper."""
    key = struct.pack(">II", mask, word) + struct.pack("=ii", at, 0)
    selector = struct.pack("=BBBxHHhhI", 1, 0, 1, 0, 0, 0, 0, 0) + key
    options = attribute(1, struct.pack("=I", number)) + attribute(5, selector)
    body = (
        _tcmsg(index, 0x10000, 0, _info(1, _ETH_IPV6)) + string(_KIND, "u32") + attribute(_OPTIONS, options)
    )
    return NEW_FILTER, _CREATE, body


def qdiscs_of(index: int) -> tuple[int, bytes]:
    """Return the request for a device's queues."""
    return _GET_QDISC, _tcmsg(index, 0)


def filters_of(index: int, parent: int) -> tuple[int, bytes]:
    """Return the request for the filters at `INGRESS`, `EGRESS` or the shaper."""
    return _GET_FILTER, _tcmsg(index, parent)
