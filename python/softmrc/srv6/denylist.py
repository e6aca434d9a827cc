"""The denylist: elements of a fabric that its operator, or what probes it, wants no packets on.

A small JSON file beside the fabric file, for all hosts. Whoever finds a bad link writes it; endpoints read it and keep
off the paths that pass what it names. It is a wish about paths, not about peers: where nothing else is left, they use
the best of what is denied.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path as File

from softmrc.errors import UsageError

__all__ = ["Denylist", "passed"]

FORMAT = "softmrc-denied"
VERSION = 1
_NAME = re.compile(r"h\d+|h\d+\.p\d+|p\d+|p\d+\.t[012]-\d+|p\d+\.t[01]-\d+\.t[12]-\d+")


def passed(plane: int, src: str, switches: Sequence[str], dst: str) -> Iterator[str]:
    """Yield the names of all elements that a path passes: plane, hosts, ports, switches, links.

    Args:
        plane: of the fabric, 1-based.
        src: the sending host, as `h3`.
        switches: as `t0-1`, in order.
        dst: the receiving host.
    """
    yield f"p{plane}"
    for host in (src, dst):
        yield host
        yield f"{host}.p{plane}"
    for switch in switches:
        yield f"p{plane}.{switch}"
    for a, b in pairwise(switches):
        low, high = sorted((a, b))  # tiers sort by their number
        yield f"p{plane}.{low}.{high}"


@dataclass(frozen=True)
class Denylist:
    """Elements and how bad each is.

    Attributes:
        denied: share of packets it loses, 0 to 1, by name of the element: `h3.p2`, `p2.t0-5.t1-7`, `p2.t1-7`, `p2`.
    """

    denied: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what is no element (UsageError)."""
        for name, loss in self.denied.items():
            if not _NAME.fullmatch(name) or not 0 <= loss <= 1:
                raise UsageError(f"a denylist has elements and losses from 0 to 1, not {name!r}: {loss!r}")

    @staticmethod
    def beside(fabric: File | str) -> File:
        """Return where the denylist of a fabric is: beside its fabric file."""
        file = File(fabric)
        return file.with_name(f"{file.name.removesuffix('.json')}.denied.json")

    def worst(self, plane: int, src: str, switches: Sequence[str], dst: str) -> float | None:
        """Return the loss of the worst denied element on a path; None: none is denied. See `passed`."""
        losses = [self.denied[name] for name in passed(plane, src, switches, dst) if name in self.denied]
        return max(losses, default=None)

    def write(self, file: File) -> None:
        """Write the file, whole or not at all; nothing denied: remove it."""
        if not self.denied:
            file.unlink(missing_ok=True)
            return
        part = file.with_name(f".{file.name}.part")
        data = {"format": FORMAT, "version": VERSION, "denied": dict(self.denied)}
        part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        part.replace(file)

    @classmethod
    def read(cls, file: File) -> Denylist:
        """Read a file; there being none means that nothing is denied.

        Raises:
            UsageError: it cannot be read, or is no denylist.
        """
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise UsageError(f"cannot read the denylist {file}: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise UsageError(f"{file} is no denylist: not JSON") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT or data.get("version") != VERSION:
            raise UsageError(f"{file} is no denylist of version {VERSION}")
        denied = data.get("denied")
        if not isinstance(denied, dict) or any(type(v) not in (int, float) for v in denied.values()):
            raise UsageError(f"{file}: denied is missing or of the wrong type")
        return cls({str(name): float(loss) for name, loss in denied.items()})
