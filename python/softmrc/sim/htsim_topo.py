"""Topology files of htsim (`.topo`): fat trees of two and three tiers, read strictly into a `Clos`.

Decides what such a file says and whether its numbers fit one another; refuses, with file and line, what a `Clos` cannot
be: several links between one pair of switches (`Bundle` > 1), queues or switch latencies that differ between tiers.
Keywords are not case sensitive, as in htsim; speeds are Gb/s of the links below a tier, latencies ns one way.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from softmrc.errors import UsageError
from softmrc.sim.config import Clos

__all__ = ["Topology", "parse_topology", "read_topology"]

_HEADER = ("nodes", "tiers", "podsize")
_TIER = {
    "downlink_speed_gbps": "Downlink_speed_Gbps",
    "radix_up": "Radix_Up",
    "radix_down": "Radix_Down",
    "queue_up": "Queue_Up",
    "queue_down": "Queue_Down",
    "oversubscribed": "Oversubscribed",
    "bundle": "Bundle",
    "switch_latency_ns": "Switch_Latency_ns",
    "downlink_latency_ns": "Downlink_Latency_ns",
}
_POSITIVE = ("downlink_speed_gbps", "radix_up", "radix_down", "oversubscribed", "bundle", "nodes", "podsize")
_NEEDED = ("downlink_speed_gbps", "radix_down", "downlink_latency_ns")
Values = dict[str, tuple[int, int]]
"""Keyword -> value and line."""


@dataclass(frozen=True)
class Topology:
    """What a file says."""

    path: str
    fabric: Clos
    queue_bytes: int | None
    """Size of every queue when the file gives one, bytes."""


def read_topology(path: str | Path, planes: int = 1, link_gbps: float | None = None) -> Topology:
    """Read a topology file.

    Args:
        path: the file.
        planes: how many such fabrics side by side.
        link_gbps: rate of all links instead of those in the file, None: the file's.

    Raises:
        UsageError: it cannot be read, or a line is wrong; names file and line.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"cannot read the topology {path}: {e}") from e
    return parse_topology(text, str(path), planes, link_gbps)


def parse_topology(
    text: str, path: str = "topology", planes: int = 1, link_gbps: float | None = None
) -> Topology:
    """Read a topology from text; as `read_topology`."""
    header, tiers = _read_lines(text, path)
    return _Checked(path, header, tiers).topology(planes, link_gbps)


def _read_lines(text: str, path: str) -> tuple[Values, dict[int, Values]]:
    header: Values = {}
    tiers: dict[int, Values] = {}
    here = header
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"{path}:{number}"
        if len(words) != 2 or not words[1].isascii() or not words[1].isdigit():
            raise UsageError(f"{where}: expected a keyword and a whole number, not {line.strip()!r}")
        word, value = words[0].lower(), int(words[1])
        if value >= 1 << 31:
            raise UsageError(f"{where}: {words[0]} {value} is outside 0..{(1 << 31) - 1}")
        if word == "tier":
            if value > 2 or value in tiers:
                problem = "is described twice" if value in tiers else "is none of 0, 1, 2"
                raise UsageError(f"{where}: tier {value} {problem}")
            here = tiers[value] = {}
            continue
        known = _HEADER if here is header else tuple(_TIER)
        if word not in known:
            names = "Nodes, Tiers, Podsize" if here is header else ", ".join(_TIER.values())
            raise UsageError(f"{where}: unknown keyword {words[0]!r}; known here: {names}, Tier")
        if word in here:
            raise UsageError(f"{where}: {words[0]} is given twice; first in line {here[word][1]}")
        if word in _POSITIVE and value == 0:
            raise UsageError(f"{where}: {words[0]} 0 makes no network; at least 1")
        here[word] = (value, number)
    return header, tiers


class _Checked:
    """The numbers of one file, and whether they fit."""

    def __init__(self, path: str, header: Values, tiers: dict[int, Values]) -> None:
        self.path, self.header, self.tiers = path, header, tiers
        for word in _HEADER:
            if word not in header:
                raise UsageError(f"{path}: the header has no {word.capitalize()}")
        self.count = header["tiers"][0]
        if self.count not in (2, 3):
            raise self.error(header["tiers"][1], f"{self.count} tiers; there are fat trees of 2 and 3")
        if sorted(tiers) != list(range(self.count)):
            raise UsageError(
                f"{path}: tiers {sorted(tiers)} are described, but there are 0..{self.count - 1}"
            )
        for tier, values in tiers.items():
            for word in (*_NEEDED, *(["radix_up"] if tier < self.count - 1 else [])):
                if word not in values:
                    raise UsageError(f"{path}: tier {tier} has no {_TIER[word]}")
        top = tiers[self.count - 1]
        for word in ("radix_up", "queue_up"):
            if word in top:
                raise self.error(top[word][1], f"{_TIER[word]}: the top tier has no uplinks")

    def error(self, line: int, text: str) -> UsageError:
        return UsageError(f"{self.path}:{line}: {text}")

    def value(self, tier: int, word: str, default: int = 1) -> int:
        return self.tiers[tier].get(word, (default, 0))[0]

    def line(self, tier: int, word: str) -> int:
        return self.tiers[tier][word][1]

    def same(self, words: tuple[str, ...], default: int) -> int:
        """Return the one value that these keywords have in all tiers.

        Raises:
            UsageError: they differ.
        """
        last = self.count - 1
        found = [
            (self.value(t, w, default), self.tiers[t].get(w, (0, 0))[1])
            for t in range(self.count)
            for w in words
            if not (t == last and w.endswith("_up"))
        ]
        for value, line in found:
            if value != found[0][0]:
                raise self.error(
                    line or found[0][1],
                    f"{_TIER[words[0]]} differs between tiers ({found[0][0]} and {value}); give all the same",
                )
        return found[0][0]

    def topology(self, planes: int, link_gbps: float | None) -> Topology:
        nodes = self.header["nodes"][0]
        podsize, pod_line = self.header["podsize"]
        down0 = self.value(0, "radix_down")
        for tier in range(self.count):
            if self.value(tier, "bundle") != 1:
                raise self.error(
                    self.line(tier, "bundle"), "parallel links between two switches are not supported"
                )
        if podsize % down0 or nodes % podsize:
            raise self.error(
                pod_line, f"{nodes} nodes, pods of {podsize} and {down0} nodes a T0 do not divide"
            )
        if self.count == 2 and podsize != nodes:
            raise self.error(pod_line, f"two tiers are one pod: Podsize {podsize} must equal Nodes {nodes}")
        self.check_layer(0, podsize // down0)
        if self.count == 3:
            self.check_layer(1, nodes // podsize)
        queue = self.same(("queue_down", "queue_up"), 0)
        return Topology(self.path, self.fabric(planes, link_gbps), queue or None)

    def check_layer(self, tier: int, below: int) -> None:
        """Check a tier against the one above: each switch above has one link to each of the `below` it joins."""
        above = self.value(tier + 1, "radix_down")
        if above != below:
            line = self.line(tier + 1, "radix_down")
            raise self.error(
                line, f"Radix_Down {above} of tier {tier + 1}, but each such switch joins {below} below it"
            )
        down = self.value(tier, "radix_down") * self.value(tier, "downlink_speed_gbps")
        up = self.value(tier, "radix_up") * self.value(tier + 1, "downlink_speed_gbps")
        if "oversubscribed" in self.tiers[tier] and self.value(tier, "oversubscribed") * up != down:
            over = self.value(tier, "oversubscribed")
            raise self.error(
                self.line(tier, "oversubscribed"), f"Oversubscribed {over}, but {down} Gb/s down over {up} up"
            )

    def fabric(self, planes: int, link_gbps: float | None) -> Clos:
        nodes, podsize = self.header["nodes"][0], self.header["podsize"][0]
        gbps = [float(link_gbps or self.value(t, "downlink_speed_gbps")) for t in range(self.count)]
        delay = [self.value(t, "downlink_latency_ns") for t in range(self.count)]
        per_t0, t1 = self.value(0, "radix_down"), self.value(0, "radix_up")
        switch_ns = self.same(("switch_latency_ns",), 0)
        if self.count == 2:
            return Clos(
                hosts=nodes, planes=planes, hosts_per_t0=per_t0, t1_per_plane=t1, host_gbps=gbps[0],
                t0_t1_gbps=gbps[1], host_link_ns=delay[0], t0_t1_ns=delay[1], switch_ns=switch_ns,
            )  # fmt: skip
        pods = nodes // podsize
        return Clos(
            hosts=nodes, planes=planes, hosts_per_t0=per_t0, t1_per_plane=t1 * pods, tiers=3, pods=pods, t1_per_pod=t1,
            t2_per_plane=t1 * self.value(1, "radix_up"), host_gbps=gbps[0], t0_t1_gbps=gbps[1], t1_t2_gbps=gbps[2],
            host_link_ns=delay[0], t0_t1_ns=delay[1], t1_t2_ns=delay[2], switch_ns=switch_ns,
        )  # fmt: skip
