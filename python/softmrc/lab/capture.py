"""What passes a link, in a pcap file: a packet socket at its lower end, where both directions can be seen.

The socket has a ring, into which the kernel copies at once. Without one, packets are shared with the switch, and those
that leave for the next one are read with its uSID shifted out already. A GSO burst is one packet here, as it is to the
switches.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from softmrc.errors import MrcError, UsageError
from softmrc.netns.enter import entered

__all__ = ["capture", "start"]

_ALL = 0x0003  # ETH_P_ALL
_ETHERNET = 1
_MAGIC_NS = 0xA1B23C4D  # classic pcap, times in nanoseconds
_LARGEST = 65536 + 256  # a GSO burst and its headers
_POLL_S = 0.1
# linux/if_packet.h
_SOL_PACKET, _PACKET_RX_RING, _PACKET_VERSION, _TPACKET_V2 = 263, 5, 10, 1
_HEADER = struct.Struct("IIIHHII")  # status, len, snaplen, mac, net, sec, nsec
_SLOT_HEADER = 128
_RING = 16 << 20


def capture(at: tuple[str, str], file: Path, *, seconds: float | None = None, snap: int = 0) -> int:
    """Write what passes a device until interrupted, or for so long; for the main thread, as it waits for signals.

    Args:
        at: namespace and device.
        file: is overwritten; complete after each packet.
        seconds: when to stop.
        snap: bytes kept of a packet; 0: all.

    Returns:
        The number of packets.

    Raises:
        UsageError: the file cannot be written.
        MrcError: the device is gone.
    """
    with _Tap(at, snap) as tap, _writer(file) as out:
        return _record(tap, out, None if seconds is None else time.monotonic() + seconds, snap)


class _Tap:
    """A packet socket with a ring; a context manager."""

    def __init__(self, at: tuple[str, str], snap: int) -> None:
        space, dev = at
        with entered(space):
            self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        # A slot holds a packet behind its header; both have to be of the ring's grain.
        self._slot = 1 << (min(snap or _LARGEST, _LARGEST) + _SLOT_HEADER - 1).bit_length()
        self._slots = max(_RING // self._slot, 2)
        self._next = 0
        try:
            self.socket.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
            block = max(self._slot, mmap.PAGESIZE)
            ring = struct.pack("IIII", block, self._slot * self._slots // block, self._slot, self._slots)
            self.socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, ring)
            self._ring = mmap.mmap(self.socket.fileno(), self._slot * self._slots)
            self.socket.bind((dev, _ALL))
        except OSError as error:
            self.socket.close()
            raise MrcError(f"{space} {dev}: {error.strerror}") from None

    def packets(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield (time in ns, length, bytes kept) of what is in the ring."""
        while True:
            at = self._next * self._slot
            status, length, kept, offset, _, seconds, ns = _HEADER.unpack_from(self._ring, at)
            if not status & 1:  # TP_STATUS_USER
                return
            yield seconds * 10**9 + ns, length, self._ring[at + offset : at + offset + kept]
            struct.pack_into("I", self._ring, at, 0)
            self._next = (self._next + 1) % self._slots

    def __enter__(self) -> _Tap:
        return self

    def __exit__(self, *_: object) -> None:
        self._ring.close()
        self.socket.close()


def _writer(file: Path) -> BinaryIO:
    try:
        out = file.open("wb", buffering=0)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    out.write(struct.pack("<IHHiIII", _MAGIC_NS, 2, 4, 0, 0, _LARGEST, _ETHERNET))
    return out


def _record(tap: _Tap, out: BinaryIO, deadline: float | None, snap: int) -> int:
    count, ending = 0, False

    def end(*_: object) -> None:
        nonlocal ending
        ending = True

    before = [signal.signal(s, end) for s in (signal.SIGINT, signal.SIGTERM)]
    try:
        while not ending and (deadline is None or time.monotonic() < deadline):
            select.select([tap.socket], [], [], _POLL_S)
            for now, length, data in tap.packets():
                kept = data[:snap] if snap else data
                out.write(struct.pack("<IIII", now // 10**9, now % 10**9, len(kept), length) + kept)
                count += 1
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), before, strict=True):
            signal.signal(number, handler)
    return count


def start(space: str, dev: str, file: Path) -> int:
    """Record in a process of its own, inside the namespace, until it is asked to end or the lab does.

    Returns:
        Its number, for SIGTERM.

    Raises:
        UsageError: the file cannot be written.
        MrcError: the recorder does not start.
    """
    _writer(file).close()
    command = [sys.executable, "-m", "softmrc.lab.capture", space, dev, os.fspath(file.absolute())]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    words = done.stdout.split()
    if words[:1] != ["recording"]:
        raise MrcError(
            f"cannot record {dev} of {space}: {done.stderr.strip().splitlines()[-1:] or done.returncode}"
        )
    return int(words[1])


def _main() -> None:
    space, dev, file = sys.argv[1:]
    with _Tap((space, dev), 0) as tap, _writer(Path(file)) as out:
        number = os.fork()  # from here on it records; the caller may go on
        if number:
            print("recording", number, flush=True)
            os._exit(0)
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        with entered(space):  # and stay: `lab down` ends what is inside
            _record(tap, out, None, 0)


if __name__ == "__main__":
    _main()
