"""Distributions of flow sizes: published ones by name, or a table from a file.

A distribution is a cumulative table: so many of the flows have at most so many bytes, straight lines between. The
published ones are read off the figures of the papers named; they are workloads of data centres of their time, not of
training clusters, and serve comparisons with other simulators.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from softmrc.errors import UsageError
from softmrc.sim.workload import MAX_SIZE, Int64s

__all__ = ["SizeDistribution", "named_sizes", "read_sizes"]

# Packets of 1,460 bytes and the share of flows up to there.
_WEBSEARCH = [
    (1, 0),
    (6, 15),
    (13, 20),
    (19, 30),
    (33, 40),
    (53, 53),
    (133, 60),
    (667, 70),
    (1333, 80),
    (3333, 90),
]
_WEBSEARCH += [(6667, 97), (20000, 100)]
_DATAMINING = [(1, 0), (1, 50), (2, 60), (3, 70), (7, 80), (267, 90), (2107, 95), (66667, 99), (666667, 100)]
_NAMED = {
    "websearch": (
        _WEBSEARCH,
        "web search, Alizadeh et al., DCTCP, SIGCOMM 2010, fig. 4; table as in pFabric",
    ),
    "datamining": (
        _DATAMINING,
        "data mining, Greenberg et al., VL2, SIGCOMM 2009, fig. 2; table as in pFabric",
    ),
}
_SEGMENT = 1460


@dataclass(frozen=True)
class SizeDistribution:
    """A cumulative table of flow sizes."""

    sizes: tuple[int, ...]
    """Bytes, rising."""
    shares: tuple[float, ...]
    """Share of flows of at most that size, rising to 1."""
    source: str = ""
    """Where it is from."""

    def __post_init__(self) -> None:
        """Check the table.

        Raises:
            UsageError: it does not rise from some size >= 1 to share 1.
        """
        if len(self.sizes) != len(self.shares) or not self.sizes:
            raise UsageError("a size distribution needs as many sizes as shares, at least one")
        if self.sizes[0] < 1 or self.sizes[-1] > MAX_SIZE:
            raise UsageError(f"flow sizes from {self.sizes[0]} to {self.sizes[-1]} bytes leave 1..{MAX_SIZE}")
        if any(b < a for a, b in zip(self.sizes, self.sizes[1:], strict=False)):
            raise UsageError("the sizes of a distribution must not fall")
        if not self.shares[0] >= 0 or any(b < a for a, b in zip(self.shares, self.shares[1:], strict=False)):
            raise UsageError("the shares of a distribution must not fall, nor begin below 0")
        if self.shares[-1] != 1.0:
            raise UsageError(f"the last share of a distribution is 1, not {self.shares[-1]}")

    @property
    def mean(self) -> float:
        """Mean size, bytes."""
        sizes, shares = self._corners()
        return float(np.sum(np.diff(shares) * (sizes[1:] + sizes[:-1]) / 2))

    def draw(self, count: int, rng: np.random.Generator) -> Int64s:
        """Return so many sizes, drawn independently, at least 1 byte each."""
        sizes, shares = self._corners()
        drawn: Int64s = np.maximum(1, np.rint(np.interp(rng.random(count), shares, sizes))).astype(np.int64)
        return drawn

    def _corners(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the table from share 0; flows below the first size of a table that begins above 0 have that size."""
        sizes, shares = np.array(self.sizes, dtype=float), np.array(self.shares)
        if shares[0] > 0:
            sizes, shares = np.concatenate((sizes[:1], sizes)), np.concatenate(([0.0], shares))
        return sizes, shares


def named_sizes(name: str) -> SizeDistribution:
    """Return a published distribution.

    Args:
        name: "websearch" or "datamining".

    Raises:
        UsageError: there is none of that name.
    """
    if name not in _NAMED:
        raise UsageError(
            f"no size distribution {name!r}; there are {', '.join(_NAMED)}, or a CSV file of your own"
        )
    table, source = _NAMED[name]
    return SizeDistribution(tuple(p * _SEGMENT for p, _ in table), tuple(c / 100 for _, c in table), source)


def read_sizes(path: str | Path) -> SizeDistribution:
    """Read a distribution from a CSV file: bytes, share of flows up to there (0..1), a line each; # begins a comment.

    Raises:
        UsageError: it cannot be read, or is no such table; names file and line.
    """
    path = Path(path)
    sizes: list[int] = []
    shares: list[float] = []
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise UsageError(f"cannot read the size distribution {path}: {e}") from e
    for number, row in enumerate(csv.reader(text.splitlines()), 1):
        cells = [c.strip() for c in row]
        if not cells or cells == [""] or cells[0].startswith("#"):
            continue
        try:
            if len(cells) != 2:
                raise ValueError(f"{len(cells)} cells")
            size, share = int(cells[0]), float(cells[1])
        except ValueError as e:
            raise UsageError(
                f"{path}:{number}: expected bytes, share (for instance 4096, 0.5): {e}"
            ) from None
        sizes.append(size)
        shares.append(share)
    try:
        return SizeDistribution(tuple(sizes), tuple(shares), str(path))
    except UsageError as e:
        raise UsageError(f"{path}: {e}") from None
