"""A scenario that takes milliseconds, as a file."""

from __future__ import annotations

from pathlib import Path

__all__ = ["GREEDY", "SMALL", "write"]

SMALL = """
about = "sixteen hosts, a link that goes and comes"
[fabric]
hosts = 16
planes = 2
hosts_per_t0 = 4
t1_per_plane = 4
[workload]
kind = "permutation"
size = "200 KB"
[transport]
evs = 16
[sample]
interval_ns = 2000
links = ["p1.t0-0.t1-0"]
flows = [0, 1]
pcap = ["h0.p1.up"]
[[fault]]
at_ns = 6000
kind = "link_down"
target = "p1.t0-0.t1-0"
[[fault]]
at_ns = 14000
kind = "link_up"
target = "p1.t0-0.t1-0"
[quick]
workload = { size = "20 KB" }
"""
GREEDY = """
[fabric]
hosts = 16
planes = 2
hosts_per_t0 = 4
t1_per_plane = 4
[workload]
kind = "permutation"
size = "greedy"
[stop]
until_ns = 10000000000
"""


def write(folder: Path, text: str = SMALL, name: str = "small.toml") -> str:
    """Write a scenario and return its path."""
    file = folder / name
    file.write_text(text)
    return str(file)
