"""Ports for programs that must be told one before they bind it, or bind it again and again."""

from __future__ import annotations

import random
import socket
from pathlib import Path

_FIRST = 10_000


def _first_given_out() -> int:
    """The lowest port that the kernel gives to sockets that ask for none."""
    return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])


def free_port(kind: int = socket.SOCK_STREAM, address: str = "127.0.0.1", count: int = 1) -> int:
    """Find ports that nobody uses now, and that no socket gets by chance before they are bound.

    Args:
        kind: `socket.SOCK_STREAM` (TCP) or `socket.SOCK_DGRAM` (UDP).
        address: an IPv4 address of this host; the ports are free there.
        count: that many in a row.

    Returns:
        The first of them, below those that the kernel gives out by itself.

    Raises:
        OSError: none was free in 1,000 places.
    """
    last = max(_first_given_out(), _FIRST + 2 * count) - count
    for _ in range(1000):
        port = random.randrange(_FIRST, last)
        if all(_is_free(kind, address, port + n) for n in range(count)):
            return port
    raise OSError(f"no {count} free ports from {_FIRST} to {last} on {address}")


def _is_free(kind: int, address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, kind) as sock:
        try:
            sock.bind((address, port))
        except OSError:
            return False
    return True
