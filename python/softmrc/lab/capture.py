"""What passes a link, in a pcap file: a packet socket at its lower end, where both directions can be seen.

A GSO burst is one packet here, as it is to the switches.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

from softmrc.errors import MrcError, UsageError
from softmrc.netns.enter import entered

__all__ = ["capture", "start"]

_ALL = 0x0003  # ETH_P_ALL
_ETHERNET = 1
_MAGIC_NS = 0xA1B23C4D  # classic pcap, times in nanoseconds
_LARGEST = 262144
_POLL_S = 0.2
_SO_RCVBUFFORCE = 33


def capture(at: tuple[str, str], file: Path, *, seconds: float | None = None, snap: int = 0) -> int:
    """Write what passes a device until interrupted, or for so long.

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
    space, dev = at
    with entered(space):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL))
    with tap, _writer(file) as out:
        with contextlib.suppress(OSError):
            tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 64 << 20)
        try:
            tap.bind((dev, _ALL))
        except OSError as error:
            raise MrcError(f"{space} {dev}: {error.strerror}") from None
        return _record(tap, out, None if seconds is None else time.monotonic() + seconds, snap or _LARGEST)


def _writer(file: Path) -> BinaryIO:
    try:
        out = file.open("wb", buffering=0)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror}") from None
    out.write(struct.pack("<IHHiIII", _MAGIC_NS, 2, 4, 0, 0, _LARGEST, _ETHERNET))
    return out


def _record(tap: socket.socket, out: BinaryIO, deadline: float | None, snap: int) -> int:
    count, ending = 0, False

    def end(*_: object) -> None:
        nonlocal ending
        ending = True

    main = [signal.signal(s, end) for s in (signal.SIGINT, signal.SIGTERM)]
    try:
        while not ending and (deadline is None or time.monotonic() < deadline):
            if not select.select([tap], [], [], _POLL_S)[0]:
                continue
            try:
                data = tap.recv(_LARGEST)
            except OSError:  # the device is gone, or down for now
                if not _is_there(tap):
                    break
                continue
            now = time.time_ns()
            kept = data[:snap]
            out.write(struct.pack("<IIII", now // 10**9, now % 10**9, len(kept), len(data)) + kept)
            count += 1
    finally:
        for number, handler in zip((signal.SIGINT, signal.SIGTERM), main, strict=True):
            signal.signal(number, handler)
    return count


def _is_there(tap: socket.socket) -> bool:
    try:
        return bool(tap.getsockname()[0])
    except OSError:
        return False


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
    number = os.fork()
    if number:
        print("recording", number, flush=True)
        os._exit(0)
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    with entered(space):  # and stay: `lab down` ends what is inside
        capture((space, dev), Path(file))


if __name__ == "__main__":
    _main()
